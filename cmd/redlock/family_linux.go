package main

import (
	"bytes"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// adopts says that orphans become this program's children.
const adopts = true

// adopt makes this program the parent of what its descendants orphan
// (PR_SET_CHILD_SUBREAPER, prctl(2)), so that a process which forks twice, or
// leaves its group or session, is still found below it.
func adopt() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// ownGroup starts the command in a group of its own, and has the kernel kill it
// if this program is killed: nobody would renew its lock.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// parents reads who is whose child.
func parents() map[int]int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil // the group is all that can be found
	}
	found := make(map[int]int, len(entries))
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		// PID (NAME) STATE PPID ..., where a name may hold anything.
		stat, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue // it has ended
		}
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(fields) < 2 {
			continue
		}
		if found[pid], err = strconv.Atoi(string(fields[1])); err != nil {
			delete(found, pid)
		}
	}
	return found
}

// descendants are all processes below this one, except those given and what is
// below them.
func descendants(except map[int]bool) []int {
	parent, self := parents(), os.Getpid()
	var below []int
	for pid := range parent {
		up := pid
		for steps := 0; up > 0 && up != self && !except[up] && steps < len(parent); steps++ {
			up = parent[up]
		}
		if up == self && pid != self {
			below = append(below, pid)
		}
	}
	return below
}

// orphans are the processes that became this one's children outside of a group.
func orphans(group int, except map[int]bool) []int {
	var out []int
	for pid, up := range parents() {
		if up != os.Getpid() || except[pid] {
			continue
		}
		if g, err := syscall.Getpgid(pid); err == nil && g != group {
			out = append(out, pid)
		}
	}
	return out
}
