package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lab/redisserver"
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

// givenNodes are the masters of REDLOCK_TEST_NODES, which somebody else runs.
const givenNodes = "REDLOCK_TEST_NODES"

// What a lock promises on servers that nobody breaks: on those of the test's
// own, and on the given ones, of any kind and version. Nothing else there is
// touched: names have a prefix of this run. New masters are waited for, not
// admitted, since somebody may hold a lock on them.
func TestMastersThatNobodyBreaks(t *testing.T) {
	t.Parallel()
	t.Run("its own", func(t *testing.T) {
		t.Parallel()
		var urls []string
		for _, s := range needMasters(t, 3, redisserver.Config{}) {
			urls = append(urls, s.URL())
		}
		lockOver(t, urls)
	})
	t.Run("given", func(t *testing.T) {
		t.Parallel()
		nodes := os.Getenv(givenNodes)
		if nodes == "" {
			t.Skip(givenNodes + " gives no masters: host:port,host:port,...")
		}
		lockOver(t, strings.Split(nodes, ","))
	})
}

func lockOver(t *testing.T, urls []string) {
	t.Helper()
	prefix := redlock.WithPrefix("redlock-test:" + uuid.NewString() + ":")
	open := func() *redlock.Locker {
		l, err := redlock.Open(t.Context(), urls, prefix, redlock.WithNodeTimeout(2*time.Second))
		if err != nil {
			t.Fatalf("Open: %v", err)
		}
		t.Cleanup(func() { must(t, l.Close()) })
		return l
	}
	here, there := open(), open()
	ctx, cancel := context.WithTimeout(t.Context(), 2*redlock.DefaultMaxTTL)
	defer cancel()
	for _, l := range []*redlock.Locker{here, there} {
		if err := l.Cluster().Join(ctx); err != nil {
			t.Fatalf("Join: %v", err)
		}
	}
	t.Run("one holds", func(t *testing.T) { oneHolds(t, here, there) })
	t.Run("renewed", func(t *testing.T) { renewed(t, here, there) })
	t.Run("a crowd", func(t *testing.T) { crowd(t, here, there) })
}

// oneHolds: exclusion, growing tokens, and nothing left after a release.
func oneHolds(t *testing.T, here, there *redlock.Locker) {
	t.Helper()
	lock := mustAcquire(t, here, "one")
	if _, err := there.TryAcquire(t.Context(), "one"); !errors.Is(err, redlock.ErrNotAcquired) {
		t.Errorf("while it is held: got %v; want ErrNotAcquired", err)
	}
	must(t, lock.Extend(t.Context(), 20*time.Second))
	if left := lock.Remaining(); left < 15*time.Second {
		t.Errorf("got %v left after the extension; want most of 20 s", left)
	}
	must(t, lock.Release(t.Context()))
	next := mustAcquire(t, there, "one")
	if next.Token() <= lock.Token() {
		t.Errorf("got token %d after %d; want a greater one", next.Token(), lock.Token())
	}
	must(t, next.Release(t.Context()))
	eventually(t, 10*time.Second, func() bool { return clean(t, here, "one") })
}

// clean tells whether no node holds the name any more.
func clean(t *testing.T, l *redlock.Locker, name string) bool {
	t.Helper()
	i, err := l.Inspect(t.Context(), name)
	must(t, err)
	for _, n := range i.Nodes {
		if n.Err != nil || n.Owner != "" {
			return false
		}
	}
	return true
}

// renewed: a lock outlives its lease, for as long as it is held.
func renewed(t *testing.T, here, there *redlock.Locker) {
	t.Helper()
	const ttl = 3 * time.Second
	lock := mustAcquire(t, here, "renewed", redlock.WithTTL(ttl))
	ctx, cancel := context.WithTimeout(t.Context(), ttl+time.Second)
	defer cancel()
	if _, err := there.Acquire(ctx, "renewed"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v; want the deadline: it is held for longer than a lease", err)
	}
	must(t, lock.Err())
	must(t, lock.Release(t.Context()))
}

// crowd: a counter that only the lock guards.
func crowd(t *testing.T, lockers ...*redlock.Locker) {
	t.Helper()
	const each, rounds = 4, 5
	count := 0
	var all sync.WaitGroup
	for _, l := range lockers {
		for range each {
			all.Go(func() {
				for range rounds {
					if err := l.Do(t.Context(), "crowd", func(context.Context, *redlock.Lock) error {
						count++ // the race detector looks on
						return nil
					}); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	all.Wait()
	if want := len(lockers) * each * rounds; count != want {
		t.Errorf("counted %d; want %d", count, want)
	}
}
