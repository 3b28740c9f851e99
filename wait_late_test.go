package redlock_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/redlocktest"
)

// Two nodes of five are so slow that each round has ended before its ask has left for
// them. They are told of who waits all the same: else the line stands on a bare quorum
// until the next looks, which are up to 8 s apart and go to one node each.
func TestASlowNodeIsToldWhoWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 5)
		first, second := separateLocker(t, nodes), separateLocker(t, nodes)
		warm(t, l)
		warm(t, first)
		warm(t, second)
		wants := func(l *redlock.Locker, slow []*redlocktest.Node) <-chan gained {
			for _, n := range slow {
				n.Intercept(slowly("ask", 50*time.Millisecond))
			}
			next := wants(t, l)
			time.Sleep(300 * time.Millisecond)
			for _, n := range slow {
				n.Intercept(nil)
			}
			return next
		}
		lock := mustAcquire(t, l, "orders/42")
		synctest.Wait() // it is on all nodes
		a, b := wants(first, nodes.Nodes()[3:]), wants(second, nodes.Nodes()[:2])
		for i, n := range nodes.Nodes() {
			if there, _ := n.Miniredis().ZMembers("redlock:queue:orders/42"); len(processes(there)) != 2 {
				t.Errorf("node %d knows of %d who wait; want both", i, len(there))
			}
		}
		mustRelease(t, lock)
		mustRelease(t, got(t, a).lock)
		mustRelease(t, got(t, b).lock)
		time.Sleep(time.Second) // an ask that a slow node took may still be there
		if keys := queueKeys(nodes); keys != nil {
			t.Errorf("left behind: %v", keys)
		}
	})
}
