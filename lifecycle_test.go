package redlock_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/redlocktest"
)

// A node whose writer was busy when the lock was won gets the key all the same:
// a lock on a bare quorum would be lost with the first node of it that fails.
func TestALockDoesNotRestOnTheQuorumThatAnsweredFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 5)
		warm(t, l)
		synctest.Wait()
		for _, i := range []int{3, 4} { // busy with another name for a moment
			nodes.Node(i).Intercept(func(args []string) redlocktest.Verdict {
				if scriptOf(args) == "acquire" {
					time.Sleep(20 * time.Millisecond)
				}
				return redlocktest.Pass()
			})
		}
		busy := mustAcquire(t, l, "orders/41")
		time.Sleep(time.Millisecond)
		lock := mustAcquire(t, l, "orders/42")
		time.Sleep(100 * time.Millisecond)
		if got := len(owners(nodes, "orders/42")); got != 5 {
			t.Errorf("%d of 5 nodes have the key; want all", got)
		}
		nodes.Node(0).Stop()
		nodes.Node(1).Stop()
		time.Sleep(3 * redlock.DefaultTTL)
		for _, held := range []*redlock.Lock{lock, busy} {
			if err := held.Err(); err != nil {
				t.Errorf("%s, with two of five nodes dead: %v; want it held", held.Resource(), err)
			}
			mustRelease(t, held)
		}
	})
}
