package membership_test

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
	"github.com/quorumkit/redlock/internal/testkit/locktest"
	"github.com/quorumkit/redlock/redlocktest"
)

// Membership on in-process nodes, in virtual time: what takes MaxTTL and more,
// and faults at a chosen command.

// Of three nodes one is down and one forgot: the third alone knows too little, for however long.
func TestNothingIsAdmittedByATimeout(t *testing.T) {
	testkit.Unraced(t)
	for name, away := range map[string]func(*redlocktest.Node){
		"stopped": (*redlocktest.Node).Stop, "hung": (*redlocktest.Node).Hang,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, nodes := locktest.NewLocker(t, 3)
				locktest.Warm(t, l)
				synctest.Wait() // all three have been verified
				away(nodes.Node(2))
				nodes.Node(1).Restart()
				ctx, cancel := context.WithTimeout(t.Context(), 5*redlock.DefaultMaxTTL)
				defer cancel()
				_, err := l.Acquire(ctx, "orders/42")
				locktest.WantError(t, "Acquire", err, redlock.ErrNoQuorum)
				locktest.WantText(t, "Acquire", fmt.Sprint(err), "node-2", "every node must answer")
				locktest.WantVotes(t, "after five times MaxTTL", l, 1)
				nodes.Node(2).Start()
				nodes.Node(2).Resume()
				locktest.MustRelease(t, locktest.MustAcquire(t, l, "orders/42"))
				time.Sleep(3 * time.Second) // a node that waits to join is looked at once a second, and then verified
				locktest.WantVotes(t, "with all nodes", l, 3)
			})
		})
	}
}

// By the table N-q+1 other members suffice; a node more that is blank waits for
// every node. That is also what a majority's loss takes, for any N.
func TestAnyNumberOfNodesThatForgotComesBackOnceEveryNodeAnswers(t *testing.T) {
	testkit.Unraced(t)
	locktest.BesideServers(t)
	for _, n := range []int{1, 2, 3, 4, 5} {
		for blank := 1; blank <= n; blank++ {
			synctest.Test(t, func(t *testing.T) {
				var seen locktest.Events
				l, nodes := locktest.NewLocker(t, n, seen.Option())
				locktest.Warm(t, l)
				first := locktest.MustAcquire(t, l, "orders/42", redlock.WithFixedLease())
				for i := range blank {
					nodes.Node(i).Restart()
				}
				time.Sleep(time.Second)
				if _, err := locktest.LockerOver(t, nodes, seen.Option()).TryAcquire(t.Context(), "orders/42"); err == nil {
					t.Fatalf("%d of %d forgot: another holds the lock as well", blank, n)
				}
				time.Sleep(redlock.DefaultTTL)
				second := locktest.MustAcquire(t, l, "orders/42")
				if second.Token() <= first.Token() {
					t.Errorf("%d of %d forgot: got token %v after %v; want it greater", blank, n, second.Token(), first.Token())
				}
				time.Sleep(redlock.DefaultMaxTTL + time.Second)
				locktest.WantVotes(t, fmt.Sprintf("%d of %d forgot", blank, n), l, n)
				q := n/2 + 1
				if founded, beyond := len(seen.Of(redlock.EventClusterFounded)) > 0, n-blank < n-q+1; founded != beyond {
					t.Errorf("%d of %d forgot: got a founding: %v; want %v", blank, n, founded, beyond)
				}
				locktest.MustRelease(t, second)
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
				l, nodes := locktest.NewLocker(t, 3)
				held := locktest.MustAcquire(t, l, "orders/42") // its renewals are the traffic
				nodes.Node(0).Restart()
				time.Sleep(redlock.DefaultMaxTTL - time.Second)
				forget(nodes.Node(0))
				time.Sleep(redlock.DefaultMaxTTL - time.Second)
				locktest.WantVotes(t, "less than MaxTTL after it forgot again", l, 2)
				time.Sleep(5 * time.Second)
				locktest.WantVotes(t, "more than MaxTTL after it forgot again", l, 3)
				locktest.MustRelease(t, held)
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
			l := locktest.LockerOver(t, nodes)
			locktest.MustAcquire(t, l, fmt.Sprintf("orders/%d", i))
		}
		l := locktest.LockerOver(t, nodes)
		locktest.Warm(t, l)
		nodes.Node(0).Restart()
		time.Sleep(redlock.DefaultMaxTTL + 10*time.Second)
		locktest.WantVotes(t, "six joiners", l, 5)
		epoch := nodes.Node(0).Miniredis().HGet(lua.NodeKey, "epoch")
		time.Sleep(redlock.DefaultMaxTTL + 10*time.Second)
		if got := nodes.Node(0).Miniredis().HGet(lua.NodeKey, "epoch"); got != epoch || epoch == "" {
			t.Errorf("got epoch %q after %q; want it installed once", got, epoch)
		}
	})
}

// Of founding, and of taking a node in, every ninth command fails once, in the deep tier every
// third, in each way in turn: the cluster stands in the end, and no lock is ever held twice.
func TestAnyCommandOfAJoinMayFail(t *testing.T) {
	testkit.Unraced(t)
	locktest.BesideServers(t)
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
	l := locktest.LockerOver(t, nodes, opts...)
	first := locktest.MustAcquire(t, l, "orders/42")
	time.Sleep(2 * maxTTL) // it is on all three: on a bare quorum it has no spare
	if sent.Load() >= k {
		time.Sleep(maxTTL) // the renewal that failed has been made again
	}
	nodes.Node(1).Restart()
	time.Sleep(3 * maxTTL)
	fired := sent.Swap(k) >= k // the rest of the run is not swept
	locktest.WantVotes(t, fmt.Sprintf("command %d failed", k), l, 3)
	if _, err := locktest.LockerOver(t, nodes, opts...).TryAcquire(t.Context(), "orders/42"); !errors.Is(err, redlock.ErrNotAcquired) {
		t.Errorf("command %d failed: TryAcquire of a held lock: got %v; want ErrNotAcquired", k, err)
	}
	testkit.Must(t, first.Err())
	locktest.MustRelease(t, first)
	return fired
}

// A look that somebody asks for finds a node that the loop had given up on, as it did
// not answer: the loop takes it in from there.
func TestANodeThatSomebodyElseFoundIsTakenIn(t *testing.T) {
	testkit.Unraced(t)
	for name, looks := range map[string]func(context.Context, *redlock.Cluster) error{
		"Status": func(ctx context.Context, c *redlock.Cluster) error { _, err := c.Status(ctx); return err },
		"Join":   func(ctx context.Context, c *redlock.Cluster) error { return c.Join(ctx) },
		"Change": func(ctx context.Context, c *redlock.Cluster) error {
			return c.Change(ctx, redlock.Wanted{}, redlock.ChangeOptions{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, nodes := locktest.NewLocker(t, 3)
				lock := locktest.MustAcquire(t, l, "orders/42")
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
				locktest.WantVotes(t, "after five minutes", l, 3)
				locktest.MustRelease(t, lock)
			})
		})
	}
}

// What a caller asks of the Cluster handle, and what a record says for everybody.

// A program that ends after a second never sees the wait's end, unless it asks.
func TestJoinIsForProgramsThatEndSoon(t *testing.T) {
	testkit.Unraced(t)
	synctest.Test(t, func(t *testing.T) {
		nodes := redlocktest.Start(t, 3, redlocktest.WithoutFounding())
		for range 100 { // each a process of its own
			l, err := redlock.New(nodes.Clients(), redlock.WithNodeNames(nodes.Names()...))
			testkit.Must(t, err)
			_, err = l.TryAcquire(t.Context(), "orders/42")
			locktest.WantError(t, "TryAcquire", err, redlock.ErrNoQuorum)
			time.Sleep(time.Second)
			testkit.Must(t, l.Close())
		}
		l := locktest.LockerOver(t, nodes)
		start := time.Now()
		testkit.Must(t, l.Cluster().Join(t.Context()))
		if took := time.Since(start); took < redlock.DefaultMaxTTL-time.Millisecond || took > redlock.DefaultMaxTTL+2*time.Second {
			t.Errorf("Join took %v; want MaxTTL", took)
		}
		lock, err := l.TryAcquire(t.Context(), "orders/42")
		testkit.Must(t, err)
		locktest.MustRelease(t, lock)
		start = time.Now()
		testkit.Must(t, l.Cluster().Join(t.Context()))
		testkit.Must(t, l.Cluster().Admit(t.Context()))
		if took := time.Since(start); took > time.Second {
			t.Errorf("Join and Admit where nothing is to be done took %v", took)
		}
	})
}

func TestJoinEndsWithItsContextAndSaysWhoDoesNotVote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := redlocktest.Start(t, 3, redlocktest.WithoutFounding())
		l := locktest.LockerOver(t, nodes)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := l.Cluster().Join(ctx)
		locktest.WantError(t, "Join", err, context.DeadlineExceeded)
		locktest.WantError(t, "Join", err, redlock.ErrNoQuorum)
		locktest.WantText(t, "Join", fmt.Sprint(err), "node-0", "node-1", "node-2", "Admit")

		ended := make(chan error)
		go func() { ended <- l.Cluster().Join(context.Background()) }()
		synctest.Wait()
		testkit.Must(t, l.Close())
		locktest.WantError(t, "Join of a Locker that was closed meanwhile", <-ended, redlock.ErrClosed)
		for what, err := range map[string]error{
			"Join": l.Cluster().Join(t.Context()), "Admit": l.Cluster().Admit(t.Context()),
		} {
			locktest.WantError(t, what+" after Close", err, redlock.ErrClosed)
		}
	})
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

// What the reconcile loop's action was refused, and no probe meets, is a warning of Check's;
// while nothing keeps a node out, a wait brings it in.
func TestCheckSaysWhatTheJoinerWasRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := redlocktest.Start(t, 3, redlocktest.WithoutFounding())
		l := locktest.LockerOver(t, nodes)
		for i, f := range blankSaid(t, l, 3) {
			if !strings.HasPrefix(f.Remedy, "Call Cluster.Join") || f.Severity != redlock.SeverityInfo {
				t.Errorf("node %d: got %v; want to wait", i, f)
			}
		}
		nodes.Node(1).Intercept(func(args []string) redlocktest.Verdict {
			if len(args) == 7 && args[3] == lua.NodeKey { // a notice
				return redlocktest.ReplyError("OOM for a notice")
			}
			return redlocktest.Pass()
		})
		nodes.Node(1).Restart() // its notice is gone
		_ = l.Cluster().Admit(t.Context())
		for i, f := range blankSaid(t, l, 3) {
			locktest.WantText(t, fmt.Sprintf("node %d", i), f.What, "notice", "OOM for a notice")
			if strings.HasPrefix(f.Remedy, "Call Cluster.Join") || f.Severity != redlock.SeverityWarning {
				t.Errorf("node %d: got %v; want a warning that nobody else gives", i, f)
			}
		}
	})
}

func TestAClientWithOtherNamesIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := redlocktest.Start(t, 3)
		l := locktest.LockerWith(t, nodes.NewClients(), redlock.WithNodeNames("node-0", "node-1", "c"))
		_, err := l.TryAcquire(t.Context(), "orders/42")
		locktest.WantError(t, "TryAcquire", err, redlock.ErrMisconfigured)
		locktest.WantText(t, "TryAcquire", fmt.Sprint(err), "node-0, node-1, node-2", "(c, node-0, node-1)", "--node-names")
		nodes.Node(0).Restart()
		time.Sleep(5 * redlock.DefaultMaxTTL)
		locktest.WantVotes(t, "only a client with other names runs", l, 0)
		locktest.WantError(t, "Admit", l.Cluster().Admit(t.Context()), redlock.ErrMisconfigured)
		other := locktest.LockerOver(t, nodes)
		testkit.Must(t, other.Cluster().Join(t.Context()))
		locktest.WantVotes(t, "after a client with the names of the records", other, 3)
	})
}

func TestWithoutMembershipThereIsNothingToAskOfTheCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := locktest.NewLocker(t, 3, redlock.WithoutMembership())
		_, err := l.Cluster().Status(t.Context())
		locktest.WantError(t, "Status", err, redlock.ErrInvalidOption)
		locktest.WantError(t, "Admit", l.Cluster().Admit(t.Context()), redlock.ErrInvalidOption)
		locktest.WantError(t, "Join", l.Cluster().Join(t.Context()), redlock.ErrInvalidOption)
	})
}
