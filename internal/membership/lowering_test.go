package membership_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/internal/testkit/locktest"
	"github.com/quorumkit/redlock/internal/testkit/testserver"
	"github.com/quorumkit/redlock/redlocktest"
)

// MaxTTL is the cluster's: no vote is for a longer lease, and an operator changes it.

// longMax is a MaxTTL above the default.
const longMax = 2 * time.Minute

// foundedWith is three nodes with this MaxTTL.
func foundedWith(t *testing.T, maxTTL time.Duration) *redlocktest.Cluster {
	t.Helper()
	nodes := redlocktest.Start(t, 3, redlocktest.WithoutFounding())
	locktest.Admit(t, locktest.LockerOver(t, nodes, redlock.WithTTL(min(maxTTL, redlock.DefaultTTL)), redlock.WithMaxTTL(maxTTL)))
	return nodes
}

// refusesLongLeases fails the test unless a lease of 90 s of that kind is refused for the
// cluster's MaxTTL, without a wait.
func refusesLongLeases(t *testing.T, when string, l *redlock.Locker, name string, kind ...redlock.AcquireOption) {
	t.Helper()
	lock, err := l.Acquire(t.Context(), name, append(kind, redlock.WithTTL(90*time.Second))...)
	if err == nil {
		locktest.MustRelease(t, lock)
		t.Fatalf("%s: got a lease of 90s; want it refused", when)
	}
	locktest.WantError(t, when, err, redlock.ErrMisconfigured)
	locktest.WantText(t, when, locktest.ErrorText(err), "a lease of 1m30s is above the cluster's MaxTTL, 30s", "WithTTL", "redlock nodes change --max-ttl 1m30s")
}

func TestALongerLeaseTakesALongerMaxTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := redlocktest.Start(t, 3)
		more := locktest.LockerOver(t, nodes, redlock.WithMaxTTL(longMax))
		refusesLongLeases(t, "a lock", more, "orders/42")
		refusesLongLeases(t, "a sharer", more, "orders/42", redlock.WithShared())
		refusesLongLeases(t, "a slot", more, "orders/42", redlock.WithLimit(2))
		held := locktest.MustAcquire(t, more, "orders/42")
		time.AfterFunc(time.Second, func() { _ = held.Release(t.Context()) })
		refusesLongLeases(t, "handed on by the same Locker", more, "orders/42")
		time.Sleep(time.Second)
		l := locktest.LockerOver(t, nodes)
		held = locktest.MustAcquire(t, l, "orders/42") // nothing is left; its renewals are the traffic

		ctx, die := context.WithCancel(t.Context())
		defer die()
		raise := func(ctx context.Context) error {
			return l.Cluster().Change(ctx, redlock.Wanted{MaxTTL: longMax}, redlock.ChangeOptions{})
		}
		for _, n := range nodes.Nodes() {
			n.Intercept(func(args []string) redlocktest.Verdict {
				if changeScript(args) != "force" {
					return redlocktest.Pass()
				}
				die()
				return redlocktest.ReplyError("ERR the operator died")
			})
		}
		locktest.WantError(t, "the operator", raise(ctx), context.Canceled)
		for _, n := range nodes.Nodes() {
			n.Intercept(nil)
		}
		if s := locktest.Status(t, l); s.MaxTTL != redlock.DefaultMaxTTL || s.Pending != "MaxTTL 2m0s" {
			t.Errorf("got %+v; want it proposed", s)
		}
		refusesLongLeases(t, "while it is proposed", more, "orders/43")
		rejoinsAfter(t, nodes.Node(0), l, longMax)

		testkit.Must(t, raise(t.Context()))
		began := time.Now()
		testkit.Must(t, raise(t.Context()))
		if took := time.Since(began); took > time.Second {
			t.Errorf("what is in force already took %v", took)
		}
		if s := locktest.Status(t, l); s.MaxTTL != longMax || s.Generation != 1 || s.Pending != "" || s.Nodes[0].MaxTTL != longMax {
			t.Errorf("got %+v; want it in force", s)
		}
		locktest.MustRelease(t, locktest.MustAcquire(t, more, "orders/43", redlock.WithTTL(longMax)))
		rejoinsAfter(t, nodes.Node(1), l, longMax)
		locktest.MustRelease(t, held)
	})
}

// An extension that was refused is why the lock ends only until a renewal succeeds.
func TestARefusedExtensionIsNotWhyALaterLossCame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := redlocktest.Start(t, 3)
		lock := locktest.MustAcquire(t, locktest.LockerOver(t, nodes, redlock.WithMaxTTL(longMax)), "orders/42")
		locktest.WantError(t, "Extend", lock.Extend(t.Context(), longMax), redlock.ErrMisconfigured)
		time.Sleep(2 * redlock.DefaultTTL)
		for _, n := range nodes.Nodes() {
			n.Stop()
		}
		<-lock.Done()
		if err := lock.Err(); !errors.Is(err, redlock.ErrLost) || errors.Is(err, redlock.ErrMisconfigured) {
			t.Errorf("got %v; want it lost, and no word of its MaxTTL", err)
		}
	})
}

// rejoinsAfter fails the test unless the node restarts and votes after so long, and not before.
func rejoinsAfter(t *testing.T, n *redlocktest.Node, l *redlock.Locker, wait time.Duration) {
	t.Helper()
	n.Restart()
	_, _ = l.TryAcquire(t.Context(), "orders/44") // it is noticed now
	time.Sleep(wait - time.Second)
	locktest.WantVotes(t, fmt.Sprintf("less than %v after a restart", wait), l, 2)
	time.Sleep(5 * time.Second)
	locktest.WantVotes(t, fmt.Sprintf("more than %v after a restart", wait), l, 3)
}

// A lease of the longer MaxTTL is taken at the last moment. Only the longer wait, until the
// close is done, keeps a second holder away.
func TestALongerLeaseOutlastsTheLowering(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := foundedWith(t, longMax)
		more, l := locktest.LockerOver(t, nodes, redlock.WithMaxTTL(longMax)), locktest.LockerOver(t, nodes)
		locktest.Warm(t, more)
		locks := heldBy(t, l, 5)
		var long *redlock.Lock
		restarted, lowered, began := make(chan struct{}), make(chan error), time.Now()
		told := func(p redlock.ChangeProgress) {
			switch {
			case long == nil && p.Step == 1 && p.Left > 0 && p.Left < 2*time.Second:
				nodes.Node(2).Stop()
				long = locktest.MustAcquire(t, more, "orders/42", redlock.WithTTL(longMax), redlock.WithFixedLease())
				synctest.Wait()
				owner, err := nodes.Node(0).Miniredis().Get("orders/42")
				testkit.Must(t, err)
				nodes.Node(2).Intercept(func(args []string) redlocktest.Verdict { // or it gets the lock, too
					if slices.Contains(args, owner) {
						return redlocktest.ReplyError("OOM command not allowed when used memory > 'maxmemory'.")
					}
					return redlocktest.Pass()
				})
				nodes.Node(2).Start()
			case p.Step == 2 && restarted != nil:
				nodes.Node(0).Restart() // one of the two that it rests on
				close(restarted)
				restarted = nil
			}
		}
		again := restarted
		go func() {
			lowered <- locktest.LockerOver(t, nodes).Cluster().Change(t.Context(), redlock.Wanted{MaxTTL: redlock.DefaultMaxTTL}, redlock.ChangeOptions{Progress: told})
		}()
		<-again
		time.Sleep(redlock.DefaultMaxTTL + 5*time.Second)
		locktest.WantVotes(t, "after the new MaxTTL, before the close", l, 2)
		second, err := l.Acquire(t.Context(), "orders/42")
		testkit.Must(t, err)
		locktest.WantError(t, "the longer lease, when another has the lock", long.Err(), redlock.ErrLost)
		testkit.Must(t, <-lowered)
		if took := time.Since(began); took < 2*longMax || took > 2*longMax+10*time.Second {
			t.Errorf("it took %v; want %v, and the same for the close", took, longMax)
		}
		time.Sleep(5 * time.Second)
		locktest.WantVotes(t, "after the old MaxTTL", l, 3)
		rejoinsAfter(t, nodes.Node(1), l, redlock.DefaultMaxTTL)
		wantHeld(t, "with leases of the new MaxTTL", append(locks, second))
	})
}

// Who renews a longer lease is refused, and told why; leases of the same Locker that are
// shorter live on.
func TestALowerMaxTTLEndsLongerLeasesAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := foundedWith(t, longMax)
		var told locktest.Events
		more := locktest.LockerOver(t, nodes, redlock.WithMaxTTL(longMax), told.Option())
		short, long := heldBy(t, more, 5), redlock.WithTTL(90*time.Second)
		ended := []*redlock.Lock{
			locktest.MustAcquire(t, more, "orders/1", long), locktest.MustAcquire(t, more, "orders/2", long, redlock.WithShared()),
			locktest.MustAcquire(t, more, "orders/3", long, redlock.WithLimit(2)),
		}
		testkit.Must(t, locktest.LockerOver(t, nodes).Cluster().Change(t.Context(), redlock.Wanted{MaxTTL: redlock.DefaultMaxTTL}, redlock.ChangeOptions{}))
		failed := map[string]bool{}
		for _, e := range told.Of(redlock.EventExtendFailed) {
			locktest.WantError(t, "the event of a renewal", e.Err, redlock.ErrMisconfigured)
			failed[e.Resource] = true
		}
		for _, lock := range ended {
			locktest.WantError(t, lock.Resource(), lock.Err(), redlock.ErrLost)
			locktest.WantError(t, lock.Resource(), lock.Err(), redlock.ErrMisconfigured)
			if !failed[lock.Resource()] {
				t.Errorf("%s was lost, and no event of a renewal says why", lock.Resource())
			}
		}
		if len(failed) != len(ended) {
			t.Errorf("got refused renewals of %v; want those of long leases alone", failed)
		}
		locktest.WantError(t, "Extend by more than it may", short[0].Extend(t.Context(), 90*time.Second), redlock.ErrMisconfigured)
		refusesLongLeases(t, "a new one", more, "orders/4")
		time.Sleep(longMax)
		wantHeld(t, "shorter leases", short)
	})
}

// A release may grant the lock to who waits, for a lease of three seconds: not where that is
// above MaxTTL.
func TestNoReleaseGrantsMoreThanMaxTTL(t *testing.T) {
	for maxTTL, want := range map[time.Duration]bool{3*time.Second - time.Millisecond: false, 3 * time.Second: true} {
		synctest.Test(t, func(t *testing.T) {
			nodes := foundedWith(t, maxTTL)
			opts := []redlock.Option{redlock.WithTTL(time.Second), redlock.WithMaxTTL(maxTTL)}
			lock, next := locktest.MustAcquire(t, locktest.LockerOver(t, nodes, opts...), "orders/42"), locktest.LockerOver(t, nodes, opts...)
			time.AfterFunc(time.Second, func() { _ = lock.Release(t.Context()) })
			sent := locktest.CountSent(nodes)
			locktest.MustRelease(t, locktest.MustAcquire(t, next, "orders/42"))
			handed := 0
			for i := range 3 {
				handed += sent(i, "hand") + sent(i, "hand_one")
			}
			if handed > 0 != want {
				t.Errorf("MaxTTL %v: got %d releases that may grant; want some: %t", maxTTL, handed, want)
			}
		})
	}
}

func TestANodeThatWasAwayGetsTheNewMaxTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := foundedWith(t, longMax)
		nodes.Node(2).Stop()
		l := locktest.LockerOver(t, nodes)
		testkit.Must(t, l.Cluster().Change(t.Context(), redlock.Wanted{MaxTTL: redlock.DefaultMaxTTL}, redlock.ChangeOptions{}))
		nodes.Node(2).Start()
		locktest.Warm(t, l)
		time.Sleep(5 * time.Second)
		for _, n := range locktest.Status(t, l).Nodes {
			if n.MaxTTL != redlock.DefaultMaxTTL || n.Generation != 2 {
				t.Errorf("got %+v; want the new MaxTTL, and the close", n)
			}
		}
	})
}

// MaxTTL comes down under traffic, and goes up again.
func TestMaxTTLComesDownOnRealServers(t *testing.T) {
	t.Parallel()
	const long = 6 * time.Second
	servers := testserver.Need(t, 3, redisserver.Config{})
	more := locktest.OpenWithout(t, servers, nil, redlock.WithTTL(1500*time.Millisecond), redlock.WithMaxTTL(long))
	locktest.Admit(t, more)
	l := locktest.OpenWithout(t, servers, nil, locktest.ShortLeases()...)
	held := locktest.MustAcquire(t, l, "orders/1")
	busy(t, l)
	change := func(maxTTL time.Duration) {
		testkit.Must(t, locktest.OpenWithout(t, servers, nil, locktest.ShortLeases()...).Cluster().Change(t.Context(), redlock.Wanted{MaxTTL: maxTTL}, redlock.ChangeOptions{}))
	}
	began := time.Now()
	change(locktest.ShortMax)
	if took := time.Since(began); took < 2*long {
		t.Errorf("it took %v; want the old MaxTTL, %v, and the same for the close", took, long)
	}
	testkit.Must(t, servers[2].RestartEmpty())
	back := time.Now()
	locktest.PollUntil(t, 30*time.Second, "all three vote", func() bool { return locktest.Votes(t, l) == 3 })
	took := time.Since(back)
	t.Logf("it voted again %v after its restart", took)
	if took < locktest.ShortMax-100*time.Millisecond || took > long {
		t.Errorf("it voted again after %v; want %v, the new MaxTTL, and not %v", took, locktest.ShortMax, long)
	}
	_, err := more.Acquire(t.Context(), "orders/2", redlock.WithTTL(4*time.Second))
	locktest.WantError(t, "a longer lease", err, redlock.ErrMisconfigured)
	change(long)
	locktest.MustRelease(t, locktest.MustAcquire(t, more, "orders/2", redlock.WithTTL(4*time.Second)))
	testkit.Must(t, held.Err())
	locktest.MustRelease(t, held)
}
