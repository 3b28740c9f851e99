package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/quorumkit/redlock"
)

// The names of the observing workload's contenders.
const (
	nameSilent   = "redlock, nobody observes"
	nameControl  = "redlock, nobody observes (the same again)"
	nameObserved = "redlock, observed"
)

// observedMost is how much slower a pair may be when it is observed.
const observedMost = 1.03

// observing is what an observer costs, that counts each event and adds up its
// times. The difference is smaller than what a busy machine adds from one moment to
// the next: so slices are short and many, one right after the other, each round gives
// one ratio, and the median of these is told. Two Lockers that nobody observes are
// the measure, and the ratio of the one to the other shows what such a ratio is worth.
func (r *run) observing(ctx context.Context) error {
	specs := []spec{
		{name: nameSilent, note: "fenced", masters: nodes, commands: scriptsOnly, open: openRedlock},
		{name: nameControl, note: "fenced", masters: nodes, commands: scriptsOnly, open: openRedlock},
		{name: nameObserved, note: "fenced", masters: nodes, commands: scriptsOnly, open: openObserved},
	}
	for _, load := range []struct {
		goroutines, pairs int
		of                string
		cost              func(*slice) float64
	}{
		{1, 200, "p50", func(s *slice) float64 { return micros(percentile(s.pairs, 0.5)) }},
		{64, 50, "time a pair", func(s *slice) float64 { return 1 / s.perSecond() }},
	} {
		if err := r.observed(ctx, specs, load.goroutines, load.pairs, load.of, load.cost); err != nil {
			return err
		}
	}
	return nil
}

// observed races g goroutines, each with this many pairs in a slice.
func (r *run) observed(ctx context.Context, specs []spec, g, pairs int, of string, cost func(*slice) float64) error {
	const name = "observing"
	from, err := readUsage(ctx, r.servers)
	if err != nil {
		return err
	}
	short := *r
	short.rounds = r.scale(60, 10)
	ts, err := short.race(ctx, specs, func(t *entrant) (slice, error) {
		return measure(ctx, r.env(), t.spec, t.contender, g, time.Hour, pairs)
	})
	if err != nil {
		return err
	}
	to, err := readUsage(ctx, r.servers)
	if err != nil {
		return err
	}
	silent, again, on := ts.named(nameSilent), ts.named(nameControl), ts.named(nameObserved)
	s := section{
		Workload: name, Load: to.since(from),
		Title:  fmt.Sprintf("%d goroutines, %d pairs each a slice, %d rounds of three slices in turn", g, pairs, short.rounds),
		Header: []string{"contender", "pairs/s", "p50 us", of + " over unobserved", "quartiles", "allocations a pair", "failed"},
	}
	for _, t := range ts {
		ratios := ratiosOf(t, cost, silent)
		if t == on {
			ratios = ratiosOf(t, cost, silent, again)
		}
		failed, _ := t.failures()
		s.Rows = append(s.Rows, []string{
			t.name, number3(t.throughput()), number3(t.latency(0.5)), strconv.FormatFloat(median(ratios), 'f', 3, 64),
			fmt.Sprintf("%.3f to %.3f", percentile(ratios, 0.25), percentile(ratios, 0.75)), number3(t.allocs()), strconv.Itoa(failed),
		})
	}
	label := fmt.Sprintf("%s over unobserved, %d goroutines", of, g)
	r.add(s,
		demand(name, label, median(ratiosOf(on, cost, silent, again)), atMost, observedMost, ""),
		stated(demand(name, label+": the same again, unobserved", median(ratiosOf(again, cost, silent)), atMost, observedMost, "")),
		demand(name, fmt.Sprintf("allocations that an observer adds a pair, %d goroutines", g), max(on.allocs()-silent.allocs(), 0), atMost, 1, ""),
		r.noFailures(name, on))
	return nil
}

// ratiosOf are the ratios of a contender's cost to the mean of the others', round by
// round.
func ratiosOf(t *entrant, cost func(*slice) float64, others ...*entrant) []float64 {
	var ratios []float64
	for i := range t.slices {
		base := 0.0
		for _, o := range others {
			base += cost(&o.slices[i]) / float64(len(others))
		}
		ratios = append(ratios, over(cost(&t.slices[i]), base))
	}
	return ratios
}

// openObserved is this library with an observer that counts.
func openObserved(ctx context.Context, e *env) (contender, error) {
	var counts [64]atomic.Uint64
	var times atomic.Int64
	observed := *e
	observed.options = append(slices.Clone(e.options), redlock.WithObserver(func(ev redlock.Event) {
		counts[int(ev.Kind)%len(counts)].Add(1)
		times.Add(int64(ev.Duration + ev.Held + ev.Validity))
	}))
	return openRedlock(ctx, &observed)
}
