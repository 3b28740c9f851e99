package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/redlocktest"
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

func TestTryDoRunsAtOnceOrNotAtAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		for what, holder := range map[string]*redlock.Locker{"its own Locker": l, "another": separateLocker(t, nodes)} {
			lock := mustAcquire(t, holder, "orders/42")
			began := time.Now()
			err := l.TryDo(t.Context(), "orders/42", func(context.Context, *redlock.Lock) error {
				t.Errorf("held by %s: fn was called", what)
				return nil
			}, redlock.WithWait(time.Minute))
			wantError(t, "held by "+what, err, redlock.ErrNotAcquired)
			if took := time.Since(began); took > redlock.DefaultNodeTimeout {
				t.Errorf("held by %s: it took %v; want one attempt", what, took)
			}
			mustRelease(t, lock)
			ran := false
			must(t, l.TryDo(t.Context(), "orders/42", func(context.Context, *redlock.Lock) error { ran = true; return nil }))
			if !ran {
				t.Error("free: fn was not called")
			}
		}
		wantError(t, "no function", l.TryDo(t.Context(), "orders/42", nil), redlock.ErrInvalidOption)
		synctest.Wait()
		wantNoLocks(t, nodes, "in the end")
	})
}

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
	"TryDo": func(ctx context.Context, l *redlock.Locker, work func(context.Context) error, opts ...redlock.AcquireOption) error {
		return l.TryDo(ctx, "orders/42", func(ctx context.Context, _ *redlock.Lock) error { return work(ctx) }, opts...)
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
		must(t, jobs["Do"](t.Context(), l, func(context.Context) error { return nil }, redlock.WithMinHold(least)), l.Close())
		if took := freeAfter(t, other, began); took > time.Second {
			t.Errorf("closed: free after %v; want at once", took)
		}
	})
	synctest.Test(t, func(t *testing.T) { // a loss, after fn has returned: an event
		var lost int
		l, nodes := newLocker(t, 3, redlock.WithObserver(func(e redlock.Event) {
			if e.Kind == redlock.EventLockLost {
				lost++
			}
		}))
		must(t, jobs["Do"](t.Context(), l, func(context.Context) error { return nil }, redlock.WithMinHold(least)))
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

// Close gave a node up at its first failure, with nearly all of its time left. What
// was on the node stayed there for a lease, though it was up.
func TestCloseTriesANodeAgainUntilItsTimeIsOver(t *testing.T) {
	for name, verdict := range map[string]redlocktest.Verdict{
		"connections break":    redlocktest.BreakBefore(),
		"replies get lost":     redlocktest.LoseReply(),
		"commands get lost":    redlocktest.LoseRequest(),
		"it refuses":           redlocktest.ReplyError("OOM command not allowed when used memory > 'maxmemory'."),
		"it says what nobody ": redlocktest.ReplyError("ERR knows"),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				nodes := redlocktest.Start(t, 3)
				l := separateLocker(t, nodes)
				warm(t, l)
				mustAcquire(t, l, "orders/42")
				released := mustAcquire(t, l, "orders/41")
				synctest.Wait()
				var fails atomic.Int64
				nodes.Node(0).Intercept(func(args []string) redlocktest.Verdict {
					if strings.HasPrefix(scriptOf(args), "release") && fails.Add(1) <= 3 {
						return verdict
					}
					return redlocktest.Pass()
				})
				mustRelease(t, released) // two nodes are enough
				began := time.Now()
				if err := l.Close(); err != nil {
					t.Errorf("Close: %v; want nil: every node was free in the end", err)
				}
				if took := time.Since(began); took > redlock.DefaultCloseTimeout {
					t.Errorf("Close took %v; want its timeout of %v at the most", took, redlock.DefaultCloseTimeout)
				}
				if fails.Load() < 4 {
					t.Errorf("%d releases were sent to node 0; want those that fail, and one more", fails.Load())
				}
				wantNoLocks(t, nodes, "when Close returned")
			})
		})
	}
}

// A node that has just failed is owed what was sent to it, also where its pause has
// not passed when Close begins.
func TestCloseWaitsForANodeThatHasJustFailed(t *testing.T) {
	for _, back := range []time.Duration{10 * time.Millisecond, 300 * time.Millisecond, 1200 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			nodes := redlocktest.Start(t, 3)
			l := separateLocker(t, nodes)
			warm(t, l)
			lock := mustAcquire(t, l, "orders/42")
			synctest.Wait()
			nodes.Node(0).Hang()
			mustRelease(t, lock)
			for range 5 { // it is known to be down
				_, _ = l.TryAcquire(t.Context(), "orders/43", redlock.WithFixedLease())
				time.Sleep(100 * time.Millisecond)
			}
			var resumed sync.WaitGroup
			resumed.Go(func() {
				time.Sleep(back)
				nodes.Node(0).Resume()
			})
			if err := l.Close(); err != nil {
				t.Errorf("back after %v: Close: %v; want nil", back, err)
			}
			wantNoLocks(t, nodes, fmt.Sprintf("back after %v, when Close returned", back))
			resumed.Wait()
		})
	}
}

// What a node still may have when Close's time is over is named, and where it is.
func TestCloseNamesWhatIsNotReleasedAndWhere(t *testing.T) {
	for name, harm := range map[string]func(*redlocktest.Node){
		"it hangs":   (*redlocktest.Node).Hang,
		"it is gone": (*redlocktest.Node).Stop,
		"it refuses": func(n *redlocktest.Node) { n.Intercept(refusing("shop/orders/1", noRight)) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				nodes := redlocktest.Start(t, 3)
				l := separateLocker(t, nodes, redlock.WithPrefix("shop/"))
				for _, name := range []string{"orders/1", "orders/2", "orders/3", "orders/4", "orders/5", "orders/6", "orders/7"} {
					mustAcquire(t, l, name)
				}
				synctest.Wait()
				harm(nodes.Node(1))
				began := time.Now()
				err := l.Close()
				if took := time.Since(began); took > redlock.DefaultCloseTimeout {
					t.Errorf("Close took %v; want its timeout of %v at the most", took, redlock.DefaultCloseTimeout)
				}
				if err == nil || errors.Is(err, redlock.ErrNoQuorum) {
					t.Fatalf("got %v; want an error, and not that of a quorum: two nodes confirmed", err)
				}
				for _, word := range []string{"redlock: close: not released on node-1: orders/1", "; blocked there for up to "} {
					if !strings.Contains(err.Error(), word) {
						t.Errorf("got %q; want %q in it", err, word)
					}
				}
				if all := name != "it refuses"; all != strings.Contains(err.Error(), "orders/5 and 2 more: ") {
					t.Errorf("got %q; want the first five names and how many more: %t", err, all)
				}
				if strings.Contains(err.Error(), "node 0") || strings.Contains(err.Error(), "node 2") {
					t.Errorf("got %q; want the one node that it is about", err)
				}
				nodes.Node(1).Intercept(nil)
				nodes.Node(1).Resume()
			})
		})
	}
}

// A name of which several slots are not released is named once.
func TestCloseNamesANameOfSlotsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := redlocktest.Start(t, 3)
		l := separateLocker(t, nodes, redlock.WithPrefix("shop/"))
		mustAcquire(t, l, "a")
		mustAcquire(t, l, "z")
		for range 3 {
			mustAcquire(t, l, "exports", redlock.WithLimit(3))
		}
		synctest.Wait()
		nodes.Node(1).Stop()
		if err := l.Close(); err == nil || !strings.Contains(err.Error(), "not released on node-1: a, exports, z: ") {
			t.Errorf("got %v; want each name once", err)
		}
	})
}

// A server that stops answering for less than Close has time is free when Close
// returns: what was held there, and what was released a moment before.
func TestCloseLeavesNothingOnAServerThatPausedMeanwhile(t *testing.T) {
	servers := needMasters(t, 3, redisserver.Config{})
	l := openServers(t, servers, redlock.WithCloseTimeout(20*time.Second))
	warm(t, l)
	mustAcquire(t, l, "orders/42", redlock.WithTTL(25*time.Second))
	released := mustAcquire(t, l, "orders/41", redlock.WithTTL(25*time.Second))
	pollUntil(t, 5*time.Second, "server 0 has both", func() bool { return len(keysOn(t, servers[0])) == 2 })
	must(t, clientOf(t, servers[0]).Do(t.Context(), "CLIENT", "PAUSE", "900", "ALL").Err())
	mustRelease(t, released)
	if err := l.Close(); err != nil {
		t.Errorf("Close: %v; want nil", err)
	}
	if left := keysOn(t, servers[0]); len(left) > 0 {
		t.Errorf("server 0 has %q when Close returns; want nothing of ours", slices.Sorted(slices.Values(left)))
	}
}
