package redlock_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lab/redisserver"
)

// works are the calls that run a function under "orders/42".
var works = map[string]job{
	"Do": jobs["Do"], "TryDo": jobs["TryDo"], "DoAll": jobs["DoAll"],
	"Campaign": func(ctx context.Context, l *redlock.Locker, work func(context.Context) error, opts ...redlock.AcquireOption) error {
		return l.Campaign(ctx, "orders/42", func(ctx context.Context, _ *redlock.Lock) error { return work(ctx) }, opts...)
	},
	"Do inside a hold": func(ctx context.Context, l *redlock.Locker, work func(context.Context) error, opts ...redlock.AcquireOption) error {
		lock, err := l.Acquire(ctx, "orders/42", redlock.WithReentry())
		if err != nil {
			return err
		}
		return jobs["Do"](lock.Context(), l, work, append(opts, redlock.WithReentry())...)
	},
}

// Close gave a lock away a millisecond after it had asked the function to return.
func TestCloseGivesALockAwayOnlyWhenItsFunctionHasReturned(t *testing.T) {
	const windUp = 25 * time.Second // longer than a lease, so it takes renewals
	for name, do := range works {
		synctest.Test(t, func(t *testing.T) {
			l, nodes := newLocker(t, 3, redlock.WithCloseTimeout(time.Minute))
			other := lockerOver(t, nodes)
			mustAcquire(t, l, "orders/1") // under which no function runs
			begun, done := make(chan struct{}), make(chan error, 1)
			var returned time.Time
			go func() {
				done <- do(t.Context(), l, func(ctx context.Context) error {
					close(begun)
					<-ctx.Done()
					wantError(t, name+": the cause of the function's context", context.Cause(ctx), redlock.ErrClosed)
					time.Sleep(windUp)
					returned = time.Now()
					return ctx.Err()
				})
			}()
			<-begun
			next := wants(t, other)
			began, closed := time.Now(), make(chan error, 1)
			go func() { closed <- l.Close() }()
			mustRelease(t, mustAcquire(t, other, "orders/1"))
			_, err := l.Acquire(t.Context(), "orders/2")
			wantError(t, name+": an acquire after Close", err, redlock.ErrClosed)
			if took := time.Since(began); took > time.Second {
				t.Errorf("%s: the lock without a function, and the refusal, came after %v; want at once", name, took)
			}
			g := got(t, next)
			if held := time.Now(); returned.IsZero() || held.Before(returned) || held.After(returned.Add(time.Second)) {
				t.Errorf("%s: another holds it %v after Close began; want it when the function has returned, after %v", name, held.Sub(began), windUp)
			}
			must(t, <-closed)
			err = <-done
			if !errors.Is(err, redlock.ErrClosed) || errors.Is(err, context.Canceled) {
				t.Errorf("%s: got %v; want ErrClosed, and no cancellation: the caller's context goes on", name, err)
			}
			mustRelease(t, g.Lock)
			synctest.Wait()
			wantNoLocks(t, nodes, name)
		})
	}
}

func TestWorkThatIsDoneWhileCloseWaitsHasNotFailed(t *testing.T) {
	for _, do := range jobs {
		synctest.Test(t, func(t *testing.T) {
			l, _ := newLocker(t, 3)
			begun, done := make(chan struct{}), make(chan error, 1)
			go func() {
				done <- do(t.Context(), l, func(ctx context.Context) error {
					close(begun)
					<-ctx.Done()
					time.Sleep(time.Second)
					return nil
				})
			}()
			<-begun
			must(t, l.Close(), <-done)
		})
	}
}

// A function that does not return holds Close up for its timeout, and loses its lock then.
func TestCloseSaysWhatItGaveAwayUnderAFunction(t *testing.T) {
	for name, do := range works {
		synctest.Test(t, func(t *testing.T) {
			l, nodes := newLocker(t, 3)
			begun, done := make(chan struct{}), make(chan error, 1)
			go func() {
				done <- do(t.Context(), l, func(ctx context.Context) error {
					close(begun)
					<-ctx.Done()
					time.Sleep(4 * time.Second)
					return nil
				})
			}()
			<-begun
			next := wants(t, lockerOver(t, nodes))
			began := time.Now()
			err := l.Close()
			if took := time.Since(began); took > redlock.DefaultCloseTimeout || took < redlock.DefaultCloseTimeout/2 {
				t.Errorf("%s: Close took %v; want at most its timeout of %v, and most of it", name, took, redlock.DefaultCloseTimeout)
			}
			wantError(t, name+": Close", err, context.DeadlineExceeded)
			if want := "released before their functions returned: orders/42"; err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v; want %q in it", name, err, want)
			}
			mustRelease(t, got(t, next).Lock)
			if took := time.Since(began); took > redlock.DefaultCloseTimeout {
				t.Errorf("%s: the next got the lock after %v; want it with Close", name, took)
			}
			wantError(t, name, <-done, redlock.ErrClosed)
		})
	}
}

func TestAFunctionThatClosesItsOwnLockerWaitsForTheTimeout(t *testing.T) {
	for name, do := range works {
		synctest.Test(t, func(t *testing.T) {
			l, nodes := newLocker(t, 3)
			err := do(t.Context(), l, func(context.Context) error {
				began := time.Now()
				err := l.Close()
				if took := time.Since(began); took > redlock.DefaultCloseTimeout {
					t.Errorf("%s: Close took %v; want at most its timeout", name, took)
				}
				return err
			})
			wantError(t, name, err, redlock.ErrClosed)
			wantError(t, name+": what Close said", err, context.DeadlineExceeded)
			wantNoLocks(t, nodes, name)
		})
	}
}

// On real servers: nobody else holds the lock for two leases, while the function winds up.
func TestServersKeepALockWhileItsFunctionWindsUp(t *testing.T) {
	const ttl = time.Second
	servers := needMasters(t, 3, redisserver.Config{})
	l := openServers(t, servers, redlock.WithTTL(ttl), redlock.WithCloseTimeout(time.Minute))
	other := openServers(t, servers)
	begun, finish := make(chan struct{}), make(chan struct{})
	done, closed := make(chan error, 1), make(chan error, 1)
	go func() {
		done <- l.Do(t.Context(), "orders/42", func(ctx context.Context, _ *redlock.Lock) error {
			close(begun)
			<-ctx.Done()
			<-finish
			return nil
		})
	}()
	<-begun
	go func() { closed <- l.Close() }()
	for began := time.Now(); time.Since(began) < 2*ttl; {
		if lock, err := other.TryAcquire(t.Context(), "orders/42"); !errors.Is(err, redlock.ErrNotAcquired) {
			t.Errorf("got %v, %v after %v; want it taken while the function runs", lock, err, time.Since(began))
			break
		}
	}
	close(finish)
	must(t, <-closed, <-done)
	mustRelease(t, mustAcquire(t, other, "orders/42"))
}
