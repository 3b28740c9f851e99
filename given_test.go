package redlock_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lab/redisserver"
)

// givenNodes are the masters of REDLOCK_TEST_NODES, which somebody else runs.
const givenNodes = "REDLOCK_TEST_NODES"

// What a lock promises on servers that nobody breaks: on those of the test's
// own, and on the given ones, of any kind and version. Nothing else there is
// touched: names have a prefix of this run. New masters are waited for, not
// admitted, since somebody may hold a lock on them.
func TestMastersThatNobodyBreaks(t *testing.T) {
	t.Parallel()
	t.Run("its own", func(t *testing.T) {
		t.Parallel()
		var urls []string
		for _, s := range needMasters(t, 3, redisserver.Config{}) {
			urls = append(urls, s.URL())
		}
		lockOver(t, urls)
	})
	t.Run("given", func(t *testing.T) {
		t.Parallel()
		nodes := os.Getenv(givenNodes)
		if nodes == "" {
			t.Skip(givenNodes + " gives no masters: host:port,host:port,...")
		}
		lockOver(t, strings.Split(nodes, ","))
	})
}

func lockOver(t *testing.T, urls []string) {
	t.Helper()
	prefix := redlock.WithPrefix("redlock-test:" + uuid.NewString() + ":")
	open := func() *redlock.Locker {
		l, err := redlock.Open(t.Context(), urls, prefix, redlock.WithNodeTimeout(2*time.Second))
		if err != nil {
			t.Fatalf("Open: %v", err)
		}
		t.Cleanup(func() { must(t, l.Close()) })
		return l
	}
	here, there := open(), open()
	ctx, cancel := context.WithTimeout(t.Context(), 2*redlock.DefaultMaxTTL)
	defer cancel()
	for _, l := range []*redlock.Locker{here, there} {
		if err := l.Cluster().Join(ctx); err != nil {
			t.Fatalf("Join: %v", err)
		}
	}
	t.Run("one holds", func(t *testing.T) { oneHolds(t, here, there) })
	t.Run("renewed", func(t *testing.T) { renewed(t, here, there) })
	t.Run("a crowd", func(t *testing.T) { crowd(t, here, there) })
}

// oneHolds: exclusion, growing tokens, and nothing left after a release.
func oneHolds(t *testing.T, here, there *redlock.Locker) {
	t.Helper()
	lock := mustAcquire(t, here, "one")
	if _, err := there.TryAcquire(t.Context(), "one"); !errors.Is(err, redlock.ErrNotAcquired) {
		t.Errorf("while it is held: got %v; want ErrNotAcquired", err)
	}
	must(t, lock.Extend(t.Context(), 20*time.Second))
	if left := lock.Remaining(); left < 15*time.Second {
		t.Errorf("got %v left after the extension; want most of 20 s", left)
	}
	must(t, lock.Release(t.Context()))
	next := mustAcquire(t, there, "one")
	if next.Token() <= lock.Token() {
		t.Errorf("got token %d after %d; want a greater one", next.Token(), lock.Token())
	}
	must(t, next.Release(t.Context()))
	eventually(t, 10*time.Second, func() bool { return clean(t, here, "one") })
}

// clean tells whether no node holds the name any more.
func clean(t *testing.T, l *redlock.Locker, name string) bool {
	t.Helper()
	i, err := l.Inspect(t.Context(), name)
	must(t, err)
	for _, n := range i.Nodes {
		if n.Err != nil || n.Owner != "" {
			return false
		}
	}
	return true
}

// renewed: a lock outlives its lease, for as long as it is held.
func renewed(t *testing.T, here, there *redlock.Locker) {
	t.Helper()
	const ttl = 3 * time.Second
	lock := mustAcquire(t, here, "renewed", redlock.WithTTL(ttl))
	ctx, cancel := context.WithTimeout(t.Context(), ttl+time.Second)
	defer cancel()
	if _, err := there.Acquire(ctx, "renewed"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v; want the deadline: it is held for longer than a lease", err)
	}
	must(t, lock.Err())
	must(t, lock.Release(t.Context()))
}

// crowd: a counter that only the lock guards.
func crowd(t *testing.T, lockers ...*redlock.Locker) {
	t.Helper()
	const each, rounds = 4, 5
	count := 0
	var all sync.WaitGroup
	for _, l := range lockers {
		for range each {
			all.Go(func() {
				for range rounds {
					if err := l.Do(t.Context(), "crowd", func(context.Context, *redlock.Lock) error {
						count++ // the race detector looks on
						return nil
					}); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	all.Wait()
	if want := len(lockers) * each * rounds; count != want {
		t.Errorf("counted %d; want %d", count, want)
	}
}
