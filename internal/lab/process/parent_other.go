//go:build !linux

package process

import "os/exec"

// DieWithParent has no counterpart here: a program that is killed leaves its
// servers running.
func DieWithParent(*exec.Cmd) {}

// stopped can't be seen here; the signal is taken to work at once.
func stopped(int) bool { return true }
