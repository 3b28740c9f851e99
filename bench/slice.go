package main

import (
	"context"
	"runtime"
	"strconv"
	"sync"
	"time"
)

// pairBound is how long one acquire or release may take until the pair counts as
// failed.
const pairBound = 5 * time.Second

// slice is one contender's share of one round.
type slice struct {
	pairs    []time.Duration // what each pair took, acquire and release together
	failures int
	wall     time.Duration
	allocs   float64       // per pair, of the whole process
	script   time.Duration // of all its masters together
	last     error         // of the failures
}

// perSecond is the throughput.
func (s *slice) perSecond() float64 { return float64(len(s.pairs)) / s.wall.Seconds() }

// scriptMicros is the servers' command time, per pair and master.
func (s *slice) scriptMicros(masters int) float64 {
	if len(s.pairs) == 0 {
		return 0
	}
	return micros(s.script) / float64(len(s.pairs)) / float64(masters)
}

// measure lets g goroutines take and release locks on names of their own, for
// the time, or pairs times where that is positive.
func measure(ctx context.Context, e *env, sp spec, c contender, g int, d time.Duration, pairs int) (slice, error) {
	masters := e.servers[:sp.masters]
	before, _, err := commandTime(ctx, masters, sp.commands)
	if err != nil {
		return slice{}, err
	}
	runtime.GC()
	var m0, m1 runtime.MemStats
	runtime.ReadMemStats(&m0)
	total := &slice{}
	var mu sync.Mutex // guards total
	var workers sync.WaitGroup
	start := time.Now()
	for w := range g {
		workers.Go(func() {
			one := work(ctx, c, "job:"+sp.name+":"+strconv.Itoa(w), start.Add(d), pairs)
			mu.Lock()
			defer mu.Unlock()
			total.pairs = append(total.pairs, one.pairs...)
			total.failures += one.failures
			if one.last != nil {
				total.last = one.last
			}
		})
	}
	workers.Wait()
	total.wall = time.Since(start)
	runtime.ReadMemStats(&m1)
	total.allocs = float64(m1.Mallocs-m0.Mallocs) / float64(max(len(total.pairs), 1))
	after, _, err := commandTime(ctx, masters, sp.commands)
	total.script = after - before
	return *total, err
}

// work is one goroutine of measure.
func work(ctx context.Context, c contender, name string, until time.Time, pairs int) slice {
	s := slice{pairs: make([]time.Duration, 0, max(pairs, 4096))}
	for i := 0; pairs > 0 && i < pairs || pairs <= 0 && time.Now().Before(until); i++ {
		start := time.Now()
		if err := pair(ctx, c, name); err != nil {
			s.failures, s.last = s.failures+1, err
			continue
		}
		s.pairs = append(s.pairs, time.Since(start))
	}
	return s
}

// pair takes and releases one lock.
func pair(ctx context.Context, c contender, name string) error {
	ctx, cancel := context.WithTimeout(ctx, pairBound)
	defer cancel()
	h, err := c.acquire(ctx, name)
	if err != nil {
		return err
	}
	return h.release(ctx)
}
