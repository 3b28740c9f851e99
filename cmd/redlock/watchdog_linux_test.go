package main_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	main "github.com/quorumkit/redlock/cmd/redlock"
	"github.com/quorumkit/redlock/internal/testkit"
)

// watched starts exec over a family that ignores every request to end, and waits until all
// of it live.
func watched(t *testing.T, nodes, file string, flags ...string) *process {
	t.Helper()
	cmd := prepare(t, nodes, append(append(execFlags[:3:3], flags...), "k", os.Args[0], file)...)
	cmd.Env = append(cmd.Env, actVar+"=family")
	p := start(t, cmd)
	killLater(t, file)
	eventually(t, "the family", func() bool {
		if !p.running() {
			t.Fatalf("it ended: %+v", p.wait(t))
		}
		for i := range family {
			if pid, _ := lastBeat(t, file+"."+strconv.Itoa(i)); pid == 0 {
				return false
			}
		}
		return true
	})
	return p
}

// killLater kills what a failure leaves of a family.
func killLater(t *testing.T, file string) {
	t.Helper()
	t.Cleanup(func() {
		for i := range family {
			if pid, _ := lastBeat(t, file+"."+strconv.Itoa(i)); alive(pid) {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	})
}

// watchdogs are the processes of that name which watch over a program.
func watchdogs(t *testing.T, pid int) []int {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	must(t, err)
	var found []int
	for _, f := range files {
		line, err := os.ReadFile(f)
		if err != nil || !strings.HasPrefix(string(line), "lockwatch\x00"+strconv.Itoa(pid)+"\x00") {
			continue
		}
		n, err := strconv.Atoi(filepath.Base(filepath.Dir(f)))
		must(t, err)
		found = append(found, n)
	}
	return found
}

// lastOf is when the last of a family lived, since the boot.
func lastOf(t *testing.T, file string) time.Duration {
	t.Helper()
	var last time.Duration
	for i := range family {
		_, at := lastBeat(t, file+"."+strconv.Itoa(i))
		last = max(last, at)
	}
	return last
}

func familyAlive(t *testing.T, file string) (living []int) {
	t.Helper()
	for i := range family {
		if pid, _ := lastBeat(t, file+"."+strconv.Itoa(i)); alive(pid) {
			living = append(living, i)
		}
	}
	return living
}

// kill -9 of the program, which can do nothing then: its command is dead, what left the
// group and the session too, long before the lease ends.
func TestTheFamilyDiesWithAProgramThatIsKilled(t *testing.T) {
	t.Parallel()
	servers, nodes := masters(t, 3)
	var took []time.Duration
	for range 5 {
		file := filepath.Join(t.TempDir(), "beat")
		p := watched(t, nodes, file)
		killed := sinceBoot()
		p.signal(t, syscall.SIGKILL)
		eventually(t, "the family's end", func() bool { return len(familyAlive(t, file)) == 0 })
		took = append(took, max(lastOf(t, file)-killed, 0))
		eventually(t, "the watchdog's end", func() bool { return len(watchdogs(t, p.cmd.Process.Pid)) == 0 })
		for _, s := range servers {
			must(t, s.Client().Del(t.Context(), "k").Err()) // its lease would be waited for
		}
	}
	slices.Sort(took)
	t.Logf("after kill -9 the last of the family lived for %v in the median, %v at most", took[len(took)/2], took[len(took)-1])
	if most := took[len(took)-1]; most > 5*time.Second {
		t.Errorf("got %v; want it dead at once: the lease has 10s", most)
	}
}

// A program that is stopped renews nothing, and kills nobody: its watchdog does, before
// the validity ends. So does the one that follows a watchdog which was killed, or stopped, and
// the one after that.
func TestTheFamilyDiesUnderAProgramThatIsStopped(t *testing.T) {
	t.Parallel()
	for name, faults := range map[string][]syscall.Signal{
		"watched": nil, "watched by the third": {syscall.SIGKILL, syscall.SIGKILL}, "watched by the second": {syscall.SIGSTOP},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			machine := testkit.WatchMachine(t) // a watchdog that gets no processor for 415 ms is late
			servers, nodes := masters(t, 3)
			file := filepath.Join(t.TempDir(), "beat")
			p := watched(t, nodes, file, "--json", "--ttl", "4s", "--kill-after", "1500ms")
			for i, fault := range faults {
				dogs := watchdogs(t, p.cmd.Process.Pid)
				if len(dogs) != 1 {
					t.Fatalf("got watchdogs %v; want one", dogs)
				}
				must(t, syscall.Kill(dogs[0], fault))
				eventually(t, "another watchdog", func() bool { return strings.Count(p.stderr(), `{"event":"watched","key":"k"`) == i+1 })
			}
			p.signal(t, syscall.SIGSTOP)
			// Another can have the lock when two of three leases have ended: a renewal may have been
			// on its way to the third as the program was stopped.
			var ends []time.Duration
			for _, s := range servers {
				asked := sinceBoot()
				left, err := s.Client().PTTL(t.Context(), "k").Result()
				must(t, err)
				ends = append(ends, asked+max(left, 0))
			}
			slices.Sort(ends)
			expiry := ends[1]
			eventually(t, "the family's end", func() bool { return len(familyAlive(t, file)) == 0 })
			if last := lastOf(t, file); last >= expiry {
				machine.Excuse(t, 200*time.Millisecond)
				t.Errorf("the family lived for %v beyond the lease", last-expiry)
			} else {
				t.Logf("the last of the family lived until %v before the lease's end", expiry-last)
			}
			p.signal(t, syscall.SIGCONT)
			p.wait(t).want(t, 124, "the watchdog killed", "was stopped")
		})
	}
}

// Who else runs on the machine is no family, and neither is the watchdog's own program.
func TestAWatchdogLeavesTheOthersAlone(t *testing.T) {
	t.Parallel()
	_, nodes := masters(t, 3)
	one, other := filepath.Join(t.TempDir(), "beat"), filepath.Join(t.TempDir(), "beat")
	victim := watched(t, nodes, one)
	cmd := prepare(t, nodes, append(execFlags[:3:3], "other", os.Args[0], other)...)
	cmd.Env = append(cmd.Env, actVar+"=family")
	p := start(t, cmd)
	killLater(t, other)
	eventually(t, "another's family", func() bool {
		for i := range family {
			if pid, _ := lastBeat(t, other+"."+strconv.Itoa(i)); pid == 0 {
				return false
			}
		}
		return true
	})
	victim.signal(t, syscall.SIGKILL)
	eventually(t, "the family's end", func() bool { return len(familyAlive(t, one)) == 0 })
	if n := len(familyAlive(t, other)); n != family || !p.running() {
		t.Errorf("of another's family %d are alive, itself: %v; want all", n, p.running())
	}
	p.signal(t, syscall.SIGKILL)
	eventually(t, "the other family's end", func() bool { return len(familyAlive(t, other)) == 0 })
}

// An end in the usual way leaves no watchdog behind, also where one was killed.
func TestAWatchdogEndsWithItsCommand(t *testing.T) {
	t.Parallel()
	_, nodes := masters(t, 3)
	p := launch(t, nodes, "k", "sh", "-c", "echo ready; sleep 0.2; exit 5")
	p.wait(t).want(t, 5)
	eventually(t, "the watchdog's end", func() bool { return len(watchdogs(t, p.cmd.Process.Pid)) == 0 })

	end := filepath.Join(t.TempDir(), "end")
	p = launch(t, nodes, "--ttl", "3s", "k", "sh", "-c", `echo ready; until test -e "$0"; do sleep 0.05; done; exit 6`, end)
	dogs := watchdogs(t, p.cmd.Process.Pid)
	if len(dogs) != 1 {
		t.Fatalf("got watchdogs %v; want one", dogs)
	}
	must(t, syscall.Kill(dogs[0], syscall.SIGKILL))
	before := time.Now()
	eventually(t, "some renewals", func() bool { return time.Since(before) > 4*time.Second })
	must(t, os.WriteFile(end, nil, 0o600))
	p.wait(t).want(t, 6, "redlock: lockwatch ended: another was started")
	eventually(t, "the watchdog's end", func() bool { return len(watchdogs(t, p.cmd.Process.Pid)) == 0 })
}

// Where no watchdog can be started, or none lives, the command runs, and that is said once.
func TestACommandThatNobodyWatchesRuns(t *testing.T) {
	t.Parallel()
	_, nodes := masters(t, 1)
	for self, times := range map[string]int{"/no/such/program": 0, "/bin/true": main.WatchdogTries} {
		cmd := prepare(t, nodes, self, "exec", "--node-timeout", "1s", "k", "sh", "-c", "sleep 2; exit 7")
		cmd.Path, cmd.Env = os.Args[0], append(cmd.Env, actVar+"=unwatched")
		r := finish(t, cmd)
		r.want(t, 7)
		if n := strings.Count(r.errs, "no lockwatch can be kept"); n != 1 {
			t.Errorf("%s: got %q; want it said once that nobody watches", self, r.errs)
		}
		if n := strings.Count(r.errs, "another was started"); n != times {
			t.Errorf("%s: got %q; want %d starts", self, r.errs, times)
		}
	}
}

// A watchdog that does not read is found out at once, and no line of it is cut.
func TestAWatchdogIsToldAWholeLineOrNothing(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	must(t, err)
	defer w.Close()
	line := []byte("until 1795687456034000000\n")
	told := 0
	for began := time.Now(); ; told++ {
		if err = main.TryWrite(w, line); err != nil {
			break
		}
		if time.Since(began) > patience {
			t.Fatalf("after %d lines that nobody reads, it is told one more", told)
		}
	}
	if !errors.Is(err, syscall.EAGAIN) || told == 0 {
		t.Errorf("after %d lines that nobody reads: got %v; want %v", told, err, syscall.EAGAIN)
	}
	all := make([]byte, told*len(line))
	_, err = io.ReadFull(r, all)
	must(t, err)
	if !bytes.Equal(all, bytes.Repeat(line, told)) {
		t.Errorf("got others than the %d lines that it was told", told)
	}
	must(t, r.Close())
	// Not at once: a process that another test starts has the reader's end until its exec.
	eventually(t, "a watchdog that has ended is found out", func() bool {
		return errors.Is(main.TryWrite(w, line), syscall.EPIPE)
	})
}
