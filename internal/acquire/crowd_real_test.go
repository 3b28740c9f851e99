package acquire_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/internal/testkit/locktest"
	"github.com/quorumkit/redlock/internal/testkit/testserver"
)

// One Locker waited for more names than a node's queue has room for. It lost its own hold,
// TryAcquire of free names failed, and once all were released it got none for minutes.
func TestALockerWaitsForThousandsOfNames(t *testing.T) {
	testkit.NotRaced(t)
	names := testkit.Of(6000, 30000)
	const lease = 5 * time.Second
	servers := testserver.Need(t, 3, redisserver.Config{})
	open := func() *redlock.Locker {
		return locktest.OpenServers(t, servers, redlock.WithTTL(lease), redlock.WithMaxTTL(time.Minute), redlock.WithNodeTimeout(lease/5))
	}
	holder, waiter := open(), open()
	locktest.Admit(t, holder)
	locks := make([]*redlock.Lock, names)
	each(names, func(i int) {
		lock, err := holder.Acquire(t.Context(), fmt.Sprintf("orders/%d", i), redlock.WithTTL(time.Minute))
		if locks[i] = lock; err != nil {
			t.Error(err)
		}
	})
	if t.Failed() {
		return
	}
	own := locktest.MustAcquire(t, waiter, "own")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var got atomic.Int64
	var waiting sync.WaitGroup
	for i := range names {
		waiting.Go(func() {
			lock, err := waiter.Acquire(ctx, fmt.Sprintf("orders/%d", i))
			if err != nil {
				if !errors.Is(err, context.Canceled) {
					t.Errorf("a waiter: %v", err)
				}
				return
			}
			got.Add(1)
			_ = lock.Release(context.Background()) // it may be lost on a machine that stands still
		})
	}
	defer func() { cancel(); waiting.Wait() }()
	var eyes []redis.UniversalClient
	for _, server := range servers {
		eyes = append(eyes, locktest.ClientOf(t, server))
	}
	locktest.PollUntil(t, time.Minute, "all stand in line on a quorum", func() bool {
		keys := int64(0)
		for _, eye := range eyes {
			keys += eye.DBSize(t.Context()).Val()
		}
		return keys >= int64((3+2)*names) // held on all nodes
	})
	for i := range 10 {
		lock, err := waiter.TryAcquire(t.Context(), fmt.Sprintf("free/%d", i))
		if err != nil {
			t.Fatalf("a free name: %v", err)
		}
		testkit.Must(t, lock.Release(t.Context()))
	}
	each(names, func(i int) { _ = locks[i].Release(context.Background()) })
	locktest.PollUntil(t, time.Minute, "all have had their lock", func() bool { return got.Load() == int64(names) })
	if err := own.Err(); err != nil {
		t.Errorf("the hold of the Locker that waited: %v", err)
	}
}

// each does something for all numbers below n, some at a time.
func each(n int, do func(i int)) {
	var next atomic.Int64
	var workers sync.WaitGroup
	for range 256 {
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				do(i)
			}
		})
	}
	workers.Wait()
}
