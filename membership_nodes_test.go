package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/redlocktest"
)

// Membership on in-process nodes, in virtual time: what takes MaxTTL and more,
// and faults at a chosen command.

// status is what the nodes are, as the Locker sees them.
func status(t *testing.T, l *redlock.Locker) redlock.ClusterStatus {
	t.Helper()
	s, err := l.Cluster().Status(t.Context())
	must(t, err)
	return s
}

// wantVotes fails the test unless so many nodes vote.
func wantVotes(t *testing.T, when string, l *redlock.Locker, want int) {
	t.Helper()
	if s := status(t, l); s.Votes() != want {
		t.Errorf("%s: got %d votes; want %d: %+v", when, s.Votes(), want, s.Nodes)
	}
}

// wantText fails the test unless the text says all of it.
func wantText(t *testing.T, what, got string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(got, w) {
			t.Errorf("%s: got %q; want it to say %q", what, got, w)
		}
	}
}

// Of three nodes one is down and one forgot: the third alone knows too little,
// for however long.
func TestNothingIsAdmittedByATimeout(t *testing.T) {
	testkit.Unraced(t)
	for name, away := range map[string]func(*redlocktest.Node){
		"stopped": (*redlocktest.Node).Stop, "hung": (*redlocktest.Node).Hang,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, nodes := newLocker(t, 3)
				warm(t, l)
				synctest.Wait() // all three have been verified
				away(nodes.Node(2))
				nodes.Node(1).Restart()
				ctx, cancel := context.WithTimeout(t.Context(), 5*redlock.DefaultMaxTTL)
				defer cancel()
				_, err := l.Acquire(ctx, "orders/42")
				wantError(t, "Acquire", err, redlock.ErrNoQuorum)
				wantText(t, "Acquire", fmt.Sprint(err), "node-2", "every node must answer")
				wantVotes(t, "after five times MaxTTL", l, 1)
				nodes.Node(2).Start()
				nodes.Node(2).Resume()
				mustRelease(t, mustAcquire(t, l, "orders/42"))
				time.Sleep(3 * time.Second) // a node that waits to join is looked at once a second, and then verified
				wantVotes(t, "with all nodes", l, 3)
			})
		})
	}
}

// By the table N-q+1 other members suffice; a node more that is blank waits for
// every node. That is also what a majority's loss takes, for any N.
func TestAnyNumberOfNodesThatForgotComesBackOnceEveryNodeAnswers(t *testing.T) {
	testkit.Unraced(t)
	besideServers(t)
	for _, n := range []int{1, 2, 3, 4, 5} {
		for blank := 1; blank <= n; blank++ {
			synctest.Test(t, func(t *testing.T) {
				var seen events
				l, nodes := newLocker(t, n, seen.option())
				warm(t, l)
				first := mustAcquire(t, l, "orders/42", redlock.WithFixedLease())
				for i := range blank {
					nodes.Node(i).Restart()
				}
				time.Sleep(time.Second)
				if _, err := lockerOver(t, nodes, seen.option()).TryAcquire(t.Context(), "orders/42"); err == nil {
					t.Fatalf("%d of %d forgot: another holds the lock as well", blank, n)
				}
				time.Sleep(redlock.DefaultTTL)
				second := mustAcquire(t, l, "orders/42")
				if second.Token() <= first.Token() {
					t.Errorf("%d of %d forgot: got token %v after %v; want it greater", blank, n, second.Token(), first.Token())
				}
				time.Sleep(redlock.DefaultMaxTTL + time.Second)
				wantVotes(t, fmt.Sprintf("%d of %d forgot", blank, n), l, n)
				q := n/2 + 1
				if founded, beyond := len(seen.of(redlock.ClusterFounded)) > 0, n-blank < n-q+1; founded != beyond {
					t.Errorf("%d of %d forgot: got a founding: %v; want %v", blank, n, founded, beyond)
				}
				mustRelease(t, second)
			})
		}
	}
}

func TestAWaitStartsAgainWhenTheNodeForgetsAgain(t *testing.T) {
	for name, forget := range map[string]func(*redlocktest.Node){
		"restart": (*redlocktest.Node).Restart, "restart with its data": (*redlocktest.Node).RestartKeepingData, "FLUSHALL": (*redlocktest.Node).FlushAll,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, nodes := newLocker(t, 3)
				held := mustAcquire(t, l, "orders/42") // its renewals are the traffic
				nodes.Node(0).Restart()
				time.Sleep(redlock.DefaultMaxTTL - time.Second)
				forget(nodes.Node(0))
				time.Sleep(redlock.DefaultMaxTTL - time.Second)
				wantVotes(t, "less than MaxTTL after it forgot again", l, 2)
				time.Sleep(5 * time.Second)
				wantVotes(t, "more than MaxTTL after it forgot again", l, 3)
				mustRelease(t, held)
			})
		})
	}
}

// It proves nothing that other clients are at it: they share one notice, and
// each waits by its own clock.
func TestManyJoinersTakeANodeInOnce(t *testing.T) {
	testkit.Unraced(t)
	synctest.Test(t, func(t *testing.T) {
		nodes := redlocktest.Start(t, 5)
		for i := range 6 {
			l := lockerOver(t, nodes)
			mustAcquire(t, l, fmt.Sprintf("orders/%d", i))
		}
		l := lockerOver(t, nodes)
		warm(t, l)
		nodes.Node(0).Restart()
		time.Sleep(redlock.DefaultMaxTTL + 10*time.Second)
		wantVotes(t, "six joiners", l, 5)
		epoch := nodes.Node(0).Miniredis().HGet(lua.NodeKey, "epoch")
		time.Sleep(redlock.DefaultMaxTTL + 10*time.Second)
		if got := nodes.Node(0).Miniredis().HGet(lua.NodeKey, "epoch"); got != epoch || epoch == "" {
			t.Errorf("got epoch %q after %q; want it installed once", got, epoch)
		}
	})
}

// Of founding, and of taking a node in, every ninth command fails once, in the deep tier
// every third, in each way in turn: the cluster stands in the end,
// and no lock is ever held twice.
func TestAnyCommandOfAJoinMayFail(t *testing.T) {
	testkit.Unraced(t)
	besideServers(t)
	verdicts := []redlocktest.Verdict{
		redlocktest.LoseReply(), redlocktest.ReplyError("ERR no"), redlocktest.LoseRequest(), redlocktest.BreakBefore(), redlocktest.BreakAfter(),
	}
	k, fired := int64(0), true
	for i := 0; fired && !t.Failed(); i++ {
		k += int64(testkit.Of(9, 3))
		synctest.Test(t, func(t *testing.T) { fired = joinWithout(t, k, verdicts[i%len(verdicts)]) })
	}
	if k < 50 && !t.Failed() {
		t.Errorf("the sweep ended at command %d; want it to reach into the join", k)
	}
}

// joinWithout founds a cluster, has a node forget, and fails the k-th command of
// all. It reports whether there was one.
func joinWithout(t *testing.T, k int64, v redlocktest.Verdict) bool {
	t.Helper()
	nodes := redlocktest.Start(t, 3, redlocktest.WithoutFounding())
	var sent atomic.Int64
	for _, n := range nodes.Nodes() {
		n.Intercept(func([]string) redlocktest.Verdict {
			if sent.Add(1) == k {
				return v
			}
			return redlocktest.Pass()
		})
	}
	const maxTTL = 2 * time.Second
	opts := []redlock.Option{redlock.WithTTL(maxTTL), redlock.WithMaxTTL(maxTTL)}
	l := lockerOver(t, nodes, opts...)
	first := mustAcquire(t, l, "orders/42")
	time.Sleep(2 * maxTTL) // it is on all three: on a bare quorum it has no spare
	if sent.Load() >= k {
		time.Sleep(maxTTL) // the renewal that failed has been made again
	}
	nodes.Node(1).Restart()
	time.Sleep(3 * maxTTL)
	fired := sent.Swap(k) >= k // the rest of the run is not swept
	wantVotes(t, fmt.Sprintf("command %d failed", k), l, 3)
	if _, err := lockerOver(t, nodes, opts...).TryAcquire(t.Context(), "orders/42"); !errors.Is(err, redlock.ErrNotAcquired) {
		t.Errorf("command %d failed: TryAcquire of a held lock: got %v; want ErrNotAcquired", k, err)
	}
	must(t, first.Err())
	mustRelease(t, first)
	return fired
}

// A look that somebody asks for finds a node that the loop had given up on, as it did
// not answer: the loop takes it in from there.
func TestANodeThatSomebodyElseFoundIsTakenIn(t *testing.T) {
	testkit.Unraced(t)
	for name, looks := range map[string]func(context.Context, *redlock.Cluster) error{
		"Status":      func(ctx context.Context, c *redlock.Cluster) error { _, err := c.Status(ctx); return err },
		"Join":        func(ctx context.Context, c *redlock.Cluster) error { return c.Join(ctx) },
		"LowerMaxTTL": func(ctx context.Context, c *redlock.Cluster) error { return c.LowerMaxTTL(ctx, redlock.DefaultMaxTTL) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, nodes := newLocker(t, 3)
				lock := mustAcquire(t, l, "orders/42")
				synctest.Wait()
				nodes.Node(0).Restart()
				time.Sleep(5 * time.Second) // a renewal finds it without a record
				nodes.Node(0).Stop()
				time.Sleep(2 * time.Second)
				nodes.Node(0).Start()
				ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
				defer cancel()
				_ = looks(ctx, l.Cluster()) // in time, or not
				time.Sleep(5 * time.Minute)
				wantVotes(t, "after five minutes", l, 3)
				mustRelease(t, lock)
			})
		})
	}
}
