package redlock_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lab/redisserver"
)

// What a program does to its Locker that uses up the connections of its clients.

// pooled are clients of the servers, of the program's.
func pooled(t *testing.T, servers []*redisserver.Server, change func(*redis.Options)) []redis.UniversalClient {
	t.Helper()
	clients := make([]redis.UniversalClient, len(servers))
	for i, s := range servers {
		o := &redis.Options{Addr: s.Addr(), PoolTimeout: time.Minute}
		change(o)
		c := redis.NewClient(o)
		t.Cleanup(func() { _ = c.Close() })
		clients[i] = c
	}
	return clients
}

// useUp asks for n connections of each client at once, as the program does, and keeps those
// that it gets. It returns when it has so many of them as it is to get.
func useUp(t *testing.T, clients []redis.UniversalClient, n, gets int) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	var asking sync.WaitGroup
	t.Cleanup(func() { stop(); asking.Wait() })
	for _, c := range clients {
		var got atomic.Int64
		for range n {
			asking.Go(func() {
				for ctx.Err() == nil {
					conn := c.(*redis.Client).Conn()
					if conn.Ping(ctx).Err() == nil {
						got.Add(1)
						<-ctx.Done()
					}
					_ = conn.Close()
				}
			})
		}
		pollUntil(t, 20*time.Second, "the program has its connections", func() bool { return got.Load() >= int64(gets) })
	}
}

// A lock is renewed on the connection that it was taken on, also where the program uses up
// the rest of its pool.
func TestAHeldLockDoesNotDependOnThePoolThatItsProgramUsesUp(t *testing.T) {
	t.Parallel()
	const ttl = 3 * time.Second
	servers := needMasters(t, 3, redisserver.Config{})
	for name, change := range map[string]func(*redis.Options){
		"a pool of two":            func(o *redis.Options) { o.PoolSize = 2 },
		"RESP2":                    func(o *redis.Options) { o.PoolSize, o.Protocol = 2, 2 },
		"two active connections":   func(o *redis.Options) { o.PoolSize, o.MaxActiveConns = 2, 2 },
		"no pool of its pipelines": func(o *redis.Options) { o.PoolSize, o.PipelinePoolSize = 2, -1 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clients := pooled(t, servers, change)
			l := lockerWith(t, clients, redlock.WithTTL(ttl))
			warm(t, l)
			lock := mustAcquire(t, l, name)
			useUp(t, clients, 2, 1)
			select {
			case <-lock.Done():
				t.Errorf("lost: %v; want it held", lock.Err())
			case <-time.After(3 * ttl):
			}
			must(t, lock.Release(t.Context()))
		})
	}
}

// An attempt that got no connection says so, however long the pool lets it wait.
func TestAPoolThatTheProgramHasUsedUpIsNamed(t *testing.T) {
	t.Parallel()
	servers := needMasters(t, 3, redisserver.Config{})
	for name, change := range map[string]func(*redis.Options){
		"a pool of one":             func(o *redis.Options) { o.PoolSize, o.PipelinePoolSize = 1, -1 },
		"a pool of two":             func(o *redis.Options) { o.PoolSize = 2 },
		"with a short pool timeout": func(o *redis.Options) { o.PoolSize, o.PoolTimeout = 2, 10*time.Millisecond },
		"two active connections":    func(o *redis.Options) { o.PoolSize, o.MaxActiveConns = 2, 2 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clients := pooled(t, servers, change)
			used, fresh := lockerWith(t, clients), lockerWith(t, clients)
			warm(t, used)
			must(t, redlock.WarmUp(t.Context(), used)) // no node has a command out
			size := clients[0].(*redis.Client).Options().PoolSize
			useUp(t, clients, size, size)
			for range 3 { // the first failure has no pause
				for _, l := range []*redlock.Locker{used, fresh} {
					_, err := l.TryAcquire(t.Context(), name)
					wantError(t, "TryAcquire", err, redlock.ErrNoQuorum)
					if err != nil && (!strings.Contains(err.Error(), "PoolSize") || strings.Contains(err.Error(), "no reply")) {
						t.Errorf("got %v; want the pool named, and no reply blamed", err)
					}
				}
			}
		})
	}
}
