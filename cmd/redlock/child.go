//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package main

// A command is more than one process: it forks, leaves its group, and is orphaned. This file
// finds all of them and sends them signals, by what the system offers:
//
//   - a process group of its own, which kill(2) reaches at once, on every Unix;
//   - on Linux also descent, read from /proc, with orphans adopted (reaper_linux.go).

import (
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/quorumkit/redlock/internal/cli"
)

// child is the command: the leader of a process group, and everything below it.
// Nobody else in this program waits for processes. So a number stays the process's, as a
// zombie at least, until reap has seen it.
type child struct {
	pid    int
	ended  bool // the leader
	status syscall.WaitStatus
	alone  bool           // this program has no children at all
	stop   syscall.Signal // the stop of the leader that followStop has not handled; 0 if none
	// The processes below this program before the command: a script that has started
	// something in the background and then execs this program leaves it its children.
	before   map[int]bool
	watchdog int   // one of those; 0 once it has died
	halted   []int // the processes that halt stopped, and resume continues
}

// startChild starts the command in a group of its own, with this program's stdin,
// stdout and stderr. It does not use os/exec: Cmd.Wait tells of ends only, and reap must see
// stops as well.
func startChild(path string, argv, env []string) (*child, error) {
	c := &child{before: map[int]bool{}}
	// Read before the start: what is below this program later, and not in here, is the command's.
	for _, pid := range descendants(nil) {
		c.before[pid] = true
	}
	p, err := os.StartProcess(path, argv, &os.ProcAttr{
		Env: env, Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}, Sys: ownGroup(),
	})
	if err != nil {
		return nil, err
	}
	c.pid = p.Pid
	_ = p.Release() // reap waits for it
	return c, nil
}

// reap takes notice of what ended or stopped. It waits for any child (-1), since orphans
// that were adopted are children too, and their zombies would never go. WUNTRACED tells of a
// stop: ^Z in the terminal stops the command's group, and not this program's.
func (c *child) reap() {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG|syscall.WUNTRACED, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			c.alone = true
			return
		case pid == 0:
			c.alone = false
			return
		case pid == c.pid && status.Stopped():
			c.stop = status.StopSignal()
		case pid == c.watchdog && status.Stopped():
			_ = syscall.Kill(pid, syscall.SIGKILL) // another is started, which does its work
		case status.Stopped():
		case pid == c.pid:
			c.ended, c.status = true, status
		case pid == c.watchdog:
			c.watchdog = 0
			fallthrough
		default:
			delete(c.before, pid) // the number may be given to the command's
		}
	}
}

// signal sends a signal to the command: to its group, and, once its leader is
// gone and the group's number may be given to others, to each process.
func (c *child) signal(s os.Signal) {
	n, ok := s.(syscall.Signal)
	if !ok {
		return
	}
	// The leader's zombie keeps the group's number. Once it is reaped, the number is free.
	// Without adoption the group is all that is known, so it is used even then.
	if !c.ended || !adopts {
		_ = syscall.Kill(-c.pid, n)
		return
	}
	for _, pid := range descendants(c.before) {
		_ = syscall.Kill(pid, n)
	}
}

// ask sends the first signal, to the group and to the orphans outside of it. A stopped
// process hears nothing, so the group is continued, and so are the processes that halt
// stopped.
func (c *child) ask(s os.Signal) {
	c.signal(s)
	if n, ok := s.(syscall.Signal); ok && !c.ended {
		for _, pid := range orphans(c.pid, c.before) {
			_ = syscall.Kill(pid, n)
		}
	}
	// A stopped process keeps TERM pending until it is continued: without this it would
	// always come to the kill.
	c.resume()
}

// halt stops the group, and the processes that left it.
func (c *child) halt() {
	if !c.ended || !adopts {
		_ = syscall.Kill(-c.pid, syscall.SIGSTOP)
	}
	c.halted = halt(c.before)
}

// resume continues the group, and the processes that halt stopped outside of it. A process
// that somebody else has stopped there stays so.
func (c *child) resume() {
	c.signal(syscall.SIGCONT)
	halted := c.halted
	c.halted = nil
	if len(halted) == 0 {
		return
	}
	for _, pid := range descendants(c.before) { // a number may have become another's
		if slices.Contains(halted, pid) {
			_ = syscall.Kill(pid, syscall.SIGCONT)
		}
	}
}

// kill kills all that there is now. It must be repeated until over: a process that is being
// forked while the list is read is missed. The group goes first, by one call that misses
// nobody in it; most commands are over with that.
func (c *child) kill() {
	if !c.ended || !adopts {
		_ = syscall.Kill(-c.pid, syscall.SIGKILL)
	}
	for _, pid := range descendants(c.before) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// over tells whether nothing of the command is left. Its orphans become this
// program's children where adopt works; elsewhere only the group can be asked. The list of
// /proc is read only if there were processes before: without them wait4 answers ECHILD
// (alone), which costs one call, and is exact.
func (c *child) over() bool {
	if adopts {
		return c.ended && (c.alone || len(c.before) > 0 && childless(c.before))
	}
	return c.ended && errors.Is(syscall.Kill(-c.pid, 0), syscall.ESRCH)
}

// exitStatus is the leader's, as a shell gives it: 128+n after signal n. A caller sees no
// difference between "redlock exec KEY CMD" and "CMD".
func (c *child) exitStatus() int {
	if c.status.Signaled() {
		return cli.ExitSignal + int(c.status.Signal())
	}
	return c.status.ExitStatus()
}

// parseSignal knows TERM, SIGTERM and 15, as kill(1) and timeout(1) do. A number that names
// no signal here is refused now: sending it would fail when the command must end.
func parseSignal(flag, name string) (os.Signal, error) {
	if n, err := strconv.Atoi(name); err == nil && n > 0 && unix.SignalName(syscall.Signal(n)) != "" {
		return syscall.Signal(n), nil
	}
	full := strings.ToUpper(name)
	if !strings.HasPrefix(full, "SIG") {
		full = "SIG" + full
	}
	if n := unix.SignalNum(full); n != 0 {
		return n, nil
	}
	return nil, cli.Usagef("%s %s: there is no such signal", flag, name)
}

// leadsSession reports whether this program was started in a session of its own.
func leadsSession() bool {
	id, err := unix.Getsid(0)
	return err == nil && id == os.Getpid()
}
