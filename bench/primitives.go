package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/quorumkit/redlock"
)

const (
	// setSize is how many names are taken at once, and setMost how much longer that may
	// take than one name: both are one round trip and one command a node.
	setSize = 8
	setMost = 1.5
	// sharedMost is how much longer a free name may take to share than to hold alone.
	sharedMost = 1.3
	// permits is how many may hold the semaphore.
	permits = 10
	// leadMost is how many round trips a lead may take to pass on.
	leadMost = 3
	// leadSettle is how long the next leader is given to stand in line.
	leadSettle = 200 * time.Millisecond
	// leadBound is after how long a change of leader has failed.
	leadBound = 30 * time.Second
)

// The names of what is measured.
const (
	nameAlonePair = "exclusive pair"
	nameShared    = "shared pair"
	nameSet       = "set"
	namePermit    = "semaphore pair"
)

// primitives is what each primitive costs where nobody else wants the name, beside a plain
// lock, and how long after the end of a lead the next one begins.
func (r *run) primitives(ctx context.Context) error {
	const name = "primitives"
	specs := []spec{
		{nameAlonePair, "Acquire", nodes, scriptsOnly, openRedlock},
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
	alone := ts.named(nameAlonePair)
	ratio := map[string]float64{}
	var gates []gate
	for _, t := range ts {
		p50, p99, base, what := t.latency(0.5), t.latency(0.99), alone.latency(0.5), nameAlonePair
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
		demand(name, "p50 of a shared pair over an exclusive one", ratio[nameShared], atMost, sharedMost, ""),
		demand(name, fmt.Sprintf("p50 of %d names over one name", setSize), ratio[nameSet], atMost, setMost, ""),
		demand(name, "median until the next lead, in round trips, leader resigns", over(p50, trip), atMost, leadMost, ""))...)
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
		names := make([]string, setSize)
		for i := range names {
			names[i] = resource + ":" + strconv.Itoa(i)
		}
		return c.locker.AcquireAll(ctx, names)
	}
	return c, nil
}

// leads has a Locker far away from the servers lead and another wait, n times, and returns
// how long it was each time from when the leader resigned until the other led.
func (r *run) leads(ctx context.Context, n int) (took []time.Duration, err error) {
	far, end, err := r.servers.far() //nolint:contextcheck // a proxy lives until it is closed
	if err != nil {
		return nil, err
	}
	defer end()
	var pair [2]*contender
	for i := range pair {
		if pair[i], err = openRedlock(ctx, r.envAt(far)); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, pair[i].close()) }()
	}
	for i := range n {
		d, err := succession(ctx, pair[i%2].locker, pair[1-i%2].locker, "election:"+strconv.Itoa(i))
		if err != nil {
			return nil, err
		}
		took = append(took, d)
	}
	return took, nil
}

// succession has one lead and resign while the other waits.
func succession(ctx context.Context, one, other *redlock.Locker, name string) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, leadBound)
	defer cancel()
	first := campaign(ctx, one, name)
	if _, err := first.begins(); err != nil {
		return 0, err
	}
	second := campaign(ctx, other, name)
	if err := wait(ctx, leadSettle+rand.N(leadSettle)); err != nil {
		return 0, err
	}
	from := time.Now()
	close(first.resign)
	at, err := second.begins()
	close(second.resign)
	return at.Sub(from), errors.Join(err, <-first.done, <-second.done)
}

// lead is one that stands for an election.
type lead struct {
	elected chan time.Time
	resign  chan struct{}
	done    chan error
}

func campaign(ctx context.Context, l *redlock.Locker, name string) *lead {
	g := &lead{make(chan time.Time, 1), make(chan struct{}), make(chan error, 1)}
	go func() {
		g.done <- l.Campaign(ctx, name, func(ctx context.Context, _ *redlock.Lock) error {
			select {
			case g.elected <- time.Now():
			default: // once more, after a loss
			}
			select {
			case <-g.resign:
			case <-ctx.Done():
			}
			return nil
		})
	}()
	return g
}

// begins waits until it leads.
func (g *lead) begins() (at time.Time, err error) {
	select {
	case at = <-g.elected:
	case err = <-g.done:
		close(g.done)
	}
	return at, err
}
