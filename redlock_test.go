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

// newLocker is a Locker over n in-process nodes, closed with the test.
func newLocker(t *testing.T, n int, opts ...redlock.Option) (*redlock.Locker, *redlocktest.Cluster) {
	t.Helper()
	nodes := redlocktest.Start(t, n)
	return lockerOver(t, nodes, opts...), nodes
}

// lockerOver is one more Locker over the same nodes.
func lockerOver(t *testing.T, nodes *redlocktest.Cluster, opts ...redlock.Option) *redlock.Locker {
	t.Helper()
	l, err := redlock.New(nodes.Clients(), append([]redlock.Option{redlock.WithNodeNames(nodes.Names()...)}, opts...)...)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Logf("Close: %v", err)
		}
	})
	return l
}

func mustAcquire(t *testing.T, l *redlock.Locker, resource string, opts ...redlock.AcquireOption) *redlock.Lock {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	lock, err := l.Acquire(ctx, resource, opts...)
	if err != nil {
		t.Fatalf("Acquire(%q): %v", resource, err)
	}
	return lock
}

func TestALockIsHeldByOneAndThenByTheNextWithAGreaterToken(t *testing.T) {
	for _, n := range []int{1, 2, 3, 4, 5, 7, 9} {
		synctest.Test(t, func(t *testing.T) {
			l, nodes := newLocker(t, n)
			other := lockerOver(t, nodes)
			first := mustAcquire(t, l, "orders/42")
			if _, err := other.TryAcquire(t.Context(), "orders/42"); !errors.Is(err, redlock.ErrNotAcquired) {
				t.Fatalf("%d nodes: TryAcquire while held: got %v; want ErrNotAcquired", n, err)
			}
			time.Sleep(time.Minute) // six leases: renewal keeps it
			if err := first.Err(); err != nil {
				t.Fatalf("%d nodes: after a minute: %v", n, err)
			}
			if err := first.Release(t.Context()); err != nil {
				t.Fatalf("%d nodes: Release: %v", n, err)
			}
			second := mustAcquire(t, other, "orders/42")
			if second.Token() <= first.Token() {
				t.Errorf("%d nodes: got token %v after %v; want a greater one", n, second.Token(), first.Token())
			}
			if err := second.Release(t.Context()); err != nil {
				t.Errorf("%d nodes: Release: %v", n, err)
			}
		})
	}
}
