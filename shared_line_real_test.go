//go:build unix

package redlock_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/testkit/testserver"
)

// Processes read one name all the time, and write it now and then, while one of five nodes
// is killed (kill -9) and comes back empty, one is stopped, and the connections that bring
// the calls of a third are cut: nobody reads while it is written, both kinds go on, and at the end
// nobody is left in line.
func TestReadersAndWritersWaitInOneLineOnRealServers(t *testing.T) {
	t.Parallel()
	const lease = 3 * time.Second
	servers := testserver.Need(t, 5, redisserver.Config{})
	open := func() *redlock.Locker {
		return openServers(t, servers, redlock.WithTTL(lease), redlock.WithMaxTTL(lease))
	}
	lockers := []*redlock.Locker{open(), open(), open()}
	admitted(t, lockers[0])
	for _, l := range lockers {
		warm(t, l)
	}
	eyes := look(t, servers).eyes
	ctx, stop := context.WithCancel(t.Context())
	var workers sync.WaitGroup
	var reading, writing, reads, writes atomic.Int64
	work := func(l *redlock.Locker, in, done *atomic.Int64, pause time.Duration, opts ...redlock.AcquireOption) {
		for ctx.Err() == nil {
			lock, err := l.Acquire(ctx, "orders/42", opts...)
			if errors.Is(err, redlock.ErrNoQuorum) { // a node is away, and another abstains
				continue
			}
			if err != nil {
				if !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
				return
			}
			in.Add(1)
			if w, r := writing.Load(), reading.Load(); (w > 1 || w == 1 && r > 0) && lock.Err() == nil {
				t.Errorf("%d write and %d read at one time", w, r)
			}
			done.Add(1)
			rest(ctx, pause)
			in.Add(-1)
			_ = lock.Release(context.Background()) // a node may be away
			rest(ctx, pause)
		}
	}
	for i, l := range lockers {
		for range 4 {
			workers.Go(func() { work(l, &reading, &reads, 5*time.Millisecond, redlock.WithShared()) })
		}
		if i < 2 {
			workers.Go(func() { work(l, &writing, &writes, 20*time.Millisecond) })
		}
	}
	goOn := func(when string) {
		t.Helper()
		r, w := reads.Load(), writes.Load()
		pollUntil(t, 30*time.Second, when+": both kinds go on", func() bool { return reads.Load() > r+20 && writes.Load() > w+5 })
	}
	goOn("at first")
	must(t, servers[0].Kill())
	goOn("one node killed")
	must(t, servers[1].Pause())
	goOn("another stopped")
	must(t, servers[1].Resume())
	must(t, servers[0].RestartEmpty())
	goOn("both back")
	for range 5 {
		must(t, eyes[2].ClientKillByFilter(t.Context(), "TYPE", "pubsub").Err())
		goOn("calls of one node cut")
	}
	stop()
	workers.Wait()
	pollUntil(t, 30*time.Second, "nobody is left in line", func() bool {
		return !slices.ContainsFunc(eyes, func(c *redis.Client) bool {
			return c.Exists(t.Context(), "orders/42", "redlock:queue:orders/42", "redlock:sharers:orders/42").Val() != 0
		})
	})
	t.Logf("%d reads and %d writes", reads.Load(), writes.Load())
}

// rest waits, or until ctx is done.
func rest(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
