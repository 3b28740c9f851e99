package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/quorumkit/redlock"
)

// crowdRunner is one contender of the handover workload: over how many of the
// masters it is opened, and what its crowds made of it.
type crowdRunner struct {
	name     string
	note     string
	library  string
	turns    int // 0: not this library
	masters  int
	commands []string // what its connections send, as INFO commandstats names it
	crowds   []crowd
	slices   map[crowd][]crowdSlice
}

// The crowds; the last three are for what a hand-over costs the servers.
var (
	oneProcess    = crowd{1, 32}
	fourProcesses = crowd{4, 8}
	smallCrowd    = crowd{10, 1}
	mediumCrowd   = crowd{10, 10}
	largeCrowd    = crowd{10, 100}
)

// sentByRedlock is all that a Locker sends once the scripts are loaded. What
// scripts call is not among it: PUBLISH is part of a release's script.
var sentByRedlock = []string{"evalsha", "time", "info", "subscribe", "ping"}

func handoverField() []*crowdRunner {
	hot := []crowd{oneProcess, fourProcesses}
	field := []*crowdRunner{
		{library: nameRedlock, turns: redlock.DefaultTurns, masters: nodes, commands: sentByRedlock, crowds: append(slices.Clone(hot), smallCrowd, mediumCrowd, largeCrowd)},
		{library: nameRedlock, turns: 1, masters: nodes, commands: sentByRedlock, crowds: append(slices.Clone(hot), smallCrowd, mediumCrowd, largeCrowd)},
		{library: nameRedsync, note: "five masters", masters: nodes, commands: []string{"set", "evalsha"}, crowds: hot},
		{library: nameRueidis, note: "one server", masters: 1, commands: scriptsOnly, crowds: hot},
		{library: nameOneKey, note: "one server", masters: 1, commands: scriptsOnly, crowds: hot},
	}
	for _, t := range field {
		if t.name, t.slices = t.library, map[crowd][]crowdSlice{}; t.turns > 0 {
			t.name, t.note = fmt.Sprintf("%s, turns of %d", t.library, t.turns), "fenced, five masters"
		}
	}
	return field
}

// handover measures how fast a name goes from one goroutine to a different one,
// how fairly, and what that costs the servers.
func (r *run) handover(ctx context.Context) error {
	field, d := handoverField(), time.Duration(r.scale(1200, 700))*time.Millisecond
	from, err := readUsage(ctx, r.servers)
	if err != nil {
		return err
	}
	for round := range r.rounds {
		for _, t := range field {
			for _, c := range t.crowds {
				s, err := r.crowded(ctx, t, c, d)
				if err != nil {
					return fmt.Errorf("%s, %s: %w", t.name, c, err)
				}
				r.progress("handover %d: %s, %s: %.0f/s, longest wait %.1f times the mean", round, t.name, c, s.perSecond, median(s.longest))
				t.slices[c] = append(t.slices[c], s)
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

// middle is the median over the rounds of a crowd's figure.
func (t *crowdRunner) middle(c crowd, f func(*crowdSlice) float64) float64 {
	var values []float64
	for i := range t.slices[c] {
		values = append(values, f(&t.slices[c][i]))
	}
	return median(values)
}

func (t *crowdRunner) speed(c crowd) float64 {
	return t.middle(c, func(s *crowdSlice) float64 { return s.perSecond })
}

func (t *crowdRunner) commandsFor(c crowd) float64 {
	return t.middle(c, func(s *crowdSlice) float64 { return s.commands })
}

// longest is the median over all windows, and the worst of them.
func (t *crowdRunner) longest(c crowd) (middle, worst float64) {
	var all []float64
	for _, s := range t.slices[c] {
		all = append(all, s.longest...)
	}
	if len(all) == 0 {
		return 0, 0
	}
	return median(all), slices.Max(all)
}

func (t *crowdRunner) shares(c crowd) (least, most float64) {
	return t.middle(c, func(s *crowdSlice) float64 { return s.least }), t.middle(c, func(s *crowdSlice) float64 { return s.most })
}

func (r *run) tellHandover(field []*crowdRunner, l load) {
	const name = "handover"
	table := section{
		Workload: name, Title: fmt.Sprintf("one name, no time held, medians of %d rounds", r.rounds), Load: l,
		Header: []string{"library", "processes x goroutines", "hand-overs/s", "longest wait / mean (worst)", "least and most of a fair share", "commands a hand-over", "taken again %"},
		Notes: []string{
			"A hand-over goes from one goroutine to a different one; what the last holder took again is not counted. The longest wait is that of each 1,000 holds in a row.",
		},
	}
	for _, t := range field {
		for _, c := range t.crowds {
			longest, worst := t.longest(c)
			least, most := t.shares(c)
			table.Rows = append(table.Rows, []string{
				t.name + " (" + t.note + ")", c.String(), number3(t.speed(c)), number3(longest) + " (" + number3(worst) + ")",
				number3(least) + " to " + number3(most), number3(t.commandsFor(c)),
				strconv.FormatFloat(100*t.middle(c, func(s *crowdSlice) float64 { return s.again }), 'f', 1, 64),
			})
		}
	}
	r.add(table, handoverGates(name, field, l)...)
}

func handoverGates(name string, field []*crowdRunner, l load) []gate {
	ours, strict, redsync, rueidis, oneKey := field[0], field[1], field[2], field[3], field[4]
	beside := func(who *crowdRunner, c crowd, rival *crowdRunner, least float64) gate {
		where := ""
		if rival.masters == 1 {
			where = " on one server"
		}
		return demand(name, fmt.Sprintf("%s, %s, beside %s%s", c, who.name, rival.library, where), who.speed(c)/max(rival.speed(c), 1), atLeast, least, " times")
	}
	// redsync sleeps between its tries: what else runs on the cores costs it nothing.
	quietly := func(g gate) gate {
		g.What += busyNote(l)
		g.Stated = !l.quiet()
		return g
	}
	gates := []gate{
		quietly(beside(ours, oneProcess, redsync, 40)), beside(ours, oneProcess, rueidis, 12),
		quietly(beside(ours, fourProcesses, redsync, 20)), beside(ours, fourProcesses, rueidis, 0.9),
		stated(beside(strict, oneProcess, redsync, 40)), stated(beside(strict, oneProcess, rueidis, 12)),
		stated(beside(strict, fourProcesses, redsync, 20)), stated(beside(strict, fourProcesses, rueidis, 0.9)),
		stated(beside(ours, oneProcess, oneKey, 12)), stated(beside(ours, fourProcesses, oneKey, 0.9)),
		demand(name, "commands a hand-over, 10 waiters", ours.commandsFor(smallCrowd), atMost, 25, ""),
		demand(name, "commands a hand-over, 100 waiters", ours.commandsFor(mediumCrowd), atMost, 10, ""),
		demand(name, "commands a hand-over, 1,000 waiters", ours.commandsFor(largeCrowd), atMost, 10, ""),
		stated(demand(name, "commands a hand-over, turns of 1, 100 waiters", strict.commandsFor(mediumCrowd), atMost, 7, "")),
		stated(demand(name, "commands a hand-over, turns of 1, 1,000 waiters", strict.commandsFor(largeCrowd), atMost, 7, "")),
	}
	for _, t := range []*crowdRunner{ours, strict} {
		for _, c := range []crowd{oneProcess, fourProcesses} {
			longest, _ := t.longest(c)
			least, most := t.shares(c)
			what := c.String() + ", " + t.name
			gates = append(gates,
				demand(name, what+", longest wait", longest, atMost, 3, " times the mean"),
				demand(name, what+", least share", least, atLeast, 0.9, ""),
				demand(name, what+", most share", most, atMost, 1.1, ""))
		}
	}
	return gates
}
