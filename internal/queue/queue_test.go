package queue

import (
	"fmt"
	"testing"
	"time"

	"github.com/quorumkit/redlock/internal/round"
)

// fillLine has so many goroutines stand in one line, and returns what has them all
// quit it, the last one first.
func fillLine(waiters int) (leave func()) {
	q := New(1)
	name, _ := q.Try("orders/42")
	stand := make([]*Waiter, waiters)
	for i := range stand {
		stand[i] = &Waiter{}
		name.joinLocked(stand[i])
	}
	return func() {
		for i := waiters - 1; i >= 0; i-- {
			q.quit(name, stand[i])
		}
	}
}

// 50,000 waiters of one name that were cancelled together stalled every other name
// of their Locker for 1.3 s: each searched the whole line for itself, and shifted
// it, under the mutex that all names share.
func TestLeavingALineCostsTheSameHoweverLongItIs(t *testing.T) {
	const short, long = 1_000, 64_000
	each := func(waiters int) time.Duration {
		leave := fillLine(waiters)
		start := time.Now()
		leave()
		return time.Since(start) / time.Duration(waiters)
	}
	var few, many time.Duration
	for range 5 { // a busy machine may slow down one line alone
		few, many = 1<<63-1, 1<<63-1
		for range 8 { // the least is what it costs where nothing else ran in between
			few, many = min(few, each(short)), min(many, each(long))
		}
		if many <= 8*few {
			return
		}
	}
	t.Errorf("each of %d costs %v, each of %d costs %v; want the same, or nearly", short, few, long, many)
}

// BenchmarkLeaveLine is what one costs who leaves a line of so many, from its end.
func BenchmarkLeaveLine(b *testing.B) {
	for _, waiters := range []int{100, 50_000} {
		b.Run(fmt.Sprintf("waiters=%d", waiters), func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				leave := fillLine(waiters)
				b.StartTimer()
				leave()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(waiters), "ns/waiter")
		})
	}
}

// A reign that went past those who wait leaves the process its place, as any hold does.
func TestAReignThatBargedLeavesThePlace(t *testing.T) {
	q := New(8)
	name, _ := q.Try("jobs")
	q.Stand(name, 1)
	name.joinLocked(&Waiter{})
	if q.CountHold("jobs", true, true); q.Ending("jobs") != round.LeaveEntry {
		t.Error("the place was given up")
	}
	if q.CountHold("jobs", false, true); q.Ending("jobs") != round.LeaveQueue {
		t.Error("a reign is a whole turn: the place was kept")
	}
}
