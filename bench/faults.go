package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumkit/redlock/internal/lab/tcpproxy"
)

const (
	slowness    = 200 * time.Millisecond // of a slow node's replies
	returnBound = 15 * time.Second       // for a node to take part again
)

type fault struct {
	name    string
	nodes   []int
	proxied bool // it happens to a proxy before the node
	begin   func(s *server, p *tcpproxy.Proxy) error
	end     func(s *server, p *tcpproxy.Proxy) error
}

// faults are the faults to try. Refused and dead are the same thing to a client: a connection
// attempt is answered by a reset. A proxy refuses in the server's stead, so that the node
// comes back with its memory.
var faults = []fault{
	{name: "one hung", nodes: []int{4}, begin: pause, end: resume},
	{name: "one refused", nodes: []int{4}, proxied: true, begin: refuse, end: heal},
	{name: "one slow by 200 ms", nodes: []int{4}, proxied: true, begin: slow, end: heal},
	{name: "one cut off", nodes: []int{4}, proxied: true, begin: cut, end: heal},
	{name: "two hung", nodes: []int{3, 4}, begin: pause, end: resume},
	{name: "two slow by 200 ms", nodes: []int{3, 4}, proxied: true, begin: slow, end: heal},
	{name: "two dead", nodes: []int{3, 4}, proxied: true, begin: refuse, end: heal},
}

func pause(s *server, _ *tcpproxy.Proxy) error  { return s.Pause() }
func resume(s *server, _ *tcpproxy.Proxy) error { return s.Resume() }
func heal(_ *server, p *tcpproxy.Proxy) error   { return p.Heal() }
func refuse(_ *server, p *tcpproxy.Proxy) error { p.Refuse(); p.Reset(); return nil }
func slow(_ *server, p *tcpproxy.Proxy) error   { p.Delay(tcpproxy.Replies, slowness); return nil }
func cut(_ *server, p *tcpproxy.Proxy) error    { p.Hold(tcpproxy.Both); return nil }

var ops = [3]string{"acquire", "extend", "release"}

// ordeal is a Locker under one fault, with the fault's proxies before its nodes, and
// the results of each round.
type ordeal struct {
	fault
	servers  cluster
	proxies  []*tcpproxy.Proxy // one for each of the fault's nodes; nil without
	locks    *contender
	serial   int
	acquire  []float64           // p50 with the fault, in us
	p50, p99 [len(ops)][]float64 // faulty over healthy
	returns  []time.Duration
	calm     peak // under load, without the fault
	storm    peak // with it
}

type peak struct {
	goroutines int
	failures   int64
	heap       float64 // MB
}

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

func (o *ordeal) under(do func() error) error {
	each := func(f func(*server, *tcpproxy.Proxy) error) (err error) {
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

func (r *run) endure(ctx context.Context, f fault) (o *ordeal, err error) {
	o = &ordeal{fault: f, servers: r.servers, proxies: make([]*tcpproxy.Proxy, len(f.nodes))}
	addrs := r.servers.addrs()
	for i, node := range f.nodes {
		if f.proxied {
			if o.proxies[i], err = tcpproxy.New(addrs[node]); err != nil { //nolint:contextcheck // a proxy lives until it is closed
				return nil, err
			}
			defer o.proxies[i].Close()
			addrs[node] = o.proxies[i].Addr()
		}
	}
	c, err := openRedlock(ctx, r.envAt(addrs))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	o.locks = c
	if _, err := o.cycles(ctx, 50); err != nil { // to warm up
		return nil, err
	}
	for round := range r.rounds {
		if err := o.round(ctx, r.scale(1000, 150)); err != nil {
			return nil, fmt.Errorf("round %d: %w", round, err)
		}
	}
	d := time.Duration(r.scale(5000, 1000)) * time.Millisecond
	o.calm = watch(ctx, o.locks, d)
	return o, o.under(func() error {
		o.storm = watch(ctx, o.locks, d)
		return nil
	})
}

func (o *ordeal) round(ctx context.Context, n int) error {
	healthy, err := o.cycles(ctx, n)
	if err != nil {
		return err
	}
	var faulty [len(ops)][]time.Duration
	err = o.under(func() error {
		faulty, err = o.cycles(ctx, n)
		return err
	})
	if err != nil {
		return err
	}
	for op := range ops {
		o.p50[op] = append(o.p50[op], over(micros(percentile(faulty[op], 0.5)), micros(percentile(healthy[op], 0.5))))
		o.p99[op] = append(o.p99[op], over(micros(percentile(faulty[op], 0.99)), micros(percentile(healthy[op], 0.99))))
	}
	o.acquire = append(o.acquire, micros(percentile(faulty[0], 0.5)))
	back, err := o.comeback(ctx)
	o.returns = append(o.returns, back)
	return err
}

func (o *ordeal) fresh() string {
	o.serial++
	return "job:" + strconv.Itoa(o.serial)
}

func (o *ordeal) cycles(ctx context.Context, n int) (took [len(ops)][]time.Duration, err error) {
	for range n {
		name, start := o.fresh(), time.Now()
		lock, err := o.locks.locker.Acquire(ctx, name)
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
		for op, d := range []time.Duration{taken.Sub(start), extended.Sub(taken), time.Since(extended)} {
			took[op] = append(took[op], d)
		}
	}
	return took, nil
}

// comeback is how long after the fault's end its nodes take part again.
func (o *ordeal) comeback(ctx context.Context) (time.Duration, error) {
	start := time.Now()
	for time.Since(start) < returnBound {
		name := o.fresh()
		h, err := o.locks.acquire(ctx, name)
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

func watch(ctx context.Context, c *contender, d time.Duration) (p peak) {
	runtime.GC()
	until := time.Now().Add(d)
	var failures atomic.Int64
	var workers sync.WaitGroup
	for w := range 64 {
		workers.Go(func() {
			s := work(ctx, c, "load:"+strconv.Itoa(w), until, 0)
			failures.Add(int64(s.failures))
		})
	}
	for ; time.Now().Before(until); time.Sleep(20 * time.Millisecond) {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		p.heap, p.goroutines = max(p.heap, float64(m.HeapAlloc)/(1<<20)), max(p.goroutines, runtime.NumGoroutine())
	}
	workers.Wait()
	p.failures = failures.Load()
	return p
}

func (o *ordeal) row() []string {
	row := []string{o.name, number3(median(o.acquire))}
	for op := range ops {
		row = append(row, number3(median(o.p50[op])), number3(median(o.p99[op])))
	}
	return append(row, percentile(o.returns, 1).Round(time.Millisecond).String(),
		fmt.Sprintf("%d / %d", o.calm.goroutines, o.storm.goroutines), fmt.Sprintf("%.0f / %.0f", o.calm.heap, o.storm.heap),
		strconv.FormatInt(o.calm.failures+o.storm.failures, 10))
}

func (o *ordeal) gates(workload string) (gs []gate) {
	most := func(what string, measured, required float64, unit string) {
		gs = append(gs, demand(workload, o.name+": "+what, measured, atMost, required, unit))
	}
	for op, name := range ops {
		most(name+" p50 over healthy", median(o.p50[op]), 1.2, "")
		most(name+" p99 over healthy", median(o.p99[op]), 2, "")
	}
	if !strings.HasSuffix(o.name, "refused") && !strings.HasSuffix(o.name, "dead") {
		most("takes part again", percentile(o.returns, 1).Seconds(), 2, " s")
	}
	most("goroutines more than calm", float64(o.storm.goroutines-o.calm.goroutines), 64, "") // far below one for each command that waits for a node
	most("heap more than calm", o.storm.heap-o.calm.heap, 16, " MB")
	most("failed pairs under load", float64(o.storm.failures), 0, "")
	return gs
}
