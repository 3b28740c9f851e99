package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/quorumkit/redlock"
)

// The names of the sets workload's contenders.
const (
	nameOne = "one name"
	nameSet = "a set of names"
)

// setSize is how many names a set of the workload has.
const setSize = 8

// setMost is how much longer a free set may take to acquire than a free name: both are
// one round trip and one command a node.
const setMost = 1.5

// sets is what it costs to take several free names at once, beside one. Only the
// acquisition is timed: a release takes each name back for itself.
func (r *run) sets(ctx context.Context) error {
	const name = "sets"
	specs := []spec{
		{name: nameOne, note: "Acquire", masters: nodes, commands: scriptsOnly, open: openRedlock},
		{name: nameSet, note: fmt.Sprintf("AcquireAll of %d", setSize), masters: nodes, commands: scriptsOnly, open: openSets},
	}
	pairs := r.scale(1000, 200)
	from, err := readUsage(ctx, r.servers)
	if err != nil {
		return err
	}
	ts, err := r.race(ctx, specs, func(t *entrant) (slice, error) { return acquired(ctx, t, pairs), nil })
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
			t.name + " (" + t.note + ")", number3(t.latency(0.5)), number3(t.latency(0.99)), number3(over(t.latency(0.5), one.latency(0.5))), strconv.Itoa(failed),
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
