//go:build unix

package main_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/lab/tcpproxy"
)

// timesVar asks for more than the few rounds of each fault that a normal run of
// TestTheCommandIsDeadBeforeTheValidityEnds plays.
const timesVar = "REDLOCK_TEST_DEAD"

const (
	// deadTTL is the lease in that test.
	deadTTL = 2 * time.Second
	// deadDrift is by how much a validity ends before its lease.
	deadDrift = deadTTL/100 + 2*time.Millisecond
	// renewed is what tells a renewal, of a third of the lease at least, from two
	// looks at the same one.
	renewed = 100 * time.Millisecond
)

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
	servers []*redisserver.Server
	eyes    []*redis.Client // to the masters themselves
	proxies []*tcpproxy.Proxy
	flags   []string // the nodes, under the names that the records have
	nodes   string   // the masters themselves
}

func wire(t *testing.T) *wires {
	t.Helper()
	servers, nodes := masters(t, 3)
	w := &wires{servers: servers, nodes: nodes}
	var through []string
	for _, s := range servers {
		w.eyes = append(w.eyes, s.Client())
		p, err := tcpproxy.New(s.Addr())
		must(t, err)
		t.Cleanup(p.Close)
		w.proxies = append(w.proxies, p)
		through = append(through, p.Addr())
	}
	w.flags = []string{"--nodes", strings.Join(through, ","), "--node-names", strings.ReplaceAll(nodes, "redis://", "")}
	return w
}

// expiry is when the first of the keys is gone from a node, since the boot, as the nodes tell
// it; zero if none is there. The time is read before a node is asked, so the true
// one is a little later. Another could hold the lock when two of three are gone.
func (w *wires) expiry(t *testing.T, keys ...string) time.Duration {
	t.Helper()
	var earliest time.Duration
	for _, c := range w.eyes {
		for _, key := range keys {
			asked := sinceBoot()
			left, err := c.PTTL(t.Context(), key).Result()
			must(t, err)
			if left > 0 && (earliest == 0 || asked+left < earliest) {
				earliest = asked + left
			}
		}
	}
	return earliest
}

// breakThem makes the fault right after a renewal, so that what the nodes were
// last told is known. It returns when the first lease ends, and what mends it; zero
// if the lock had ended before, on a machine too busy to renew it.
func (w *wires) breakThem(t *testing.T, fault string, keys ...string) (expiry time.Duration, mend func()) {
	t.Helper()
	before := w.expiry(t, keys...)
	eventually(t, "a renewal", func() bool {
		now := w.expiry(t, keys...)
		return now > before+renewed || now == 0
	})
	time.Sleep(10 * time.Millisecond) // the third node's renewal
	var errs []error
	switch fault {
	case "stop":
		expiry = w.expiry(t, keys...)
		for _, s := range w.servers {
			errs = append(errs, s.Pause())
		}
		mend = func() { must(t, w.servers[0].Resume(), w.servers[1].Resume(), w.servers[2].Resume()) }
	case "cut":
		for _, p := range w.proxies {
			p.Drop(tcpproxy.Both)
		}
		expiry = w.expiry(t, keys...)
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
		expiry = w.expiry(t, keys...)
		mend = func() {
			for _, p := range w.proxies {
				must(t, p.Heal())
			}
		}
	}
	must(t, errs...)
	return expiry, mend
}

// The rule that exec is for: no matter what the nodes and the network do, and what
// the command ignores, it and all that it started are dead before the validity
// ends. The family's members write down when they last lived; the nodes say when
// the lease ends, and the validity ends the drift before that. One clock measures
// both, which is not the holder's. `make exec-hundred` plays a hundred rounds.
func TestTheCommandIsDeadBeforeTheValidityEnds(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"stop", "cut", "refuse", "cut three", "refuse three shared"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := wire(t)
			fault, held, _ := strings.Cut(name, " ")
			var margins []time.Duration
			slow := 0
			for len(margins) < rounds(t) {
				keys, flags := []string{fmt.Sprintf("%s/%d", fault, len(margins)+slow)}, []string{}
				if strings.Contains(held, "three") {
					keys = append(keys, keys[0]+"/b", keys[0]+"/a")
					flags = append(flags, "--also", keys[1], "--also", keys[2])
				}
				if strings.Contains(held, "shared") {
					flags = append(flags, "--shared")
				}
				if left, played := w.outlive(t, fault, keys, flags); played {
					margins = append(margins, left)
				} else if slow++; slow > rounds(t)+5 {
					t.Fatal("the machine is too busy to renew a lease of two seconds")
				}
			}
			slices.Sort(margins)
			t.Logf("%d rounds: when the last of the family was seen alive, %v of the validity were left in the worst, %v in the median",
				len(margins), margins[0].Round(time.Millisecond), margins[len(margins)/2].Round(time.Millisecond))
		})
	}
}

// outlive plays one round, and returns what was left of the validity when the last
// of the family lived. It was not played if the lock had ended before the fault.
func (w *wires) outlive(t *testing.T, fault string, keys, flags []string) (left time.Duration, played bool) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "beat")
	args := append([]string{"exec", "--json", "--ttl", deadTTL.String(), "--kill-after", "800ms", "--node-timeout", "300ms"}, w.flags...)
	key := keys[0]
	cmd := prepare(t, "", append(append(args, flags...), key, os.Args[0], file)...)
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
	expiry, mend := w.breakThem(t, fault, keys...)
	r := p.wait(t)
	mend()
	if expiry == 0 {
		return 0, false
	}
	r.want(t, 124, `"ending"`, `"killed"`)
	left = deadTTL
	for i, pid := range pids {
		_, last := lastBeat(t, file+"."+strconv.Itoa(i))
		left = min(left, expiry-deadDrift-last)
		if left <= 0 || alive(pid) {
			t.Errorf("%s: process %d of the family lived until %v after the validity, alive: %v\n%s", key, i, -left, alive(pid), r.errs)
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
	return left, true
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
	if expiry == 0 {
		t.Skip("the machine is too busy to renew a lease of four seconds")
	}
	if code := cmd.ProcessState.ExitCode(); code != 124 {
		t.Errorf("got exit status %d; want 124", code)
	}
	for i := range family {
		pid, last := lastBeat(t, file+"."+strconv.Itoa(i))
		if left := expiry - last; left <= 0 || alive(pid) {
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
	cut := time.Now()
	eventually(t, "the next renewal's time", func() bool {
		if !p.running() {
			t.Fatalf("it ended: %+v", p.wait(t))
		}
		return time.Since(cut) > 3500*time.Millisecond
	})
	mend()
	p.wait(t).want(t, 0, "done")
}
