//go:build !linux && !darwin && !freebsd && !netbsd && !openbsd && !dragonfly

package main

// Systems without process groups (Windows) get every command but exec and lead.
// Both are refused, and do not run the command without their promise: a user who reads "exec"
// relies on it. Exit status 78: another machine is needed, not another attempt.

import (
	"context"
	"os"
	"syscall"
)

// supervise can't keep exec's promise here: without process groups nobody can tell what a
// command has started. The message names hold, which promises nothing of a command.
func supervise(context.Context, *app, *session, *execution) error {
	return configuration("exec: this system has no process groups: use redlock hold")
}

// uncaught are none: nothing is started here.
var uncaught []os.Signal

// campaign can't either. Campaign in a program has no process to kill: it cancels a context.
func campaign(context.Context, *app, *session, *execution) error {
	return configuration("lead: this system has no process groups: use Campaign in a program")
}

// parseSignal accepts any name: what it finds is never sent here.
func parseSignal(string, string) (os.Signal, error) { return syscall.SIGTERM, nil }

func findsAll(string) error { return nil }

func leadsSession() bool { return false }
