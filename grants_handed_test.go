package redlock_test

import (
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/redlocktest"
)

// Who was put in line by a release, and was granted the lock by too few nodes, gives it
// back, and looks again after a pause: not at once, and not only when it would look anyway.
func TestASplitGrantOfAnAttemptThatWasPutInLineIsFollowedByAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 5, redlock.WithTurns(1))
		other := separateLocker(t, nodes, redlock.WithTurns(1))
		warm(t, l)
		warm(t, other)
		lock := mustAcquire(t, other, "orders/42")
		synctest.Wait()
		first, second := wants(t, l), wants(t, l)
		time.Sleep(500 * time.Millisecond)
		mustRelease(t, lock)
		lock = got(t, first).lock
		between := wants(t, other)
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
				switch name := scriptOf(args); {
				case name == "release_batch" && back.IsZero():
					back = time.Now()
				case strings.HasPrefix(name, "ask") && !back.IsZero() && again.IsZero():
					again = time.Now()
				}
				return redlocktest.Pass()
			})
		}
		mustRelease(t, lock)
		lock = got(t, between).lock
		time.Sleep(100 * time.Millisecond)
		mu.Lock()
		if d := again.Sub(back); back.IsZero() || d < 5*time.Millisecond || d > 25*time.Millisecond {
			t.Errorf("it gave back at %v, and asked again %v later; want it between 5 and 25 ms", back, d)
		}
		mu.Unlock()
		mustRelease(t, lock)
		mustRelease(t, got(t, second).lock)
		synctest.Wait()
		wantNoLocks(t, nodes, "in the end")
	})
}

// Who is put in line by a release, and is granted the lock at once, holds it without asking
// anybody. Where the nodes granted different numbers it is told of its place, which raises
// them: a raise that went first, and failed, would leave it without a place on some.
func TestWhoIsPutInLineAndGrantedAtOnceRaisesByItsPlace(t *testing.T) {
	for name, apart := range map[string]int64{"the same numbers": 0, "different numbers": 1000} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, nodes := newLocker(t, 5, redlock.WithTurns(1))
				other := separateLocker(t, nodes)
				warm(t, l)
				warm(t, other)
				lock := mustAcquire(t, other, "orders/42")
				synctest.Wait()
				first, second := wants(t, l), wants(t, l)
				time.Sleep(500 * time.Millisecond)
				mustRelease(t, lock)
				lock = got(t, first).lock
				time.Sleep(500 * time.Millisecond)
				ahead := time.Now().Add(time.Second).UnixMicro()
				for i, n := range nodes.Nodes() {
					n.Miniredis().HSet(lua.NodeKey, strconv.FormatInt(lua.StripeOf("orders/42"), 10), strconv.FormatInt(ahead+int64(i)*apart, 10))
				}
				count := sent(nodes)
				mustRelease(t, lock)
				lock = got(t, second).lock
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
				mustRelease(t, lock)
				synctest.Wait()
				wantNoLocks(t, nodes, "in the end")
			})
		})
	}
}

// A lock that comes when Close waits for nothing any more is given back, and with it the
// place: nobody of this process comes for that again.
func TestALockThatComesTooLateForCloseLeavesNoPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		holder, nodes := newLocker(t, 2)
		l := separateLocker(t, nodes, redlock.WithNodeTimeout(time.Second), redlock.WithCloseTimeout(200*time.Millisecond))
		warm(t, holder)
		warm(t, l)
		lock := mustAcquire(t, holder, "orders/42")
		synctest.Wait()
		next := standing(t, nodes, l)
		ahead := time.Now().Add(time.Second).UnixMicro() // one node's number has to be raised, which is slow
		nodes.Node(1).Miniredis().HSet(lua.NodeKey, strconv.FormatInt(lua.StripeOf("orders/42"), 10), strconv.FormatInt(ahead, 10))
		raised := make(chan struct{}, 1)
		nodes.Node(0).Intercept(func(args []string) redlocktest.Verdict {
			switch name := scriptOf(args); {
			case name == "raise":
				raised <- struct{}{}
				time.Sleep(500 * time.Millisecond)
			case strings.HasPrefix(name, "release"):
				time.Sleep(10 * time.Millisecond)
			}
			return redlocktest.Pass()
		})
		mustRelease(t, lock)
		<-raised
		_ = l.Close()
		if g := <-next; g.err == nil {
			t.Errorf("got a lock; want that it came too late")
		}
		time.Sleep(time.Second)
		if on, _ := nodes.Node(0).Miniredis().ZMembers("redlock:queue:orders/42"); len(on) != 0 {
			t.Errorf("node 0 has %q in line; want nobody", on)
		}
	})
}
