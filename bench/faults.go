package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// The operations of a cycle.
const (
	opAcquire = iota
	opExtend
	opRelease
	ops
)

var opNames = [ops]string{"acquire", "extend", "release"}

// returnBound is how long a workload waits for a node to take part again.
const returnBound = 15 * time.Second

// The room that a fault under load is given over the same load without it: far
// below one goroutine for each command that waits for a node.
const (
	goroutineRoom = 64
	heapRoom      = 16 << 20
)

// ordeal is one contender under one fault: what each round showed.
type ordeal struct {
	rig       *rig
	contender contender
	serial    int
	healthy   [ops]phases
	faulty    [ops]phases
	returns   []time.Duration
	calm      peak // under load, without the fault
	storm     peak // with it
}

// phases are the percentiles of one operation, by round.
type phases struct{ p50, p99 []float64 }

// peak is the most of what a process held at once.
type peak struct {
	goroutines int
	heap       uint64
	failures   int
}

// faultRuns measures every fault, each over a Locker of its own.
func (r *run) faultRuns(ctx context.Context) error {
	const name = "faults"
	from, err := readUsage(ctx, r.servers)
	if err != nil {
		return err
	}
	table := section{
		Workload: name,
		Title: fmt.Sprintf("redlock, one goroutine: faulty over healthy, %d cycles a phase, %d rounds; and 64 goroutines' load",
			r.scale(1000, 150), r.rounds),
		Header: []string{
			"fault", "acquire p50 us", "p50 x", "p99 x", "extend p50 x", "p99 x", "release p50 x", "p99 x",
			"back after", "goroutines calm/fault", "heap MB calm/fault", "failed",
		},
	}
	var gates []gate
	for _, f := range faults {
		o, err := r.endure(ctx, f)
		if err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
		table.Rows = append(table.Rows, o.row())
		gates = append(gates, o.gates(name)...)
	}
	notes, err := r.contrast(ctx)
	if err != nil {
		return err
	}
	to, err := readUsage(ctx, r.servers)
	table.Load, table.Notes = to.since(from), notes
	r.add(table, gates...)
	return err
}

// endure puts one Locker through the rounds of one fault.
func (r *run) endure(ctx context.Context, f fault) (_ *ordeal, err error) {
	o := &ordeal{}
	if o.rig, err = newRig(f, r.servers); err != nil { //nolint:contextcheck // a proxy lives until it is closed
		return nil, err
	}
	defer o.rig.close()
	open := openRedlock
	if f.open != nil {
		open = f.open
	}
	if o.contender, err = open(ctx, r.envAt(o.rig.addrs)); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, o.contender.close()) }()
	if _, err := o.cycles(ctx, 50); err != nil { // to warm up
		return nil, err
	}
	for round := range r.rounds {
		if err := o.round(ctx, r.scale(1000, 150)); err != nil {
			return nil, fmt.Errorf("round %d: %w", round, err)
		}
		r.progress("faults: %s: round %d: back after %v", f.name, round, o.returns[round])
	}
	return o, o.burden(ctx, time.Duration(r.scale(5000, 1000))*time.Millisecond)
}

// round is n cycles without the fault, n cycles with it, and its end.
func (o *ordeal) round(ctx context.Context, n int) error {
	took, err := o.cycles(ctx, n)
	if err != nil {
		return err
	}
	record(&o.healthy, took)
	if err := o.rig.strike(); err != nil {
		return err
	}
	took, err = o.cycles(ctx, n)
	if err := errors.Join(err, o.rig.relent()); err != nil {
		return err
	}
	record(&o.faulty, took)
	back, err := o.comeback(ctx)
	o.returns = append(o.returns, back)
	return err
}

func record(to *[ops]phases, took [ops][]time.Duration) {
	for op := range took {
		to[op].p50 = append(to[op].p50, micros(percentile(took[op], 0.5)))
		to[op].p99 = append(to[op].p99, micros(percentile(took[op], 0.99)))
	}
}

// cycles acquires, extends and releases n fresh names, one after another.
func (o *ordeal) cycles(ctx context.Context, n int) (took [ops][]time.Duration, err error) {
	for range n {
		o.serial++
		name, start := "job:"+strconv.Itoa(o.serial), time.Now()
		h, err := o.contender.acquire(ctx, name)
		if err != nil {
			return took, err
		}
		taken := time.Now()
		if err := h.extend(ctx); err != nil {
			return took, err
		}
		extended := time.Now()
		if err := h.release(ctx); err != nil {
			return took, err
		}
		took[opAcquire] = append(took[opAcquire], taken.Sub(start))
		took[opExtend] = append(took[opExtend], extended.Sub(taken))
		took[opRelease] = append(took[opRelease], time.Since(extended))
	}
	return took, nil
}

// comeback is how long after the fault's end its nodes take part again.
func (o *ordeal) comeback(ctx context.Context) (time.Duration, error) {
	start := time.Now()
	for time.Since(start) < returnBound {
		o.serial++
		name := "job:" + strconv.Itoa(o.serial)
		h, err := o.contender.acquire(ctx, name)
		if err != nil {
			return 0, err
		}
		there, err := o.rig.takesPart(ctx, name)
		after := time.Since(start)
		if err := errors.Join(err, h.release(ctx)); err != nil {
			return 0, err
		}
		if there {
			return after, nil
		}
	}
	return returnBound, nil
}

// burden loads the Locker with 64 goroutines, without the fault and with it.
func (o *ordeal) burden(ctx context.Context, d time.Duration) error {
	o.calm = watch(ctx, o.contender, d)
	if err := o.rig.strike(); err != nil {
		return err
	}
	o.storm = watch(ctx, o.contender, d)
	return o.rig.relent()
}

// watch runs 64 goroutines and returns the most that the process held meanwhile.
func watch(ctx context.Context, c contender, d time.Duration) peak {
	const workers = 64
	var p peak
	var done atomic.Int32
	runtime.GC()
	until := time.Now().Add(d)
	results := make(chan slice, workers)
	for w := range workers {
		go func() {
			results <- work(ctx, c, "load:"+strconv.Itoa(w), until, 0)
			done.Add(1)
		}()
	}
	for done.Load() < workers {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		p.heap = max(p.heap, m.HeapAlloc)
		p.goroutines = max(p.goroutines, runtime.NumGoroutine())
		time.Sleep(20 * time.Millisecond)
	}
	for range workers {
		s := <-results
		p.failures += s.failures
	}
	return p
}

// ratio is the median over the rounds of faulty over healthy.
func ratio(faulty, healthy []float64) float64 {
	var rs []float64
	for i := range faulty {
		rs = append(rs, over(faulty[i], healthy[i]))
	}
	return median(rs)
}

func (o *ordeal) row() []string {
	row := []string{o.rig.name, number3(median(o.faulty[opAcquire].p50))}
	for op := range ops {
		row = append(row, number3(ratio(o.faulty[op].p50, o.healthy[op].p50)), number3(ratio(o.faulty[op].p99, o.healthy[op].p99)))
	}
	return append(row, percentile(o.returns, 1).Round(time.Millisecond).String(),
		fmt.Sprintf("%d / %d", o.calm.goroutines, o.storm.goroutines),
		fmt.Sprintf("%d / %d", o.calm.heap>>20, o.storm.heap>>20),
		strconv.Itoa(o.calm.failures+o.storm.failures))
}

func (o *ordeal) gates(workload string) []gate {
	var gs []gate
	for op := range ops {
		what := o.rig.name + ": " + opNames[op]
		gs = append(gs,
			demand(workload, what+" p50 over healthy", ratio(o.faulty[op].p50, o.healthy[op].p50), atMost, 1.2, ""),
			demand(workload, what+" p99 over healthy", ratio(o.faulty[op].p99, o.healthy[op].p99), atMost, 2, ""))
	}
	if !strings.HasSuffix(o.rig.name, "refused") && !strings.HasSuffix(o.rig.name, "dead") {
		gs = append(gs, demand(workload, o.rig.name+": takes part again", percentile(o.returns, 1).Seconds(), atMost, 2, " s"))
	}
	return append(gs,
		demand(workload, o.rig.name+": goroutines more than calm", float64(o.storm.goroutines-o.calm.goroutines), atMost, goroutineRoom, ""),
		demand(workload, o.rig.name+": heap more than calm", float64(int64(o.storm.heap)-int64(o.calm.heap))/(1<<20), atMost, heapRoom>>20, " MB"), //nolint:gosec // far below 2^63
		demand(workload, o.rig.name+": failed pairs under load", float64(o.storm.failures), atMost, 0, ""))
}

// contrast is redsync over default clients with one node hung: one cycle tells
// enough.
func (r *run) contrast(ctx context.Context) (notes []string, err error) {
	g, err := newRig(faults[0], r.servers) //nolint:contextcheck // a proxy lives until it is closed
	if err != nil {
		return nil, err
	}
	defer g.close()
	c, err := openRedsync(ctx, r.envAt(g.addrs))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	if err := g.strike(); err != nil {
		return nil, err
	}
	o := &ordeal{rig: g, contender: c}
	took, err := o.cycles(ctx, 1)
	if err := errors.Join(err, g.relent()); err != nil {
		return nil, err
	}
	return []string{fmt.Sprintf("redsync over default clients, one hung: acquire %v, extend %v, release %v.",
		took[opAcquire][0].Round(time.Millisecond), took[opExtend][0].Round(time.Millisecond), took[opRelease][0].Round(time.Millisecond))}, nil
}
