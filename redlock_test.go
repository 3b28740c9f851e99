package redlock_test

import (
	"context"
	"errors"
	"flag"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/internal/testkit/quietredis"
	"github.com/quorumkit/redlock/redlocktest"
)

// TestMain lets more tests run side by side than there are cores: those that do are
// over real servers, and wait most of the time. Under the race detector they compute.
func TestMain(m *testing.M) {
	quietredis.On()
	flag.Parse()
	if !testkit.UnderRace {
		_ = flag.Set("test.parallel", strconv.Itoa(max(6, runtime.GOMAXPROCS(0))))
	}
	debug.SetGCPercent(400) // an eighth of the time went there
	os.Exit(m.Run())
}

// besideServers runs a test beside those that wait for servers, and so saves its own
// time; not under the race detector, where it would keep the cores from them.
func besideServers(t *testing.T) {
	t.Helper()
	if !testkit.UnderRace {
		t.Parallel()
	}
}

// newLocker is a Locker over n in-process nodes, closed with the test.
func newLocker(t *testing.T, n int, opts ...redlock.Option) (*redlock.Locker, *redlocktest.Cluster) {
	t.Helper()
	nodes := redlocktest.Start(t, n)
	return lockerOver(t, nodes, opts...), nodes
}

// lockerOver is one more Locker over the same nodes.
func lockerOver(t *testing.T, nodes *redlocktest.Cluster, opts ...redlock.Option) *redlock.Locker {
	t.Helper()
	l, err := redlock.New(nodes.Clients(), append([]redlock.Option{redlock.WithNodeNames(nodes.Names()...)}, opts...)...)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Logf("Close: %v", err)
		}
	})
	return l
}

func mustAcquire(t *testing.T, l *redlock.Locker, resource string, opts ...redlock.AcquireOption) *redlock.Lock {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	lock, err := l.Acquire(ctx, resource, opts...)
	if err != nil {
		t.Fatalf("Acquire(%q): %v", resource, err)
	}
	return lock
}

func TestALockIsHeldByOneAndThenByTheNextWithAGreaterToken(t *testing.T) {
	for _, n := range []int{1, 2, 3, 4, 5, 7, 9} {
		synctest.Test(t, func(t *testing.T) {
			l, nodes := newLocker(t, n)
			other := lockerOver(t, nodes)
			first := mustAcquire(t, l, "orders/42")
			if _, err := other.TryAcquire(t.Context(), "orders/42"); !errors.Is(err, redlock.ErrNotAcquired) {
				t.Fatalf("%d nodes: TryAcquire while held: got %v; want ErrNotAcquired", n, err)
			}
			time.Sleep(time.Minute) // six leases: renewal keeps it
			if err := first.Err(); err != nil {
				t.Fatalf("%d nodes: after a minute: %v", n, err)
			}
			if err := first.Release(t.Context()); err != nil {
				t.Fatalf("%d nodes: Release: %v", n, err)
			}
			second := mustAcquire(t, other, "orders/42")
			if second.Token() <= first.Token() {
				t.Errorf("%d nodes: got token %v after %v; want a greater one", n, second.Token(), first.Token())
			}
			if err := second.Release(t.Context()); err != nil {
				t.Errorf("%d nodes: Release: %v", n, err)
			}
		})
	}
}

func TestANewClusterWaitsMaxTTLAndSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := redlocktest.Start(t, 5, redlocktest.WithoutFounding())
		l := lockerOver(t, nodes)
		_, err := l.TryAcquire(t.Context(), "orders/42")
		if !errors.Is(err, redlock.ErrNoQuorum) || !strings.Contains(err.Error(), "Cluster.Admit") {
			t.Fatalf("TryAcquire on new nodes: got %v; want ErrNoQuorum that names Cluster.Admit", err)
		}
		start := time.Now()
		lock := mustAcquire(t, l, "orders/42")
		if waited := time.Since(start); waited < redlock.DefaultMaxTTL-time.Second || waited > redlock.DefaultMaxTTL+2*time.Second {
			t.Errorf("got the lock after %v; want MaxTTL", waited)
		}
		if err := lock.Release(t.Context()); err != nil {
			t.Errorf("Release: %v", err)
		}
	})
}

func TestANodeThatForgotVotesAgainAfterMaxTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 5)
		lock := mustAcquire(t, l, "orders/42")
		nodes.Node(0).Restart()
		nodes.Node(1).Restart()
		time.Sleep(5 * time.Second)
		s, err := l.Cluster().Status(t.Context())
		if err != nil || s.Votes() != 3 || s.Nodes[0].State != redlock.NodeJoining {
			t.Fatalf("after two restarts: got %+v, %v; want 3 votes, node 0 joining", s, err)
		}
		time.Sleep(redlock.DefaultMaxTTL + time.Second)
		if s, err = l.Cluster().Status(t.Context()); err != nil || s.Votes() != 5 {
			t.Fatalf("MaxTTL later: got %+v, %v; want 5 votes", s, err)
		}
		time.Sleep(5 * time.Second)
		in, err := l.Inspect(t.Context(), "orders/42")
		for _, n := range in.Nodes {
			if n.Owner == "" || err != nil {
				t.Errorf("%s does not hold the lock again: %+v, %v", n.Name, n, err)
			}
		}
		if err := lock.Release(t.Context()); err != nil {
			t.Errorf("Release: %v", err)
		}
	})
}

// Of the protections, a steady state shows one command: the sample of the clock
// behind what may be granted. It travels with the acquire.
func TestTheProtectionsCostOneSampleForEachAcquireInTheSteadyState(t *testing.T) {
	for _, tt := range []struct {
		name string
		each int // commands a pair and node
		opts []redlock.Option
	}{
		{"protected", 3, nil},
		{"clocks not watched", 2, []redlock.Option{redlock.WithoutClockWatch()}},
	} {
		synctest.Test(t, func(t *testing.T) {
			l, nodes := newLocker(t, 5, tt.opts...)
			const pairs = 20
			calls := func() int {
				n := 0
				for _, node := range nodes.Nodes() {
					n += node.Calls()
				}
				return n
			}
			for range 3 { // verifications, and the first samples of the clocks
				mustRelease(t, mustAcquire(t, l, "orders/42"))
				synctest.Wait()
			}
			before := calls()
			for range pairs {
				mustRelease(t, mustAcquire(t, l, "orders/42"))
				synctest.Wait()
			}
			// A straggler whose acquire was still queued at the release is spared both.
			if got, most := calls()-before, pairs*tt.each*5; got > most {
				t.Errorf("%s: %d pairs over five nodes: got %d commands; want at most %d", tt.name, pairs, got, most)
			}
		})
	}
}
