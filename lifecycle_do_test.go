package redlock_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock"
)

var errWork = errors.New("the work failed")

func TestDoReturnsWhatItsFunctionDoesAndReleases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		for name, tt := range map[string]struct {
			fn   func(context.Context, *redlock.Lock) error
			want error
		}{
			"nil":            {func(context.Context, *redlock.Lock) error { return nil }, nil},
			"its error":      {func(context.Context, *redlock.Lock) error { return errWork }, errWork},
			"its own signal": {func(ctx context.Context, lock *redlock.Lock) error { return lock.Release(ctx) }, nil},
		} {
			if err := l.Do(t.Context(), "orders/42", tt.fn); !errors.Is(err, tt.want) || (err == nil) != (tt.want == nil) {
				t.Errorf("%s: got %v; want %v", name, err, tt.want)
			}
			synctest.Wait()
			wantNoLocks(t, nodes, name)
		}
	})
}

func TestDoReleasesOnAPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		func() {
			defer func() {
				if r := recover(); r != "out" {
					t.Errorf("recovered %v; want the function's own panic", r)
				}
			}()
			_ = l.Do(t.Context(), "orders/42", func(context.Context, *redlock.Lock) error { panic("out") })
		}()
		synctest.Wait()
		wantNoLocks(t, nodes, "after the panic")
		mustRelease(t, mustAcquire(t, l, "orders/42"))
	})
}

func TestDoCancelsItsFunctionWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := newLocker(t, 3)
		why := errors.New("no longer wanted")
		ctx, cancel := context.WithCancelCause(t.Context())
		err := l.Do(ctx, "orders/42", func(inner context.Context, lock *redlock.Lock) error {
			cancel(why)
			<-inner.Done()
			wantError(t, "the inner cause", context.Cause(inner), why)
			if lock.Err() != nil || lock.Context().Err() != nil {
				t.Errorf("the lock: got %v; want it held until fn returns", lock.Err())
			}
			return inner.Err()
		})
		wantError(t, "Do", err, context.Canceled)
		if errors.Is(err, redlock.ErrLost) {
			t.Errorf("Do: got %v; want no word of a loss", err)
		}
	})
}

func TestDoJoinsALossOnlyIfItCameBeforeTheReturn(t *testing.T) {
	for _, inTime := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			l, nodes := newLocker(t, 3)
			err := l.Do(t.Context(), "orders/42", func(inner context.Context, lock *redlock.Lock) error {
				for _, n := range nodes.Nodes() {
					n.Hang()
				}
				if inTime {
					time.Sleep(lock.Remaining() - time.Millisecond)
					return errWork
				}
				<-inner.Done()
				wantError(t, "the inner cause", context.Cause(inner), redlock.ErrLost)
				return errWork
			})
			wantError(t, "Do", err, errWork)
			if got := errors.Is(err, redlock.ErrLost); got == inTime {
				t.Errorf("returned in time: %v: got %v; want a loss: %v", inTime, err, !inTime)
			}
			if errors.Is(err, redlock.ErrNoQuorum) {
				t.Errorf("got %v; want no word of the unconfirmed release: that is an event", err)
			}
			for _, n := range nodes.Nodes() {
				n.Resume()
			}
		})
	}
}

func TestTheLocksContextKeepsValuesAndNotTheCancellation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		l, _ := newLocker(t, 3)
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "kept"))
		lock, err := l.Acquire(ctx, "orders/42")
		must(t, err)
		cancel()
		if got := lock.Context().Value(key{}); got != "kept" || lock.Context().Err() != nil {
			t.Errorf("got the value %v and %v; want it kept, and no cancellation", got, lock.Context().Err())
		}
		mustRelease(t, lock)
		wantError(t, "the cause after Release", context.Cause(lock.Context()), redlock.ErrReleased)
		wantError(t, "a second Release", lock.Release(t.Context()), redlock.ErrNotHeld)
		wantError(t, "a second Release", lock.Release(t.Context()), redlock.ErrReleased)
	})
}

func TestAnEndedContextEndsTheAcquisition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		other := separateLocker(t, nodes)
		lock := mustAcquire(t, other, "orders/42")
		why := errors.New("enough")
		gone, cancelNow := context.WithCancelCause(t.Context())
		cancelNow(why)
		synctest.Wait()
		sent := nodes.Node(0).Calls()
		_, err := l.Acquire(gone, "orders/42")
		wantError(t, "an ended context", err, context.Canceled)
		wantError(t, "an ended context", err, why)
		if got := nodes.Node(0).Calls(); got != sent {
			t.Errorf("an ended context: %d commands were sent; want none", got-sent)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		_, err = l.Acquire(ctx, "orders/42") // against another process
		wantError(t, "the deadline", err, context.DeadlineExceeded)
		wantError(t, "the deadline: the reason", err, redlock.ErrNotAcquired)
		if took := time.Since(began); took != time.Second {
			t.Errorf("took %v; want its context's second", took)
		}
		mine := mustAcquire(t, l, "orders/43")
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = l.Acquire(ctx, "orders/43") // against its own Locker
		wantError(t, "the local queue", err, context.DeadlineExceeded)
		wantError(t, "the local queue", err, redlock.ErrNotAcquired)
		mustRelease(t, mine)
		mustRelease(t, mustAcquire(t, l, "orders/43")) // the one that gave up is out of the queue
		mustRelease(t, lock)
	})
}
