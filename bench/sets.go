package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quorumkit/redlock"
)

// The names of the sets workload's contenders.
const (
	nameOne = "one name"
	nameSet = "a set of names"
	farther = ", far away" // behind the name of a contender whose servers are
)

// farSlices is how many times fewer pairs a slice has over servers that are far away.
const farSlices = 20

// withFar adds the same contenders over these addresses of the servers.
func withFar(specs []spec, addrs []string) []spec {
	for _, near := range slices.Clone(specs) {
		far := near
		far.name += farther
		far.note += fmt.Sprintf(", servers %v away each way", wakeDelay)
		far.open = func(ctx context.Context, e *env) (contender, error) {
			there := *e
			there.addrs = addrs
			return near.open(ctx, &there)
		}
		specs = append(specs, far)
	}
	return specs
}

// pairsOf is how many pairs a contender's slice has.
func (t *entrant) pairsOf(pairs int) int {
	if strings.HasSuffix(t.name, farther) {
		return pairs / farSlices
	}
	return pairs
}

// beside is the contender's p50 over that of the one of this name that is as far away.
func (ts entrants) beside(t *entrant, name string) float64 {
	if strings.HasSuffix(t.name, farther) {
		name += farther
	}
	return over(t.latency(0.5), ts.named(name).latency(0.5))
}

// setSize is how many names a set of the workload has.
const setSize = 8

// setMost is how much longer a free set may take to acquire than a free name: both are
// one round trip and one command a node.
const setMost = 1.5

// sets is what it costs to take several free names at once, beside one. Only the
// acquisition is timed: a release takes each name back for itself.
func (r *run) sets(ctx context.Context) error {
	const name = "sets"
	far, end, err := r.farAway() //nolint:contextcheck // a proxy lives until it is closed
	if err != nil {
		return err
	}
	defer end()
	specs := withFar([]spec{
		{name: nameOne, note: "Acquire", masters: nodes, commands: scriptsOnly, open: openRedlock},
		{name: nameSet, note: fmt.Sprintf("AcquireAll of %d", setSize), masters: nodes, commands: scriptsOnly, open: openSets},
	}, far)
	pairs := r.scale(1000, 200)
	from, err := readUsage(ctx, r.servers)
	if err != nil {
		return err
	}
	ts, err := r.race(ctx, specs, func(t *entrant) (slice, error) { return acquired(ctx, t, t.pairsOf(pairs)), nil })
	if err != nil {
		return err
	}
	to, err := readUsage(ctx, r.servers)
	if err != nil {
		return err
	}
	one, set := ts.named(nameOne), ts.named(nameSet)
	s := section{
		Workload: name, Load: to.since(from),
		Title:  fmt.Sprintf("one goroutine, %d acquisitions of free names a round, %d rounds; the releases are not timed", pairs, r.rounds),
		Header: []string{"contender", "p50 us", "p99 us", "over one name (p50)", "failed"},
	}
	for _, t := range ts {
		failed, _ := t.failures()
		s.Rows = append(s.Rows, []string{
			t.name + " (" + t.note + ")", number3(t.latency(0.5)), number3(t.latency(0.99)), number3(ts.beside(t, nameOne)), strconv.Itoa(failed),
		})
	}
	r.add(s,
		demand(name, fmt.Sprintf("p50 of %d names over one name", setSize), over(set.latency(0.5), one.latency(0.5)), atMost, setMost, ""),
		r.noFailures(name, one), r.noFailures(name, set))
	return nil
}

// acquired times acquisitions of free names.
func acquired(ctx context.Context, t *entrant, count int) slice {
	s := slice{pairs: make([]time.Duration, 0, count)}
	began := time.Now()
	for range count {
		start := time.Now()
		h, err := t.contender.acquire(ctx, "set")
		if err != nil {
			s.failures, s.last = s.failures+1, err
			continue
		}
		s.pairs = append(s.pairs, time.Since(start))
		if err := h.release(ctx); err != nil {
			s.failures, s.last = s.failures+1, err
		}
	}
	s.wall = time.Since(began)
	return s
}

// lockSets is this library with several names for each that it is asked for.
type lockSets struct{ redlockLocks }

func openSets(ctx context.Context, e *env) (contender, error) {
	l, err := redlock.Open(ctx, e.addrs, e.options...)
	if err != nil {
		return nil, err
	}
	return &lockSets{redlockLocks{locker: l}}, nil
}

func (l *lockSets) acquire(ctx context.Context, resource string) (held, error) {
	names := make([]string, setSize)
	for i := range names {
		names[i] = resource + ":" + strconv.Itoa(i)
	}
	m, err := l.locker.AcquireAll(ctx, names)
	if err != nil {
		return nil, err
	}
	return lockSet{m}, nil
}

type lockSet struct{ locks *redlock.MultiLock }

func (l lockSet) extend(ctx context.Context) error  { return l.locks.Extend(ctx, ttl) }
func (l lockSet) release(ctx context.Context) error { return l.locks.Release(ctx) }
