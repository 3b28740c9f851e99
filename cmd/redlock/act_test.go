//go:build unix

package main_test

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	main "github.com/quorumkit/redlock/cmd/redlock"
)

// actVar makes the test binary a program that a test runs under a lock.
const actVar = "REDLOCK_TEST_ACT"

// beatEvery is how far what "beat" wrote may be behind its death.
const beatEvery = 4 * time.Millisecond

// sinceBoot reads the clock that all processes of the machine share and nobody
// sets.
func sinceBoot() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return time.Duration(now.Nano())
}

// family is how many processes the part "family" is played by.
const family = 4

// act plays one part. "beat FILE" ignores every request to end and writes down
// when it was last alive, every beatEvery; "family FILE" is four of those: the leader, one in its
// group, one in a group of its own, and one that was forked twice, into a session
// of its own. "fork FILE" is the one between. "once FILE" writes that down
// once, and waits for its end. "contend FILE NODES SEED CUT" locks names in turn, "held FILE" is run
// under a lock: both write down what they held. "raced ARG...", "short ARG..." and
// "unwatched SELF ARG..." are the program.
func act(part string, args []string) {
	file := args[0]
	switch part {
	case "raced":
		os.Exit(main.Raced(args))
	case "short":
		os.Exit(main.Short(args))
	case "unwatched":
		os.Exit(main.Unwatched(args))
	case "family":
		play("beat", file+".1", &syscall.SysProcAttr{})
		play("beat", file+".2", &syscall.SysProcAttr{Setpgid: true})
		play("fork", file+".3", &syscall.SysProcAttr{})
		beat(file + ".0")
	case "fork":
		play("beat", file, &syscall.SysProcAttr{Setsid: true})
	case "beat":
		beat(file)
	case "once":
		once(file)
	case "contend", "held":
		act := func() error { return held(file) }
		if part == "contend" {
			act = func() error { return contend(file, args[1], args[2], args[3]) }
		}
		if err := act(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	default:
		fmt.Fprintf(os.Stderr, "no such part: %s\n", part)
		os.Exit(1)
	}
}

// play starts another process of the same program.
func play(part, file string, attr *syscall.SysProcAttr) {
	cmd := exec.Command(os.Args[0], file)
	cmd.Env = append(os.Environ(), actVar+"="+part)
	cmd.SysProcAttr = attr
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func beat(file string) {
	signal.Ignore(syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT)
	f, err := os.Create(file)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for ; ; time.Sleep(beatEvery) {
		if _, err := f.WriteAt(fmt.Appendf(nil, "%d %20d\n", os.Getpid(), int64(sinceBoot())), 0); err != nil {
			os.Exit(1)
		}
	}
}

func once(file string) {
	text := fmt.Appendf(nil, "%d %20d\n", os.Getpid(), int64(sinceBoot()))
	if err := os.WriteFile(file, text, 0o600); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for ; ; time.Sleep(time.Hour) { // select {} is a deadlock to the runtime
	}
}

// lastBeat reads who wrote the file, and when, since the boot, for the last time; a
// zero pid if nobody has yet.
func lastBeat(t *testing.T, file string) (pid int, at time.Duration) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, 0
	}
	fields := strings.Fields(string(text))
	if len(fields) != 2 {
		return 0, 0
	}
	pid, err = strconv.Atoi(fields[0])
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	nanoseconds, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return pid, time.Duration(nanoseconds)
}

// alive tells whether a process runs: a zombie does not.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		if _, noProc := os.Stat("/proc/self/stat"); noProc != nil {
			return syscall.Kill(pid, 0) == nil
		}
		return false
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(after, "Z")
}
