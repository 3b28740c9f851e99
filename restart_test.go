package redlock_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/redlocktest"
)

// A node that votes again has none of the locks that were taken meanwhile. Their
// holders put them there at once, not at the next renewal.

// givenWithin is how soon: a look of the reconcile loop, the spread, and a round trip.
const givenWithin = 1600 * time.Millisecond

// untilVotes blocks until a node votes again, by the word of an event.
func untilVotes(t *testing.T, told *events, before int) {
	t.Helper()
	for range 60_000 {
		if len(told.of(redlock.NodeVotes)) > before {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatal("a minute later no node votes again")
}

// absence makes node 0 of three restart, and returns when it has two seconds left to
// wait, and how many events there were of nodes that vote.
func absence(t *testing.T, nodes *redlocktest.Cluster, told *events) (votes int) {
	t.Helper()
	votes = len(told.of(redlock.NodeVotes))
	nodes.Node(0).Restart()
	time.Sleep(redlock.DefaultMaxTTL - 2*time.Second) // it is noticed by the next look, at once
	return votes
}

func TestANodeThatVotesAgainIsGivenTheHeldLocksAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := &events{}
		l, nodes := newLocker(t, 3, redlock.WithTTL(redlock.DefaultMaxTTL), told.option())
		renewed := mustAcquire(t, l, "renewed")
		before := absence(t, nodes, told)
		fixed := mustAcquire(t, l, "fixed", redlock.WithFixedLease())
		synctest.Wait()
		if len(told.of(redlock.NodeVotes)) > before {
			t.Fatal("the node votes already; the test wants it to abstain")
		}
		until := time.Now().Add(fixed.Remaining())
		untilVotes(t, told, before)
		time.Sleep(givenWithin)
		for _, lock := range []*redlock.Lock{renewed, fixed} {
			if !nodes.Node(0).Miniredis().Exists(lock.Resource()) {
				t.Errorf("%v after it votes the node lacks %q", givenWithin, lock.Resource())
			}
			must(t, lock.Err())
		}
		if left, want := fixed.Remaining(), time.Until(until); (left - want).Abs() > time.Millisecond { // the clock of a suspend is real
			t.Errorf("the fixed lease has %v left; want %v, as if nothing had happened", left, want)
		}
		if ttl, most := nodes.Node(0).Miniredis().TTL("fixed"), time.Until(until)*102/100+time.Second; ttl > most {
			t.Errorf("the node keeps the fixed lease for %v; want at most %v", ttl, most)
		}
		for _, e := range told.of(redlock.LockExtended) {
			if e.Resource == "fixed" {
				t.Errorf("an event says that the fixed lease was extended: %+v", e)
			}
		}
		nodes.Node(1).Stop() // now both rest on the node that was restarted
		must(t, fixed.Extend(t.Context(), redlock.DefaultMaxTTL))
		must(t, renewed.Extend(t.Context(), redlock.DefaultMaxTTL))
	})
}

// Locks that go from one goroutine to the next in that moment are not forgotten. They are
// confirmed at different times: some before they are handed on, and some not.
func TestALockThatIsHandedOnWhenANodeVotesAgainGetsThereToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const locks = 10
		told := &events{}
		l, nodes := newLocker(t, 3, redlock.WithTTL(redlock.DefaultMaxTTL), told.option())
		var first [locks]*redlock.Lock
		var next [locks]chan *redlock.Lock
		for i := range first {
			first[i] = mustAcquire(t, l, fmt.Sprintf("orders/%d", i))
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
			mustRelease(t, first[i])
			first[i] = <-next[i]
		}
		time.Sleep(givenWithin)
		for _, lock := range first {
			if !nodes.Node(0).Miniredis().Exists(lock.Resource()) {
				t.Errorf("%v after it votes the node lacks %s, which was handed on", givenWithin, lock.Resource())
			}
			mustRelease(t, lock)
		}
	})
}

// A thousand locks go in batches, at several times.
func TestTheLocksThatANodeIsGivenGoInBatches(t *testing.T) {
	testkit.Unraced(t)
	synctest.Test(t, func(t *testing.T) {
		const locks = 1000
		told := &events{}
		l, nodes := newLocker(t, 3, redlock.WithTTL(redlock.DefaultMaxTTL), told.option())
		for i := range locks {
			mustAcquire(t, l, fmt.Sprintf("orders/%d", i))
		}
		before := absence(t, nodes, told)
		untilVotes(t, told, before)
		calls := nodes.Node(1).Calls("EVALSHA")
		time.Sleep(givenWithin)
		calls = nodes.Node(1).Calls("EVALSHA") - calls
		if got := len(locksOn(nodes.Node(0))); got != locks {
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
		holder, nodes := newLocker(t, 3, redlock.WithTTL(redlock.DefaultMaxTTL))
		operator := lockerOver(t, nodes)
		lock := mustAcquire(t, holder, "orders/42")
		nodes.Node(0).Restart()
		time.Sleep(11 * time.Second) // the holder knows
		must(t, operator.Cluster().Join(t.Context()))
		if !nodes.Node(0).Miniredis().Exists("orders/42") {
			t.Error("Join returned, and the node that votes again lacks the lock")
		}
		began := time.Now()
		must(t, operator.Cluster().Join(t.Context()))
		if took := time.Since(began); took > 0 {
			t.Errorf("with nothing to wait for Join took %v; want it at once", took)
		}
		mustRelease(t, lock)
	})
	synctest.Test(t, func(t *testing.T) {
		nodes := redlocktest.Start(t, 3, redlocktest.WithoutFounding())
		l := lockerOver(t, nodes)
		began := time.Now()
		must(t, l.Cluster().Join(t.Context()))
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
		told := &events{}
		l, nodes := newLocker(t, 3, redlock.WithTTL(redlock.DefaultMaxTTL), told.option())
		mustAcquire(t, l, "renewed")
		before := absence(t, nodes, told)
		for i := range locks - 1 {
			mustAcquire(t, l, fmt.Sprintf("orders/%d", i), redlock.WithFixedLease())
		}
		untilVotes(t, told, before)
		voted := time.Now()
		node := nodes.Node(0)
		for len(locksOn(node)) == 0 {
			time.Sleep(time.Millisecond)
		}
		node.Hang()
		time.Sleep(350 * time.Millisecond)
		node.Resume()
		if n := len(locksOn(node)); n > locks/2 {
			t.Fatalf("the node has %d locks of %d already; the test shows nothing", n, locks)
		}
		time.Sleep(time.Until(voted.Add(3 * time.Second))) // as Join does
		if n := len(locksOn(node)); n != locks {
			t.Errorf("three seconds after it votes the node has %d locks of %d", n, locks)
		}
	})
}
