//go:build !linux && !darwin && !freebsd && !netbsd && !openbsd && !dragonfly

package main

import (
	"context"
	"os"
	"syscall"
)

// supervise can't keep exec's promise here: without process groups nobody can tell what a
// command has started.
func supervise(context.Context, *app, *session, *execution) error {
	return configuration("exec: this system has no process groups: use redlock hold")
}

// uncaught are none: nothing is started here.
var uncaught []os.Signal

// campaign can't either.
func campaign(context.Context, *app, *session, *execution) error {
	return configuration("lead: this system has no process groups: use Campaign in a program")
}

func parseSignal(string, string) (os.Signal, error) { return syscall.SIGTERM, nil }
