package redlock_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/redlocktest"
)

// A Locker that was idle for ten minutes: its own samples allow for six seconds.
func TestAStepWhileTheLockerWasIdleIsSeenByTheWordOfOneNodeThatDidNot(t *testing.T) {
	for _, stepped := range []int{1, 3, 4, 5} {
		synctest.Test(t, func(t *testing.T) {
			nodes := redlocktest.Start(t, 5)
			var log eventLog
			l := lockerOver(t, nodes, redlock.WithObserver(log.observe))
			sampled(t, l)
			time.Sleep(10 * time.Minute)
			var want []int
			for i := range nodes.Nodes()[:stepped] {
				if stepped < 5 {
					want = append(want, i)
				}
			}
			defer ahead(3*time.Second, nodes.Nodes()[:stepped]...)()
			lock, err := l.TryAcquire(t.Context(), "orders/42")
			synctest.Wait()
			for range 5 { // one that was not sent that, since it was decided, says its time to the next
				if slices.Equal(log.nodes(redlock.NodeClockStepped), want) {
					break
				}
				time.Sleep(200 * time.Millisecond)
				_, _ = l.TryAcquire(t.Context(), "orders/43")
				synctest.Wait()
			}
			got := log.nodes(redlock.NodeClockStepped)
			if stepped == 4 && len(got) == 3 { // once three abstain, nobody needs to ask the fourth
				want = want[:3]
			}
			if !slices.Equal(got, want) {
				t.Errorf("%d of 5 stepped: got %v reported; want %v", stepped, got, want)
			}
			held := err == nil && lock.Err() == nil
			if quorum := stepped == 3 || stepped == 4; quorum && held || stepped == 5 && !held {
				t.Errorf("%d of 5 stepped: got held %v (%v); want it only where nobody can tell", stepped, held, err)
			}
		})
	}
}

// The control of the test before: without the watch nobody is asked, and a quorum
// that stepped grants.
func TestAStepWhileTheLockerWasIdleIsNotSeenWithoutTheWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := redlocktest.Start(t, 5)
		var log eventLog
		l := lockerOver(t, nodes, redlock.WithoutClockWatch(), redlock.WithObserver(log.observe))
		sampled(t, l)
		time.Sleep(10 * time.Minute)
		for _, n := range nodes.Nodes()[:3] {
			n.Miniredis().SetTime(time.Now().Add(3 * time.Second))
		}
		lock := mustAcquire(t, l, "orders/42") // of any three nodes that grant, one has stepped
		synctest.Wait()
		if got := log.nodes(redlock.NodeClockStepped); len(got) > 0 || lock.Err() != nil {
			t.Errorf("got %v reported, and %v; want nothing reported and the lock held", got, lock.Err())
		}
	})
}
