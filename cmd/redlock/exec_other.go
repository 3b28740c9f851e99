//go:build !linux && !darwin && !freebsd && !netbsd && !openbsd && !dragonfly

package main

import (
	"context"
	"os"
	"syscall"
)

// exec can't keep its promise here: without process groups nobody can tell what a
// command has started.
func (a *app) exec(context.Context, *session, *execution) error {
	return configuration("exec: this system has no process groups: use redlock hold")
}

func parseSignal(string) (os.Signal, error) { return syscall.SIGTERM, nil }
