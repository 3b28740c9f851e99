//go:build !unix

package main_test

import "os"

// actVar makes the test binary a program that a test runs under a lock: not here.
const actVar = "REDLOCK_TEST_ACT"

func act(string, []string) { os.Exit(1) }
