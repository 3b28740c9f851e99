package redlock_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/redlocktest"
)

// foreignOn holds orders/42 on these nodes as a client that is not redlock's.
func foreignOn(t *testing.T, nodes *redlocktest.Cluster, which ...int) {
	t.Helper()
	for _, i := range which {
		must(t, nodes.Node(i).Miniredis().Set("orders/42", "c29tZWJvZHkgZWxzZQ=="))
	}
}

// Clients that stand in no line find the name free where one of them was seen on it
// lately: the release calls who waits. It may have been seen by any attempt.
func TestAReleaseCallsWhereAForeignHolderWasSeen(t *testing.T) {
	for name, take := range map[string]func(*testing.T, *redlock.Locker, *redlocktest.Cluster) *redlock.Lock{
		"by an attempt that no release can grant":      seenByABid,
		"by an attempt that was refused, and given up": seenByARefusal,
		"by the attempt that brought the lock":         seenByAGrant,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				told := &events{}
				l, nodes := newLocker(t, 5, redlock.WithTurns(1))
				next := separateLocker(t, nodes, told.option())
				warm(t, l)
				warm(t, next)
				lock := take(t, l, nodes)
				synctest.Wait()
				waits := wants(t, next)
				time.Sleep(500 * time.Millisecond)
				mustRelease(t, lock)
				mustRelease(t, got(t, waits).lock)
				synctest.Wait()
				if got := told.of(redlock.LockAcquired); got[len(got)-1].Turn != redlock.TurnCalled {
					t.Errorf("got %+v; want a lock that was called for", got[len(got)-1])
				}
			})
		})
	}
}

// seenByABid gives up an attempt whose lease is too short for a grant.
func seenByABid(t *testing.T, l *redlock.Locker, nodes *redlocktest.Cluster) *redlock.Lock {
	t.Helper()
	return seenInVain(t, l, nodes, redlock.WithTTL(2*time.Second))
}

// seenByARefusal gives up an attempt that a release could have granted.
func seenByARefusal(t *testing.T, l *redlock.Locker, nodes *redlocktest.Cluster) *redlock.Lock {
	t.Helper()
	return seenInVain(t, l, nodes)
}

func seenInVain(t *testing.T, l *redlock.Locker, nodes *redlocktest.Cluster, opts ...redlock.AcquireOption) *redlock.Lock {
	t.Helper()
	foreignOn(t, nodes, 0, 1, 2, 3, 4)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := l.Acquire(ctx, "orders/42", opts...); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v; want the end of the context", err)
	}
	synctest.Wait()
	freed(nodes, 0, 1, 2, 3, 4)
	return mustAcquire(t, l, "orders/42")
}

// seenByAGrant has two nodes become a foreign client's while the lock is waited for, and
// the others free.
func seenByAGrant(t *testing.T, l *redlock.Locker, nodes *redlocktest.Cluster) *redlock.Lock {
	t.Helper()
	holder := separateLocker(t, nodes)
	warm(t, holder)
	mustAcquire(t, holder, "orders/42", redlock.WithTTL(20*time.Second), redlock.WithFixedLease())
	synctest.Wait()
	next := standing(t, nodes, l)
	foreignOn(t, nodes, 3, 4)
	freed(nodes, 0, 1, 2)
	nodes.Node(2).Intercept(slowly("ask", 5*time.Millisecond)) // so that the others are asked, and answer
	calls(t, nodes, 0, 1)
	lock := got(t, next).lock
	freed(nodes, 3, 4)
	return lock
}
