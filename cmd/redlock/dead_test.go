//go:build unix

package main_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/quorumkit/redlock/chaos"
)

// timesVar asks for more than the few rounds of a normal run of
// TestTheCommandIsDeadBeforeTheValidityEnds.
const timesVar = "REDLOCK_TEST_DEAD"

// rounds is how often each fault is tried.
func rounds(t *testing.T) int {
	t.Helper()
	text := os.Getenv(timesVar)
	if text == "" {
		return 2
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s: %v", timesVar, err)
	}
	return n
}

// wires is three masters, each behind a proxy, that the program alone goes through.
type wires struct {
	servers []*chaos.Server
	proxies []*chaos.Proxy
	flags   []string // the nodes, under the names that the records have
}

func wire(t *testing.T) *wires {
	t.Helper()
	servers, nodes := masters(t, 3)
	w := &wires{servers: servers}
	var through []string
	for _, s := range servers {
		p, err := chaos.NewProxy(s.Addr())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Close)
		w.proxies = append(w.proxies, p)
		through = append(through, p.Addr())
	}
	w.flags = []string{"--nodes", strings.Join(through, ","), "--node-names", strings.ReplaceAll(nodes, "redis://", "")}
	return w
}

// expiry is when the last key of a quorum is gone: the first moment at which
// another could hold the lock is the second of three.
func (w *wires) expiry(t *testing.T, key string) time.Time {
	t.Helper()
	var earliest time.Time
	for _, s := range w.servers {
		at, err := s.Client().PExpireTime(t.Context(), key).Result()
		if err != nil {
			t.Fatal(err)
		}
		if e := time.UnixMilli(at.Milliseconds()); at > 0 && (earliest.IsZero() || e.Before(earliest)) {
			earliest = e
		}
	}
	return earliest
}

// breakThem makes the fault right after a renewal, so that what the nodes were
// last told is known. It returns when the first lease ends, and what mends it; the
// zero time if the lock had ended before, on a machine too busy to renew it.
func (w *wires) breakThem(t *testing.T, fault, key string) (expiry time.Time, mend func()) {
	t.Helper()
	before := w.expiry(t, key)
	eventually(t, "a renewal", func() bool {
		now := w.expiry(t, key)
		return now.After(before) || now.IsZero()
	})
	time.Sleep(10 * time.Millisecond) // the third node's renewal
	var errs []error
	switch fault {
	case "stop":
		expiry = w.expiry(t, key)
		for _, s := range w.servers {
			errs = append(errs, s.Pause())
		}
		mend = func() { must(t, w.servers[0].Resume(), w.servers[1].Resume(), w.servers[2].Resume()) }
	case "cut":
		for _, p := range w.proxies {
			p.Drop(chaos.Both)
		}
		expiry = w.expiry(t, key)
		mend = func() {
			for _, p := range w.proxies {
				must(t, p.Heal())
				p.Reset()
			}
		}
	case "refuse":
		for _, p := range w.proxies {
			p.Refuse()
			p.Reset()
		}
		expiry = w.expiry(t, key)
		mend = func() {
			for _, p := range w.proxies {
				must(t, p.Heal())
			}
		}
	}
	must(t, errs...)
	return expiry, mend
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// The rule that exec is for: whatever the nodes and the network do, and whatever
// the command ignores, it and all that it started are dead before another can hold
// the lock. The family's members write down when they last lived; the nodes say
// when the lease ends. Set REDLOCK_TEST_DEAD=34 for a hundred rounds.
func TestTheCommandIsDeadBeforeTheValidityEnds(t *testing.T) {
	t.Parallel()
	for _, fault := range []string{"stop", "cut", "refuse"} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			w := wire(t)
			slow := 0
			for i := 0; i < rounds(t); {
				if w.outlive(t, fault, fmt.Sprintf("%s/%d", fault, i)) {
					i++
				} else if slow++; slow > rounds(t)+5 {
					t.Fatal("the machine is too busy to renew a lease of two seconds")
				}
			}
		})
	}
}

// outlive plays one round, and tells whether the fault came before the lock ended.
func (w *wires) outlive(t *testing.T, fault, key string) bool {
	t.Helper()
	file := filepath.Join(t.TempDir(), "beat")
	args := append([]string{"exec", "--json", "--ttl", "2s", "--kill-after", "800ms", "--node-timeout", "300ms"}, w.flags...)
	cmd := prepare(t, "", append(args, key, os.Args[0], file)...)
	cmd.Env = append(cmd.Env, actVar+"=family")
	p := start(t, cmd)
	pids := make([]int, family)
	eventually(t, "the family", func() bool {
		if !p.running() {
			return true
		}
		for i := range pids {
			if pids[i], _ = lastBeat(t, file+"."+strconv.Itoa(i)); pids[i] == 0 {
				return false
			}
		}
		return true
	})
	expiry, mend := w.breakThem(t, fault, key)
	r := p.wait(t)
	mend()
	if expiry.IsZero() {
		return false
	}
	r.want(t, 124, `"ending"`, `"killed"`)
	for i, pid := range pids {
		_, last := lastBeat(t, file+"."+strconv.Itoa(i))
		if left := expiry.Sub(last); left <= 0 || alive(pid) {
			t.Errorf("%s: process %d of the family lived until %v after the lease, alive: %v\n%s", key, i, -left, alive(pid), r.errs)
		}
	}
	for line := range strings.Lines(r.errs) {
		var e struct {
			Event string
			Left  int64 `json:"validity_ms"`
		}
		if decode(t, line, &e); e.Event == "killed" && e.Left <= 0 {
			t.Errorf("%s: by its own clock the kill was late:\n%s", key, r.errs)
		}
	}
	return true
}

// A reader of stderr that has stopped reading must not keep the command alive.
func TestTheCommandIsKilledInTimeThoughNobodyReadsMessages(t *testing.T) {
	t.Parallel()
	w := wire(t)
	file := filepath.Join(t.TempDir(), "beat")
	args := append([]string{"exec", "--ttl", "4s", "--kill-after", "1500ms", "--node-timeout", "500ms"}, w.flags...)
	cmd := prepare(t, "", append(args, "k", os.Args[0], file)...)
	cmd.Env = append(cmd.Env, actVar+"=family")
	r, full, err := os.Pipe()
	must(t, err)
	defer r.Close()
	fill(t, full)
	cmd.Stderr = full
	must(t, cmd.Start(), full.Close())
	eventually(t, "the family", func() bool {
		pid, _ := lastBeat(t, file+".3")
		return pid != 0
	})
	expiry, mend := w.breakThem(t, "cut", "k")
	_ = cmd.Wait()
	mend()
	if expiry.IsZero() {
		t.Skip("the machine is too busy to renew a lease of four seconds")
	}
	if code := cmd.ProcessState.ExitCode(); code != 124 {
		t.Errorf("got exit status %d; want 124", code)
	}
	for i := range family {
		pid, last := lastBeat(t, file+"."+strconv.Itoa(i))
		if left := expiry.Sub(last); left <= 0 || alive(pid) {
			t.Errorf("process %d of the family lived until %v after the lease, alive: %v", i, -left, alive(pid))
		}
	}
}

// fill writes to a pipe until it takes no more.
func fill(t *testing.T, w *os.File) {
	t.Helper()
	must(t, w.SetWriteDeadline(time.Now().Add(100*time.Millisecond)))
	for {
		if _, err := w.Write(make([]byte, 4096)); err != nil {
			break
		}
	}
	for {
		must(t, w.SetWriteDeadline(time.Now().Add(10*time.Millisecond)))
		if _, err := w.Write([]byte{0}); err != nil {
			return
		}
	}
}

// A stopped command is not continued to die, and a command must not learn from
// the nodes' silence alone: when a quorum is back in time, it goes on.
func TestTheCommandSurvivesAFaultThatEndsInTime(t *testing.T) {
	t.Parallel()
	w := wire(t)
	args := append([]string{"exec", "--ttl", "8s", "--kill-after", "1s", "--node-timeout", "500ms"}, w.flags...)
	p := start(t, prepare(t, "", append(args, "k", "sh", "-c", "echo ready; sleep 6; echo done")...))
	eventually(t, "the start", func() bool { return strings.Contains(p.stdout(), "ready") })
	_, mend := w.breakThem(t, "cut", "k")
	time.Sleep(3500 * time.Millisecond) // past the next renewal
	mend()
	p.wait(t).want(t, 0, "done")
}
