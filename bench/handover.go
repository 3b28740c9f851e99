package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/quorumkit/redlock"
)

const crowdArg = "-crowd-child"

const (
	crowdWarm  = 400 * time.Millisecond // does not count: connections are made, and the line forms
	windowSize = 1000                   // hand-overs that the longest wait is judged by
)

// crowd is so many processes of so many goroutines that want one name.
type crowd struct{ processes, goroutines int }

func (c crowd) String() string { return fmt.Sprintf("%d x %d", c.processes, c.goroutines) }

// The crowds; the last three show the servers' cost of a hand-over.
var (
	oneProcess    = crowd{1, 32}
	fourProcesses = crowd{4, 8}
	hot           = []crowd{oneProcess, fourProcesses}
	allCrowds     = append(slices.Clone(hot), crowd{10, 1}, crowd{10, 10}, crowd{10, 100})
)

// crowdRunner is one contender of the handover workload, and the results of its crowds.
type crowdRunner struct {
	spec    // but for open: each child opens its own
	library string
	turns   int // 0: not this library
	crowds  []crowd
	slices  map[crowd][]crowdSlice
}

func handoverField() []*crowdRunner {
	const fenced, one = "fenced, five masters", "one server"
	runner := func(name, note string, masters int, commands []string, library string, turns int, crowds []crowd) *crowdRunner {
		return &crowdRunner{spec{name, note, masters, commands, nil}, library, turns, crowds, map[crowd][]crowdSlice{}}
	}
	return []*crowdRunner{
		runner(fmt.Sprintf("redlock, turns of %d", redlock.DefaultTurns), fenced, nodes, sentToLines, nameRedlock, redlock.DefaultTurns, allCrowds),
		runner("redlock, turns of 1", fenced, nodes, sentToLines, nameRedlock, 1, allCrowds),
		runner(nameRedsync, "five masters", nodes, []string{"set", "evalsha"}, nameRedsync, 0, hot),
		runner(nameRueidis, one, 1, scriptsOnly, nameRueidis, 0, hot),
		runner(nameOneKey, one, 1, scriptsOnly, nameOneKey, 0, hot),
	}
}

func (r *run) handover(ctx context.Context) error {
	const name = "handover"
	field, d := handoverField(), time.Duration(r.scale(1200, 700))*time.Millisecond
	used, err := r.servers.during(ctx, func() error {
		for range r.rounds {
			for _, t := range field {
				for _, c := range t.crowds {
					s, err := r.crowded(ctx, t, c, d)
					if err != nil {
						return fmt.Errorf("%s, %s: %w", t.name, c, err)
					}
					t.slices[c] = append(t.slices[c], s)
				}
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	table := section{
		Workload: name, Title: fmt.Sprintf("one name, no time held, medians of %d rounds", r.rounds), Load: used,
		Header: []string{"library", "processes x goroutines", "hand-overs/s", "longest wait / mean (worst)", "least and most of a fair share", "commands a hand-over", "taken again %"},
		Notes:  []string{"A hand-over goes from one goroutine to a different one; what the last holder took again is not counted. The longest wait is that of each 1,000 holds in a row."},
	}
	for _, t := range field {
		for _, c := range t.crowds {
			f := t.figures(c)
			table.Rows = append(table.Rows, []string{
				t.name + " (" + t.note + ")", c.String(), number3(f.perSecond), number3(median(f.longest)) + " (" + number3(percentile(f.longest, 1)) + ")",
				number3(f.least) + " to " + number3(f.most), number3(f.commands), strconv.FormatFloat(100*f.again, 'f', 1, 64),
			})
		}
	}
	r.add(table, handoverGates(name, field, used)...)
	return nil
}

type holdRecord struct {
	At    int64  // when it began, by the machine's clock, in ns
	Wait  int64  // since it was asked for, in ns
	Who   int    // the goroutine
	Token uint64 // 0: the library has none
}

func crowdChild(ctx context.Context, p *part, c *contender, parent *wire) error {
	var d time.Duration
	if err := parent.in.Decode(&d); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	holds := make([][]holdRecord, p.Goroutines)
	var workers sync.WaitGroup
	for i := range holds {
		workers.Go(func() { holds[i] = crowdWorker(ctx, c, p.Name, i) })
	}
	workers.Wait()
	return parent.out.Encode(slices.Concat(holds...))
}

func crowdWorker(ctx context.Context, c *contender, name string, who int) (holds []holdRecord) {
	asked := time.Now()
	for ctx.Err() == nil {
		h, err := c.acquire(ctx, name)
		if err != nil {
			continue // a library that gives up by itself asks again
		}
		now := time.Now()
		one := holdRecord{At: now.UnixNano(), Wait: int64(now.Sub(asked)), Who: who}
		if l, ok := h.(*redlock.Lock); ok {
			one.Token = uint64(l.Token())
		}
		holds = append(holds, one)
		_ = h.Release(context.WithoutCancel(ctx)) // after a failure the lease cleans up
		asked = time.Now()
	}
	return holds
}

type crowdSlice struct {
	perSecond float64   // hand-overs from one goroutine to a different one
	longest   []float64 // the longest wait of each window, in mean waits of the window
	least     float64   // a goroutine's share, as a part of the fair one
	most      float64
	commands  float64 // for each hand-over, over all masters
	again     float64 // of all holds, those that the last holder took again
}

// crowded makes a crowd compete for one name for d, after the beginning.
func (r *run) crowded(ctx context.Context, t *crowdRunner, c crowd, d time.Duration) (s crowdSlice, err error) {
	r.serial++
	masters := r.servers[:t.masters]
	cs, err := startChildren(ctx, crowdArg, c.processes, part{
		Library: t.library, Addrs: masters.addrs(), Turns: t.turns, Name: "hot:" + strconv.Itoa(r.serial), Goroutines: c.goroutines,
	})
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, endChildren(cs)) }()
	before, err := masters.usage(ctx)
	if err != nil {
		return s, err
	}
	start := time.Now()
	each, err := played[[]holdRecord](cs, crowdWarm+d)
	if err != nil {
		return s, err
	}
	after, err := masters.usage(ctx)
	if err != nil {
		return s, err
	}
	var all []holdRecord
	for i, holds := range each {
		for _, h := range holds {
			h.Who += i * c.goroutines
			all = append(all, h)
		}
	}
	slices.SortFunc(all, func(a, b holdRecord) int { return cmp.Compare(a.At, b.At) })
	changes, fenced := changesOf(all)
	if !fenced {
		return s, fmt.Errorf("the tokens of %s do not grow from hold to hold", t.name)
	}
	from, to := start.Add(crowdWarm).UnixNano(), start.Add(crowdWarm+d).UnixNano()
	counted := slices.DeleteFunc(all, func(h holdRecord) bool { return h.At < from || h.At >= to })
	s.judge(counted, c.processes*c.goroutines, d)
	s.commands = float64(total(after.calls, t.commands)-total(before.calls, t.commands)) / float64(max(changes, 1))
	return s, nil
}

// changesOf counts the holds that another goroutine had than the one before, and
// tells whether the tokens grow, where there are any. Holds do not overlap, so
// their beginnings give their order, no matter the process.
func changesOf(holds []holdRecord) (n int, fenced bool) {
	for i := 1; i < len(holds); i++ {
		if holds[i].Who != holds[i-1].Who {
			n++
		}
		if holds[i].Token != 0 && holds[i].Token <= holds[i-1].Token {
			return n, false
		}
	}
	return n, true
}

// judge tells the figures of holds in their order, which so many goroutines had
// in a while of d.
func (s *crowdSlice) judge(holds []holdRecord, goroutines int, d time.Duration) {
	changes, _ := changesOf(holds)
	s.perSecond = float64(changes) / d.Seconds()
	s.again = 1 - float64(changes+1)/float64(max(len(holds), 1))
	counts := make([]int, goroutines)
	for _, h := range holds {
		counts[h.Who]++
	}
	fair := float64(max(len(holds), 1)) / float64(goroutines)
	s.least, s.most = float64(slices.Min(counts))/fair, float64(slices.Max(counts))/fair
	size := min(windowSize, max(len(holds), 1))
	for w := range slices.Chunk(holds, size) {
		sum, longest := int64(0), int64(0)
		for _, h := range w {
			sum, longest = sum+h.Wait, max(longest, h.Wait)
		}
		if len(w) == size && sum > 0 {
			s.longest = append(s.longest, float64(longest)*float64(size)/float64(sum))
		}
	}
}

// figures are the medians of a crowd's results over the rounds, and the longest waits of
// all rounds.
func (t *crowdRunner) figures(c crowd) (f crowdSlice) {
	fields := func(s *crowdSlice) []*float64 {
		return []*float64{&s.perSecond, &s.least, &s.most, &s.commands, &s.again}
	}
	for i, to := range fields(&f) {
		var values []float64
		for k := range t.slices[c] {
			values = append(values, *fields(&t.slices[c][k])[i])
		}
		*to = median(values)
	}
	for _, s := range t.slices[c] {
		f.longest = append(f.longest, s.longest...)
	}
	return f
}

func handoverGates(name string, field []*crowdRunner, l load) (gates []gate) {
	ours, strict, redsync, rueidis, oneKey := field[0], field[1], field[2], field[3], field[4]
	beside := func(c crowd, rival *crowdRunner, least float64) gate {
		what := fmt.Sprintf("%s, %s, beside %s (%s)", c, ours.name, rival.name, rival.note)
		return demand(name, what, ours.figures(c).perSecond/max(rival.figures(c).perSecond, 1), atLeast, least, " times")
	}
	for _, c := range hot {
		least := map[crowd][2]float64{oneProcess: {40, 12}, fourProcesses: {20, 0.9}}[c]
		// redsync sleeps between its tries: other work on the cores costs it nothing.
		asleep := beside(c, redsync, least[0])
		asleep.What += busyNote(l)
		asleep.Stated = !l.quiet()
		gates = append(gates, asleep, beside(c, rueidis, least[1]), stated(beside(c, oneKey, least[1])))
		for _, t := range []*crowdRunner{ours, strict} {
			f, what := t.figures(c), c.String()+", "+t.name
			gates = append(gates,
				demand(name, what+", longest wait", median(f.longest), atMost, 3, " times the mean"),
				demand(name, what+", least share", f.least, atLeast, 0.9, ""),
				demand(name, what+", most share", f.most, atMost, 1.1, ""))
		}
	}
	for i, c := range allCrowds[len(hot):] {
		gates = append(gates, demand(name, fmt.Sprintf("commands a hand-over, %s", c), ours.figures(c).commands, atMost, [...]float64{25, 10, 10}[i], ""))
	}
	return gates
}
