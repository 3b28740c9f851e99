//go:build darwin || freebsd || netbsd || openbsd || dragonfly

package main

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// adopts: orphans become init's children here, and are found by their group only.
const adopts = false

func adopt() {}

// ownGroup starts the command in a group of its own. The SysProcAttr that these systems
// share has no Pdeathsig: if this program is killed, the command goes on.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func findsAll(string) error { return nil }

func descendants(map[int]bool) []int { return nil }

func childless(map[int]bool) bool { return true }

func halt(map[int]bool) []int { return nil }

func orphans(int, map[int]bool) []int { return nil }

const (
	getTermios = unix.TIOCGETA
	setTermios = unix.TIOCSETA
)

// watchdog is for Linux: here nobody can tell what a command has started. The type is there so
// that the supervisor is the same on all systems.
type watchdog struct{}

func familyMark() string { return "" }

func startWatchdog(string, string) *watchdog { return nil }

func (*watchdog) watch(*child)         {}
func (*watchdog) extend(time.Duration) {}
func (*watchdog) acted() bool          { return false }
func (*watchdog) disarm()              {}
func (*watchdog) dismiss()             {}
func (*supervisor) rewatch()           {}

func marking(env []string, _ string) []string { return env }
