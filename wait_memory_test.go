package redlock_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/redlocktest"
)

// A node that forgot is told again who waits, long before it votes: else somebody
// who comes later may get its vote first.
func TestANodeThatForgotSoonKnowsWhoWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 5)
		other := separateLocker(t, nodes)
		lock := mustAcquire(t, l, "orders/42")
		next := wants(t, other)
		time.Sleep(time.Second) // a sign of life on every node
		for _, i := range []int{1, 4} {
			m := nodes.Node(i).Miniredis()
			m.FlushAll()
			time.Sleep(1100 * time.Millisecond) // one more
			if !m.Exists("redlock:queue:orders/42") {
				t.Errorf("node %d was flushed, and a sign of life later it does not know who waits", i)
			}
		}
		mustRelease(t, lock)
		mustRelease(t, got(t, next).lock)
	})
}

// Nor does it record who comes while it abstains, by his ask.
func TestANodeThatAbstainsKnowsWhoCameMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		other := separateLocker(t, nodes)
		warm(t, other)
		lock, another := mustAcquire(t, l, "orders/42"), mustAcquire(t, l, "orders/43")
		synctest.Wait() // the third node's grant too: a lock on two of three ends with the first of them that forgets
		nodes.Node(0).Restart()
		ctx := t.Context()
		go func() { _, _ = other.Acquire(ctx, "orders/43", redlock.WithWait(10*time.Second)) }()
		time.Sleep(2 * time.Second) // the node knows that it lives, and nothing of what comes now
		var asks atomic.Int64
		for _, n := range nodes.Nodes() {
			n.Intercept(func(args []string) redlocktest.Verdict {
				if scriptOf(args) == "ask" {
					asks.Add(1)
				}
				return redlocktest.Pass()
			})
		}
		next := wants(t, other)
		time.Sleep(100 * time.Millisecond) // no matter what the others said, and when: before its first look
		if !nodes.Node(0).Miniredis().Exists("redlock:queue:orders/42") {
			t.Error("a node that abstains was not told who came to wait")
		}
		time.Sleep(time.Second)
		if n := asks.Load(); n > 6 {
			t.Errorf("%d asks in a second; want a place's, and no more: that the name is free on a node that abstains is no news", n)
		}
		mustRelease(t, lock)
		mustRelease(t, got(t, next).lock)
		mustRelease(t, another)
	})
}
