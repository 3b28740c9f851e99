package redlock_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/quorumkit/redlock"
)

// 50,000 waiters of one name that were cancelled together stalled every other name
// of their Locker for 1.3 s: each searched the whole line for itself, and shifted
// it, under the mutex that all names share.
func TestLeavingALineCostsTheSameHoweverLongItIs(t *testing.T) {
	const short, long = 1_000, 64_000
	each := func(waiters int) time.Duration {
		best := time.Duration(1<<63 - 1)
		for range 8 { // the least is what it costs where nothing else ran in between
			leave := redlock.FillLine(waiters)
			start := time.Now()
			leave()
			best = min(best, time.Since(start)/time.Duration(waiters))
		}
		return best
	}
	if few, many := each(short), each(long); many > 8*few {
		t.Errorf("each of %d costs %v, each of %d costs %v; want the same, or nearly", short, few, long, many)
	}
}

// BenchmarkLeaveLine is what one costs who leaves a line of so many, from its end.
func BenchmarkLeaveLine(b *testing.B) {
	for _, waiters := range []int{100, 50_000} {
		b.Run(fmt.Sprintf("waiters=%d", waiters), func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				leave := redlock.FillLine(waiters)
				b.StartTimer()
				leave()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(waiters), "ns/waiter")
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
		for redlock.InLine(l, "crowded") < 50_000 {
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
