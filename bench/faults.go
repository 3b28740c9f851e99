package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/quorumkit/redlock/chaos"
)

const (
	// slowness is how late a slow node's replies are.
	slowness = 200 * time.Millisecond
	// returnBound is how long a workload waits for a node to take part again.
	returnBound = 15 * time.Second
	// The room that a fault under load is given over the same load without it: far
	// below one goroutine for each command that waits for a node.
	goroutineRoom = 64
	heapRoom      = 16 // MB
)

// fault is something that happens to some of the masters, and ends again.
type fault struct {
	name    string
	nodes   []int
	proxied bool // it happens to a proxy before the node
	begin   func(s *server, p *chaos.Proxy) error
	end     func(s *server, p *chaos.Proxy) error
}

// faults are what is tried. Refused and dead are the same thing to a client: a connection attempt is answered by a reset. A proxy refuses in the
// server's stead, so that the node comes back with its memory.
var faults = []fault{
	{name: "one hung", nodes: []int{4}, begin: pause, end: resume},
	{name: "one refused", nodes: []int{4}, proxied: true, begin: refuse, end: heal},
	{name: "one slow by 200 ms", nodes: []int{4}, proxied: true, begin: slow, end: heal},
	{name: "one cut off", nodes: []int{4}, proxied: true, begin: cut, end: heal},
	{name: "two hung", nodes: []int{3, 4}, begin: pause, end: resume},
	{name: "two slow by 200 ms", nodes: []int{3, 4}, proxied: true, begin: slow, end: heal},
	{name: "two dead", nodes: []int{3, 4}, proxied: true, begin: refuse, end: heal},
}

func pause(s *server, _ *chaos.Proxy) error  { return s.Pause() }
func resume(s *server, _ *chaos.Proxy) error { return s.Resume() }
func heal(_ *server, p *chaos.Proxy) error   { return p.Heal() }
func refuse(_ *server, p *chaos.Proxy) error { p.Refuse(); p.Reset(); return nil }
func slow(_ *server, p *chaos.Proxy) error   { p.Delay(chaos.Replies, slowness); return nil }
func cut(_ *server, p *chaos.Proxy) error    { p.Hold(chaos.Both); return nil }

// The operations of a cycle.
const (
	opAcquire = iota
	opExtend
	opRelease
	ops
)

var opNames = [ops]string{"acquire", "extend", "release"}

// ordeal is one contender under one fault, with the fault's proxies before its nodes, and
// what each round showed.
type ordeal struct {
	fault
	servers   cluster
	proxies   []*chaos.Proxy // one for each of the fault's nodes; nil without
	contender *contender
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
	goroutines, failures int
	heap                 float64 // MB
}

// faultRuns measures every fault, each over a Locker of its own.
func (r *run) faultRuns(ctx context.Context) error {
	const name = "faults"
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
	used, err := r.servers.during(ctx, func() error {
		for _, f := range faults {
			o, err := r.endure(ctx, f)
			if err != nil {
				return fmt.Errorf("%s: %w", f.name, err)
			}
			table.Rows, gates = append(table.Rows, o.row()), append(gates, o.gates(name)...)
		}
		return nil
	})
	if err != nil {
		return err
	}
	table.Load = used
	r.add(table, gates...)
	return nil
}

// open opens the Locker, with the fault's proxies before its nodes. close undoes that, even
// if open fails.
func (o *ordeal) open(ctx context.Context) (err error) {
	addrs := o.servers.addrs()
	for i, node := range o.nodes {
		if o.proxied {
			if o.proxies[i], err = chaos.NewProxy(addrs[node]); err != nil { //nolint:contextcheck // a proxy lives until it is closed
				return err
			}
			addrs[node] = o.proxies[i].Addr()
		}
	}
	o.contender, err = openRedlock(ctx, &env{addrs: addrs})
	return err
}

func (o *ordeal) close() (err error) {
	if o.contender != nil {
		err = o.contender.close()
	}
	for _, p := range o.proxies {
		if p != nil {
			p.Close()
		}
	}
	return err
}

// under does something while the fault is there.
func (o *ordeal) under(do func() error) error {
	each := func(f func(*server, *chaos.Proxy) error) (err error) {
		for i, node := range o.nodes {
			err = errors.Join(err, f(o.servers[node], o.proxies[i]))
		}
		return err
	}
	if err := each(o.begin); err != nil {
		return err
	}
	return errors.Join(do(), each(o.end))
}

// endure puts one Locker through the rounds of one fault.
func (r *run) endure(ctx context.Context, f fault) (o *ordeal, err error) {
	o = &ordeal{fault: f, servers: r.servers, proxies: make([]*chaos.Proxy, len(f.nodes))}
	defer func() { err = errors.Join(err, o.close()) }()
	if err := o.open(ctx); err != nil {
		return nil, err
	}
	if _, err := o.cycles(ctx, 50); err != nil { // to warm up
		return nil, err
	}
	for round := range r.rounds {
		if err := o.round(ctx, r.scale(1000, 150)); err != nil {
			return nil, fmt.Errorf("round %d: %w", round, err)
		}
		r.progress("faults: %s: round %d: back after %v", f.name, round, o.returns[round])
	}
	d := time.Duration(r.scale(5000, 1000)) * time.Millisecond
	o.calm = watch(ctx, o.contender, d)
	return o, o.under(func() error {
		o.storm = watch(ctx, o.contender, d)
		return nil
	})
}

// round is n cycles without the fault, n cycles with it, and its end.
func (o *ordeal) round(ctx context.Context, n int) error {
	took, err := o.cycles(ctx, n)
	if err != nil {
		return err
	}
	record(&o.healthy, took)
	err = o.under(func() error {
		took, err = o.cycles(ctx, n)
		return err
	})
	if err != nil {
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

// fresh is a name that nobody had before.
func (o *ordeal) fresh() string {
	o.serial++
	return "job:" + strconv.Itoa(o.serial)
}

// cycles acquires, extends and releases n fresh names, one after another.
func (o *ordeal) cycles(ctx context.Context, n int) (took [ops][]time.Duration, err error) {
	for range n {
		name, start := o.fresh(), time.Now()
		lock, err := o.contender.locker.Acquire(ctx, name)
		if err != nil {
			return took, err
		}
		taken := time.Now()
		if err := lock.Extend(ctx, ttl); err != nil {
			return took, err
		}
		extended := time.Now()
		if err := lock.Release(ctx); err != nil {
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
		name := o.fresh()
		h, err := o.contender.acquire(ctx, name)
		if err != nil {
			return 0, err
		}
		there, err := o.takesPart(ctx, name)
		after := time.Since(start)
		if err := errors.Join(err, h.Release(ctx)); err != nil {
			return 0, err
		}
		if there {
			return after, nil
		}
	}
	return returnBound, nil
}

// takesPart tells whether a lock that is held now shows on every node of the
// fault, soon enough not to be a late arrival.
func (o *ordeal) takesPart(ctx context.Context, resource string) (bool, error) {
	const soon = 20 * time.Millisecond
	for start := time.Now(); time.Since(start) < soon; {
		there := 0
		for _, node := range o.nodes {
			n, err := o.servers[node].control.Exists(ctx, resource).Result()
			if err != nil {
				return false, err
			}
			there += int(n)
		}
		if there == len(o.nodes) {
			return true, nil
		}
	}
	return false, nil
}

// watch runs 64 goroutines and returns the most that the process held meanwhile.
func watch(ctx context.Context, c *contender, d time.Duration) (p peak) {
	runtime.GC()
	until, done := time.Now().Add(d), make(chan struct{})
	go func() {
		defer close(done)
		var mu sync.Mutex // guards p.failures
		var workers sync.WaitGroup
		for w := range 64 {
			workers.Go(func() {
				s := work(ctx, c, "load:"+strconv.Itoa(w), until, 0)
				mu.Lock()
				defer mu.Unlock()
				p.failures += s.failures
			})
		}
		workers.Wait()
	}()
	for look := time.NewTicker(20 * time.Millisecond); ; {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		p.heap, p.goroutines = max(p.heap, float64(m.HeapAlloc)/(1<<20)), max(p.goroutines, runtime.NumGoroutine())
		select {
		case <-look.C:
		case <-done:
			look.Stop()
			return p
		}
	}
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
	row := []string{o.name, number3(median(o.faulty[opAcquire].p50))}
	for op := range ops {
		row = append(row, number3(ratio(o.faulty[op].p50, o.healthy[op].p50)), number3(ratio(o.faulty[op].p99, o.healthy[op].p99)))
	}
	return append(row, percentile(o.returns, 1).Round(time.Millisecond).String(),
		fmt.Sprintf("%d / %d", o.calm.goroutines, o.storm.goroutines),
		fmt.Sprintf("%.0f / %.0f", o.calm.heap, o.storm.heap),
		strconv.Itoa(o.calm.failures+o.storm.failures))
}

func (o *ordeal) gates(workload string) (gs []gate) {
	most := func(what string, measured, required float64, unit string) {
		gs = append(gs, demand(workload, o.name+": "+what, measured, atMost, required, unit))
	}
	for op := range ops {
		most(opNames[op]+" p50 over healthy", ratio(o.faulty[op].p50, o.healthy[op].p50), 1.2, "")
		most(opNames[op]+" p99 over healthy", ratio(o.faulty[op].p99, o.healthy[op].p99), 2, "")
	}
	if !strings.HasSuffix(o.name, "refused") && !strings.HasSuffix(o.name, "dead") {
		most("takes part again", percentile(o.returns, 1).Seconds(), 2, " s")
	}
	most("goroutines more than calm", float64(o.storm.goroutines-o.calm.goroutines), goroutineRoom, "")
	most("heap more than calm", o.storm.heap-o.calm.heap, heapRoom, " MB")
	most("failed pairs under load", float64(o.storm.failures), 0, "")
	return gs
}
