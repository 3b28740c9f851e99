package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// oneMaster is redlock over a single master, where most begin, beside the two that are made
// for one: a goroutine alone, and crowds of 64 and 512 on names of their own. bsm/redislock
// is the base: it asks for least.
func (r *run) oneMaster(ctx context.Context) (err error) {
	five := r.servers
	defer func() { r.servers = five }()
	if r.servers, err = startCluster(r.program, 1); err != nil { //nolint:contextcheck // a start is bounded by chaos itself
		return err
	}
	one := r.servers
	defer func() { err = errors.Join(err, one.stop()) }()
	specs := []spec{
		{name: nameRedlock, note: "fenced", masters: 1, commands: scriptsOnly, open: openRedlock},
		{name: nameBSM, note: "no token", masters: 1, commands: scriptsOnly, open: openBSM},
		{name: nameAlone, note: "no token, three keys", masters: 1, commands: scriptsOnly, open: openRueidisAlone},
	}
	for _, g := range []int{1, 64, 512} {
		if err := r.oneMasterFor(ctx, specs, g); err != nil {
			return err
		}
	}
	return nil
}

// oneMasterFor is one size of the crowd.
func (r *run) oneMasterFor(ctx context.Context, specs []spec, g int) error {
	name := "onemaster" + strconv.Itoa(g)
	d, pairs := time.Duration(r.scale(2000, 400))*time.Millisecond, 0
	title := fmt.Sprintf("one master, %d goroutines on distinct names, %v a round, %d rounds", g, d, r.rounds)
	if g == 1 {
		d, pairs = 0, r.scale(1500, 200)
		title = fmt.Sprintf("one master, one goroutine, %d pairs a round, %d rounds", pairs, r.rounds)
	}
	from, err := readUsage(ctx, r.servers)
	if err != nil {
		return err
	}
	ts, err := r.race(ctx, specs, func(t *entrant) (slice, error) {
		return measure(ctx, r.env(), t.spec, t.contender, g, d, pairs)
	})
	if err != nil {
		return err
	}
	to, err := readUsage(ctx, r.servers)
	if err != nil {
		return err
	}
	used := to.since(from)
	s := section{
		Workload: name, Title: title, Load: used,
		Header: []string{"contender", "pairs/s", "p50 us", "p99 us", "over bsm (p50)", "over bsm (pairs/s)", "allocations a pair", "failed"},
	}
	base, ours := ts.named(nameBSM), ts.named(nameRedlock)
	for _, t := range ts {
		failed, last := t.failures()
		s.Rows = append(s.Rows, []string{
			t.name + " (" + t.note + ")", number3(t.throughput()), number3(t.latency(0.5)), number3(t.latency(0.99)),
			number3(t.latency(0.5) / base.latency(0.5)), number3(t.throughput() / base.throughput()),
			number3(t.allocs()), strconv.Itoa(failed),
		})
		if last != nil {
			s.Notes = append(s.Notes, fmt.Sprintf("%s: the last failure was: %v.", t.name, last))
		}
	}
	gates := []gate{r.noFailures(name, ours)}
	if g == 1 {
		gates = append(gates, stated(demand(name, "p50 over bsm/redislock", over(ours.latency(0.5), base.latency(0.5)), atMost, 1.3, "")))
	} else {
		g := demand(name, "pairs a second over bsm/redislock"+busyNote(used), ours.throughput()/base.throughput(), atLeast, 1.5, "")
		if !used.quiet() { // the cores are the others' then, not the contenders'
			g = stated(g)
		}
		gates = append(gates, g)
	}
	r.add(s, gates...)
	return nil
}
