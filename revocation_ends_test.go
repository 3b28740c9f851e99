package redlock_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/redlocktest"
)

// Short holds that can't be asked for follow each other: each look shows another one.
func TestRevokeSaysThatShortHoldsCantBeAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		other := separateLocker(t, nodes)
		warm(t, l)
		warm(t, other)
		time.Sleep(3 * time.Millisecond) // no look is at the moment between two holds
		var over atomic.Bool
		ended := make(chan int)
		go func() {
			holds := 0
			for ; !over.Load(); holds++ {
				if lock, err := l.Acquire(t.Context(), "orders/42"); err == nil {
					time.Sleep(10 * time.Millisecond)
					_ = lock.Release(t.Context())
				}
			}
			ended <- holds
		}()
		time.Sleep(5 * time.Millisecond)
		for range 5 {
			began := time.Now()
			wantError(t, "short holds", <-revokes(t, other, time.Minute), redlock.ErrNotRevocable)
			if took := time.Since(began); took > time.Second {
				t.Errorf("it took %v; want less than a second", took)
			}
		}
		over.Store(true)
		if holds := <-ended; holds < 10 {
			t.Errorf("there were %d holds: the test shows nothing", holds)
		}
	})
}

// Where a name is held at every other look, no two show the same: the looks have pauses, and
// Close ends them.
func TestCloseEndsARevokeThatSeesNothingTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := redlocktest.Start(t, 3)
		other := separateLocker(t, nodes, redlock.WithoutMembership()) // which looks at votes meanwhile
		began := nodes.Node(0).Calls("MGET")
		done := revokes(t, other, time.Hour)
		time.Sleep(10 * time.Millisecond)
		for held := range 100 {
			for i := range nodes.Len() {
				if held%2 == 0 {
					must(t, nodes.Client(i).Set(t.Context(), "orders/42", "other", time.Minute).Err())
				} else {
					must(t, nodes.Client(i).Del(t.Context(), "orders/42").Err())
				}
			}
			time.Sleep(20 * time.Millisecond)
		}
		if looks := nodes.Node(0).Calls("MGET") - began; looks < 100 || looks > 250 {
			t.Errorf("a node was sent %d MGETs in two seconds; want a look in 20 ms", looks)
		}
		closing := time.Now()
		must(t, other.Close())
		wantError(t, "Revoke of a Locker that closes", <-done, redlock.ErrClosed)
		if took := time.Since(closing); took > time.Second {
			t.Errorf("Close took %v; want less than a second", took)
		}
	})
}

// The context ends at every command, and at every few milliseconds between them, with a
// holder that ignores the request: all nodes are well, and no error says otherwise.
func TestAContextThatEndsIsNoMissingQuorum(t *testing.T) {
	testkit.Unraced(t)
	for name, fresh := range map[string]bool{"first call": true, "later call": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, nodes := newLocker(t, 5, redlock.WithTTL(20*time.Second))
				other := separateLocker(t, nodes)
				warm(t, other)
				lock := mustAcquire(t, l, "orders/42", redlock.WithRevocation())
				synctest.Wait()
				ends := func(what string, n int, ctx context.Context) {
					asks := other
					if fresh {
						asks = separateLocker(t, nodes)
					}
					err := asks.Revoke(ctx, "orders/42")
					if ctx.Err() == nil || !errors.Is(err, ctx.Err()) || errors.Is(err, redlock.ErrNoQuorum) {
						t.Errorf("%s %d: got %v; want the context's error alone", what, n, err)
					}
					if fresh {
						must(t, asks.Close())
					}
				}
				for k := int64(1); k <= 150; k++ {
					ctx, cancel := context.WithCancel(t.Context())
					var sent atomic.Int64
					for _, n := range nodes.Nodes() {
						n.Intercept(func([]string) redlocktest.Verdict {
							if sent.Add(1) == k {
								cancel()
							}
							return redlocktest.Pass()
						})
					}
					ends("command", int(k), ctx)
					cancel()
				}
				for _, n := range nodes.Nodes() {
					n.Intercept(nil)
				}
				for after := 1; after < 300; after += 7 {
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(after)*time.Millisecond)
					ends("millisecond", after, ctx)
					cancel()
				}
				must(t, lock.Err())
				mustRelease(t, lock)
			})
		})
	}
}
