package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"time"
)

// pairBound is how long one acquire or release may take until the pair counts as
// failed.
const pairBound = 5 * time.Second

type slice struct {
	acquires []time.Duration
	pairs    []time.Duration // acquire and release together
	failures int
	wall     time.Duration
	allocs   float64 // per pair, of the whole process
	script   float64 // us of the servers' command time, per pair and master
	calls    float64 // of scripts, per pair and master
	last     error   // of the failures
}

func (s *slice) perSecond() float64 { return float64(len(s.pairs)) / s.wall.Seconds() }

type entrant struct {
	spec
	contender *contender
	slices    []slice
}

// figure is the median over the rounds of one value of a slice.
func (t *entrant) figure(f func(*slice) float64) float64 {
	var values []float64
	for i := range t.slices {
		values = append(values, f(&t.slices[i]))
	}
	return median(values)
}

func (t *entrant) latency(p float64) float64 {
	return t.figure(func(s *slice) float64 { return micros(percentile(s.pairs, p)) })
}

func (t *entrant) acquireLatency(p float64) float64 {
	return t.figure(func(s *slice) float64 { return micros(percentile(s.acquires, p)) })
}

func (t *entrant) throughput() float64 { return t.figure((*slice).perSecond) }
func (t *entrant) allocs() float64     { return t.figure(func(s *slice) float64 { return s.allocs }) }

func (t *entrant) scriptTime() float64 { return t.figure(func(s *slice) float64 { return s.script }) }

// failures sums up the pairs that failed, and returns the last cause.
func (t *entrant) failures() (n int, last error) {
	for _, s := range t.slices {
		n, last = n+s.failures, cmp.Or(s.last, last)
	}
	return n, last
}

// noFailures demands that every pair succeeded: a ratio over failures is worth
// nothing.
func (t *entrant) noFailures(workload string) gate {
	n, _ := t.failures()
	return demand(workload, "failed pairs", float64(n), atMost, 0, "")
}

type entrants []*entrant

func (ts entrants) named(name string) *entrant {
	for _, t := range ts {
		if t.name == name {
			return t
		}
	}
	panic("bench: no contender " + name)
}

// race opens the contenders and gives each its slice in every round, one after the other, so that
// all else that the machine does falls on all alike. Each round begins with another one (A B C,
// B C A, ...): who is first is quicker. One more round goes before, to warm up. g goroutines take
// locks for d, or each takes this many pairs if that is positive.
func (r *run) race(ctx context.Context, specs []spec, g int, d time.Duration, pairs int) (ts entrants, err error) {
	defer func() {
		for _, t := range ts {
			err = errors.Join(err, t.contender.close())
		}
	}()
	for _, sp := range specs {
		c, err := sp.open(ctx, r.env())
		if err != nil {
			return ts, fmt.Errorf("%s: %w", sp.name, err)
		}
		ts = append(ts, &entrant{spec: sp, contender: c})
	}
	for round := range 1 + r.rounds {
		for i := range ts {
			t := ts[(round+i)%len(ts)]
			s, err := measure(ctx, r.servers, t, g, d, pairs)
			if err != nil {
				return ts, fmt.Errorf("%s: %w", t.name, err)
			}
			if round > 0 {
				t.slices = append(t.slices, s)
			}
		}
	}
	return ts, nil
}

func measure(ctx context.Context, c cluster, t *entrant, g int, d time.Duration, pairs int) (s slice, err error) {
	masters := c[:t.masters]
	before, err := masters.usage(ctx)
	if err != nil {
		return s, err
	}
	runtime.GC()
	var m0, m1 runtime.MemStats
	runtime.ReadMemStats(&m0)
	parts := make([]slice, g)
	var workers sync.WaitGroup
	start := time.Now()
	for w := range parts {
		workers.Go(func() {
			parts[w] = work(ctx, t.contender, "job:"+t.name+":"+strconv.Itoa(w), start.Add(d), pairs)
		})
	}
	workers.Wait()
	s.wall = time.Since(start)
	runtime.ReadMemStats(&m1)
	for _, one := range parts {
		s.acquires, s.pairs = append(s.acquires, one.acquires...), append(s.pairs, one.pairs...)
		s.failures, s.last = s.failures+one.failures, cmp.Or(one.last, s.last)
	}
	s.allocs = float64(m1.Mallocs-m0.Mallocs) / float64(max(len(s.pairs), 1))
	after, err := masters.usage(ctx)
	share := float64(t.masters * max(len(s.pairs), 1))
	s.script = float64(total(after.micros, t.commands)-total(before.micros, t.commands)) / share
	s.calls = float64(total(after.calls, scriptsOnly)-total(before.calls, scriptsOnly)) / share
	return s, err
}

func work(ctx context.Context, c *contender, name string, until time.Time, pairs int) slice {
	room := max(pairs, 4096)
	s := slice{acquires: make([]time.Duration, 0, room), pairs: make([]time.Duration, 0, room)}
	for i := 0; pairs > 0 && i < pairs || pairs <= 0 && time.Now().Before(until); i++ {
		start := time.Now()
		acquired, err := pair(ctx, c, name)
		if err != nil {
			s.failures, s.last = s.failures+1, err
			continue
		}
		s.acquires, s.pairs = append(s.acquires, acquired.Sub(start)), append(s.pairs, time.Since(start))
	}
	return s
}

func pair(ctx context.Context, c *contender, name string) (acquired time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, pairBound)
	defer cancel()
	h, err := c.acquire(ctx, name)
	if err != nil {
		return acquired, err
	}
	acquired = time.Now()
	return acquired, h.Release(ctx)
}

// pairs is a race of g goroutines for pairs. One alone takes so many; more go on for a
// while.
func (r *run) pairs(ctx context.Context, workload string, g int, specs []spec, base string) (ts entrants, s section, err error) {
	d, pairs := time.Duration(r.scale(2000, 400))*time.Millisecond, 0
	title := fmt.Sprintf("%d goroutines on distinct names, %v a round, %d rounds", g, d, r.rounds)
	if g == 1 {
		pairs = r.scale(1500, 200)
		title = fmt.Sprintf("one goroutine, %d pairs a round, %d rounds", pairs, r.rounds)
	}
	used, err := r.servers.during(ctx, func() (err error) {
		ts, err = r.race(ctx, specs, g, d, pairs)
		return err
	})
	if err != nil {
		return nil, s, err
	}
	s = section{
		Workload: workload, Title: title, Load: used,
		Header: []string{
			"contender", "pairs/s", "p50 us", "p99 us", "over " + base + " (p50)", "over " + base + " (pairs/s)",
			"allocations a pair", "server us a pair and server", "failed",
		},
	}
	beside := ts.named(base)
	for _, t := range ts {
		failed, last := t.failures()
		s.Rows = append(s.Rows, []string{
			t.name + " (" + t.note + ")", number3(t.throughput()), number3(t.latency(0.5)), number3(t.latency(0.99)),
			number3(t.latency(0.5) / beside.latency(0.5)), number3(t.throughput() / beside.throughput()),
			number3(t.allocs()), number3(t.scriptTime()), strconv.Itoa(failed),
		})
		if last != nil {
			s.Notes = append(s.Notes, fmt.Sprintf("%s: the last failure was: %v.", t.name, last))
		}
	}
	return ts, s, nil
}

func (r *run) uncontended(ctx context.Context) error {
	const name = "uncontended"
	ts, s, err := r.pairs(ctx, name, 1, slices.Insert(slices.Clone(field), 1, bareSpec), nameRedsync)
	if err != nil {
		return err
	}
	ours := ts.named(nameRedlock)
	beside := func(name string) float64 { return over(ours.latency(0.5), ts.named(name).latency(0.5)) }
	r.add(s,
		demand(name, "p50 over the raw floor", beside(nameFloor), atMost, 1.35, ""),
		stated(demand(name, "p50 over redsync", beside(nameRedsync), atMost, 1.3, "")),
		demand(name, "p50 over without the protections", beside(nameBare), atMost, 1.05, ""),
		demand(name, "allocations a pair", ours.allocs(), atMost, 40, ""), // 20 to 25 are of the pipelines that carry TIME behind the acquires
		ours.noFailures(name))
	return nil
}

func (r *run) many(ctx context.Context, g int) error {
	name := "load" + strconv.Itoa(g)
	ts, s, err := r.pairs(ctx, name, g, field, nameRedsync)
	if err != nil {
		return err
	}
	ours := ts.named(nameRedlock)
	beside := func(name string) float64 { return ours.throughput() / ts.named(name).throughput() }
	least := map[int]map[bool]float64{64: {true: 4.5, false: 3.5}, 512: {true: 5.5, false: 4.5}}[g][s.Load.quiet()]
	r.add(s,
		demand(name, "pairs a second over redsync"+busyNote(s.Load), beside(nameRedsync), atLeast, least, ""),
		demand(name, "pairs a second over the raw floor", beside(nameFloor), atLeast, 0.65, ""),
		ours.noFailures(name),
		stated(demand(name, "pairs a second over rueidislock's on one server", beside(nameAlone), atLeast, 0.8, "")))
	return nil
}

func busyNote(l load) string {
	if l.quiet() {
		return " (quiet cores)"
	}
	return " (busy cores)"
}

// oneMaster is redlock over a single master, where most begin, beside the two that are made
// for one: a goroutine alone, and crowds of 64 and 512 on names of their own. bsm/redislock
// is the base: it asks for least.
func (r *run) oneMaster(ctx context.Context) (err error) {
	five := r.servers
	defer func() { r.servers = five }()
	if r.servers, err = startCluster(ctx, 1); err != nil {
		return err
	}
	one := r.servers
	defer func() { err = errors.Join(err, one.stop()) }()
	specs := []spec{
		{nameRedlock, "fenced", 1, scriptsOnly, openRedlock},
		{nameBSM, "no token", 1, scriptsOnly, openBSM},
		{nameAlone, "no token, three keys", 1, scriptsOnly, openRueidisAlone},
	}
	for _, g := range []int{1, 64, 512} {
		name := "onemaster" + strconv.Itoa(g)
		ts, s, err := r.pairs(ctx, name, g, specs, nameBSM)
		if err != nil {
			return err
		}
		ours, base := ts.named(nameRedlock), ts.named(nameBSM)
		beside := stated(demand(name, "p50 over bsm/redislock", over(ours.latency(0.5), base.latency(0.5)), atMost, 1.3, ""))
		if g > 1 {
			beside = demand(name, "pairs a second over bsm/redislock"+busyNote(s.Load), ours.throughput()/base.throughput(), atLeast, 1.5, "")
			beside.Stated = !s.Load.quiet() // busy cores are the others', not the contenders'
		}
		r.add(s, ours.noFailures(name), beside)
	}
	return nil
}
