package redlock_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/redlocktest"
)

// sent counts what each node is sent from now on, by script or by command.
func sent(nodes *redlocktest.Cluster) func(node int, what string) int {
	var mu sync.Mutex
	counts := map[string]int{}
	for i, n := range nodes.Nodes() {
		n.Intercept(func(args []string) redlocktest.Verdict {
			what := scriptOf(args)
			if what == "" {
				what = strings.ToLower(args[0])
			}
			mu.Lock()
			counts[fmt.Sprint(i, what)]++
			mu.Unlock()
			return redlocktest.Pass()
		})
	}
	return func(node int, what string) int {
		mu.Lock()
		defer mu.Unlock()
		return counts[fmt.Sprint(node, what)]
	}
}

// A process has one connection for calls to each node, no matter the number of
// names that its goroutines wait for.
func TestOneSubscriptionANodeWhateverTheNumberOfNames(t *testing.T) {
	testkit.Unraced(t)
	synctest.Test(t, func(t *testing.T) {
		const names = 40
		l, nodes := newLocker(t, 3)
		other := separateLocker(t, nodes)
		warm(t, other)
		count := sent(nodes)
		var locks []*redlock.Lock
		var waiting sync.WaitGroup
		for i := range names {
			name := fmt.Sprint("orders/", i)
			locks = append(locks, mustAcquire(t, l, name))
			waiting.Go(func() {
				lock, err := other.Acquire(t.Context(), name)
				if err != nil {
					t.Error(err)
					return
				}
				_ = lock.Release(t.Context()) // unconfirmed: not what is tested
			})
		}
		time.Sleep(time.Second)
		for i := range nodes.Nodes() {
			if n := count(i, "subscribe"); n != 1 {
				t.Errorf("node %d: %d subscriptions for %d names; want one", i, n, names)
			}
		}
		for _, lock := range locks {
			mustRelease(t, lock)
		}
		waiting.Wait()
	})
}

// TryAcquire has its answer in one round trip, also where the name is held: one
// command to each node, and nothing of it is left to give back.
func TestTryAcquireOfAHeldNameIsOneCommandToEachNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 5)
		other := separateLocker(t, nodes)
		warm(t, other)
		lock := mustAcquire(t, l, "orders/42", redlock.WithFixedLease())
		synctest.Wait() // it is on all nodes
		count := sent(nodes)
		_, err := other.TryAcquire(t.Context(), "orders/42")
		wantError(t, "TryAcquire", err, redlock.ErrNotAcquired)
		synctest.Wait()
		for i := range nodes.Nodes() {
			if asked, gave := count(i, "acquire"), count(i, "release")+count(i, "release_batch"); asked > 1 || gave > 0 {
				t.Errorf("node %d: %d acquires, %d releases; want one, and nothing to give back", i, asked, gave)
			}
		}
		mustRelease(t, lock)
	})
}

// Ten processes that want a name at one moment split its votes. Each has had it
// soon: no lease has to end for that, and nobody has to come back by chance.
func TestASplitVoteOfTenResolvesQuickly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const contenders = 10
		_, nodes := newLocker(t, 5)
		var lockers []*redlock.Locker
		for range contenders {
			lockers = append(lockers, separateLocker(t, nodes))
			warm(t, lockers[len(lockers)-1])
		}
		time.Sleep(time.Second)
		began := time.Now()
		var all sync.WaitGroup
		for _, l := range lockers {
			all.Go(func() {
				lock, err := l.Acquire(t.Context(), "orders/42")
				if err != nil {
					t.Error(err)
					return
				}
				_ = lock.Release(t.Context()) // unconfirmed: not what is tested
			})
		}
		all.Wait()
		if took := time.Since(began); took > redlock.DefaultTTL/4 {
			t.Errorf("ten contenders took %v to have it once each; want a fraction of a lease", took)
		}
		time.Sleep(time.Second)
		if keys := queueKeys(nodes); keys != nil {
			t.Errorf("all have had it, and there are %v", keys)
		}
	})
}

// A call that comes twice, or many times, brings about questions, and one lock.
func TestACallThatIsDoubledBringsOneLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 5)
		warm(t, l)
		stranger(t, nodes)
		next := wants(t, l)
		freed(nodes, 0, 1, 2, 3, 4)
		count := sent(nodes)
		for range 5 {
			calls(t, nodes, 0, 1, 2, 3, 4)
		}
		lock := got(t, next).lock
		time.Sleep(time.Second)
		if on := holders(nodes); len(on) != 1 {
			t.Errorf("five calls of each node brought the locks %v; want one", on)
		}
		for i := range nodes.Nodes() {
			if n := count(i, "ask"); n > 1 {
				t.Errorf("node %d: %d asks for five calls; want one: it granted", i, n)
			}
		}
		mustRelease(t, lock)
		synctest.Wait()
		wantNoLocks(t, nodes, "in the end")
	})
}
