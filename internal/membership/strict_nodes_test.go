package membership_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/internal/testkit/locktest"
	"github.com/quorumkit/redlock/redlocktest"
)

// Strict recovery is the cluster's: it binds clients that do not have the option.

// strictCluster is an application with the option, whose operator founded the
// cluster.
func strictCluster(t *testing.T, n int, opts ...redlock.Option) (*redlock.Locker, *redlocktest.Cluster) {
	t.Helper()
	nodes := redlocktest.Start(t, n, redlocktest.WithoutFounding())
	app := locktest.LockerOver(t, nodes, append(opts, redlock.WithStrictRecovery())...)
	testkit.Must(t, app.Cluster().Admit(t.Context()))
	locktest.Warm(t, app)
	return app, nodes
}

// makeStrict makes a cluster strict, or not, by a client without the option.
func makeStrict(t *testing.T, nodes *redlocktest.Cluster, strict bool) {
	t.Helper()
	l := locktest.LockerOver(t, nodes)
	testkit.Must(t, l.Cluster().Change(t.Context(), redlock.Wanted{Strict: &strict}, redlock.ChangeOptions{}))
	if s := locktest.Status(t, l); s.Strict != strict {
		t.Errorf("got %+v; want strict: %t", s, strict)
	}
}

// One command without the option founded the cluster of an application that has it
// again, after most nodes had forgotten.
func TestACommandWithoutTheOptionFoundsNoStrictClusterAgain(t *testing.T) {
	testkit.Unraced(t)
	for _, how := range []string{"founded so", "changed to it", "changed back", "never"} {
		synctest.Test(t, func(t *testing.T) {
			found, strict := strictCluster, how == "founded so" || how == "changed to it"
			if how == "changed to it" || how == "never" {
				found = locktest.NewLocker
			}
			app, nodes := found(t, 5)
			locktest.Warm(t, app)
			if strings.HasPrefix(how, "changed") {
				makeStrict(t, nodes, strict)
			}
			testkit.Must(t, app.Close())
			for i := range 4 {
				nodes.Node(i).Restart()
			}
			command := locktest.LockerOver(t, nodes)
			ctx, cancel := context.WithTimeout(t.Context(), 3*redlock.DefaultMaxTTL)
			defer cancel()
			lock, err := command.Acquire(ctx, "reports")
			if !strict {
				testkit.Must(t, err) // or this test shows nothing
				locktest.MustRelease(t, lock)
				return
			}
			locktest.WantError(t, how, err, redlock.ErrNoQuorum)
			locktest.WantText(t, how, locktest.ErrorText(err), "the record of node-4 (strict recovery)", "Cluster.Admit")
			locktest.WantVotes(t, how+", without an operator", command, 0)
			testkit.Must(t, command.Cluster().Admit(t.Context()))
			locktest.WantVotes(t, how+", after an operator", command, 5)
			if !locktest.Status(t, command).Strict {
				t.Errorf("%s: it is not strict; want it as before, no matter who admits", how)
			}
		})
	}
}

// Where no record is left, and no client to claim the nodes, nothing says strict. Nor does a client
// with the option make a cluster strict: it locks in none that an operator has not made so.
func TestAStrictClientLocksInNoClusterThatIsNotStrict(t *testing.T) {
	testkit.Unraced(t)
	synctest.Test(t, func(t *testing.T) {
		gone, nodes := strictCluster(t, 3)
		testkit.Must(t, gone.Close())
		for _, n := range nodes.Nodes() {
			n.Restart()
		}
		lock := locktest.MustAcquire(t, locktest.LockerOver(t, nodes), "reports") // founds it anew
		app := locktest.LockerOver(t, nodes, redlock.WithStrictRecovery())
		lax := func() {
			t.Helper()
			for range 3 {
				_, err := app.TryAcquire(t.Context(), "orders/42")
				locktest.WantError(t, "TryAcquire", err, redlock.ErrMisconfigured)
				locktest.WantText(t, "TryAcquire", locktest.ErrorText(err), "has no strict recovery", "redlock nodes change --strict on")
				time.Sleep(redlock.DefaultMaxTTL)
			}
			locktest.WantError(t, "Join", app.Cluster().Join(t.Context()), redlock.ErrMisconfigured)
			locktest.WantError(t, "Admit", app.Cluster().Admit(t.Context()), redlock.ErrMisconfigured)
			if s := locktest.Status(t, app); s.Strict || s.Nodes[0].Cause == "" {
				t.Errorf("got %+v; want it not strict, and said", s)
			}
		}
		lax()
		makeStrict(t, nodes, true)
		time.Sleep(11 * time.Second) // such nodes are looked at every ten seconds
		locktest.WantVotes(t, "once it is strict", app, 3)
		locktest.MustRelease(t, locktest.MustAcquire(t, app, "orders/42"))
		makeStrict(t, nodes, false)
		lax()
		testkit.Must(t, lock.Err())
		locktest.MustRelease(t, lock)
	})
}

// A node that votes again has none of the locks that were taken meanwhile. Their
// holders put them there at once, not at the next renewal.

// givenWithin is how soon: a look of the reconcile loop, the spread, and a round trip.
const givenWithin = 1600 * time.Millisecond

// untilVotes blocks until a node votes again, by the word of an event.
func untilVotes(t *testing.T, told *locktest.Events, before int) {
	t.Helper()
	for range 60_000 {
		if len(told.Of(redlock.EventNodeVotes)) > before {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatal("a minute later no node votes again")
}

// absence makes node 0 of three restart, and returns when it has two seconds left to
// wait, and how many events there were of nodes that vote.
func absence(t *testing.T, nodes *redlocktest.Cluster, told *locktest.Events) (votes int) {
	t.Helper()
	votes = len(told.Of(redlock.EventNodeVotes))
	nodes.Node(0).Restart()
	time.Sleep(redlock.DefaultMaxTTL - 2*time.Second) // it is noticed by the next look, at once
	return votes
}

func TestANodeThatVotesAgainIsGivenTheHeldLocksAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := &locktest.Events{}
		l, nodes := locktest.NewLocker(t, 3, redlock.WithTTL(redlock.DefaultMaxTTL), told.Option())
		renewed := locktest.MustAcquire(t, l, "renewed")
		before := absence(t, nodes, told)
		fixed := locktest.MustAcquire(t, l, "fixed", redlock.WithFixedLease())
		synctest.Wait()
		if len(told.Of(redlock.EventNodeVotes)) > before {
			t.Fatal("the node votes already; the test wants it to abstain")
		}
		until := time.Now().Add(fixed.Remaining())
		untilVotes(t, told, before)
		time.Sleep(givenWithin)
		for _, lock := range []*redlock.Lock{renewed, fixed} {
			if !nodes.Node(0).Miniredis().Exists(lock.Resource()) {
				t.Errorf("%v after it votes the node lacks %q", givenWithin, lock.Resource())
			}
			testkit.Must(t, lock.Err())
		}
		if left, want := fixed.Remaining(), time.Until(until); (left - want).Abs() > time.Millisecond { // the clock of a suspend is real
			t.Errorf("the fixed lease has %v left; want %v, as if nothing had happened", left, want)
		}
		if ttl, most := nodes.Node(0).Miniredis().TTL("fixed"), time.Until(until)*102/100+time.Second; ttl > most {
			t.Errorf("the node keeps the fixed lease for %v; want at most %v", ttl, most)
		}
		for _, e := range told.Of(redlock.EventLockExtended) {
			if e.Resource == "fixed" {
				t.Errorf("an event says that the fixed lease was extended: %+v", e)
			}
		}
		nodes.Node(1).Stop() // now both rest on the node that was restarted
		testkit.Must(t, fixed.Extend(t.Context(), redlock.DefaultMaxTTL))
		testkit.Must(t, renewed.Extend(t.Context(), redlock.DefaultMaxTTL))
	})
}

// Locks that go from one goroutine to the next in that moment are not forgotten. They are
// confirmed at different times: some before they are handed on, and some not.
func TestALockThatIsHandedOnWhenANodeVotesAgainGetsThereToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const locks = 10
		told := &locktest.Events{}
		l, nodes := locktest.NewLocker(t, 3, redlock.WithTTL(redlock.DefaultMaxTTL), told.Option())
		var first [locks]*redlock.Lock
		var next [locks]chan *redlock.Lock
		for i := range first {
			first[i] = locktest.MustAcquire(t, l, fmt.Sprintf("orders/%d", i))
		}
		before := absence(t, nodes, told)
		for i := range next {
			next[i] = make(chan *redlock.Lock, 1)
			go func() {
				lock, err := l.Acquire(context.Background(), fmt.Sprintf("orders/%d", i), redlock.WithFixedLease())
				if err != nil {
					t.Error(err)
				}
				next[i] <- lock
			}()
		}
		synctest.Wait()
		untilVotes(t, told, before)
		for i := range first {
			locktest.MustRelease(t, first[i])
			first[i] = <-next[i]
		}
		time.Sleep(givenWithin)
		for _, lock := range first {
			if !nodes.Node(0).Miniredis().Exists(lock.Resource()) {
				t.Errorf("%v after it votes the node lacks %s, which was handed on", givenWithin, lock.Resource())
			}
			locktest.MustRelease(t, lock)
		}
	})
}

// A thousand locks go in batches, at several times.
func TestTheLocksThatANodeIsGivenGoInBatches(t *testing.T) {
	testkit.Unraced(t)
	synctest.Test(t, func(t *testing.T) {
		const locks = 1000
		told := &locktest.Events{}
		l, nodes := locktest.NewLocker(t, 3, redlock.WithTTL(redlock.DefaultMaxTTL), told.Option())
		for i := range locks {
			locktest.MustAcquire(t, l, fmt.Sprintf("orders/%d", i))
		}
		before := absence(t, nodes, told)
		untilVotes(t, told, before)
		calls := nodes.Node(1).Calls("EVALSHA")
		time.Sleep(givenWithin)
		calls = nodes.Node(1).Calls("EVALSHA") - calls
		if got := len(locktest.LocksOn(nodes.Node(0))); got != locks {
			t.Errorf("%v after it votes the node has %d locks of %d", givenWithin, got, locks)
		}
		if calls < 3 || calls > 20 {
			t.Errorf("%d locks took %d calls to another node; want several, in batches", locks, calls)
		}
	})
}

// Join waits for those who hold locks, where anybody can hold any.
func TestJoinGivesHoldersTheTimeToPutTheirLocksOnTheNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		holder, nodes := locktest.NewLocker(t, 3, redlock.WithTTL(redlock.DefaultMaxTTL))
		operator := locktest.LockerOver(t, nodes)
		lock := locktest.MustAcquire(t, holder, "orders/42")
		nodes.Node(0).Restart()
		time.Sleep(11 * time.Second) // the holder knows
		testkit.Must(t, operator.Cluster().Join(t.Context()))
		if !nodes.Node(0).Miniredis().Exists("orders/42") {
			t.Error("Join returned, and the node that votes again lacks the lock")
		}
		began := time.Now()
		testkit.Must(t, operator.Cluster().Join(t.Context()))
		if took := time.Since(began); took > 0 {
			t.Errorf("with nothing to wait for Join took %v; want it at once", took)
		}
		locktest.MustRelease(t, lock)
	})
	synctest.Test(t, func(t *testing.T) {
		nodes := redlocktest.Start(t, 3, redlocktest.WithoutFounding())
		l := locktest.LockerOver(t, nodes)
		began := time.Now()
		testkit.Must(t, l.Cluster().Join(t.Context()))
		if took := time.Since(began); took > redlock.DefaultMaxTTL+2*time.Second {
			t.Errorf("a new cluster, where nobody holds anything: Join took %v; want MaxTTL", took)
		}
	})
}

// A node that answers nobody for a while, soon after it votes again, misses what it was
// to be given just then: that is tried again, for fixed leases too.
func TestANodeThatStallsWhenItIsGivenTheHeldLocksIsGivenThemAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const locks = 100
		told := &locktest.Events{}
		l, nodes := locktest.NewLocker(t, 3, redlock.WithTTL(redlock.DefaultMaxTTL), told.Option())
		locktest.MustAcquire(t, l, "renewed")
		before := absence(t, nodes, told)
		for i := range locks - 1 {
			locktest.MustAcquire(t, l, fmt.Sprintf("orders/%d", i), redlock.WithFixedLease())
		}
		untilVotes(t, told, before)
		voted := time.Now()
		node := nodes.Node(0)
		for len(locktest.LocksOn(node)) == 0 {
			time.Sleep(time.Millisecond)
		}
		node.Hang()
		time.Sleep(350 * time.Millisecond)
		node.Resume()
		if n := len(locktest.LocksOn(node)); n > locks/2 {
			t.Fatalf("the node has %d locks of %d already; the test shows nothing", n, locks)
		}
		time.Sleep(time.Until(voted.Add(3 * time.Second))) // as Join does
		if n := len(locktest.LocksOn(node)); n != locks {
			t.Errorf("three seconds after it votes the node has %d locks of %d", n, locks)
		}
	})
}

// foreign writes the record of a cluster of these nodes.
func foreign(nodes *redlocktest.Cluster, i int, names string) {
	node := nodes.Node(i)
	node.Miniredis().HSet(lua.NodeKey, "format", "4", "epoch", "theirs", "cluster", "theirs",
		"names", names, "maxttl", "30000", "run", locktest.Identity(node), "base", "7")
}

// What only an operator can mend is told apart from what a wait mends.
func TestJoinAndAdmitTellAConfigurationFromAWait(t *testing.T) {
	for _, tt := range []struct {
		name          string
		misconfigured bool
		client        func(t *testing.T) *redlock.Locker
	}{
		{"a node of another cluster", true, func(t *testing.T) *redlock.Locker {
			t.Helper()
			nodes := redlocktest.Start(t, 3)
			foreign(nodes, 2, "x\ny\nz")
			return locktest.LockerOver(t, nodes)
		}},
		{"a record of another N", true, func(t *testing.T) *redlock.Locker {
			t.Helper()
			nodes := redlocktest.Start(t, 5)
			foreign(nodes, 2, "x\ny\nz")
			return locktest.LockerOver(t, nodes)
		}},
		{"a name that the list does not have", true, func(t *testing.T) *redlock.Locker {
			t.Helper()
			nodes, spare := redlocktest.Start(t, 3), redlocktest.Start(t, 1, redlocktest.WithoutFounding())
			clients := []redis.UniversalClient{nodes.Clients()[0], nodes.Clients()[1], spare.Clients()[0]}
			return locktest.LockerWith(t, clients, redlock.WithNodeNames("node-0", "node-1", "node-3"))
		}},
		{"a foreign node where every node must have its say", true, func(t *testing.T) *redlock.Locker {
			t.Helper()
			nodes := redlocktest.Start(t, 3)
			foreign(nodes, 2, "x\ny")
			nodes.Node(0).Restart()
			return locktest.LockerOver(t, nodes)
		}},
		{"a node missing from a new cluster", false, func(t *testing.T) *redlock.Locker {
			t.Helper()
			nodes := redlocktest.Start(t, 3, redlocktest.WithoutFounding())
			nodes.Node(2).Stop()
			return locktest.LockerOver(t, nodes)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := tt.client(t)
				for what, call := range map[string]func(context.Context) error{"Admit": l.Cluster().Admit, "Join": l.Cluster().Join} {
					ctx, cancel := context.WithTimeout(t.Context(), 2*redlock.DefaultMaxTTL)
					defer cancel()
					err := call(ctx)
					if err == nil || errors.Is(err, redlock.ErrMisconfigured) != tt.misconfigured {
						t.Errorf("%s: got %v; want an error, ErrMisconfigured: %v", what, err, tt.misconfigured)
					}
				}
			})
		})
	}
}

// A node that is not to be taken in is looked at now and then: somebody may have
// put it right.
func TestANodeThatWasPutRightIsTakenIn(t *testing.T) {
	for name, spoil := range map[string]func(*redlocktest.Cluster){
		"foreign": func(nodes *redlocktest.Cluster) { foreign(nodes, 2, "x\ny\nz") },
		"damaged": func(nodes *redlocktest.Cluster) { nodes.Node(2).Miniredis().HSet(lua.NodeKey, "gen", "three") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				nodes := redlocktest.Start(t, 3)
				spoil(nodes)
				l := locktest.LockerOver(t, nodes)
				locktest.Warm(t, l)
				time.Sleep(time.Minute)
				if got := len(nodes.Node(2).Keys()); got != 1 {
					t.Fatalf("got %d keys on the node; want what was there", got)
				}
				nodes.Node(2).FlushAll()
				time.Sleep(redlock.DefaultMaxTTL + 15*time.Second) // nobody asks for anything meanwhile
				if got := nodes.Node(2).Miniredis().HGet(lua.NodeKey, "epoch"); got == "" {
					t.Error("a quarter of a minute after its wait the node that was emptied has no record")
				}
				locktest.WantVotes(t, "after it was emptied", l, 3)
			})
		})
	}
}

// Records count MaxTTL in whole milliseconds.
func TestAMaxTTLMayHaveAFractionOfAMillisecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const maxTTL = 2*time.Second + 300*time.Microsecond
		nodes := redlocktest.Start(t, 3, redlocktest.WithoutFounding())
		l := locktest.LockerOver(t, nodes, redlock.WithTTL(maxTTL), redlock.WithMaxTTL(maxTTL))
		testkit.Must(t, l.Cluster().Admit(t.Context()))
		locktest.WantVotes(t, "founded with it", l, 3)
		lock, err := l.TryAcquire(t.Context(), "orders/42")
		testkit.Must(t, err)
		locktest.MustRelease(t, lock)
		if got := locktest.Status(t, l).Nodes[0].MaxTTL; got < maxTTL {
			t.Errorf("the record says %v; want no less than %v, which somebody may take", got, maxTTL)
		}
	})
}

// When nobody is left who remembers, numbers come from a clock, and the clock may
// be behind. By itself that happens only without WithStrictRecovery.
func TestTokensGoBackByThemselvesOnlyWithoutStrictRecovery(t *testing.T) {
	testkit.Unraced(t)
	for _, strict := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			var seen locktest.Events
			found := locktest.NewLocker
			if strict {
				found = strictCluster
			}
			l, nodes := found(t, 5, seen.Option())
			synctest.Wait()
			seen.Forget() // of the operator's founding

			ahead := fmt.Sprint(time.Now().Add(24 * time.Hour).UnixMicro()) // as a clock that was a day ahead gave
			for _, n := range nodes.Nodes() {
				n.Miniredis().HSet(lua.NodeKey, fmt.Sprint(lua.StripeOf("orders/42")), ahead)
			}
			first := locktest.MustAcquire(t, l, "orders/42")
			locktest.MustRelease(t, first)
			for _, n := range nodes.Nodes() {
				n.Restart()
			}
			ctx, cancel := context.WithTimeout(t.Context(), 5*redlock.DefaultMaxTTL)
			defer cancel()
			second, err := l.Acquire(ctx, "orders/42")
			switch {
			case strict && !errors.Is(err, redlock.ErrNoQuorum):
				t.Errorf("strict: got %v; want ErrNoQuorum until an operator decides", err)
			case !strict && (err != nil || second.Token() >= first.Token()):
				t.Errorf("not strict: got %v; want a lock whose token went back, or this test shows nothing", err)
			}
			synctest.Wait() // it is told by a goroutine of its own
			if told := len(seen.Of(redlock.EventClusterFounded)) > 0; told == strict {
				t.Errorf("strict %v: got EventClusterFounded told: %v; want it where tokens lean on a clock", strict, told)
			}
		})
	}
}
