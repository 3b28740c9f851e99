package main_test

import (
	"fmt"
	"os"
)

// actVar makes the test binary a program that a test runs under a lock.
const actVar = "REDLOCK_TEST_ACT"

// act plays one part.
func act(part string, _ []string) {
	fmt.Fprintf(os.Stderr, "no such part: %s\n", part)
	os.Exit(1)
}
