package redlock_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock"
)

// A node that is slower than the goroutines hand the lock on must not lose it on
// the way: after a turn the lock would rest on a bare quorum.
func TestALockThatIsHandedOnStaysOnASlowNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 5)
		warm(t, l)
		lock := mustAcquire(t, l, "orders/42", redlock.WithFixedLease()) // nothing is put back by a renewal
		var line []<-chan gained
		for range 4 {
			line = append(line, wants(t, l, redlock.WithFixedLease()))
		}
		nodes.Node(4).Intercept(slowly("pass", 50*time.Millisecond))
		for _, next := range line {
			must(t, lock.Release(t.Context()))
			lock = got(t, next).lock
		}
		time.Sleep(time.Second)
		want, err := nodes.Node(0).Miniredis().Get("orders/42")
		must(t, err)
		for i, n := range nodes.Nodes() {
			if got, _ := n.Miniredis().Get("orders/42"); got != want {
				t.Errorf("node %d: got %q; want the last holder's value %q", i, got, want)
			}
		}
		must(t, lock.Release(t.Context()))
		time.Sleep(time.Second)
		for i, n := range nodes.Nodes() {
			if n.Miniredis().Exists("orders/42") {
				t.Errorf("node %d still has the key after the release", i)
			}
		}
	})
}
