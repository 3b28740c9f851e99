package redlock_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/redlocktest"
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

// What is asked of a claim travels behind the hand-over that brings it, also where
// both have waited for the node.
func TestAnExtensionFollowsTheHandOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 5)
		lock := handOnPastSlowNodes(t, l, nodes)
		must(t, lock.Extend(t.Context(), 20*time.Second))
		time.Sleep(time.Second)
		for i, n := range nodes.Nodes() {
			if left := n.Miniredis().TTL("orders/42"); left < 15*time.Second {
				t.Errorf("node %d keeps it for %v; want some 20 s", i, left)
			}
		}
		mustRelease(t, lock)
	})
}

// A node confirms a release when it has nothing of the lock any more: where the
// hand-over has not come yet, what it was to be handed over from has to go first.
func TestAReleaseIsNotConfirmedByWhatAHandOverHasYetToTake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 5)
		lock := handOnPastSlowNodes(t, l, nodes)
		for _, i := range []int{1, 2} {
			nodes.Node(i).Intercept(slowly("release", 100*time.Millisecond))
		}
		mustRelease(t, lock)
		held := 0
		for _, n := range nodes.Nodes() {
			if n.Miniredis().Exists("orders/42") {
				held++
			}
		}
		if held > 2 {
			t.Errorf("the release is confirmed, and %d of 5 nodes have the key; want a quorum without", held)
		}
		time.Sleep(time.Second)
		wantNoLocks(t, nodes, "in the end")
	})
}

// handOnPastSlowNodes hands a lock on twice while the first hand-over is still
// on its way to nodes 3 and 4: the second waits there.
func handOnPastSlowNodes(t *testing.T, l *redlock.Locker, nodes *redlocktest.Cluster) *redlock.Lock {
	t.Helper()
	warm(t, l)
	lock := mustAcquire(t, l, "orders/42", redlock.WithFixedLease())
	first, second := wants(t, l, redlock.WithFixedLease()), wants(t, l, redlock.WithFixedLease())
	for _, i := range []int{3, 4} {
		nodes.Node(i).Intercept(slowly("pass", 20*time.Millisecond))
	}
	for _, next := range []<-chan gained{first, second} {
		must(t, lock.Release(t.Context()))
		lock = got(t, next).lock
	}
	return lock
}

// A node that refused the hand-over has the key that it was to be handed over from,
// until that one's release was answered: the new lock is not gone from it before.
func TestAReleaseIsNotConfirmedByANodeThatRefusedTheHandOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 5)
		warm(t, l)
		lock := mustAcquire(t, l, "orders/42", redlock.WithFixedLease())
		next := wants(t, l, redlock.WithFixedLease())
		for i, n := range nodes.Nodes() {
			n.Intercept(func(args []string) redlocktest.Verdict {
				switch name := scriptOf(args); {
				case i >= 3 && name == "pass":
					return redlocktest.ReplyError("OOM command not allowed when used memory > 'maxmemory'.")
				case i >= 1 && strings.HasPrefix(name, "release"):
					time.Sleep(100 * time.Millisecond)
				}
				return redlocktest.Pass()
			})
		}
		go func() { _ = lock.Release(t.Context()) }()
		mustRelease(t, got(t, next).lock)
		held := 0
		for _, n := range nodes.Nodes() {
			if n.Miniredis().Exists("orders/42") {
				held++
			}
		}
		if held > 2 {
			t.Errorf("the release is confirmed, and %d of 5 nodes have the key; want a quorum without", held)
		}
		time.Sleep(time.Second)
		wantNoLocks(t, nodes, "in the end")
	})
}
