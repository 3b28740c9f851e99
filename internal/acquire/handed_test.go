package acquire_test

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/internal/testkit/locktest"
	"github.com/quorumkit/redlock/redlocktest"
)

// Who was put in line by a release, and was granted the lock by too few nodes, gives it
// back, and looks again after a pause: not at once, and not only when it would look anyway.
func TestASplitGrantOfAnAttemptThatWasPutInLineIsFollowedByAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := locktest.NewLocker(t, 5, redlock.WithTurns(1))
		other := locktest.SeparateLocker(t, nodes, redlock.WithTurns(1))
		locktest.Warm(t, l)
		locktest.Warm(t, other)
		lock := locktest.MustAcquire(t, other, "orders/42")
		synctest.Wait()
		first, second := locktest.Wants(t, l), locktest.Wants(t, l)
		time.Sleep(500 * time.Millisecond)
		locktest.MustRelease(t, lock)
		lock = locktest.Got(t, first).Lock
		between := locktest.Wants(t, other)
		time.Sleep(500 * time.Millisecond)
		for _, i := range []int{0, 1} { // these two do not know of the other process, and grant to the first's next goroutine
			nodes.Node(i).Miniredis().Del("redlock:queue:orders/42")
		}
		var mu sync.Mutex
		var back, again time.Time
		for _, n := range nodes.Nodes() {
			n.Intercept(func(args []string) redlocktest.Verdict {
				mu.Lock()
				defer mu.Unlock()
				switch name := locktest.ScriptOf(args); {
				case name == "release_batch" && back.IsZero():
					back = time.Now()
				case strings.HasPrefix(name, "ask") && !back.IsZero() && again.IsZero():
					again = time.Now()
				}
				return redlocktest.Pass()
			})
		}
		locktest.MustRelease(t, lock)
		lock = locktest.Got(t, between).Lock
		time.Sleep(100 * time.Millisecond)
		mu.Lock()
		if d := again.Sub(back); back.IsZero() || d < 5*time.Millisecond || d > 25*time.Millisecond {
			t.Errorf("it gave back at %v, and asked again %v later; want it between 5 and 25 ms", back, d)
		}
		mu.Unlock()
		locktest.MustRelease(t, lock)
		locktest.MustRelease(t, locktest.Got(t, second).Lock)
		synctest.Wait()
		locktest.WantNoLocks(t, nodes, "in the end")
	})
}

// Who is put in line by a release, and is granted the lock at once, holds it without asking
// anybody. Where the nodes granted different numbers it is told of its place, which raises
// them: a raise that went first, and failed, would leave it without a place on some.
func TestWhoIsPutInLineAndGrantedAtOnceRaisesByItsPlace(t *testing.T) {
	for name, apart := range map[string]int64{"the same numbers": 0, "different numbers": 1000} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, nodes := locktest.NewLocker(t, 5, redlock.WithTurns(1))
				other := locktest.SeparateLocker(t, nodes)
				locktest.Warm(t, l)
				locktest.Warm(t, other)
				lock := locktest.MustAcquire(t, other, "orders/42")
				synctest.Wait()
				first, second := locktest.Wants(t, l), locktest.Wants(t, l)
				time.Sleep(500 * time.Millisecond)
				locktest.MustRelease(t, lock)
				lock = locktest.Got(t, first).Lock
				time.Sleep(500 * time.Millisecond)
				ahead := time.Now().Add(time.Second).UnixMicro()
				for i, n := range nodes.Nodes() {
					n.Miniredis().HSet(lua.NodeKey, strconv.FormatInt(lua.StripeOf("orders/42"), 10), strconv.FormatInt(ahead+int64(i)*apart, 10))
				}
				count := locktest.CountSent(nodes)
				locktest.MustRelease(t, lock)
				lock = locktest.Got(t, second).Lock
				if least := redlock.Token(ahead + 2*apart); lock.Token() <= least { // the third node's, at least
					t.Errorf("got the token %v; want one above %v", lock.Token(), least)
				}
				asks, raises := 0, 0
				for i := range nodes.Nodes() {
					asks, raises = asks+count(i, "ask"), raises+count(i, "raise")
				}
				if raises != 0 || asks != 0 && apart == 0 {
					t.Errorf("%d raises and %d asks; want no raise, and an ask only where numbers differ", raises, asks)
				}
				locktest.MustRelease(t, lock)
				synctest.Wait()
				locktest.WantNoLocks(t, nodes, "in the end")
			})
		})
	}
}

// A lock that comes when Close waits for nothing any more is given back, and with it the
// place: nobody of this process comes for that again.
func TestALockThatComesTooLateForCloseLeavesNoPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		holder, nodes := locktest.NewLocker(t, 2)
		l := locktest.SeparateLocker(t, nodes, redlock.WithNodeTimeout(time.Second), redlock.WithCloseTimeout(200*time.Millisecond))
		locktest.Warm(t, holder)
		locktest.Warm(t, l)
		lock := locktest.MustAcquire(t, holder, "orders/42")
		synctest.Wait()
		next := standing(t, nodes, l)
		ahead := time.Now().Add(time.Second).UnixMicro() // one node's number has to be raised, which is slow
		nodes.Node(1).Miniredis().HSet(lua.NodeKey, strconv.FormatInt(lua.StripeOf("orders/42"), 10), strconv.FormatInt(ahead, 10))
		raised := make(chan struct{}, 1)
		nodes.Node(0).Intercept(func(args []string) redlocktest.Verdict {
			switch name := locktest.ScriptOf(args); {
			case name == "raise":
				raised <- struct{}{}
				time.Sleep(500 * time.Millisecond)
			case strings.HasPrefix(name, "release"):
				time.Sleep(10 * time.Millisecond)
			}
			return redlocktest.Pass()
		})
		locktest.MustRelease(t, lock)
		<-raised
		_ = l.Close()
		if g := <-next; g.Err == nil {
			t.Errorf("got a lock; want that it came too late")
		}
		time.Sleep(time.Second)
		if on, _ := nodes.Node(0).Miniredis().ZMembers("redlock:queue:orders/42"); len(on) != 0 {
			t.Errorf("node 0 has %q in line; want nobody", on)
		}
	})
}

// Two nodes of three grant by a release, each since the sign of life that it had, and the
// third does not answer. One of the two shows behind its push, and before any look at it,
// that it was a replica: its vote is void, whichever of the two signs is older.
func TestAPushIsVoidWhoseNodeForgotRightBehindIt(t *testing.T) {
	for forgets := range 2 {
		t.Run(fmt.Sprintf("node %d", forgets), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				holder, nodes := locktest.NewLocker(t, 3)
				l := locktest.SeparateLocker(t, nodes)
				locktest.Warm(t, l)
				lock := locktest.MustAcquire(t, holder, "orders/42")
				synctest.Wait()
				next := standing(t, nodes, l)
				nodes.Node(2).Hang()
				locktest.MustRelease(t, lock)
				granted := locktest.Got(t, next).Lock
				nodes.Node(forgets).Intercept(locktest.OnScripts("extend", redlocktest.ReplyError("READONLY You can't write against a read only replica.")))
				time.Sleep(30 * time.Millisecond)
				locktest.WantError(t, "once it said so", granted.Err(), redlock.ErrLost)
			})
		})
	}
}

// An attempt that has waited for long is granted at last to its question. Where the node
// forgot right behind that, what a look had proven while the attempt waited stands.
func TestAGrantAfterALongWaitVoidsNothingThatWasProvenMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		holder, nodes := locktest.NewLocker(t, 3)
		l := locktest.SeparateLocker(t, nodes)
		locktest.Warm(t, l)
		locktest.MustAcquire(t, holder, "orders/42", redlock.WithTTL(20*time.Second), redlock.WithFixedLease())
		synctest.Wait()
		next := standing(t, nodes, l)
		nodes.Node(2).Hang()
		proven := locktest.MustAcquire(t, l, "proven")
		time.Sleep(time.Second)
		locktest.MustRelease(t, locktest.MustAcquire(t, l, "looked")) // with a look, so that the next batch has none
		locktest.FreeName(nodes, 0, 1)
		locktest.CallWaiters(t, nodes, 0, 1)
		waited := locktest.Got(t, next).Lock
		nodes.Node(0).Intercept(locktest.OnScripts("acquire", redlocktest.ReplyError("READONLY You can't write against a read only replica.")))
		if _, err := l.TryAcquire(t.Context(), "orders/1"); err == nil {
			t.Fatal("a node said that it is a replica, and one does not answer: want no lock")
		}
		synctest.Wait()
		testkit.Must(t, proven.Err())
		locktest.WantError(t, "what was granted since the last look", waited.Err(), redlock.ErrLost)
		nodes.Node(2).Resume()
	})
}
