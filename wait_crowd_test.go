package redlock_test

import (
	"context"
	"sync"
	"testing"
	"time"
)

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
