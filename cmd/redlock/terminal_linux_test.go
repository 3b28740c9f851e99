package main_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// keyboard is the other side of a terminal that a program runs at.
type keyboard struct {
	*process

	master *os.File
	screen *output
}

// sit starts the program as the first one of a session at a new terminal.
func sit(t *testing.T, cmd *exec.Cmd) *keyboard {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("needs a terminal: %v", err)
	}
	k := &keyboard{master: master, screen: &output{}}
	raw, err := master.SyscallConn()
	must(t, err)
	var n int
	var ioctlErr error
	must(t, raw.Control(func(fd uintptr) {
		if ioctlErr = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0); ioctlErr == nil {
			n, ioctlErr = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
		}
	}), ioctlErr)
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	must(t, err)
	cmd.Stdin, cmd.Stdout = slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0}
	k.process = start(t, cmd)
	must(t, slave.Close())
	read := make(chan struct{})
	go func() {
		defer close(read)
		buf := make([]byte, 4096)
		for {
			n, err := master.Read(buf)
			_, _ = k.screen.Write(buf[:n])
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = k.cmd.Process.Kill()
		<-k.ended
		_ = master.Close()
		<-read
	})
	return k
}

func (k *keyboard) types(t *testing.T, keys string) {
	t.Helper()
	_, err := k.master.WriteString(keys)
	must(t, err)
}

func (k *keyboard) sees(t *testing.T, text string) {
	t.Helper()
	for deadline := time.Now().Add(patience); !strings.Contains(k.screen.String(), text); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("got screen %q, stderr %q; want %q", k.screen.String(), k.stderr(), text)
		}
	}
}

// stops waits until the program itself has been stopped.
func (k *keyboard) stops(t *testing.T) {
	t.Helper()
	eventually(t, "the stop", func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", k.cmd.Process.Pid))
		_, state, _ := strings.Cut(string(stat), ") ")
		return err == nil && strings.HasPrefix(state, "T")
	})
}

func TestATerminalHasColoursUnlessNoColorIsSet(t *testing.T) {
	t.Parallel()
	_, nodes := masters(t, 1)
	for _, env := range []string{"TERM=xterm", "NO_COLOR=1", "TERM=dumb"} {
		cmd := prepare(t, nodes, "status", "--node-timeout", "1s", "k")
		cmd.Env = append(cmd.Env, "NO_COLOR=", "TERM=xterm", env)
		k := sit(t, cmd)
		k.sees(t, "HOLDER")
		k.wait(t)
		if got, want := strings.Contains(k.screen.String(), "\x1b["), env == "TERM=xterm"; got != want {
			t.Errorf("%s: got %q; want colours: %v", env, k.screen.String(), want)
		}
	}
}

// A person who waits for another holder is told so, as a job is (TestWhoWaitsForAHolderIsToldOnceForWhom).
func TestWhoWaitsForAHolderAtATerminalIsToldSo(t *testing.T) {
	t.Parallel()
	_, nodes := masters(t, 3)
	lock, err := open(t, nodes).Acquire(t.Context(), "k")
	must(t, err)
	cmd := prepare(t, nodes, "exec", "--node-timeout", "1s", "k", "echo", "got it")
	cmd.Args = append([]string{"sh", "-c", `exec "$0" "$@" 2>&1`}, cmd.Args...)
	cmd.Path = "/bin/sh"
	k := sit(t, cmd)
	k.sees(t, "waiting for k: held by ")
	must(t, lock.Release(t.Context()))
	k.sees(t, "got it")
	k.wait(t).want(t, 0)
	if n := strings.Count(k.screen.String(), "waiting"); n != 1 {
		t.Errorf("got %q; want it told once", k.screen.String())
	}
}

func TestATerminalStaysUsable(t *testing.T) {
	t.Parallel()
	_, nodes := masters(t, 3)
	k := sit(t, prepare(t, nodes, append(execFlags[:3:3], "k", "sh", "-c",
		`trap "echo interrupted; exit 9" INT; read x; echo "got $x"; while :; do sleep 0.01; done`)...))
	k.types(t, "hello\n")
	k.sees(t, "got hello")
	k.types(t, "\x03")
	k.sees(t, "interrupted")
	k.wait(t).want(t, 9)
	if n := strings.Count(k.screen.String(), "interrupted"); n != 1 {
		t.Errorf("^C came %d times; want once", n)
	}
}

// ^Z stops the job as the shell knows it, with everything that the command has
// started, and fg continues it; unless the lock has lapsed meanwhile: then none of
// it runs for another moment. What left the group ran on once, under the next
// holder's lock.
func TestAStoppedCommandGoesOnOnlyWhileTheLockIsHeld(t *testing.T) {
	t.Parallel()
	_, nodes := masters(t, 3)
	file := filepath.Join(t.TempDir(), "beat")
	cmd := prepare(t, nodes, append(execFlags[:3:3], "k", os.Args[0], file)...)
	cmd.Env = append(cmd.Env, actVar+"=family")
	k := sit(t, cmd)
	pids := awaitFamily(t, file)
	k.types(t, "\x1a")
	k.stops(t)
	stopped := k.silent(t, file, pids)
	must(t, syscall.Kill(k.cmd.Process.Pid, syscall.SIGCONT))
	for i := range pids {
		k.goesOn(t, file, i, stopped)
	}

	const aside = 2 // somebody stops this one, and it is not ours to continue
	must(t, syscall.Kill(pids[aside], syscall.SIGSTOP))
	eventually(t, "it stands still", func() bool { return state(pids[aside]) == "T" })
	k.types(t, "\x1a")
	k.stops(t)
	stopped = k.silent(t, file, pids)
	must(t, syscall.Kill(k.cmd.Process.Pid, syscall.SIGCONT))
	for i := range pids {
		if i != aside {
			k.goesOn(t, file, i, stopped)
		}
	}
	if s := state(pids[aside]); s != "T" {
		t.Errorf("got the one that somebody stopped in state %q; want it left alone", s)
	}
	must(t, syscall.Kill(pids[aside], syscall.SIGCONT))
	k.goesOn(t, file, aside, stopped)

	k.types(t, "\x1a")
	k.stops(t)
	if _, err := open(t, nodes).Acquire(t.Context(), "k"); err != nil {
		t.Fatal(err)
	}
	over := sinceBoot()
	k.silent(t, file, pids)
	must(t, syscall.Kill(k.cmd.Process.Pid, syscall.SIGCONT))
	k.wait(t).want(t, 124, "killed")
	for i, pid := range pids {
		if _, last := lastBeat(t, file+"."+strconv.Itoa(i)); last > over || alive(pid) {
			t.Errorf("process %d of the family ran on for %v under the next holder's lock, alive: %v", i, last-over, alive(pid))
		}
	}
}

// awaitFamily waits until all of a family run.
func awaitFamily(t *testing.T, file string) []int {
	t.Helper()
	pids := make([]int, family)
	eventually(t, "the family", func() bool {
		for i := range pids {
			if pids[i], _ = lastBeat(t, file+"."+strconv.Itoa(i)); pids[i] == 0 {
				return false
			}
		}
		return true
	})
	t.Cleanup(func() {
		for _, pid := range pids {
			if t.Failed() && alive(pid) { // otherwise they are dead, and the numbers may be another's
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	})
	return pids
}

// silent waits until all of a family are stopped, and returns when the last of them
// wrote.
func (k *keyboard) silent(t *testing.T, file string, pids []int) (last time.Duration) {
	t.Helper()
	for i, pid := range pids {
		eventually(t, fmt.Sprintf("the stop of process %d of the family", i), func() bool { return state(pid) == "T" })
		_, at := lastBeat(t, file+"."+strconv.Itoa(i))
		last = max(last, at)
	}
	return last
}

// goesOn waits until one of a family writes again.
func (k *keyboard) goesOn(t *testing.T, file string, i int, since time.Duration) {
	t.Helper()
	eventually(t, fmt.Sprintf("process %d of the family going on", i), func() bool {
		if !k.running() {
			t.Fatalf("it ended: %+v", k.wait(t))
		}
		_, at := lastBeat(t, file+"."+strconv.Itoa(i))
		return at > since
	})
}

func state(pid int) string {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, after, _ := strings.Cut(string(stat), ") ")
	s, _, _ := strings.Cut(after, " ")
	return s
}

// Nobody would renew the lock of a command whose redlock was killed.
func TestTheCommandDiesWithAProgramThatIsKilled(t *testing.T) {
	t.Parallel()
	_, nodes := masters(t, 3)
	file := filepath.Join(t.TempDir(), "beat")
	cmd := prepare(t, nodes, append(execFlags[:3:3], "k", os.Args[0], file)...)
	cmd.Env = append(cmd.Env, actVar+"=beat")
	p := start(t, cmd)
	pid := 0
	eventually(t, "the command", func() bool {
		pid, _ = lastBeat(t, file)
		return pid != 0
	})
	p.signal(t, syscall.SIGKILL)
	p.wait(t)
	eventually(t, "the command's end", func() bool { return !alive(pid) })
}

// A command that was given the terminal leaves SIGTTOU ignored in lead; the next command
// does not inherit that, and has the terminal as the first one had.
func TestEveryCommandOfALeadHasTheTerminal(t *testing.T) {
	t.Parallel()
	_, nodes := masters(t, 3)
	k := sit(t, prepare(t, nodes, "lead", "--node-timeout", "1s", "--max-hold", "2s", "--kill-after", "1s", "k", "sh", "-c",
		`grep SigIgn /proc/self/status; read line; echo "line $line"; sleep 1000`))
	for i := range 2 {
		eventually(t, "the command", func() bool { return strings.Count(k.screen.String(), "SigIgn") >= i+1 })
		k.types(t, fmt.Sprintf("%d\n", i))
		k.sees(t, fmt.Sprintf("line %d", i))
	}
	for line := range strings.Lines(k.screen.String()) {
		_, mask, found := strings.Cut(line, "SigIgn:")
		if !found {
			continue
		}
		ignored, err := strconv.ParseUint(strings.TrimSpace(mask), 16, 64)
		if err != nil || ignored&(1<<(syscall.SIGTTOU-1)) != 0 {
			t.Errorf("got %q, %v; want SIGTTOU not ignored", line, err)
		}
	}
	// One that is typed as --max-hold ends a command may reach that one alone, whose end
	// it then is not.
	for deadline := time.Now().Add(patience); k.running() && time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
		k.types(t, "\x03")
	}
	k.wait(t)
}

// ^C while a command is being ended for --max-hold reaches the command alone. The lead ends
// all the same, and does not begin another.
func TestInterruptEndsALeadWhoseCommandIsBeingEnded(t *testing.T) {
	t.Parallel()
	_, nodes := masters(t, 3)
	k := sit(t, prepare(t, nodes, "lead", "--node-timeout", "1s", "--max-hold", "6s", "--kill-after", "5s", "k", "sh", "-c",
		`trap "" TERM; echo ready; while :; do sleep 0.05; done`))
	k.sees(t, "ready")
	eventually(t, "the first signal", func() bool { return strings.Contains(k.stderr(), "ending sh") })
	k.types(t, "\x03")
	k.wait(t).want(t, 123)
	if n := strings.Count(k.screen.String(), "ready"); n != 1 {
		t.Errorf("got %d commands; want one", n)
	}
}

// ^Z stops a lead that waits, as it stops a program that does not look at it, and the
// shell's fg lets it wait on.
func TestALeadThatWaitsIsStoppedByTheTerminal(t *testing.T) {
	t.Parallel()
	_, nodes := masters(t, 3)
	lock, err := open(t, nodes).Acquire(t.Context(), "k")
	must(t, err)
	k := sit(t, prepare(t, nodes, "lead", "--node-timeout", "1s", "k", "echo", "it leads"))
	eventually(t, "its place in line", func() bool { return status(t, nodes, "k").Waiting == 1 })
	k.types(t, "\x1a")
	k.stops(t)
	k.signal(t, syscall.SIGCONT)
	must(t, lock.Release(t.Context()))
	k.sees(t, "it leads")
	if r := k.wait(t); r.code != 0 {
		t.Errorf("got exit status %d; want 0", r.code)
	}
}
