package redlock_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/testkit"
)

// realLocker is a Locker over n real servers of the benchmark's own.
func realLocker(tb testing.TB, n int) *redlock.Locker {
	tb.Helper()
	var urls []string
	for _, s := range redisserver.NeedAll(tb, n, redisserver.Config{}) {
		urls = append(urls, s.URL())
	}
	l, err := redlock.Open(tb.Context(), urls)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = l.Close() })
	admitted(tb, l)
	return l
}

// BenchmarkPair is one acquisition and its release, uncontended.
func BenchmarkPair(b *testing.B) {
	for _, n := range []int{1, 3, 5} {
		b.Run(fmt.Sprintf("nodes=%d", n), func(b *testing.B) {
			l := realLocker(b, n)
			b.ReportAllocs()
			for b.Loop() {
				pair(b, l, "orders/42")
			}
		})
	}
}

// BenchmarkPairs has many goroutines at it, each with names of its own.
func BenchmarkPairs(b *testing.B) {
	for _, goroutines := range []int{64, 512} {
		b.Run(fmt.Sprintf("nodes=5/goroutines=%d", goroutines), func(b *testing.B) {
			l := realLocker(b, 5)
			b.ReportAllocs()
			b.ResetTimer()
			var left atomic.Int64
			left.Store(int64(b.N))
			var wg sync.WaitGroup
			for g := range goroutines {
				wg.Go(func() {
					name := fmt.Sprintf("orders/%d", g)
					for left.Add(-1) >= 0 {
						pair(b, l, name)
					}
				})
			}
			wg.Wait()
		})
	}
}

// An uncontended pair over five servers allocates five times here (the claim, the value of
// its owner, two rounds, the lock), and five times a node in go-redis: three for a
// pipeline, two for the reply of TIME. A few come with what is looked at now and then.
func TestAPairAllocatesLittle(t *testing.T) {
	if testkit.UnderRace {
		t.Skip("the race detector allocates by itself")
	}
	l := realLocker(t, 5)
	const most = 5 + 5*5 + 3
	if got := testing.AllocsPerRun(500, func() { pair(t, l, "orders/42") }); got > most {
		t.Errorf("got %v allocations a pair; want at most %d", got, most)
	}
}

// A shared pair allocates eight times more: a sharer's members and their tokens are lists.
// A set of eight names does so some fourteen times a name, and shares its five calls.
func TestSharersAndSetsAllocateLittle(t *testing.T) {
	testkit.Full(t)
	if testkit.UnderRace {
		t.Skip("the race detector allocates by itself")
	}
	l := realLocker(t, 5)
	const shared, set = 42 + 3, 112 + 8
	if got := testing.AllocsPerRun(500, func() { pair(t, l, "orders/43", redlock.WithShared()) }); got > shared {
		t.Errorf("got %v allocations a shared pair; want at most %d", got, shared)
	}
	names := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	if got := testing.AllocsPerRun(500, func() { setOf(t, l, names) }); got > set {
		t.Errorf("got %v allocations a set of eight; want at most %d", got, set)
	}
}

// setOf acquires a set, and releases it.
func setOf(tb testing.TB, l *redlock.Locker, names []string) {
	tb.Helper()
	set, err := l.AcquireAll(context.Background(), names)
	if err != nil {
		tb.Error(err)
		return
	}
	if err := set.Release(context.Background()); err != nil {
		tb.Error(err)
	}
}

func pair(tb testing.TB, l *redlock.Locker, name string, opts ...redlock.AcquireOption) {
	tb.Helper()
	lock, err := l.Acquire(context.Background(), name, opts...)
	if err != nil {
		tb.Error(err)
		return
	}
	if err := lock.Release(context.Background()); err != nil {
		tb.Error(err)
	}
}

// BenchmarkEvent is what one event costs its Locker, observed or not.
func BenchmarkEvent(b *testing.B) {
	for name, opts := range map[string][]redlock.Option{"unobserved": nil, "observed": {redlock.WithObserver(func(redlock.Event) {})}} {
		b.Run(name, func(b *testing.B) {
			l, err := redlock.Open(b.Context(), []string{redisserver.NeedAll(b, 1, redisserver.Config{})[0].URL()}, opts...)
			if err != nil {
				b.Fatal(err)
			}
			defer l.Close()
			b.ReportAllocs()
			for b.Loop() {
				redlock.Tell(l, redlock.Event{Kind: redlock.EventLockAcquired, Node: -1})
			}
		})
	}
}

// BenchmarkPairWhileAnotherNamesWaitersLeave is the longest that a pair took while
// 50,000 waiters of another name were cancelled together.
func BenchmarkPairWhileAnotherNamesWaitersLeave(b *testing.B) {
	l := realLocker(b, 3)
	lock, err := l.Acquire(b.Context(), "crowded")
	if err != nil {
		b.Fatal(err)
	}
	defer lock.Release(context.Background()) //nolint:errcheck // the benchmark is over
	longest := time.Duration(0)
	for b.Loop() {
		ctx, cancel := context.WithCancel(b.Context())
		var all sync.WaitGroup
		for range 50_000 {
			all.Go(func() { _, _ = l.Acquire(ctx, "crowded") })
		}
		for l.Stats().Acquiring < 50_000 {
			time.Sleep(time.Millisecond)
		}
		gone := make(chan struct{})
		go func() { all.Wait(); close(gone) }()
		cancel()
		for left := false; !left; {
			start := time.Now()
			pair(b, l, "orders/42")
			longest = max(longest, time.Since(start))
			select {
			case <-gone:
				left = true
			default:
			}
		}
	}
	b.ReportMetric(float64(longest.Microseconds())/1000, "longest-ms")
}
