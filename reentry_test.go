package redlock_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/fencing"
	"github.com/quorumkit/redlock/redlocktest"
)

// countScripts counts the script calls that the nodes get from now on.
func countScripts(nodes *redlocktest.Cluster) *atomic.Int64 {
	calls := &atomic.Int64{}
	for _, n := range nodes.Nodes() {
		n.Intercept(func(args []string) redlocktest.Verdict {
			if args[0] == "EVALSHA" {
				calls.Add(1)
			}
			return redlocktest.Pass()
		})
	}
	return calls
}

// reenter acquires within a context that carries the hold, which takes no time.
func reenter(t *testing.T, l *redlock.Locker, ctx context.Context, resource string, opts ...redlock.AcquireOption) *redlock.Lock { //nolint:revive // t comes first in this package
	t.Helper()
	start := time.Now()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	lock, err := l.Acquire(ctx, resource, opts...)
	if err != nil {
		t.Fatalf("acquiring inside the hold: %v", err)
	}
	if took := time.Since(start); took != 0 {
		t.Errorf("acquiring inside the hold took %v; want it at once", took)
	}
	return lock
}

func TestReentryIsAHandleOfItsOwnOnTheSameHoldWithoutTraffic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3, redlock.WithReentry())
		other := lockerOver(t, nodes)
		outer := mustAcquire(t, l, "orders/42")
		synctest.Wait()
		calls := countScripts(nodes)

		inner := reenter(t, l, outer.Context(), "orders/42")
		tried, err := l.TryAcquire(inner.Context(), "orders/42", redlock.WithTTL(20*time.Second))
		must(t, err)
		for name, lock := range map[string]*redlock.Lock{"Acquire": inner, "TryAcquire": tried} {
			if lock == outer || lock.Token() != outer.Token() || lock.Resource() != "orders/42" ||
				(lock.Remaining()-outer.Remaining()).Abs() > time.Millisecond {
				t.Errorf("%s: got token %d, %v left; want a handle of its own with token %d, %v left",
					name, lock.Token(), lock.Remaining(), outer.Token(), outer.Remaining())
			}
		}
		mustRelease(t, outer) // the first is not the last
		mustRelease(t, tried)
		synctest.Wait()
		if got := calls.Load(); got != 0 {
			t.Errorf("got %d script calls for entering and leaving; want none", got)
		}

		time.Sleep(time.Minute) // renewed, as any hold
		if err := inner.Err(); err != nil {
			t.Errorf("the last handle after six leases: %v", err)
		}
		if _, err := other.TryAcquire(t.Context(), "orders/42"); !errors.Is(err, redlock.ErrNotAcquired) {
			t.Errorf("another while one handle is left: got %v; want ErrNotAcquired", err)
		}
		mustRelease(t, inner)
		synctest.Wait() // a quorum has confirmed; now all
		wantNoLocks(t, nodes, "after the last release")
		mustRelease(t, mustAcquire(t, other, "orders/42"))
	})
}

func TestAHandleEndsForItselfAndASecondReleaseTouchesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := newLocker(t, 3, redlock.WithReentry())
		outer := mustAcquire(t, l, "orders/42")
		inner := reenter(t, l, outer.Context(), "orders/42")
		ending := inner.Context()
		mustRelease(t, inner)
		if err := context.Cause(ending); !errors.Is(err, redlock.ErrReleased) || inner.Remaining() != 0 {
			t.Errorf("a released handle: got cause %v, %v left; want ErrReleased and none", err, inner.Remaining())
		}
		wantError(t, "a context asked for afterwards", context.Cause(inner.Context()), redlock.ErrReleased)
		for what, err := range map[string]error{
			"a second Release": inner.Release(t.Context()), "a third": inner.Release(t.Context()), "Extend": inner.Extend(t.Context(), 20*time.Second),
		} {
			wantError(t, what, err, redlock.ErrNotHeld)
			wantError(t, what, err, redlock.ErrReleased)
		}
		if err := outer.Err(); err != nil || outer.Context().Err() != nil {
			t.Errorf("the other handle: got %v; want it held", err)
		}
		must(t, outer.Extend(t.Context(), 20*time.Second))
		if left := outer.Remaining(); left < 15*time.Second {
			t.Errorf("extended to 20 s: got %v left", left)
		}
		ending = outer.Context()
		mustRelease(t, outer)
		wantError(t, "the last handle's context", context.Cause(ending), redlock.ErrReleased)
		wantError(t, "releasing the last once more", outer.Release(t.Context()), redlock.ErrNotHeld)
	})
}

// Anyone who learns that the last handle has ended finds the name free.
func TestTheLastHandlesEndIsSeenWhenTheNameIsFree(t *testing.T) {
	nodes := redlocktest.Start(t, 1)
	l := separateLocker(t, nodes, redlock.WithReentry())
	outer := mustAcquire(t, l, "orders/42")
	inner := reenterNow(t, l, outer.Context(), "orders/42")
	mustRelease(t, outer)
	free := redlock.KeepNames(l)
	done, ended := inner.Done(), make(chan error, 1)
	go func() { ended <- inner.Release(context.Background()) }()
	pollUntil(t, 5*time.Second, "the release has been sent", func() bool { return len(locksOn(nodes.Node(0))) == 0 })
	select {
	case <-done:
		t.Error("Done told the end while the name was still taken")
	case <-time.After(20 * time.Millisecond): // long enough to learn it too early
	}
	free()
	must(t, <-ended)
	<-done
	mustRelease(t, mustAcquire(t, l, "orders/42"))
}

// reenterNow is reenter, outside of bubbles.
func reenterNow(t *testing.T, l *redlock.Locker, ctx context.Context, resource string) *redlock.Lock { //nolint:revive // t comes first in this package
	t.Helper()
	lock, err := l.Acquire(ctx, resource)
	must(t, err)
	return lock
}

func TestDoInsideDoIsOneHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type who struct{}
		l, nodes := newLocker(t, 3, redlock.WithReentry())
		err := l.Do(t.Context(), "orders/42", func(ctx context.Context, outer *redlock.Lock) error {
			ctx = context.WithValue(ctx, who{}, "inner")
			return l.Do(ctx, "orders/42", func(ctx context.Context, inner *redlock.Lock) error {
				if inner == outer || inner.Token() != outer.Token() {
					t.Errorf("got token %d; want a handle of its own on the hold of %d", inner.Token(), outer.Token())
				}
				if token, err := fencing.FromContext(ctx, "orders/42"); err != nil || token != outer.Token() {
					t.Errorf("the context's token: got %d, %v; want %d", token, err, outer.Token())
				}
				if got := inner.Context().Value(who{}); got != "inner" {
					t.Errorf("the handle's context: got value %v; want that of its own acquisition", got)
				}
				return errWork
			})
		})
		wantError(t, "Do", err, errWork)
		synctest.Wait()
		wantNoLocks(t, nodes, "after the outer Do")
	})
}

// The inner part's hold is the outer's: its loss is everybody's, at once.
func TestALossEndsEveryHandleAndIsNotEnteredAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3, redlock.WithReentry())
		outer := mustAcquire(t, l, "orders/42")
		inner := reenter(t, l, outer.Context(), "orders/42")
		beside := context.WithoutCancel(inner.Context()) // it goes on, and still carries the hold
		for _, n := range nodes.Nodes() {
			n.Hang()
		}
		<-inner.Done()
		<-outer.Done()
		for name, lock := range map[string]*redlock.Lock{"outer": outer, "inner": inner} {
			wantError(t, name, lock.Err(), redlock.ErrLost)
			wantError(t, name+"'s context", context.Cause(lock.Context()), redlock.ErrLost)
			wantError(t, name+"'s release", lock.Release(t.Context()), redlock.ErrLost)
		}
		for _, n := range nodes.Nodes() {
			n.Resume()
		}
		_, err := l.Acquire(beside, "orders/42")
		wantError(t, "acquiring inside a lost hold", err, redlock.ErrNotHeld)
		wantError(t, "acquiring inside a lost hold", err, redlock.ErrLost)
		_, err = l.TryAcquire(beside, "orders/42")
		wantError(t, "trying inside a lost hold", err, redlock.ErrLost)
		_, err = l.Acquire(outer.Context(), "orders/42") // done, as the hold is
		wantError(t, "acquiring under its context", err, redlock.ErrLost)
		mustRelease(t, mustAcquire(t, l, "orders/42")) // outside of it, anybody may
	})
}

func TestTheHoldsOtherEndsAreEveryHandles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := newLocker(t, 3, redlock.WithReentry())
		outer := mustAcquire(t, l, "max", redlock.WithMaxHold(time.Minute))
		inner := reenter(t, l, outer.Context(), "max", redlock.WithMaxHold(time.Hour)) // the hold's counts
		<-inner.Done()
		wantError(t, "after the longest hold", inner.Err(), redlock.ErrMaxHold)
		_, err := l.Acquire(context.WithoutCancel(inner.Context()), "max")
		wantError(t, "acquiring after it", err, redlock.ErrMaxHold)

		outer = mustAcquire(t, l, "closed")
		inner = reenter(t, l, outer.Context(), "closed")
		must(t, l.Close())
		wantError(t, "after Close", inner.Err(), redlock.ErrClosed)
		wantError(t, "after Close, its release", inner.Release(t.Context()), redlock.ErrNotHeld)
		_, err = l.Acquire(context.WithoutCancel(inner.Context()), "closed")
		wantError(t, "acquiring after Close", err, redlock.ErrClosed)
	})
}

// Outside of the hold an acquire is what it always was.
func TestReentryIsForTheSameHoldOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		other := lockerOver(t, nodes, redlock.WithReentry())
		again := redlock.WithReentry()
		lock := mustAcquire(t, l, "orders/42", again)
		plain := mustAcquire(t, l, "plain")
		for what, try := range map[string]func() (*redlock.Lock, error){
			"another context":           func() (*redlock.Lock, error) { return l.TryAcquire(t.Context(), "orders/42", again) },
			"another Locker":            func() (*redlock.Lock, error) { return other.TryAcquire(lock.Context(), "orders/42") },
			"an acquire without it":     func() (*redlock.Lock, error) { return l.TryAcquire(lock.Context(), "orders/42") },
			"a hold that is not shared": func() (*redlock.Lock, error) { return l.TryAcquire(plain.Context(), "plain", again) },
		} {
			if _, err := try(); !errors.Is(err, redlock.ErrNotAcquired) {
				t.Errorf("%s: got %v; want ErrNotAcquired", what, err)
			}
		}
		within, err := l.TryAcquire(lock.Context(), "orders/43", again)
		must(t, err)
		if within.Token() == lock.Token() && within.Resource() == lock.Resource() {
			t.Error("another resource: got the same hold")
		}
		// Both holds are in that context, and each is found.
		mustRelease(t, reenter(t, l, within.Context(), "orders/42", again))
		mustRelease(t, reenter(t, l, within.Context(), "orders/43", again))

		late := context.WithoutCancel(lock.Context())
		mustRelease(t, lock)
		fresh, err := l.Acquire(late, "orders/42", again)
		must(t, err)
		if fresh.Token() <= lock.Token() {
			t.Errorf("after the last release: got token %d; want a fresh one above %d", fresh.Token(), lock.Token())
		}
		wantNoQuarrel(t, fresh, lock)
	})
}

// wantNoQuarrel: what was released stays so beside what came after it.
func wantNoQuarrel(t *testing.T, fresh, old *redlock.Lock) {
	t.Helper()
	wantError(t, "the old handle", old.Release(t.Context()), redlock.ErrNotHeld)
	if err := fresh.Err(); err != nil {
		t.Errorf("the fresh hold: %v", err)
	}
}

// Anyone who is given the context stands inside: a fan-out under one hold. Any of
// them may be the last, and each release counts once, however often it is called.
func TestGoroutinesThatShareTheContextShareTheHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3, redlock.WithReentry())
		outer := mustAcquire(t, l, "orders/42")
		inside := atomic.Int64{}
		ended := make(chan *redlock.Lock, 32)
		for range cap(ended) {
			go func() {
				lock := reenter(t, l, outer.Context(), "orders/42")
				inside.Add(1)
				time.Sleep(time.Second)
				for range 2 {
					go func() { _ = lock.Release(t.Context()) }()
				}
				ended <- lock
			}()
		}
		time.Sleep(500 * time.Millisecond)
		if got := inside.Load(); got != int64(cap(ended)) {
			t.Errorf("got %d goroutines inside at once; want all %d", got, cap(ended))
		}
		mustRelease(t, outer) // while they are inside
		if owners(nodes, "orders/42") == nil {
			t.Error("the hold ended before its last handle")
		}
		for range cap(ended) {
			lock := <-ended
			<-lock.Done()
			wantError(t, "a handle", lock.Err(), redlock.ErrReleased)
		}
		synctest.Wait()
		wantNoLocks(t, nodes, "after the last")
		mustRelease(t, mustAcquire(t, l, "orders/42"))
	})
}
