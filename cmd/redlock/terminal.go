//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package main

// Job control, as a shell does it for a pipeline. The command has a group of its own, so that one
// kill reaches all of it. But then it is no longer in the terminal's foreground group: reading
// would stop it, and ^C would not reach it. So it gets the terminal while it runs.

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/quorumkit/redlock/internal/cli"
)

// terminal is the controlling terminal. nil means that there is none, as under cron, and does
// nothing.
type terminal struct {
	fd    int
	group int // this program's
	lent  int // the group that has it from us; 0 if none
	saved *unix.Termios
}

// deaf is set once lend has made this program ignore SIGTTOU.
var deaf bool

// heedTerminal runs start, which starts a command, with SIGTTOU not ignored if lend
// ignored it, for an earlier command of lead. A program inherits ignored signals, while a signal
// that is handled has its default action in it: hence a handler for that moment.
func heedTerminal(start func()) {
	if !deaf {
		start()
		return
	}
	heard := make(chan os.Signal, 1)
	signal.Notify(heard, syscall.SIGTTOU)
	start()
	signal.Ignore(syscall.SIGTTOU)
}

// openTerminal returns the controlling terminal, or nil.
func openTerminal() *terminal {
	fd, err := unix.Open("/dev/tty", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
	if err != nil {
		return nil
	}
	t := &terminal{fd: fd, group: unix.Getpgrp()}
	t.saved, _ = unix.IoctlGetTermios(fd, getTermios) // nil: nothing to restore
	return t
}

// give makes the command the terminal's foreground group, if that was ours and
// the terminal is the command's input. Not where its output goes into a pipe: the
// reader there, a pager for one, would lose the terminal.
func (t *terminal) give(group int) {
	if t == nil || !cli.IsTerminal(os.Stdin) || isPipe(os.Stdout) {
		return
	}
	t.lend(group)
}

// lend gives the terminal away, and tells whether it was ours to give, or is the
// group's already: a command that reads at once may be stopped for want of it just
// before it is given.
func (t *terminal) lend(group int) bool {
	if t.lent == group && t.foreground() == group {
		return true
	}
	// Once it is given, writing to it or taking it back would stop us. Not before
	// the command was started: it would inherit that.
	if !signal.Ignored(syscall.SIGTTOU) {
		signal.Ignore(syscall.SIGTTOU)
		deaf = true
	}
	if t.foreground() != t.group {
		return false
	}
	if unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, group) != nil {
		return false
	}
	t.lent = group
	return true
}

// take takes the terminal back from the command, if it has it still, and tells
// whether it did.
func (t *terminal) take() bool {
	if t.lent == 0 || t.foreground() != t.lent {
		return false
	}
	t.lent = 0
	return unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, t.group) == nil
}

// foreground is the process group that reads from the terminal; -1 if it is gone.
func (t *terminal) foreground() int {
	group, err := unix.IoctlGetInt(t.fd, unix.TIOCGPGRP)
	if err != nil {
		return -1
	}
	return group
}

// restore leaves the terminal as it was: a command that was killed could not, and an editor
// leaves it without echo.
func (t *terminal) restore() {
	if t == nil {
		return
	}
	if t.take() && t.saved != nil {
		_ = unix.IoctlSetTermios(t.fd, setTermios, t.saved)
	}
	_ = unix.Close(t.fd)
}

func isPipe(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeNamedPipe != 0
}
