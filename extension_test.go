package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/redlocktest"
)

// Many locks are confirmed in one round. What becomes of one is no other's concern.

// Ten locks without their key on one node wait for another that hangs; those that
// a quorum has confirmed do not wait with them.
func TestAnUndecidedLockHoldsUpNoOther(t *testing.T) {
	testkit.Unraced(t)
	synctest.Test(t, func(t *testing.T) {
		const locks, deleted = 200, 10
		l, nodes := newLocker(t, 3, redlock.WithNodeTimeout(250*time.Millisecond)) // nearly the TTL
		warm(t, l)
		held := make([]*redlock.Lock, locks)
		for i := range held {
			held[i] = mustAcquire(t, l, fmt.Sprintf("orders/%d", i), redlock.WithTTL(300*time.Millisecond))
		}
		synctest.Wait()
		nodes.Node(2).Hang()
		for _, lock := range held[:deleted] {
			nodes.Node(0).Miniredis().Del(lock.Resource())
		}
		time.Sleep(3 * time.Second)
		lost := 0
		for _, lock := range held[deleted:] {
			if lock.Err() != nil {
				lost++
			}
		}
		if lost > 0 {
			t.Errorf("%d of %d locks were lost that a quorum confirmed; want none", lost, locks-deleted)
		}
		nodes.Node(2).Resume()
	})
}

// The node timeout is at most a quarter of the lock's own TTL, unless it was given.
func TestCallsWaitNoLongerThanAQuarterOfTheLocksOwnTTL(t *testing.T) {
	const ttl = 300 * time.Millisecond
	for _, tt := range []struct {
		opts []redlock.Option
		want time.Duration
	}{
		{nil, ttl / 4},
		{[]redlock.Option{redlock.WithNodeTimeout(200 * time.Millisecond)}, 200 * time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			l, nodes := newLocker(t, 3, tt.opts...)
			lock := mustAcquire(t, l, "orders/41", redlock.WithTTL(ttl), redlock.WithFixedLease())
			synctest.Wait()
			nodes.Node(1).Hang()
			nodes.Node(2).Hang()
			began := time.Now()
			wantError(t, "Extend", lock.Extend(t.Context(), ttl), redlock.ErrNoQuorum)
			extended := time.Since(began)
			_, err := l.TryAcquire(t.Context(), "orders/42", redlock.WithTTL(ttl))
			wantError(t, "TryAcquire", err, redlock.ErrNoQuorum)
			acquired := time.Since(began) - extended
			if extended > tt.want || acquired > tt.want {
				t.Errorf("at a TTL of %v Extend took %v, TryAcquire %v; want at most %v", ttl, extended, acquired, tt.want)
			}
			nodes.Node(1).Resume()
			nodes.Node(2).Resume()
		})
	}
}

// One name that a node's ACL forbids has the call for all of them refused there: the
// others are asked for one by one.
func TestAForbiddenNameTakesNoOtherLocksRenewal(t *testing.T) {
	testkit.Unraced(t)
	synctest.Test(t, func(t *testing.T) {
		told := &events{}
		l, nodes := newLocker(t, 3, told.option())
		forbidden := mustAcquire(t, l, "forbidden")
		var held []*redlock.Lock
		for i := range 300 {
			held = append(held, mustAcquire(t, l, fmt.Sprintf("orders/%d", i)))
		}
		synctest.Wait()
		nodes.Node(0).Intercept(func(args []string) redlocktest.Verdict {
			if scriptOf(args) == "extend" && slices.Contains(args, "forbidden") {
				return redlocktest.ReplyError("NOPERM this user has no permissions to access one of the keys")
			}
			return redlocktest.Pass()
		})
		nodes.Node(2).Stop() // the others rest on the node that refuses
		time.Sleep(3 * redlock.DefaultTTL)
		for _, lock := range held {
			if err := lock.Err(); err != nil {
				t.Fatalf("%s: %v; want it renewed", lock.Resource(), err)
			}
		}
		for _, e := range told.of(redlock.ExtendFailed) {
			if e.Resource != "forbidden" {
				t.Fatalf("%s was not renewed at once: %v", e.Resource, e.Err)
			}
		}
		wantError(t, "the lock that may not be renewed", forbidden.Err(), redlock.ErrLost)
		nodes.Node(0).Intercept(nil)
	})
}

// A node confirms an extension, and is found to have stepped, or to have forgotten, while
// the others' word is still out. Their verdict does not make it count again.
func TestANodeThatIsDoubtedBeforeTheVerdictConfirmsNothing(t *testing.T) {
	readOnly := onScripts("acquire", redlocktest.ReplyError("READONLY You can't write against a read only replica."))
	for name, doubt := range map[string]func(n *redlocktest.Node) (undo func()){
		"its clock stepped": func(n *redlocktest.Node) func() { return ahead(time.Minute, n) },
		"it forgot":         func(n *redlocktest.Node) func() { n.Intercept(readOnly); return func() { n.Intercept(nil) } },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, nodes := newLocker(t, 3)
				lock := mustAcquire(t, l, "orders/42")
				time.Sleep(time.Second)
				nodes.Node(2).Hang()
				nodes.Node(1).Intercept(slowly("extend", 100*time.Millisecond))
				mustRelease(t, mustAcquire(t, l, "looked")) // so that the extension has no look of its own
				extended := make(chan error, 1)
				go func() { extended <- lock.Extend(t.Context(), redlock.DefaultTTL) }()
				synctest.Wait() // node 0 has confirmed
				defer doubt(nodes.Node(0))()
				if other, err := l.TryAcquire(t.Context(), "orders/41"); err == nil {
					t.Errorf("got token %v; want no quorum", other.Token())
				}
				wantError(t, "Extend", <-extended, redlock.ErrLost)
				wantError(t, "the lock", lock.Err(), redlock.ErrLost)
				nodes.Node(2).Resume()
			})
		})
	}
}

// The end of the caller's context is no fault of the nodes.
func TestAnExtensionWhoseContextEndsBlamesNoNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		lock := mustAcquire(t, l, "orders/42")
		synctest.Wait()
		before := evals(nodes)
		done, cancel := context.WithCancel(t.Context())
		cancel()
		err := lock.Extend(done, redlock.DefaultTTL)
		if synctest.Wait(); !errors.Is(err, context.Canceled) || evals(nodes) != before {
			t.Errorf("a context that is done: got %v, and %d scripts; want its error, and none", err, evals(nodes)-before)
		}
		for _, n := range nodes.Nodes() {
			n.Hang()
		}
		short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		err = lock.Extend(short, redlock.DefaultTTL)
		if !errors.Is(err, context.DeadlineExceeded) || strings.Contains(errorText(err), "node timeout") {
			t.Errorf("a context that ends meanwhile: got %v; want its error, and no word of the node timeout", err)
		}
		for _, n := range nodes.Nodes() {
			n.Resume()
		}
		must(t, lock.Extend(t.Context(), redlock.DefaultTTL))
		mustRelease(t, lock)
	})
}
