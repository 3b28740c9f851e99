package redlock_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/testkit"
)

// least is longer than a lease, so it takes renewals.
const least = 25 * time.Second

// jitter is by how much the clock that counts a suspend may differ from the bubble's.
const jitter = time.Millisecond

// job is some work under locks that Do or DoAll holds.
type job func(ctx context.Context, l *redlock.Locker, work func(ctx context.Context) error, opts ...redlock.AcquireOption) error

var jobs = map[string]job{
	"Do": func(ctx context.Context, l *redlock.Locker, work func(context.Context) error, opts ...redlock.AcquireOption) error {
		return l.Do(ctx, "orders/42", func(ctx context.Context, _ *redlock.Lock) error { return work(ctx) }, opts...)
	},
	"DoAll": func(ctx context.Context, l *redlock.Locker, work func(context.Context) error, opts ...redlock.AcquireOption) error {
		return l.DoAll(ctx, []string{"orders/42", "stock/1"}, func(ctx context.Context, _ *redlock.MultiLock) error { return work(ctx) }, opts...)
	},
}

// freeAfter is how long after began another process gets the lock.
func freeAfter(t *testing.T, l *redlock.Locker, began time.Time) time.Duration {
	t.Helper()
	lock := mustAcquire(t, l, "orders/42")
	took := time.Since(began)
	mustRelease(t, lock)
	return took
}

// However short the work is, and however it ends, others get the lock when the time has
// passed since it was acquired; but the caller does not wait for that.
func TestDoKeepsTheLockForItsLeastTime(t *testing.T) {
	testkit.Unraced(t)
	for name, do := range jobs {
		for how, work := range map[string]func(context.Context) error{
			"done at once": func(context.Context) error { return nil },
			"failed":       func(context.Context) error { return errWork },
			"done after a while": func(context.Context) error {
				time.Sleep(20 * time.Second)
				return nil
			},
			"panicked": func(context.Context) error { panic("out") },
		} {
			synctest.Test(t, func(t *testing.T) {
				l, nodes := newLocker(t, 3)
				other := lockerOver(t, nodes)
				began := time.Now()
				var busy time.Duration
				ctx, cancel := context.WithCancel(t.Context())
				func() {
					defer func() { _ = recover() }()
					_ = do(ctx, l, func(ctx context.Context) error {
						defer func() { busy = time.Since(began) }()
						return work(ctx)
					}, redlock.WithMinHold(least))
				}()
				if took := time.Since(began); took > busy+time.Second {
					t.Errorf("%s, %s: it returned %v after the work; want at once", name, how, took-busy)
				}
				cancel() // it is the caller's, and ends nothing
				for _, l := range []*redlock.Locker{l, other} {
					_, err := l.TryAcquire(t.Context(), "orders/42")
					wantError(t, name+", "+how+": meanwhile", err, redlock.ErrNotAcquired)
				}
				if took := freeAfter(t, other, began); took < least-jitter || took > least+time.Second {
					t.Errorf("%s, %s: the next got the lock after %v; want %v", name, how, took, least)
				}
				synctest.Wait()
				wantNoLocks(t, nodes, name+", "+how)
			})
		}
	}
}

func TestWorkThatIsLongerThanTheLeastTimeReleasesAtOnce(t *testing.T) {
	for name, do := range jobs {
		synctest.Test(t, func(t *testing.T) {
			l, nodes := newLocker(t, 3)
			err := do(t.Context(), l, func(context.Context) error { time.Sleep(least); return nil }, redlock.WithMinHold(least), redlock.WithMaxHold(2*least))
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			ended := time.Now()
			if took := freeAfter(t, lockerOver(t, nodes), ended); took > time.Second {
				t.Errorf("%s: the next got the lock %v after the work; want at once", name, took)
			}
		})
	}
}

// What ends the hold ends the wait: nothing is kept of a lock that is over.
func TestTheLeastTimeEndsWithTheHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // fn itself releases
		l, nodes := newLocker(t, 3)
		began := time.Now()
		err := l.Do(t.Context(), "orders/42", func(ctx context.Context, lock *redlock.Lock) error { return lock.Release(ctx) }, redlock.WithMinHold(least))
		if took := freeAfter(t, lockerOver(t, nodes), began); err != nil || took > time.Second {
			t.Errorf("released by fn: got %v, and it free after %v; want it free at once", err, took)
		}
	})
	synctest.Test(t, func(t *testing.T) { // Close
		l, nodes := newLocker(t, 3)
		other := lockerOver(t, nodes)
		began := time.Now()
		if err := errors.Join(jobs["Do"](t.Context(), l, func(context.Context) error { return nil }, redlock.WithMinHold(least)), l.Close()); err != nil {
			t.Error(err)
		}
		if took := freeAfter(t, other, began); took > time.Second {
			t.Errorf("closed: free after %v; want at once", took)
		}
	})
	synctest.Test(t, func(t *testing.T) { // a loss, after fn has returned: an event
		var lost int
		l, nodes := newLocker(t, 3, redlock.WithObserver(func(e redlock.Event) {
			if e.Kind == redlock.LockLost {
				lost++
			}
		}))
		if err := jobs["Do"](t.Context(), l, func(context.Context) error { return nil }, redlock.WithMinHold(least)); err != nil {
			t.Error(err)
		}
		for _, n := range nodes.Nodes() {
			n.Hang()
		}
		time.Sleep(least)
		synctest.Wait()
		if lost != 1 {
			t.Errorf("got %d losses told; want one", lost)
		}
		for _, n := range nodes.Nodes() {
			n.Resume()
		}
	})
}

// An inner Do that enters a hold keeps it, though the outer one is done.
func TestAnEnteredHoldIsKeptForItsLeastTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		began := time.Now()
		err := l.Do(t.Context(), "orders/42", func(ctx context.Context, _ *redlock.Lock) error {
			time.Sleep(time.Second)
			return jobs["Do"](ctx, l, func(context.Context) error { return nil }, redlock.WithReentry(), redlock.WithMinHold(least))
		}, redlock.WithReentry())
		if took := time.Since(began); err != nil || took > 2*time.Second {
			t.Errorf("got %v after %v; want nil after a second", err, took)
		}
		if took := freeAfter(t, lockerOver(t, nodes), began); took < least+time.Second-jitter || took > least+2*time.Second {
			t.Errorf("the next got the lock after %v; want %v", took, least+time.Second)
		}
	})
}

func TestALeastTimeThatCanNotBeKeptIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		for what, opts := range map[string][]redlock.AcquireOption{
			"zero":                {redlock.WithMinHold(0)},
			"negative":            {redlock.WithMinHold(-time.Second)},
			"above the maximum":   {redlock.WithMinHold(2 * time.Second), redlock.WithMaxHold(time.Second)},
			"above a fixed lease": {redlock.WithMinHold(10 * time.Second), redlock.WithFixedLease()},
		} {
			for name, do := range jobs {
				err := do(t.Context(), l, func(context.Context) error { t.Errorf("%s: fn was called", what); return nil }, opts...)
				wantError(t, name+", "+what, err, redlock.ErrInvalidOption)
			}
		}
		o := redlock.WithMinHold(time.Second)
		_, acquire := l.Acquire(t.Context(), "k", o)
		_, try := l.TryAcquire(t.Context(), "k", o)
		_, all := l.AcquireAll(t.Context(), []string{"k"}, o)
		_, tryAll := l.TryAcquireAll(t.Context(), []string{"k"}, o)
		campaign := l.Campaign(t.Context(), "k", func(context.Context, *redlock.Lock) error { return nil }, o)
		for what, err := range map[string]error{"Acquire": acquire, "TryAcquire": try, "AcquireAll": all, "TryAcquireAll": tryAll, "Campaign": campaign} {
			wantError(t, what, err, redlock.ErrInvalidOption)
		}
		synctest.Wait()
		wantNoLocks(t, nodes, "after refusals")
		if err := jobs["Do"](t.Context(), l, func(context.Context) error { return nil }, redlock.WithMinHold(time.Second), redlock.WithMaxHold(time.Second)); err != nil {
			t.Errorf("as long as the maximum: %v", err)
		}
	})
}
