package main

// How Linux lets a program find all that it has started: orphans are adopted, /proc lists who is
// whose child, and the kernel kills the command if this program dies. What none of it finds is
// work that is done by another service or user on the command's behalf (docs/COMMAND.md).

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// adopts says that orphans become this program's children.
const adopts = true

// adopt makes this program the parent of its descendants' orphans
// (PR_SET_CHILD_SUBREAPER, prctl(2)), so that a process which forks twice, or
// leaves its group or session, is still found below it.
func adopt() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// findsAll refuses a /proc that does not show this process: it is not mounted, as in a chroot, or
// it is that of another PID namespace. What left the command's group would be found by nobody.
func findsAll(command string) error {
	if self, err := os.Readlink("/proc/self"); err != nil || self != strconv.Itoa(os.Getpid()) {
		return configuration("%s: /proc does not show the processes here, so what CMD starts can't be found: mount it (mount -t proc proc /proc), or use redlock hold", command)
	}
	return nil
}

// ownGroup starts the command in a group of its own, and has the kernel kill it
// if this program is killed: nobody would renew its lock. The signal is sent when the
// thread that started the command ends, so that one must not (prctl(2)). Processes that the
// command starts do not get it: see watchdog.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// process is what /proc says of one.
type process struct {
	parent, group int
	stopped       bool // by a signal
	dead          bool // a zombie: nobody has waited for it yet
}

// processes reads who is whose child. The list is no moment's picture: processes come and go
// while it is read. A caller that must miss none reads it again until nothing new shows. It is
// nil where it can't be read, as for want of file descriptors.
func processes() map[int]process {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	found := make(map[int]process, len(entries))
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		// PID (NAME) STATE PPID ..., where a name may hold anything.
		stat, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		switch {
		case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE), errors.Is(err, syscall.ENOMEM):
			return nil
		case err != nil:
			continue // it has ended
		}
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(fields) < 3 {
			continue
		}
		state := string(fields[0])
		parent, err := strconv.Atoi(string(fields[1]))
		group, groupErr := strconv.Atoi(string(fields[2]))
		if err == nil && groupErr == nil {
			found[pid] = process{parent: parent, group: group, stopped: state == "T", dead: state == "Z" || state == "X"}
		}
	}
	return found
}

// descendants are all processes below this one, except those given and their
// descendants.
func descendants(except map[int]bool) []int { return below(processes(), except) }

// childless reports whether there are surely none.
func childless(except map[int]bool) bool {
	all := processes()
	return all != nil && len(below(all, except)) == 0
}

func below(all map[int]process, except map[int]bool) []int {
	self := os.Getpid()
	var found []int
	for pid := range all {
		up := pid
		// The steps are bounded: numbers that were used again while /proc was read may form a loop.
		for steps := 0; up > 0 && up != self && !except[up] && steps < len(all); steps++ {
			up = all[up].parent
		}
		if up == self && pid != self {
			found = append(found, pid)
		}
	}
	return found
}

// halt stops all descendants, and returns those that nobody had stopped before. A
// process that has been sent the signal starts no other, and a process that it started just
// before is in the next list: the first list without a new process is the last.
func halt(except map[int]bool) []int {
	var halted []int
	for sent, more := map[int]bool{}, true; more; {
		more = false
		all := processes()
		for _, pid := range below(all, except) {
			if sent[pid] {
				continue
			}
			sent[pid], more = true, true
			if _ = syscall.Kill(pid, syscall.SIGSTOP); !all[pid].stopped {
				halted = append(halted, pid)
			}
		}
	}
	return halted
}

// orphans are the processes that became this one's children outside of a group: daemons that
// the command has started, and lost. The first signal goes to them too. Children that still
// have a parent in the family are left to it, as with any program that ends its helpers.
func orphans(group int, except map[int]bool) []int {
	var out []int
	for pid, p := range processes() {
		if p.parent != os.Getpid() || except[pid] {
			continue
		}
		if g, err := syscall.Getpgid(pid); err == nil && g != group {
			out = append(out, pid)
		}
	}
	return out
}
