//go:build unix

package main

import (
	"context"
	"os"
	"syscall"
)

// Raced is the program, to which a signal comes the moment that exec's command
// runs.
func Raced(args []string) int {
	a := &app{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, getenv: os.Getenv}
	a.started = func() { _ = syscall.Kill(os.Getpid(), syscall.SIGUSR1) }
	return a.main(context.Background(), args)
}
