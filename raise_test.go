package redlock_test

import (
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/redlocktest"
)

// A node that refuses to raise its counter, because it has moved meanwhile, says what it
// is now: the next attempt begins above that, and needs no raise.
func TestAnAttemptAfterARefusedRaiseBeginsAboveTheCounters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 2)
		warm(t, l)
		synctest.Wait()
		stripe := strconv.FormatInt(lua.StripeOf("orders/42"), 10)
		counts := func(n *redlocktest.Node, to int) { n.Miniredis().HSet(lua.NodeKey, stripe, strconv.Itoa(2e15+to)) }
		var raises atomic.Int32
		for i, n := range nodes.Nodes() {
			counts(n, 1000*i)
			n.Intercept(func(args []string) redlocktest.Verdict {
				if scriptOf(args) == "raise" {
					raises.Add(1)
					counts(n, 10_000) // another name of the stripe
				}
				return redlocktest.Pass()
			})
		}
		lock := mustAcquire(t, l, "orders/42")
		if got, want := int64(lock.Token()), int64(2e15+10_001); got != want {
			t.Errorf("got the token %d; want %d, the first above the counter", got, want)
		}
		if n := raises.Load(); n != 1 {
			t.Errorf("%d raises; want that of the first attempt", n)
		}
		mustRelease(t, lock)
	})
}
