package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/redlocktest"
)

// longMax is what one client has raised the cluster's MaxTTL to.
const longMax = 2 * time.Minute

// raisedTo is three nodes whose MaxTTL a client has raised to longMax, and that
// client.
func raisedTo(t *testing.T) (*redlocktest.Cluster, *redlock.Locker) {
	t.Helper()
	nodes := redlocktest.Start(t, 3)
	more := lockerOver(t, nodes, redlock.WithMaxTTL(longMax))
	warm(t, more)
	time.Sleep(time.Second)
	wantMaxTTL(t, "after it was raised", nodes, longMax)
	return nodes, more
}

// wantMaxTTL fails the test unless every node's waits are that long.
func wantMaxTTL(t *testing.T, when string, nodes *redlocktest.Cluster, want time.Duration) {
	t.Helper()
	for _, n := range status(t, lockerOver(t, nodes)).Nodes {
		if n.MaxTTL != want {
			t.Errorf("%s: %s has MaxTTL %v; want %v", when, n.Name, n.MaxTTL, want)
		}
	}
}

func TestMaxTTLComesDownWhenTheOldOneHasPassed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes, more := raisedTo(t)
		must(t, more.Close())
		l := lockerOver(t, nodes)
		held := mustAcquire(t, l, "orders/42")
		start, lowered := time.Now(), make(chan error)
		go func() { lowered <- lockerOver(t, nodes).Cluster().LowerMaxTTL(t.Context(), redlock.DefaultMaxTTL) }()
		time.Sleep(time.Minute)
		wantMaxTTL(t, "while it is lowered", nodes, longMax)
		nodes.Node(0).Restart()
		must(t, <-lowered)
		if took := time.Since(start); took < longMax-time.Millisecond || took > longMax+time.Second {
			t.Errorf("it took %v; want %v, the old one", took, longMax)
		}
		wantVotes(t, "a node that restarted after a minute", l, 2)
		time.Sleep(5 * time.Second) // it was waited for since it restarted
		wantVotes(t, "a node that restarted 65 seconds ago", l, 3)
		wantMaxTTL(t, "afterwards", nodes, redlock.DefaultMaxTTL)
		nodes.Node(1).Restart()
		time.Sleep(redlock.DefaultMaxTTL - time.Second)
		wantVotes(t, "before the new MaxTTL has passed", l, 2)
		time.Sleep(5 * time.Second)
		wantVotes(t, "after the new MaxTTL", l, 3)
		must(t, held.Err())
		mustRelease(t, held)
	})
}

// A lease that is longer than the new MaxTTL: only the wait keeps a second holder
// away, and only as long as it lasts.
func TestALongerLeaseOutlastsTheLowering(t *testing.T) {
	testkit.Unraced(t)
	for _, vouched := range []bool{false, true} {
		t.Run(fmt.Sprintf("vouched %v", vouched), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				nodes, more := raisedTo(t)
				nodes.Node(2).Stop()
				lock, err := more.Acquire(t.Context(), "orders/42", redlock.WithTTL(longMax), redlock.WithFixedLease())
				must(t, err)
				synctest.Wait()
				owner, err := nodes.Node(1).Miniredis().Get("orders/42")
				must(t, err)
				nodes.Node(2).Start()
				for i := range 3 { // or the holder, which lives, would raise it again, or put its lock on node 2
					nodes.Node(i).Intercept(func(args []string) redlocktest.Verdict {
						if len(args) == 8 && args[5] == "120000" || i == 2 && slices.Contains(args, owner) {
							return redlocktest.ReplyError("OOM command not allowed when used memory > 'maxmemory'.")
						}
						return redlocktest.Pass()
					})
				}
				nodes.Node(0).Restart() // one of the two that it rests on
				l := lockerOver(t, nodes)
				lowered := make(chan error)
				go func() {
					lower := lockerOver(t, nodes).Cluster().LowerMaxTTL
					if vouched { // wrongly
						lower = lockerOver(t, nodes).Cluster().LowerMaxTTLNow
					}
					lowered <- lower(t.Context(), redlock.DefaultMaxTTL)
				}()
				ctx, cancel := context.WithTimeout(t.Context(), 3*longMax)
				defer cancel()
				second, err := l.Acquire(ctx, "orders/42")
				must(t, err)
				if two := lock.Err() == nil; two != vouched {
					t.Errorf("got two holders %t; want %t", two, vouched)
				}
				must(t, <-lowered)
				mustRelease(t, second)
			})
		})
	}
}

func TestAClientThatTakesLongerLeasesRaisesMaxTTLAgainBeforeItVotes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := redlocktest.Start(t, 3)
		var told events
		more := lockerOver(t, nodes, redlock.WithMaxTTL(longMax), told.option())
		warm(t, more)
		time.Sleep(time.Second)
		must(t, lockerOver(t, nodes).Cluster().LowerMaxTTLNow(t.Context(), redlock.DefaultMaxTTL))
		wantMaxTTL(t, "lowered", nodes, redlock.DefaultMaxTTL)
		lock := mustAcquire(t, more, "orders/42", redlock.WithTTL(90*time.Second))
		raised := 0
		for i := range 3 {
			if nodes.Node(i).Miniredis().Exists("orders/42") {
				raised++
				if got := nodes.Node(i).Miniredis().HGet(lua.NodeKey, "maxttl"); got != "120000" {
					t.Errorf("node %d holds a lease of 90 s, and its MaxTTL is %s ms", i, got)
				}
			}
		}
		if raised < 2 {
			t.Errorf("the lock is on %d nodes", raised)
		}
		mustRelease(t, lock)
		if got := len(told.of(redlock.MaxTTLRaised)); got != 6 {
			t.Errorf("got %d events of who raises; want one a node, each time", got)
		}

		start, lowered := time.Now(), make(chan error)
		go func() { lowered <- lockerOver(t, nodes).Cluster().LowerMaxTTL(t.Context(), redlock.DefaultMaxTTL) }()
		time.Sleep(20 * time.Second)
		mustRelease(t, mustAcquire(t, more, "orders/42"))
		err := <-lowered
		wantError(t, "it was raised meanwhile", err, redlock.ErrMisconfigured)
		wantText(t, "it was raised meanwhile", errorText(err), "node-", "raised MaxTTL again, to 2m0s")
		if took := time.Since(start); took > 31*time.Second {
			t.Errorf("told after %v; want within 10 s of the raise", took)
		}
		wantMaxTTL(t, "raised again", nodes, longMax)
	})
}

func TestANodeThatDoesNotAnswerKeepsTheOldMaxTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes, more := raisedTo(t)
		must(t, more.Close())
		l := lockerOver(t, nodes)
		warm(t, l)
		nodes.Node(2).Stop()
		c := lockerOver(t, nodes).Cluster()
		err := c.LowerMaxTTL(t.Context(), redlock.DefaultMaxTTL)
		wantText(t, "with a node down", errorText(err), "node-2 is unreachable")
		nodes.Node(2).Start()
		time.Sleep(time.Second)
		for i, want := range []time.Duration{redlock.DefaultMaxTTL, redlock.DefaultMaxTTL, longMax} {
			if got := status(t, l).Nodes[i].MaxTTL; got != want {
				t.Errorf("node %d: got MaxTTL %v; want %v", i, got, want)
			}
		}
		nodes.Node(0).Restart() // the larger one counts for all
		mustRelease(t, mustAcquire(t, l, "orders/42"))
		time.Sleep(longMax - time.Second)
		wantVotes(t, "before the larger MaxTTL has passed", l, 2)
		time.Sleep(5 * time.Second)
		wantVotes(t, "after it", l, 3)
		must(t, c.LowerMaxTTLNow(t.Context(), redlock.DefaultMaxTTL))
		wantMaxTTL(t, "called again", nodes, redlock.DefaultMaxTTL)
		must(t, c.LowerMaxTTL(t.Context(), redlock.DefaultMaxTTL))
	})
}

// What is cut short leaves every wait as long as it was.
func TestLoweringThatIsCutShortChangesNoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes, more := raisedTo(t)
		must(t, more.Close())
		ctx, cancel := context.WithTimeout(t.Context(), longMax-time.Second)
		defer cancel()
		err := lockerOver(t, nodes).Cluster().LowerMaxTTL(ctx, redlock.DefaultMaxTTL)
		wantError(t, "cut short", err, context.DeadlineExceeded)
		wantText(t, "cut short", errorText(err), "as long as before")
		wantMaxTTL(t, "cut short", nodes, longMax)

		lost := make(chan error)
		go func() { lost <- lockerOver(t, nodes).Cluster().LowerMaxTTL(t.Context(), redlock.DefaultMaxTTL) }()
		time.Sleep(time.Minute)
		start := time.Now()
		must(t, lockerOver(t, nodes).Cluster().LowerMaxTTL(t.Context(), redlock.DefaultMaxTTL))
		if took := time.Since(start); took < longMax-time.Millisecond {
			t.Errorf("the second took %v; want the whole old MaxTTL", took)
		}
		wantText(t, "the first of two at once", errorText(<-lost), "another client lowers MaxTTL, too")
		wantMaxTTL(t, "at last", nodes, redlock.DefaultMaxTTL)
	})
}

func TestWhatMaxTTLCanNotBeLoweredTo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := redlocktest.Start(t, 3)
		c := lockerOver(t, nodes).Cluster()
		for to, want := range map[time.Duration]string{
			-time.Second: "10ms to 24h", 9 * time.Millisecond: "10ms to 24h", 25 * time.Hour: "10ms to 24h",
			10 * time.Second: "this client's own MaxTTL, 30s", 31 * time.Second: "the cluster's MaxTTL is 30s",
		} {
			for _, lower := range []func(context.Context, time.Duration) error{c.LowerMaxTTL, c.LowerMaxTTLNow} {
				err := lower(t.Context(), to)
				wantError(t, fmt.Sprint(to), err, redlock.ErrInvalidTTL)
				wantText(t, fmt.Sprint(to), errorText(err), want)
			}
		}
		must(t, c.LowerMaxTTL(t.Context(), redlock.DefaultMaxTTL))
		wantMaxTTL(t, "afterwards", nodes, redlock.DefaultMaxTTL)

		nodes.Node(0).Stop()
		nodes.Node(1).Stop()
		err := lockerOver(t, nodes).Cluster().LowerMaxTTL(t.Context(), redlock.DefaultMaxTTL)
		wantError(t, "with one node of three", err, redlock.ErrNoQuorum)
		if errors.Is(err, redlock.ErrInvalidTTL) {
			t.Errorf("with one node of three: got %v", err)
		}
	})
}

// Found by the search: a node votes for a longer lease, forgets, and is back after the
// shorter MaxTTL that the others' records still have; then the holder raises that too,
// in a round that lasted as long.
func TestARoundAsLongAsTheMaxTTLThatWasRaisedBringsNoLock(t *testing.T) {
	for _, took := range []time.Duration{5 * time.Second, redlock.DefaultMaxTTL + time.Second} {
		t.Run(took.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				nodes := redlocktest.Start(t, 3)
				more := lockerOver(t, nodes, redlock.WithMaxTTL(longMax), redlock.WithTTL(longMax), redlock.WithNodeTimeout(longMax/2))
				warm(t, more)
				time.Sleep(time.Second)
				must(t, lockerOver(t, nodes).Cluster().LowerMaxTTLNow(t.Context(), redlock.DefaultMaxTTL))
				mustRelease(t, mustAcquire(t, more, "orders/41")) // it raises MaxTTL again
				time.Sleep(time.Second)
				nodes.Node(1).Hang()
				nodes.Node(2).Hang()
				time.AfterFunc(took, func() {
					nodes.Node(1).Resume()
					nodes.Node(2).Resume()
				})
				lock, err := more.TryAcquire(t.Context(), "orders/42")
				if took < redlock.DefaultMaxTTL {
					must(t, err)
					mustRelease(t, lock)
					return
				}
				if !errors.Is(err, redlock.ErrNotAcquired) {
					t.Fatalf("got %v; want no lock of a round of %v", err, took)
				}
				wantText(t, "the refusal", err.Error(), "MaxTTL of 30s before this client raised it")
				time.Sleep(time.Second)
				for i := range 3 {
					if nodes.Node(i).Miniredis().Exists("orders/42") {
						t.Errorf("node %d has its key still", i)
					}
				}
			})
		})
	}
}
