package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/quorumkit/redlock"
)

// handoverRunner is one contender of the handover workload: how it is opened, and
// over how many of the masters.
type handoverRunner struct {
	spec
	turns int // 0: not this library
	runs  map[string][]handoverSlice
}

// handoverSlice is what many goroutines that want one name made of a while.
type handoverSlice struct {
	wall      time.Duration
	handovers int
	waits     []time.Duration
	least     float64 // a goroutine's share, as a part of the fair one
	most      float64
	commands  float64 // for each hand-over, over all masters
}

// crowd is so many processes (here: Lockers of their own) of so many goroutines.
type crowd struct{ processes, goroutines int }

func (c crowd) String() string { return fmt.Sprintf("%d x %d", c.processes, c.goroutines) }

// The crowds; the last three are for what a hand-over costs the servers.
var (
	oneProcess    = crowd{1, 32}
	fourProcesses = crowd{4, 8}
	smallCrowd    = crowd{10, 1}
	mediumCrowd   = crowd{10, 10}
	largeCrowd    = crowd{10, 100}
)

func handoverField() []*handoverRunner {
	ours := func(k int) *handoverRunner {
		s := redlockSpec
		s.name, s.note = fmt.Sprintf("%s, turns of %d", nameRedlock, k), "fenced, five masters"
		return &handoverRunner{spec: s, turns: k, runs: map[string][]handoverSlice{}}
	}
	redsync := spec{name: nameRedsync, note: "five masters", masters: nodes, commands: []string{"set", "evalsha"}, open: openRedsync}
	rueidis := spec{name: nameRueidis, note: "one server", masters: 1, commands: scriptsOnly, open: openRueidis}
	return []*handoverRunner{
		ours(redlock.DefaultTurns), ours(1),
		{spec: redsync, runs: map[string][]handoverSlice{}},
		{spec: rueidis, runs: map[string][]handoverSlice{}},
	}
}

// handover measures how fast a name goes from one goroutine to the next, how
// fairly, and what that costs the servers.
func (r *run) handover(ctx context.Context) error {
	field, d := handoverField(), time.Duration(r.scale(4000, 1000))*time.Millisecond
	from, err := readUsage(ctx, r.servers)
	if err != nil {
		return err
	}
	for round := range r.rounds {
		for _, t := range field {
			for _, c := range []crowd{oneProcess, fourProcesses, smallCrowd, mediumCrowd, largeCrowd} {
				if t.turns != redlock.DefaultTurns && c.processes == 10 {
					continue
				}
				s, err := r.crowded(ctx, t, c, d)
				if err != nil {
					return fmt.Errorf("%s, %s: %w", t.name, c, err)
				}
				r.progress("handover %d: %s, %s: %.0f/s, longest wait %.1f times the mean", round, t.name, c, s.perSecond(), s.longest())
				t.runs[c.String()] = append(t.runs[c.String()], s)
			}
		}
	}
	to, err := readUsage(ctx, r.servers)
	if err != nil {
		return err
	}
	r.tellHandover(field, to.since(from))
	return nil
}

// crowded has a crowd want one name for a while.
func (r *run) crowded(ctx context.Context, t *handoverRunner, c crowd, d time.Duration) (s handoverSlice, err error) {
	e := r.envAt(r.servers.addrs()[:t.masters])
	if t.turns > 0 {
		e.options = append(e.options, redlock.WithTurns(t.turns))
	}
	var lockers []contender
	defer func() {
		for _, l := range lockers {
			err = errors.Join(err, l.close())
		}
	}()
	for range c.processes {
		l, err := t.open(ctx, e)
		if err != nil {
			return s, err
		}
		lockers = append(lockers, l)
		if err := pair(ctx, l, "warm"); err != nil {
			return s, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	_, before, err := commandTime(context.WithoutCancel(ctx), r.servers[:t.masters], t.commands)
	if err != nil {
		return s, err
	}
	start := time.Now()
	counts := make([]int, c.processes*c.goroutines)
	waits := make([][]time.Duration, len(counts))
	var workers sync.WaitGroup
	for i := range counts {
		workers.Go(func() {
			counts[i], waits[i] = crowdWorker(ctx, lockers[i%c.processes], "hot:"+strconv.Itoa(c.goroutines))
		})
	}
	workers.Wait()
	s.wall = time.Since(start)
	_, after, err := commandTime(context.WithoutCancel(ctx), r.servers[:t.masters], t.commands)
	for i, n := range counts {
		s.handovers += n
		s.waits = append(s.waits, waits[i]...)
	}
	fair := float64(max(s.handovers, 1)) / float64(len(counts))
	s.least = float64(counts[0]) / fair
	for _, n := range counts {
		s.least, s.most = min(s.least, float64(n)/fair), max(s.most, float64(n)/fair)
	}
	s.commands = float64(after-before) / float64(max(s.handovers, 1))
	return s, err
}

// crowdWorker takes and releases the name until ctx ends.
func crowdWorker(ctx context.Context, l contender, name string) (n int, waits []time.Duration) {
	for {
		start := time.Now()
		h, err := l.acquire(ctx, name)
		if ctx.Err() != nil {
			if err == nil {
				_ = h.release(context.WithoutCancel(ctx)) //nolint:errcheck // it lapses
			}
			return n, waits
		}
		if err != nil {
			continue // a library that gives up by itself
		}
		n++
		waits = append(waits, time.Since(start))
		_ = h.release(context.WithoutCancel(ctx)) //nolint:errcheck // what fails is cleaned by its lease
	}
}

func (s *handoverSlice) perSecond() float64 { return float64(s.handovers) / s.wall.Seconds() }

// longest is the longest wait, in mean waits.
func (s *handoverSlice) longest() float64 {
	sum := time.Duration(0)
	for _, w := range s.waits {
		sum += w
	}
	if len(s.waits) == 0 {
		return 0
	}
	return float64(percentile(s.waits, 1)) * float64(len(s.waits)) / float64(sum)
}

// middle is the median over the rounds of a crowd's figure.
func (t *handoverRunner) middle(c crowd, f func(*handoverSlice) float64) float64 {
	var values []float64
	for i := range t.runs[c.String()] {
		values = append(values, f(&t.runs[c.String()][i]))
	}
	return median(values)
}

func (r *run) tellHandover(field []*handoverRunner, l load) {
	const name = "handover"
	speed := func(t *handoverRunner, c crowd) float64 { return t.middle(c, (*handoverSlice).perSecond) }
	table := section{
		Workload: name, Title: "one name, no time held, medians of the rounds", Load: l,
		Header: []string{"library", "processes x goroutines", "hand-overs/s", "longest wait / mean", "least and most of a fair share", "commands a hand-over"},
		Notes:  []string{"A process is a Locker of its own in the same program."},
	}
	for _, t := range field {
		for _, c := range []crowd{oneProcess, fourProcesses, smallCrowd, mediumCrowd, largeCrowd} {
			if len(t.runs[c.String()]) == 0 {
				continue
			}
			table.Rows = append(table.Rows, []string{
				t.name + " (" + t.note + ")", c.String(), number3(speed(t, c)), number3(t.middle(c, (*handoverSlice).longest)),
				number3(t.middle(c, func(s *handoverSlice) float64 { return s.least })) + " to " + number3(t.middle(c, func(s *handoverSlice) float64 { return s.most })),
				number3(t.middle(c, func(s *handoverSlice) float64 { return s.commands })),
			})
		}
	}
	ours, redsync, rueidis := field[0], field[2], field[3]
	commands := func(c crowd) float64 { return ours.middle(c, func(s *handoverSlice) float64 { return s.commands }) }
	gates := []gate{
		demand(name, "1 x 32 beside redsync", speed(ours, oneProcess)/max(speed(redsync, oneProcess), 1), atLeast, 40, " times"),
		demand(name, "1 x 32 beside rueidislock on one server", speed(ours, oneProcess)/max(speed(rueidis, oneProcess), 1), atLeast, 12, " times"),
		demand(name, "4 x 8 beside redsync", speed(ours, fourProcesses)/max(speed(redsync, fourProcesses), 1), atLeast, 20, " times"),
		demand(name, "4 x 8 beside rueidislock on one server", speed(ours, fourProcesses)/max(speed(rueidis, fourProcesses), 1), atLeast, 0.9, " times"),
		demand(name, "commands a hand-over, 10 waiters", commands(smallCrowd), atMost, 25, ""),
		demand(name, "commands a hand-over, 100 waiters", commands(mediumCrowd), atMost, 10, ""),
		demand(name, "commands a hand-over, 1,000 waiters", commands(largeCrowd), atMost, 10, ""),
	}
	for _, c := range []crowd{oneProcess, fourProcesses} {
		gates = append(gates,
			demand(name, c.String()+", longest wait", ours.middle(c, (*handoverSlice).longest), atMost, 3, " times the mean"),
			demand(name, c.String()+", least share", ours.middle(c, func(s *handoverSlice) float64 { return s.least }), atLeast, 0.9, ""),
			demand(name, c.String()+", most share", ours.middle(c, func(s *handoverSlice) float64 { return s.most }), atMost, 1.1, ""))
	}
	r.add(table, gates...)
}
