package redlock_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/redlocktest"
)

// Two nodes of three grant by a release, each since the sign of life that it had, and the
// third does not answer. One of the two shows behind its push, and before any look at it,
// that it was a replica: its vote is void, whichever of the two signs is older.
func TestAPushIsVoidWhoseNodeForgotRightBehindIt(t *testing.T) {
	for forgets := range 2 {
		t.Run(fmt.Sprintf("node %d", forgets), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				holder, nodes := newLocker(t, 3)
				l := separateLocker(t, nodes)
				warm(t, l)
				lock := mustAcquire(t, holder, "orders/42")
				synctest.Wait()
				next := standing(t, nodes, l)
				nodes.Node(2).Hang()
				mustRelease(t, lock)
				granted := got(t, next).lock
				nodes.Node(forgets).Intercept(onScripts("extend", redlocktest.ReplyError("READONLY You can't write against a read only replica.")))
				time.Sleep(30 * time.Millisecond)
				wantError(t, "once it said so", granted.Err(), redlock.ErrLost)
			})
		})
	}
}

// An attempt that has waited for long is granted at last to its question. Where the node
// forgot right behind that, what a look had proven while the attempt waited stands.
func TestAGrantAfterALongWaitVoidsNothingThatWasProvenMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		holder, nodes := newLocker(t, 3)
		l := separateLocker(t, nodes)
		warm(t, l)
		mustAcquire(t, holder, "orders/42", redlock.WithTTL(20*time.Second), redlock.WithFixedLease())
		synctest.Wait()
		next := standing(t, nodes, l)
		nodes.Node(2).Hang()
		proven := mustAcquire(t, l, "proven")
		time.Sleep(time.Second)
		mustRelease(t, mustAcquire(t, l, "looked")) // with a look, so that the next batch has none
		freed(nodes, 0, 1)
		calls(t, nodes, 0, 1)
		waited := got(t, next).lock
		nodes.Node(0).Intercept(onScripts("acquire", redlocktest.ReplyError("READONLY You can't write against a read only replica.")))
		if _, err := l.TryAcquire(t.Context(), "orders/1"); err == nil {
			t.Fatal("a node said that it is a replica, and one does not answer: want no lock")
		}
		synctest.Wait()
		must(t, proven.Err())
		wantError(t, "what was granted since the last look", waited.Err(), redlock.ErrLost)
		nodes.Node(2).Resume()
	})
}
