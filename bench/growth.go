package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// point is one size of a cluster and of what uses it: how many masters, Lockers, goroutines of
// all Lockers together, and names that the goroutines take in turn.
type point struct {
	what                                string
	masters, lockers, goroutines, names int
}

// growthPoints have one size grow at a time. A Locker stands for a process.
func (r *run) growthPoints() (points []point) {
	for _, n := range []int{1, 3, 5, 7, 9} {
		points = append(points, point{fmt.Sprintf("masters: %d", n), n, 1, 64, 64})
	}
	for _, n := range []int{1000, 100_000} {
		points = append(points, point{fmt.Sprintf("names: %d", n), nodes, 1, 64, n})
	}
	for _, n := range []int{1, 10, 100, 1000} {
		points = append(points, point{fmt.Sprintf("waiters for one name: %d", n), nodes, 1, 1 + n, 1})
	}
	for _, n := range []int{10, 100, r.scale(1000, 200)} {
		points = append(points, point{fmt.Sprintf("Lockers: %d", n), nodes, n, max(64, n), max(64, n)})
	}
	return points
}

// growth is what a pair costs against the size of all that it depends on.
func (r *run) growth(ctx context.Context) error {
	s := section{
		Workload: "growth", Title: fmt.Sprintf("cost against size: 64 goroutines on names of their own, 5 masters and one Locker, unless the first column says otherwise; %d rounds", r.rounds),
		Header: []string{"size", "pairs/s", "p50 us", "p99 us", "script calls a pair and master", "server us a pair and master"},
	}
	for _, p := range r.growthPoints() {
		row, err := r.grown(ctx, p)
		if err != nil {
			return fmt.Errorf("%s: %w", p.what, err)
		}
		s.Rows = append(s.Rows, append([]string{p.what}, row...))
	}
	r.add(s)
	return nil
}

// grown measures one point, over masters of its own: medians over the rounds.
func (r *run) grown(ctx context.Context, p point) (row []string, err error) {
	c, err := startCluster(ctx, p.masters)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	lockers := make([]*contender, p.lockers)
	for i := range lockers {
		if lockers[i], err = openRedlock(ctx, &env{servers: c, addrs: c.addrs()}); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, lockers[i].close()) }()
	}
	var figures [5][]float64
	for round := range 1 + r.rounds {
		before, err := c.usage(ctx)
		if err != nil {
			return nil, err
		}
		parts, start := make([][]time.Duration, p.goroutines), time.Now()
		var next atomic.Int64
		var failed error
		var workers sync.WaitGroup
		var once sync.Once
		for w := range parts {
			workers.Go(func() {
				for at := time.Now(); at.Sub(start) < time.Duration(r.scale(1500, 300))*time.Millisecond; at = time.Now() {
					name := "growth:" + strconv.FormatInt(next.Add(1)%int64(p.names), 10)
					if _, err := pair(ctx, lockers[w%p.lockers], name); err != nil {
						once.Do(func() { failed = err })
						return
					}
					parts[w] = append(parts[w], time.Since(at))
				}
			})
		}
		workers.Wait()
		wall := time.Since(start)
		after, err := c.usage(ctx)
		if err = errors.Join(err, failed); err != nil {
			return nil, err
		}
		if all := slices.Concat(parts...); round > 0 { // the first warms up
			pairs := float64(len(all))
			share := pairs * float64(p.masters)
			for i, f := range []float64{
				pairs / wall.Seconds(), micros(percentile(all, 0.5)), micros(percentile(all, 0.99)),
				float64(total(after.calls, scriptsOnly)-total(before.calls, scriptsOnly)) / share,
				float64(total(after.micros, scriptsOnly)-total(before.micros, scriptsOnly)) / share,
			} {
				figures[i] = append(figures[i], f)
			}
		}
	}
	for i := range figures {
		row = append(row, number3(median(figures[i])))
	}
	return row, nil
}
