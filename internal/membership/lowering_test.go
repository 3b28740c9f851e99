package membership_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/internal/testkit/locktest"
	"github.com/quorumkit/redlock/internal/testkit/testserver"
	"github.com/quorumkit/redlock/redlocktest"
)

// longMax is what one client has raised the cluster's MaxTTL to.
const longMax = 2 * time.Minute

// raisedTo is three nodes whose MaxTTL a client has raised to longMax, and that client.
func raisedTo(t *testing.T) (*redlocktest.Cluster, *redlock.Locker) {
	t.Helper()
	nodes := redlocktest.Start(t, 3)
	more := locktest.LockerOver(t, nodes, redlock.WithMaxTTL(longMax))
	locktest.Warm(t, more)
	time.Sleep(time.Second)
	wantMaxTTL(t, "after it was raised", nodes, longMax)
	return nodes, more
}

// wantMaxTTL fails the test unless every node's waits are that long.
func wantMaxTTL(t *testing.T, when string, nodes *redlocktest.Cluster, want time.Duration) {
	t.Helper()
	for _, n := range locktest.Status(t, locktest.LockerOver(t, nodes)).Nodes {
		if n.MaxTTL != want {
			t.Errorf("%s: %s has MaxTTL %v; want %v", when, n.Name, n.MaxTTL, want)
		}
	}
}

func TestMaxTTLComesDownWhenTheOldOneHasPassed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes, more := raisedTo(t)
		testkit.Must(t, more.Close())
		l := locktest.LockerOver(t, nodes)
		held := locktest.MustAcquire(t, l, "orders/42")
		start, lowered := time.Now(), make(chan error)
		go func() {
			lowered <- locktest.LockerOver(t, nodes).Cluster().LowerMaxTTL(t.Context(), redlock.DefaultMaxTTL)
		}()
		time.Sleep(time.Minute)
		wantMaxTTL(t, "while it is lowered", nodes, longMax)
		nodes.Node(0).Restart()
		testkit.Must(t, <-lowered)
		if took := time.Since(start); took < longMax-time.Millisecond || took > longMax+time.Second {
			t.Errorf("it took %v; want %v, the old one", took, longMax)
		}
		locktest.WantVotes(t, "a node that restarted after a minute", l, 2)
		time.Sleep(5 * time.Second) // it was waited for since it restarted
		locktest.WantVotes(t, "a node that restarted 65 seconds ago", l, 3)
		wantMaxTTL(t, "afterwards", nodes, redlock.DefaultMaxTTL)
		nodes.Node(1).Restart()
		time.Sleep(redlock.DefaultMaxTTL - time.Second)
		locktest.WantVotes(t, "before the new MaxTTL has passed", l, 2)
		time.Sleep(5 * time.Second)
		locktest.WantVotes(t, "after the new MaxTTL", l, 3)
		testkit.Must(t, held.Err())
		locktest.MustRelease(t, held)
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
				testkit.Must(t, err)
				synctest.Wait()
				owner, err := nodes.Node(1).Miniredis().Get("orders/42")
				testkit.Must(t, err)
				nodes.Node(2).Start()
				for i := range 3 { // or the holder, which lives, would raise it again, or put its lock on node 2
					nodes.Node(i).Intercept(func(args []string) redlocktest.Verdict {
						if len(args) == 7 && args[5] == "120000" || i == 2 && slices.Contains(args, owner) {
							return redlocktest.ReplyError("OOM command not allowed when used memory > 'maxmemory'.")
						}
						return redlocktest.Pass()
					})
				}
				nodes.Node(0).Restart() // one of the two that it rests on
				l := locktest.LockerOver(t, nodes)
				lowered := make(chan error)
				go func() {
					lower := locktest.LockerOver(t, nodes).Cluster().LowerMaxTTL
					if vouched { // wrongly
						lower = locktest.LockerOver(t, nodes).Cluster().LowerMaxTTLNow
					}
					lowered <- lower(t.Context(), redlock.DefaultMaxTTL)
				}()
				ctx, cancel := context.WithTimeout(t.Context(), 3*longMax)
				defer cancel()
				second, err := l.Acquire(ctx, "orders/42")
				testkit.Must(t, err)
				if two := lock.Err() == nil; two != vouched {
					t.Errorf("got two holders %t; want %t", two, vouched)
				}
				testkit.Must(t, <-lowered)
				locktest.MustRelease(t, second)
			})
		})
	}
}

func TestAClientThatTakesLongerLeasesRaisesMaxTTLAgainBeforeItVotes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := redlocktest.Start(t, 3)
		var told locktest.Events
		more := locktest.LockerOver(t, nodes, redlock.WithMaxTTL(longMax), told.Option())
		locktest.Warm(t, more)
		time.Sleep(time.Second)
		testkit.Must(t, locktest.LockerOver(t, nodes).Cluster().LowerMaxTTLNow(t.Context(), redlock.DefaultMaxTTL))
		wantMaxTTL(t, "lowered", nodes, redlock.DefaultMaxTTL)
		lock := locktest.MustAcquire(t, more, "orders/42", redlock.WithTTL(90*time.Second))
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
		locktest.MustRelease(t, lock)
		if got := len(told.Of(redlock.EventMaxTTLRaised)); got != 6 {
			t.Errorf("got %d events of who raises; want one a node, each time", got)
		}

		start, lowered := time.Now(), make(chan error)
		go func() {
			lowered <- locktest.LockerOver(t, nodes).Cluster().LowerMaxTTL(t.Context(), redlock.DefaultMaxTTL)
		}()
		time.Sleep(20 * time.Second)
		locktest.MustRelease(t, locktest.MustAcquire(t, more, "orders/42"))
		err := <-lowered
		locktest.WantError(t, "it was raised meanwhile", err, redlock.ErrMisconfigured)
		locktest.WantText(t, "it was raised meanwhile", locktest.ErrorText(err), "node-", "raised MaxTTL again, to 2m0s")
		if took := time.Since(start); took > 31*time.Second {
			t.Errorf("told after %v; want within 10 s of the raise", took)
		}
		wantMaxTTL(t, "raised again", nodes, longMax)
	})
}

func TestANodeThatDoesNotAnswerKeepsTheOldMaxTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes, more := raisedTo(t)
		testkit.Must(t, more.Close())
		l := locktest.LockerOver(t, nodes)
		locktest.Warm(t, l)
		nodes.Node(2).Stop()
		c := locktest.LockerOver(t, nodes).Cluster()
		err := c.LowerMaxTTL(t.Context(), redlock.DefaultMaxTTL)
		locktest.WantText(t, "with a node down", locktest.ErrorText(err), "node-2 is unreachable")
		nodes.Node(2).Start()
		time.Sleep(time.Second)
		for i, want := range []time.Duration{redlock.DefaultMaxTTL, redlock.DefaultMaxTTL, longMax} {
			if got := locktest.Status(t, l).Nodes[i].MaxTTL; got != want {
				t.Errorf("node %d: got MaxTTL %v; want %v", i, got, want)
			}
		}
		nodes.Node(0).Restart() // the larger one counts for all
		lock := locktest.MustAcquire(t, l, "orders/42")
		time.Sleep(time.Second) // it may be decided without that node, which the watch then meets
		locktest.MustRelease(t, lock)
		time.Sleep(longMax - 2*time.Second)
		locktest.WantVotes(t, "before the larger MaxTTL has passed", l, 2)
		time.Sleep(5 * time.Second)
		locktest.WantVotes(t, "after it", l, 3)
		testkit.Must(t, c.LowerMaxTTLNow(t.Context(), redlock.DefaultMaxTTL))
		wantMaxTTL(t, "called again", nodes, redlock.DefaultMaxTTL)
		testkit.Must(t, c.LowerMaxTTL(t.Context(), redlock.DefaultMaxTTL))
	})
}

// What is cut short leaves every wait as long as it was.
func TestLoweringThatIsCutShortChangesNoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes, more := raisedTo(t)
		testkit.Must(t, more.Close())
		ctx, cancel := context.WithTimeout(t.Context(), longMax-time.Second)
		defer cancel()
		err := locktest.LockerOver(t, nodes).Cluster().LowerMaxTTL(ctx, redlock.DefaultMaxTTL)
		locktest.WantError(t, "cut short", err, context.DeadlineExceeded)
		locktest.WantText(t, "cut short", locktest.ErrorText(err), "as long as before")
		wantMaxTTL(t, "cut short", nodes, longMax)

		lost := make(chan error)
		go func() {
			lost <- locktest.LockerOver(t, nodes).Cluster().LowerMaxTTL(t.Context(), redlock.DefaultMaxTTL)
		}()
		time.Sleep(time.Minute)
		start := time.Now()
		testkit.Must(t, locktest.LockerOver(t, nodes).Cluster().LowerMaxTTL(t.Context(), redlock.DefaultMaxTTL))
		if took := time.Since(start); took < longMax-time.Millisecond {
			t.Errorf("the second took %v; want the whole old MaxTTL", took)
		}
		locktest.WantText(t, "the first of two at once", locktest.ErrorText(<-lost), "another client lowers MaxTTL, too", "run this again")
		wantMaxTTL(t, "at last", nodes, redlock.DefaultMaxTTL)
	})
}

func TestWhatMaxTTLCanNotBeLoweredTo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := redlocktest.Start(t, 3)
		c := locktest.LockerOver(t, nodes).Cluster()
		for to, want := range map[time.Duration]string{
			-time.Second: "10ms to 24h", 9 * time.Millisecond: "10ms to 24h", 25 * time.Hour: "10ms to 24h",
			10 * time.Second: "this client's own MaxTTL, 30s", 31 * time.Second: "the cluster's MaxTTL is 30s",
		} {
			for _, lower := range []func(context.Context, time.Duration) error{c.LowerMaxTTL, c.LowerMaxTTLNow} {
				err := lower(t.Context(), to)
				locktest.WantError(t, fmt.Sprint(to), err, redlock.ErrInvalidTTL)
				locktest.WantText(t, fmt.Sprint(to), locktest.ErrorText(err), want)
			}
		}
		testkit.Must(t, c.LowerMaxTTL(t.Context(), redlock.DefaultMaxTTL))
		wantMaxTTL(t, "afterwards", nodes, redlock.DefaultMaxTTL)

		nodes.Node(0).Stop()
		nodes.Node(1).Stop()
		err := locktest.LockerOver(t, nodes).Cluster().LowerMaxTTL(t.Context(), redlock.DefaultMaxTTL)
		locktest.WantError(t, "with one node of three", err, redlock.ErrNoQuorum)
		if errors.Is(err, redlock.ErrInvalidTTL) {
			t.Errorf("with one node of three: got %v", err)
		}
	})
}

// A node that votes for a longer lease, forgets, and is back after the shorter MaxTTL that the
// others' records still have, is in two quorums if they are raised in a round that lasts as
// long. So a round that began before the raise was seen brings no lock then, and the next does.
func TestARoundAsLongAsTheMaxTTLThatWasRaisedBringsNoLock(t *testing.T) {
	for _, took := range []time.Duration{5 * time.Second, redlock.DefaultMaxTTL + 2*time.Second} {
		t.Run(took.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				nodes, raises := raisedTo(t)
				more := locktest.LockerOver(t, nodes, redlock.WithMaxTTL(longMax), redlock.WithTTL(longMax), redlock.WithNodeTimeout(longMax/2))
				locktest.Warm(t, more)
				time.Sleep(time.Second)
				testkit.Must(t, locktest.LockerOver(t, nodes).Cluster().LowerMaxTTLNow(t.Context(), redlock.DefaultMaxTTL))
				locktest.MustRelease(t, locktest.MustAcquire(t, raises, "orders/41")) // more sees no shorter one
				time.Sleep(time.Second)
				long := func() (*redlock.Lock, error) {
					nodes.Node(1).Hang()
					nodes.Node(2).Hang()
					time.AfterFunc(took, func() {
						nodes.Node(1).Resume()
						nodes.Node(2).Resume()
					})
					return more.TryAcquire(t.Context(), "orders/42")
				}
				lock, err := long()
				if took > redlock.DefaultMaxTTL {
					if !errors.Is(err, redlock.ErrNotAcquired) {
						t.Fatalf("got %v; want no lock of a round of %v", err, took)
					}
					locktest.WantText(t, "the refusal", err.Error(), "MaxTTL of 30s before it was raised")
					time.Sleep(time.Second)
					for i := range 3 {
						if nodes.Node(i).Miniredis().Exists("orders/42") {
							t.Errorf("node %d has its key still", i)
						}
					}
					lock, err = long()
				}
				testkit.Must(t, err)
				locktest.MustRelease(t, lock)
			})
		})
	}
}

// Found by the search, and played here: the round of more rests on node 0, which forgot, and on
// node 2, which was raised since. Meanwhile node 0 is back, and another holds by it and node 1.
// A look of another's, at that moment, may spoil the order: then it is played again.
func TestANodeThatForgotIsNotInTheLongRoundThatRaisedTheOthers(t *testing.T) {
	for range 10 {
		shown := false
		synctest.Test(t, func(t *testing.T) { shown = longRound(t) })
		if shown {
			return
		}
	}
	t.Error("no long round was refused for its length")
}

// longRound tells whether the round was refused for its length.
func longRound(t *testing.T) bool {
	t.Helper()
	nodes, raises := raisedTo(t)
	testkit.Must(t, raises.Close())
	more := locktest.LockerOver(t, nodes, redlock.WithMaxTTL(longMax), redlock.WithTTL(longMax), redlock.WithNodeTimeout(longMax/2))
	locktest.Warm(t, more)
	l := locktest.LockerOver(t, nodes)
	locktest.Warm(t, l)
	if l.Cluster().LowerMaxTTLNow(t.Context(), redlock.DefaultMaxTTL) != nil {
		return false // raised again meanwhile
	}
	locktest.Warm(t, l)
	raise := func(i int) {
		n, c := nodes.Node(i).Miniredis(), nodes.Clients()[i]
		testkit.Must(t, c.Eval(t.Context(), lua.AmendScript.Body, []string{lua.NodeKey}, n.HGet(lua.NodeKey, "epoch"), longMax.Milliseconds(), "", "").Err())
	}
	synctest.Wait()
	raise(0)
	for i := 1; i <= 2; i++ {
		var reads atomic.Int32
		nodes.Node(i).Intercept(func(args []string) redlocktest.Verdict {
			switch {
			case len(args) < 2:
			case args[1] == lua.ReadScript.Hash && reads.Add(1) == 1:
				time.Sleep(40 * time.Second)
			case i == 2 && slices.Contains(args, "orders/42") && !slices.Contains(args, fmt.Sprint(longMax.Milliseconds())):
				return redlocktest.ReplyError("ERR not for the other")
			}
			return redlocktest.Pass()
		})
	}
	won := make(chan error)
	go func() {
		_, err := more.TryAcquire(t.Context(), "orders/42")
		won <- err
	}()
	time.Sleep(time.Second)
	nodes.Node(0).FlushAll()
	testkit.Must(t, l.Cluster().Join(t.Context()))
	ctx, cancel := context.WithTimeout(t.Context(), 35*time.Second)
	defer cancel()
	other, late := l.Acquire(ctx, "orders/42")
	raise(1)
	raise(2)
	err := <-won
	if late != nil {
		return false
	}
	testkit.Must(t, other.Err())
	locktest.WantError(t, "the long round", err, redlock.ErrNotAcquired)
	return strings.Contains(locktest.ErrorText(err), "MaxTTL of 30s before it was raised")
}

// A client raised MaxTTL and lives. It comes down all the same, under traffic, and
// that client raises it again before a node votes for it.
func TestMaxTTLComesDownOnRealServers(t *testing.T) {
	t.Parallel()
	const raised = 6 * time.Second
	servers := testserver.Need(t, 3, redisserver.Config{})
	l := locktest.OpenWithout(t, servers, nil, locktest.ShortLeases()...)
	locktest.Admit(t, l)
	more := locktest.OpenWithout(t, servers, nil, redlock.WithTTL(1500*time.Millisecond), redlock.WithMaxTTL(raised))
	locktest.Warm(t, more)
	locktest.PollUntil(t, 20*time.Second, "MaxTTL is raised", func() bool { return recordedMaxTTL(t, servers[0]) == "6000" })
	held := locktest.MustAcquire(t, l, "orders/1")
	busy(t, l)
	operator := locktest.OpenWithout(t, servers, nil, locktest.ShortLeases()...)
	began := time.Now()
	testkit.Must(t, operator.Cluster().LowerMaxTTL(t.Context(), locktest.ShortMax))
	if took := time.Since(began); took < raised {
		t.Errorf("it took %v; want the old MaxTTL, %v", took, raised)
	}
	testkit.Must(t, held.Err())
	for _, s := range servers {
		if got := recordedMaxTTL(t, s); got != "2000" {
			t.Errorf("%s: got MaxTTL %s ms; want 2000", s.Addr(), got)
		}
	}
	testkit.Must(t, servers[2].RestartEmpty())
	back := time.Now()
	locktest.PollUntil(t, 30*time.Second, "all three vote", func() bool { return locktest.Votes(t, l) == 3 })
	took := time.Since(back)
	t.Logf("it voted again %v after its restart", took)
	if took < locktest.ShortMax-100*time.Millisecond || took > raised {
		t.Errorf("it voted again after %v; want %v, the new MaxTTL, and not %v", took, locktest.ShortMax, raised)
	}
	lock := locktest.MustAcquire(t, more, "orders/2", redlock.WithTTL(4*time.Second))
	on := 0
	for _, s := range servers {
		if locktest.KeyOn(t, s, "orders/2") == "" {
			continue
		}
		on++
		if got := recordedMaxTTL(t, s); got != "6000" {
			t.Errorf("%s holds a lease of 4 s, and its MaxTTL is %s ms", s.Addr(), got)
		}
	}
	if on < 2 {
		t.Errorf("the lock is on %d servers", on)
	}
	locktest.MustRelease(t, lock)
	locktest.MustRelease(t, held)
}

// recordedMaxTTL is what the server's record says, in ms.
func recordedMaxTTL(t *testing.T, s *redisserver.Server) string {
	t.Helper()
	c := redis.NewClient(s.Options())
	defer func() { _ = c.Close() }()
	got, err := c.HGet(t.Context(), lua.NodeKey, "maxttl").Result()
	testkit.Must(t, err)
	return got
}

// One node that can't be taken in must not keep a program that lives for a minute
// from taking in the others.
func TestJoinTakesInTheOthersBeforeItSaysWhichItCouldNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		l, nodes := locktest.NewLocker(t, 7)
		locktest.Warm(t, l)
		nodes.Node(5).Miniredis().HSet(lua.NodeKey, "names", "x\ny")
		nodes.Node(4).Restart()
		began := time.Now()
		err := l.Cluster().Join(ctx)
		locktest.WantError(t, "Join", err, redlock.ErrMisconfigured)
		locktest.WantText(t, "Join", locktest.ErrorText(err), "node-5", "one list")
		if strings.Contains(locktest.ErrorText(err), "node-4 is") {
			t.Errorf("Join: got %v; want no word of node-4, which votes", err)
		}
		if took := time.Since(began); took < redlock.DefaultMaxTTL-time.Millisecond || took > redlock.DefaultMaxTTL+5*time.Second {
			t.Errorf("Join took %v; want MaxTTL, for node-4, and little more", took)
		}
		locktest.WantVotes(t, "after Join", l, 6)

		began = time.Now()
		locktest.WantError(t, "Join again", l.Cluster().Join(ctx), redlock.ErrMisconfigured)
		if took := time.Since(began); took > time.Second {
			t.Errorf("Join with nothing to wait for took %v; want it at once", took)
		}
	})
}

// Without hope of a quorum Join says so at once; a node that does not answer is hope.
func TestJoinWaitsForAQuorumOnlyWhileOneCanBe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		l, nodes := locktest.NewLocker(t, 3)
		locktest.Warm(t, l)
		other := func(i int) {
			nodes.Node(i).Miniredis().HSet(lua.NodeKey, "names", "x\ny")
		}
		other(0)
		nodes.Node(1).Stop()
		began := time.Now()
		time.AfterFunc(10*time.Second, func() { other(1); nodes.Node(1).Start() })
		err := l.Cluster().Join(ctx)
		locktest.WantError(t, "Join", err, redlock.ErrMisconfigured)
		locktest.WantError(t, "Join", err, redlock.ErrNoQuorum)
		if took := time.Since(began); took < 10*time.Second || took > 21*time.Second { // at the next look
			t.Errorf("Join took %v; want it to wait for the node that was down, and no longer: %v", took, err)
		}
	})
}

// What one client asks for outlasts it, so it is told before it is done.
func TestWhoRaisesMaxTTLSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := locktest.NewLocker(t, 3)
		locktest.Warm(t, l)
		full := nodes.Node(2)
		full.Intercept(func(args []string) redlocktest.Verdict {
			if strings.EqualFold(args[0], "evalsha") && strings.Contains(strings.Join(args, " "), "60000") {
				return redlocktest.ReplyError("OOM command not allowed when used memory > 'maxmemory'.")
			}
			return redlocktest.Pass()
		})
		told, same := &locktest.Events{}, &locktest.Events{}
		locktest.Warm(t, locktest.LockerOver(t, nodes, same.Option()))
		more := locktest.LockerOver(t, nodes, told.Option(), redlock.WithMaxTTL(time.Minute))
		locktest.Warm(t, more)
		time.Sleep(10 * time.Second) // the reconcile loop tries again on the full node
		raised := told.Of(redlock.EventMaxTTLRaised)
		if len(raised) != 3 || len(same.Of(redlock.EventMaxTTLRaised)) != 0 {
			t.Fatalf("got %d events of who raises, %d of who does not; want one a node, and none", len(raised), len(same.Of(redlock.EventMaxTTLRaised)))
		}
		locktest.WantText(t, "the event", raised[0].Err.Error(), "from 30s to 1m0s", "LowerMaxTTL")
	})
}

// What the reconcile loop's action was refused, and no probe meets, is a warning of Check's;
// while nothing keeps a node out there is nothing to do.
func TestCheckSaysWhatTheJoinerWasRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := redlocktest.Start(t, 3, redlocktest.WithoutFounding())
		l := locktest.LockerOver(t, nodes)
		for i, f := range blankSaid(t, l, 3) {
			if !strings.HasPrefix(f.Remedy, "Nothing") || f.Severity != redlock.SeverityInfo {
				t.Errorf("node %d: got %v; want nothing to do", i, f)
			}
		}
		nodes.Node(1).Intercept(func(args []string) redlocktest.Verdict {
			if len(args) == 5 && args[3] == lua.NodeKey && len(args[4]) > 1 { // a notice has a nonce, a look a digit
				return redlocktest.ReplyError("OOM for a notice")
			}
			return redlocktest.Pass()
		})
		nodes.Node(1).Restart() // its notice is gone
		_ = l.Cluster().Admit(t.Context())
		for i, f := range blankSaid(t, l, 3) {
			locktest.WantText(t, fmt.Sprintf("node %d", i), f.What, "notice", "OOM for a notice")
			if strings.HasPrefix(f.Remedy, "Nothing") || f.Severity != redlock.SeverityWarning {
				t.Errorf("node %d: got %v; want a warning that nobody else gives", i, f)
			}
		}
	})
}
