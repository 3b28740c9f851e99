package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/quorumkit/redlock"
)

const (
	setSize    = 8                      // names that are taken at once
	permits    = 10                     // holders of the semaphore
	leadSettle = 200 * time.Millisecond // how long the next leader is given to stand in line
	leadBound  = 30 * time.Second       // for a change of leader
)

const (
	nameExclusive = "exclusive pair"
	nameShared    = "shared pair"
	namePermit    = "semaphore pair"
	nameSet       = "set"
)

// primitives is the cost of each primitive on a name that nobody else wants, beside a plain
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
		defer c.close() //nolint:errcheck // keys that it leaves lapse
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

const (
	// idleFor is how long the waiters, or the holders, are watched: more than a round of
	// looks, and some periods of renewal.
	idleFor    = 12 * time.Second
	idleSettle = 3 * time.Second // for the last asks, which are not idleness
	// idleLease is the lease of the names, and idleBatch how many are renewed at
	// once, each at a third of it: as a holder of this library does.
	idleLease = 10 * time.Second
	idleBatch = 250
	// idleMost is how many commands a second may go to all five nodes. Those that do
	// not grow with the names are 52.5: each node's clock is read (TIME) four times a
	// second, with its identity (INFO), and it is given 2.5 signs of life. The looks
	// at 10,000 names, 250 a command, are some ten.
	idleMost    = 70
	settleBound = 60 * time.Second // for the waiters to stand in line
)

func memory() (heap, stack float64) {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc), float64(m.StackInuse)
}

func (r *run) idle(ctx context.Context) (err error) {
	const name = "idle"
	count := r.scale(10_000, 2_000)
	leave, err := r.occupy(ctx, name+":", count)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, leave()) }()
	c, err := openRedlock(ctx, r.env())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	if _, err := pair(ctx, c, "warm"); err != nil {
		return err
	}
	heap, stack := memory()
	waiting, cancel := context.WithCancel(ctx)
	var waiters sync.WaitGroup
	defer func() { cancel(); waiters.Wait() }()
	for i := range count {
		waiters.Go(func() {
			if h, err := c.acquire(waiting, name+":"+strconv.Itoa(i)); err == nil {
				_ = h.Release(ctx) // it lapses
			}
		})
	}
	if err := errors.Join(r.awaitQueued(ctx, count), wait(ctx, idleSettle)); err != nil {
		return err
	}
	heapNow, stackNow := memory()
	l, err := r.servers.during(ctx, func() error { return wait(ctx, idleFor) })
	if err != nil {
		return err
	}
	n := float64(count)
	r.add(section{
		Workload: name, Load: l,
		Title:  fmt.Sprintf("%d goroutines of one Locker, each waiting for a name of its own that is held", count),
		Header: []string{"commands/s over five nodes", "client heap bytes a waiter", "client stack bytes a waiter"},
		Rows:   [][]string{{number3(l.commands), number3((heapNow - heap) / n), number3((stackNow - stack) / n)}},
	}, demand(name, fmt.Sprintf("commands a second over all nodes, %d waiters", count), l.commands, atMost, idleMost, ""))
	return nil
}

// occupy sets the names as a holder of this library would, and renews them until
// leave is called, by a command that the waiters do not send.
func (r *run) occupy(ctx context.Context, prefix string, count int) (leave func() error, err error) {
	owner := uuid.NewString()
	batch := func(ctx context.Context, from int) error {
		for _, s := range r.servers {
			pipe := s.control.Pipeline()
			for i := from; i < min(from+idleBatch, count); i++ {
				pipe.Set(ctx, prefix+strconv.Itoa(i), owner, idleLease)
			}
			if _, err := pipe.Exec(ctx); err != nil {
				return err
			}
		}
		return nil
	}
	for from := 0; from < count; from += idleBatch {
		if err := batch(ctx, from); err != nil {
			return nil, err
		}
	}
	ctx, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() {
		var err error
		for from := 0; err == nil; from = (from + idleBatch) % count {
			if wait(ctx, idleLease/3/time.Duration((count+idleBatch-1)/idleBatch)) != nil {
				break
			}
			err = batch(context.WithoutCancel(ctx), from)
		}
		done <- err
	}()
	return func() error { stop(); return <-done }, nil
}

// awaitQueued waits until the nodes have, beside the names, a quorum of entries for each
// waiter: where a quorum refused, the others are not asked any more.
func (r *run) awaitQueued(ctx context.Context, waiters int) error {
	want := int64(waiters) * int64(len(r.servers)+len(r.servers)/2+1)
	for start := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		keys := int64(0)
		for _, s := range r.servers {
			n, err := s.control.DBSize(ctx).Result()
			if err != nil {
				return err
			}
			keys += n
		}
		if keys >= want {
			return nil
		}
		if time.Since(start) > settleBound {
			return fmt.Errorf("%d keys after %v; want %d", keys, settleBound, want)
		}
	}
}

// heldIdle measures the nodes' cost of very many processes that each hold one lock
// and do nothing else: renewals, and looks at the nodes' clocks. A process is a
// Locker with connections of its own here.
func (r *run) heldIdle(ctx context.Context) error {
	count := r.scale(1000, 200)
	s := section{
		Workload: "held", Title: fmt.Sprintf("%d Lockers that hold one lock each for %v, with a TTL of %v", count, idleFor, redlock.DefaultTTL),
		Header: []string{"clocks", "commands a second and node", "CPU of the busiest node, % of a core", "client, % of a core"},
	}
	for _, how := range []spec{
		{name: "watched", open: openRedlock},
		{name: "not watched, nor who the nodes are", open: bareSpec.open},
	} {
		l, err := r.heldBy(ctx, count, how.open)
		if err != nil {
			return err
		}
		s.Load = l
		s.Rows = append(s.Rows, []string{how.name, number3(l.commands / float64(len(r.servers))), number3(100 * l.busiest), number3(100 * l.Self)})
	}
	r.add(s)
	return nil
}

func (r *run) heldBy(ctx context.Context, count int, open opener) (l load, err error) {
	for i := range count {
		var c *contender
		if c, err = open(ctx, r.env()); err != nil {
			return l, err
		}
		defer func() { err = errors.Join(err, c.close()) }()
		if _, err := c.acquire(ctx, "held:"+strconv.Itoa(i)); err != nil {
			return l, err
		}
	}
	return r.servers.during(ctx, func() error { return wait(ctx, idleFor) })
}
