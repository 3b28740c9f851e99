package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/quorumkit/redlock"
)

const (
	setSize    = 8                      // names that are taken at once
	permits    = 10                     // holders of the semaphore
	leadSettle = 200 * time.Millisecond // how long the next leader is given to stand in line
	leadBound  = 30 * time.Second       // for a change of leader
)

// The names of what is measured.
const (
	nameExclusive = "exclusive pair"
	nameShared    = "shared pair"
	namePermit    = "semaphore pair"
	nameSet       = "set"
)

// primitives is what each primitive costs where nobody else wants the name, beside a plain
// lock, and how long after the end of a lead the next one begins.
func (r *run) primitives(ctx context.Context) error {
	const name = "primitives"
	specs := []spec{
		{nameExclusive, "Acquire", nodes, scriptsOnly, openRedlock},
		{nameShared, "WithShared", nodes, scriptsOnly, acquiring(redlock.WithShared())},
		{namePermit, fmt.Sprintf("WithLimit(%d)", permits), nodes, scriptsOnly, acquiring(redlock.WithLimit(permits))},
		{nameSet, fmt.Sprintf("AcquireAll of %d", setSize), nodes, scriptsOnly, openSets},
	}
	pairs := r.scale(1500, 200)
	var ts entrants
	var leads []time.Duration
	used, err := r.servers.during(ctx, func() (err error) {
		if ts, err = r.race(ctx, specs, 1, 0, pairs); err != nil {
			return err
		}
		leads, err = r.leads(ctx, r.scale(20, 5))
		return err
	})
	if err != nil {
		return err
	}
	s := section{
		Workload: name, Load: used,
		Title:  fmt.Sprintf("one goroutine on a free name, %d pairs a round, %d rounds; %d changes of leader", pairs, r.rounds, len(leads)),
		Header: []string{"what", "p50 us", "p99 us", "over", "times", "allocations a pair", "failed"},
	}
	alone := ts.named(nameExclusive)
	ratio := map[string]float64{}
	var gates []gate
	for _, t := range ts {
		p50, p99, base, what := t.latency(0.5), t.latency(0.99), alone.latency(0.5), nameExclusive
		if t.name == nameSet { // a release takes each name back for itself
			p50, p99, base, what = t.acquireLatency(0.5), t.acquireLatency(0.99), alone.acquireLatency(0.5), "the acquisition of one name"
		}
		ratio[t.name] = over(p50, base)
		failed, _ := t.failures()
		s.Rows = append(s.Rows, []string{t.name + " (" + t.note + ")", number3(p50), number3(p99), what, number3(ratio[t.name]), number3(t.allocs()), strconv.Itoa(failed)})
		gates = append(gates, t.noFailures(name))
	}
	p50, trip := micros(percentile(leads, 0.5)), micros(2*farDelay)
	s.Rows = append(s.Rows, []string{
		fmt.Sprintf("change of leader (resigns; servers %v away each way)", farDelay), number3(p50), number3(micros(percentile(leads, 0.99))),
		"a round trip", number3(over(p50, trip)), "", "0",
	})
	s.Notes = append(s.Notes, "Of the set only the acquisition is timed.")
	r.add(s, append(gates,
		demand(name, "p50 of a shared pair over an exclusive one", ratio[nameShared], atMost, 1.3, ""),
		// Both are one round trip and one command a node.
		demand(name, fmt.Sprintf("p50 of %d names over one name", setSize), ratio[nameSet], atMost, 1.5, ""),
		demand(name, "median until the next lead, in round trips, leader resigns", over(p50, trip), atMost, 3, ""))...)
	return nil
}

// acquiring opens this library for locks with these options.
func acquiring(opts ...redlock.AcquireOption) opener {
	return func(ctx context.Context, e *env) (*contender, error) {
		c, err := openRedlock(ctx, e)
		if err != nil {
			return nil, err
		}
		return locking(c.locker, opts...), nil
	}
}

// openSets opens this library with several names for each that it is asked for.
func openSets(ctx context.Context, e *env) (*contender, error) {
	c, err := openRedlock(ctx, e)
	if err != nil {
		return nil, err
	}
	c.acquire = func(ctx context.Context, resource string) (held, error) {
		var names []string
		for i := range setSize {
			names = append(names, resource+":"+strconv.Itoa(i))
		}
		return c.locker.AcquireAll(ctx, names)
	}
	return c, nil
}

// leads lets a Locker far away from the servers lead while another waits, n times, and returns
// how long it was each time from when the leader resigned until the other led.
func (r *run) leads(ctx context.Context, n int) (took []time.Duration, err error) {
	far, end, err := r.servers.far() //nolint:contextcheck // a proxy lives until it is closed
	if err != nil {
		return nil, err
	}
	defer end()
	ctx, cancel := context.WithTimeout(ctx, time.Duration(n)*leadBound)
	defer cancel()
	var ls [2]*redlock.Locker
	for i := range ls {
		c, err := openRedlock(ctx, r.envAt(far))
		if err != nil {
			return nil, err
		}
		defer c.close() //nolint:errcheck // what it leaves lapses
		ls[i] = c.locker
	}
	for i := range n {
		var from, at time.Time
		name, next := "election:"+strconv.Itoa(i), make(chan error, 1)
		err := ls[i%2].Campaign(ctx, name, func(leading context.Context, _ *redlock.Lock) error {
			go func() {
				next <- ls[1-i%2].Campaign(ctx, name, func(context.Context, *redlock.Lock) error { at = time.Now(); return nil })
			}()
			err := wait(leading, leadSettle+rand.N(leadSettle))
			from = time.Now()
			return err
		})
		if err == nil {
			err = <-next
		}
		if err != nil {
			return nil, err
		}
		took = append(took, at.Sub(from))
	}
	return took, nil
}
