package main

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/testkit"
)

// both opens this library and redsync over the same five real masters.
func both(t *testing.T, e *env) (*redlock.Locker, *redsync.Redsync) {
	t.Helper()
	cs := newClients(e.addrs)
	t.Cleanup(func() { _ = cs.close() })
	return open(t, openRedlock, e).locker, redsyncOver(cs)
}

func newTestEnv(t *testing.T) *env {
	t.Helper()
	c, err := clusterOf(t.Context(), redisserver.NeedAll(t, nodes, redisserver.Config{}))
	testkit.Must(t, err)
	return &env{servers: c, addrs: c.addrs(), options: []redlock.Option{redlock.WithNodeTimeout(2 * time.Second)}}
}

func open(t *testing.T, f opener, e *env) *contender {
	t.Helper()
	c, err := f(t.Context(), e)
	testkit.Must(t, err)
	t.Cleanup(func() {
		if err := c.close(); err != nil {
			t.Errorf("closing: %v", err)
		}
	})
	return c
}

func TestOurLockExcludesRedsync(t *testing.T) {
	ours, theirs := both(t, newTestEnv(t))
	lock, err := ours.Acquire(t.Context(), "migrated")
	testkit.Must(t, err)
	mutex := theirs.NewMutex("migrated")
	var taken *redsync.ErrTaken
	if err := mutex.TryLockContext(t.Context()); !errors.As(err, &taken) {
		t.Fatalf("redsync while we hold: got %v; want ErrTaken", err)
	}
	if err := lock.Err(); err != nil {
		t.Fatalf("our lock after redsync's attempt and its rollback: got %v; want it held", err)
	}
	if err := lock.Extend(t.Context(), redlock.DefaultMaxTTL); err != nil {
		t.Fatalf("extending after redsync's rollback: %v", err)
	}
	testkit.Must(t, lock.Release(t.Context()))
	if err := mutex.LockContext(t.Context()); err != nil {
		t.Fatalf("redsync after our release: %v", err)
	}
}

func TestRedsyncExcludesOurLock(t *testing.T) {
	ours, theirs := both(t, newTestEnv(t))
	mutex := theirs.NewMutex("migrated")
	testkit.Must(t, mutex.LockContext(t.Context()))
	if _, err := ours.TryAcquire(t.Context(), "migrated"); !errors.Is(err, redlock.ErrNotAcquired) {
		t.Fatalf("while redsync holds: got %v; want ErrNotAcquired", err)
	}
	if ok, err := mutex.UnlockContext(t.Context()); !ok {
		t.Fatalf("redsync's unlock after our attempt and its rollback: %v", err)
	}
	lock, err := ours.Acquire(t.Context(), "migrated")
	if err != nil {
		t.Fatalf("after redsync's unlock: %v", err)
	}
	testkit.Must(t, lock.Release(t.Context()))
}

// Both kinds contend for one name until each has held it five times.
func TestAMixedFleetNeverHoldsTwice(t *testing.T) {
	e := newTestEnv(t)
	ours, theirs := both(t, e)
	const holders, times = 2, 5
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var inside atomic.Int32
	enter := func(who string) {
		if n := inside.Add(1); n != 1 {
			t.Errorf("%s: got %d holders; want 1", who, n)
		}
		// The work under the lock: what two holders would do at once gets lost.
		count, err := e.servers[0].control.Get(ctx, "work").Int()
		if err == nil || errors.Is(err, redis.Nil) {
			err = e.servers[0].control.Set(ctx, "work", count+1, 0).Err()
		}
		if err != nil {
			t.Errorf("%s: the work: %v", who, err)
		}
		inside.Add(-1)
	}
	var fleet sync.WaitGroup
	for range holders {
		fleet.Go(func() {
			for range times {
				lock, err := ours.Acquire(ctx, "shared")
				if err != nil {
					t.Errorf("redlock: %v", err)
					return
				}
				enter("redlock")
				if err := lock.Release(ctx); err != nil {
					t.Errorf("redlock: %v", err)
				}
			}
		})
		fleet.Go(func() {
			mutex := theirs.NewMutex("shared", redsync.WithTries(1000))
			for range times {
				if err := mutex.LockContext(ctx); err != nil {
					t.Errorf("redsync: %v", err)
					return
				}
				enter("redsync")
				if ok, err := mutex.UnlockContext(ctx); !ok {
					t.Errorf("redsync: unlock: %v", err)
				}
			}
		})
	}
	fleet.Wait()
	if got, err := e.servers[0].control.Get(t.Context(), "work").Int(); got != 2*holders*times || err != nil {
		t.Errorf("got %d pieces of work, %v; want %d, none lost", got, err, 2*holders*times)
	}
}
