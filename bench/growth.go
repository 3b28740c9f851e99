package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lab/redisserver"
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
	var next atomic.Int64
	t := &entrant{spec: spec{p.what, "", p.masters, scriptsOnly, nil}, contender: &contender{acquire: func(ctx context.Context, _ string) (held, error) {
		i := int(next.Add(1))
		return lockers[i%p.lockers].acquire(ctx, "growth:"+strconv.Itoa(i%p.names))
	}}}
	for round := range 1 + r.rounds {
		s, err := measure(ctx, c, t, p.goroutines, time.Duration(r.scale(1500, 300))*time.Millisecond, 0)
		if err = errors.Join(err, s.last); err != nil {
			return nil, err
		}
		if round > 0 { // the first warms up
			t.slices = append(t.slices, s)
		}
	}
	calls := t.figure(func(s *slice) float64 { return s.calls })
	for _, f := range []float64{t.throughput(), t.latency(0.5), t.latency(0.99), calls, t.scriptTime()} {
		row = append(row, number3(f))
	}
	return row, nil
}

// onceGrown is pairs on three masters that grew from two, beside those on three that were
// founded, in turn.
func (r *run) onceGrown(ctx context.Context) (err error) {
	five := r.servers
	defer func() { r.servers = five }()
	started, err := redisserver.StartAll(6, redisserver.Config{}) //nolint:contextcheck // a start is bounded by chaos itself
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, redisserver.CloseAll(started)) }()
	short := redlock.WithMaxTTL(ttl) // growing takes as long
	founded, err := clusterOf(ctx, started[:3], short)
	if err != nil {
		return err
	}
	grew, err := clusterOf(ctx, started[3:5], short)
	if err != nil {
		return err
	}
	grew = append(grew, &server{started[5], started[5].Client()})
	l, err := redlock.Open(ctx, grew.addrs(), short, redlock.WithNodeTimeout(time.Second))
	if err != nil {
		return err
	}
	if err := errors.Join(l.Cluster().Change(ctx, redlock.Wanted{Add: []string{grew[2].Addr()}}, redlock.ChangeOptions{}), l.Close()); err != nil { //nolint:contextcheck // Close is bounded by itself
		return err
	}
	r.servers = append(founded, grew...)
	over := func(name string, c cluster) spec {
		return spec{name, "server us shared by six", 6, scriptsOnly, func(ctx context.Context, _ *env) (*contender, error) {
			return openRedlock(ctx, &env{addrs: c.addrs(), options: []redlock.Option{short}})
		}}
	}
	ts, s, err := r.pairs(ctx, "grown", 1, []spec{over("founded", founded), over("grown", grew)}, "founded")
	if err != nil {
		return err
	}
	r.add(s, demand("grown", "p50 of a pair where the list grew, over one where it did not", ts[1].latency(0.5)/ts[0].latency(0.5), atMost, 1.05, ""))
	return nil
}
