package main

// A program can't act when it was killed or stopped, and that is when its command would outlive
// the lock. So a second process watches the first. Why it is built as it is:
//
//   - A process, not a thread: SIGSTOP and SIGKILL hit all threads of a process.
//   - A session of its own: the terminal's ^Z, ^C and hang-up do not reach it.
//   - A pipe, not a heartbeat: the kernel closes it when this program dies, at once and by any
//     signal. What is told by it is when the lock's validity ends, which a stopped program need
//     not repeat.
//   - The same program, by /proc/self/exe: nothing has to be installed, and versions match.
//
// Linux only: elsewhere nobody can list what a command has started (process_bsd.go).

import (
	"bufio"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quorumkit/redlock/internal/cli"
)

const (
	// watchdogName is the second process's name in ps. It has nothing of the
	// command's name, so that "killall redlock" or "pkill redlock" leave it to its work.
	watchdogName = "lockwatch"
	// familyVariable marks what the command starts: an exec inside of another adds its own,
	// so that each watchdog finds its own family and the inner one's.
	familyVariable = "REDLOCK_FAMILY"
	// watchdogPatience bounds how long a watchdog tries to kill, for a process that is
	// stuck in the kernel (state D): no signal ends it, and the watchdog must end some time.
	watchdogPatience = time.Minute
	// watchdogTries is how many in a row may live for less than watchdogLife. Then none is
	// started any more: each costs the supervisor the time of a fork.
	watchdogTries = 5
	watchdogLife  = time.Second
)

// watchdog is a process of its own, in a session of its own. It kills the command's family
// where this program can't: when it was killed itself, and when it is stopped as the
// validity ends. It hears by a pipe how long the lock is valid, and the kernel closes the
// pipe when this program dies.
//
// It finds the family by the group of the command, by the mark in the environment, which
// is inherited, by descent from those, and, while this program lives, by descent from it.
// A process that left the group, has another environment and lost its parents escapes when
// this program is dead. PR_SET_PDEATHSIG, which ownGroup sets, reaches the command alone.
//
// One that dies is followed by another (rewatch), which is told what the last one was.
type watchdog struct {
	self, mark string // the program that it runs, and what marks the family
	pid        int    // 0 if it did not start
	pipe       *os.File
	born       stopwatch
	failed     int           // how many in a row have died young
	until      time.Duration // the end that it was told last, since the boot; 0 if none is in force
}

// familyMark makes the mark of one command. It is random: a number, as a pid, may come again
// while processes of an earlier family live.
func familyMark() string { return rand.Text() }

// startWatchdog starts one for this program. self is the program that it runs. If that is
// empty, the watchdog is nil, and a nil one does nothing. One that does not start has died.
func startWatchdog(self, mark string) *watchdog {
	if self == "" {
		return nil
	}
	d := &watchdog{self: self, mark: mark}
	d.start()
	return d
}

func (d *watchdog) start() {
	d.pid, d.born = 0, startWatch()
	d.hangUp()
	r, w, err := os.Pipe()
	if err != nil {
		return
	}
	defer r.Close()
	p, err := os.StartProcess(d.self, []string{watchdogName, strconv.Itoa(os.Getpid()), d.mark}, &os.ProcAttr{
		// None of our environment: it may have passwords, and the mark of an outer exec. Nor of
		// stdout and stderr, whose readers would wait for its end: the runtime opens /dev/null.
		Env: []string{"GOMAXPROCS=1"}, Files: []*os.File{r, nil, nil}, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		_ = w.Close()
		return
	}
	d.pid, d.pipe = p.Pid, w
	_ = p.Release() // reap waits for it
}

// watch tells it the command's group, and the processes that are not of the family: a script
// may have started them before it became this program.
func (d *watchdog) watch(c *child) {
	if d == nil || d.pid == 0 {
		return
	}
	c.watchdog, c.before[d.pid] = d.pid, true
	d.say("group %d\n", c.pid)
	for pid := range c.before {
		d.say("not %d\n", pid)
	}
	if d.until > 0 {
		d.say("until %d\n", int64(d.until))
	}
}

// rewatch starts another watchdog where one has died: somebody killed it, or the system did
// for want of memory. While there is none, nobody ends the command of a program that is killed
// or stopped. Where none lives the command goes on: this program still ends it in time.
func (s *supervisor) rewatch() {
	d := s.watchdog
	if d == nil || d.pid > 0 && s.child.watchdog == d.pid {
		return
	}
	if d.born.elapsed() >= watchdogLife {
		d.failed = 0
	}
	if d.failed++; d.failed > watchdogTries {
		d.hangUp()
		s.watchdog = nil
		s.tell("unwatched", "no lockwatch can be kept: nobody ends "+s.execution.argv[0]+" if this program is stopped")
		return
	}
	if d.start(); d.pid > 0 {
		d.watch(s.child)
		s.tell("watched", watchdogName+" ended: another was started")
	}
}

// extend tells it that the family may live for a while from now. The end only moves later, by
// a millisecond at least: the supervisor calls it at each turn, and an unchanged lock needs no
// line. A lock that was lost makes the supervisor kill, so no earlier end is ever told.
func (d *watchdog) extend(left time.Duration) {
	if d == nil || left <= 0 {
		return
	}
	if until := sinceBoot() + left; until > d.until+time.Millisecond {
		d.until = until
		d.say("until %d\n", int64(until))
	}
}

// acted tells whether the end that it was told has come: by the same clock, it has killed, or
// does so now. There is no answer by a pipe to wait for.
func (d *watchdog) acted() bool {
	return d != nil && d.pipe != nil && d.until > 0 && sinceBoot() >= d.until
}

// disarm stops the deadline until the next extend. The watchdog still kills when this program
// dies.
func (d *watchdog) disarm() {
	if d != nil {
		d.until = 0
		d.say("disarm\n")
	}
}

// say never blocks: a supervisor that waits for its watchdog guards nothing. A watchdog that
// does not read would act on an end that is out of date, and kill a command under a valid
// lock: it is ended. One that died is left to rewatch: its number may be another's.
func (d *watchdog) say(format string, args ...any) {
	if d.pipe == nil {
		return
	}
	if err := tryWrite(d.pipe, fmt.Appendf(nil, format, args...)); errors.Is(err, syscall.EAGAIN) {
		_ = syscall.Kill(d.pid, syscall.SIGKILL)
		d.hangUp()
	}
}

func (d *watchdog) hangUp() {
	if d.pipe != nil {
		_ = d.pipe.Close()
	}
	d.pipe = nil
}

// tryWrite writes all of a line, or fails where it would block: pipe(7) takes so few bytes
// whole or not at all. No deadline bounds it: this program may stand still before it writes.
func tryWrite(pipe *os.File, line []byte) error {
	raw, err := pipe.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Write(func(fd uintptr) bool {
		for {
			if _, failed = syscall.Write(int(fd), line); !errors.Is(failed, syscall.EINTR) {
				return true
			}
		}
	})
	return errors.Join(err, failed)
}

// dismiss ends it: nothing of the command is left. The word comes before the pipe is closed: a
// closed pipe alone means that this program died.
func (d *watchdog) dismiss() {
	if d != nil {
		d.say("done\n")
		d.hangUp()
	}
}

// isWatchdog tells whether this process is one, and runs it.
func isWatchdog() bool {
	if len(os.Args) != 3 || os.Args[0] != watchdogName {
		return false
	}
	watchdogMain(os.Args[1:])
	return true
}

// watchdogMain is that process. It needs no node, no flag and no file but /proc, so it has
// nothing to wait for.
func watchdogMain(args []string) {
	_ = os.WriteFile("/proc/self/comm", []byte(watchdogName), 0)
	signal.Ignore(cli.Endings...) // a TERM to all of a service's processes must not end it first
	f := family{self: os.Getpid(), not: map[int]bool{}}
	f.master, _ = strconv.Atoi(args[0])
	f.mark = args[1]
	f.guard()
}

// family is what a watchdog knows of the processes that it may have to kill.
type family struct {
	self, master int
	mark         string
	group        int
	not          map[int]bool
	until        time.Duration // since the boot; 0 means no bound
}

// guard returns when the family is over, or is dead by its hand. After a kill at the deadline
// it goes on: the supervisor may be continued, and then dismisses it.
func (f *family) guard() {
	lines := make(chan string)
	go func() {
		defer close(lines)
		in := bufio.NewScanner(os.Stdin)
		for in.Scan() {
			lines <- in.Text()
		}
	}()
	for {
		// Any long time: without a bound only a line wakes it.
		left := time.Hour
		if f.until > 0 {
			left = max(f.until-sinceBoot(), 0)
		}
		t := newTimer(left)
		select {
		case line, open := <-lines:
			switch {
			case !open:
				f.master = 0 // the number may become another's
				f.kill()
				return
			case line == "done":
				return
			}
			f.hear(line)
		case <-t.C:
			if f.until > 0 && sinceBoot() >= f.until {
				f.kill()
				f.until = 0
			}
		}
		t.Stop()
	}
}

func (f *family) hear(line string) {
	word, text, _ := strings.Cut(line, " ")
	n, _ := strconv.ParseInt(text, 10, 64)
	switch word {
	case "group":
		f.group = int(n)
	case "not":
		f.not[int(n)] = true
	case "until":
		f.until = time.Duration(n)
	case "disarm":
		f.until = 0
	}
}

// kill kills the family until there is none: a process that forks between the list and its
// kill leaves a child, which the next list has, by its mark or its group.
func (f *family) kill() {
	for watch := startWatch(); watch.elapsed() < watchdogPatience; {
		all := processes()
		found := f.members(all)
		if all != nil && len(found) == 0 {
			return
		}
		for _, pid := range found {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		t := newTimer(insistence)
		<-t.C
	}
}

// members are the processes of the family that are not dead. A zombie counts as dead: it can
// do nothing, and only its parent can remove it.
func (f *family) members(all map[int]process) []int {
	in := map[int]bool{}
	for pid, p := range all {
		in[pid] = f.group > 0 && p.group == f.group || f.marked(pid)
	}
	var found []int
	for pid, p := range all {
		if pid != f.self && pid != f.master && !f.not[pid] && !p.dead && f.descends(pid, in, all) {
			found = append(found, pid)
		}
	}
	return found
}

// descends tells whether a process, or one that it descends from, is of the family.
func (f *family) descends(pid int, in map[int]bool, all map[int]process) bool {
	for steps := 0; pid > 1 && steps < len(all); steps++ {
		switch {
		case in[pid]:
			return true
		case pid == f.self || f.not[pid]:
			return false
		case pid == f.master:
			return steps > 0
		}
		pid = all[pid].parent
	}
	return false
}

// marked tells whether a process has inherited the mark. /proc shows the environment that it
// was started with: a later setenv does not hide it, an exec with another one does.
func (f *family) marked(pid int) bool {
	env, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return false // another user's, or it has ended
	}
	for v := range strings.SplitSeq(string(env), "\x00") {
		if marks, own := strings.CutPrefix(v, familyVariable+"="); own && slices.Contains(strings.Split(marks, ","), f.mark) {
			return true
		}
	}
	return false
}

// marking is the environment with one mark more. It extends the variable of an outer exec: two
// variables of one name would leave it to each program which it sees.
func marking(env []string, mark string) []string {
	for i, v := range env {
		if marks, own := strings.CutPrefix(v, familyVariable+"="); own {
			return append(slices.Delete(slices.Clone(env), i, i+1), familyVariable+"="+marks+","+mark)
		}
	}
	return append(env, familyVariable+"="+mark)
}

// sinceBoot is a clock that all processes of the machine share, and that counts its
// suspends. Go's own monotonic clock has no common zero and stands still in a suspend, and the
// wall clock can be set.
func sinceBoot() time.Duration {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &now)
	return time.Duration(now.Nano())
}
