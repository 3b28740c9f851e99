//go:build !linux

package main

func isWatchdog() bool { return false }
