package node_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock/internal/testkit/locktest"
)

// A Locker that was silent for a second asks for a reply before it sends a command: one more
// command for each acquire of a program that locks each three seconds. One that locks twice a
// second is spared it.
func TestOnlyASilenceCostsALook(t *testing.T) {
	for _, c := range []struct {
		pause time.Duration
		times int // TIME, of each acquire
	}{{500 * time.Millisecond, 1}, {3 * time.Second, 2}} {
		synctest.Test(t, func(t *testing.T) {
			const pairs = 10
			l, nodes := locktest.NewLocker(t, 3)
			locktest.Warm(t, l)
			count := locktest.CountSent(nodes)
			for range pairs {
				time.Sleep(c.pause)
				locktest.MustRelease(t, locktest.MustAcquire(t, l, "orders/42"))
			}
			synctest.Wait()
			if got, want := count(0, "time"), c.times*pairs; got < want-2 || got > want+2 { // the pause behind the warming, and the clock watch, differ
				t.Errorf("a lock each %v: got %d TIMEs for %d pairs; want %d for each", c.pause, got, pairs, c.times)
			}
		})
	}
}
