//go:build unix

package main

import (
	"context"
	"os"
	"syscall"
	"time"

	"github.com/quorumkit/redlock"
)

// Raced is the program, to which a signal comes the moment that exec's command
// runs.
func Raced(args []string) int {
	a := newApp()
	a.started = func() { _ = syscall.Kill(os.Getpid(), syscall.SIGUSR1) }
	return runCommand(context.Background(), a, args)
}

// FirstLease is what a lock of Short has at first: less than the commands ask for, as
// after a grant by a release.
const FirstLease = 3 * time.Second

// Short is the program, whose locks have the first lease of a grant, no matter what --ttl says.
func Short(args []string) int {
	a := newApp()
	a.options = []redlock.Option{redlock.WithTTL(FirstLease)}
	return runCommand(context.Background(), a, args)
}

// Unwatched is the program, which starts its first argument for a watchdog.
func Unwatched(args []string) int {
	a := newApp()
	a.self = args[0]
	return runCommand(context.Background(), a, args[1:])
}
