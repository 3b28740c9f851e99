package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/quorumkit/redlock"
)

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
	// not grow with the names are 52.5: each node has its clock read (TIME) four times a
	// second, with a look at who it is (INFO), and is given 2.5 signs of life. The looks
	// at 10,000 names, 250 a command, are some ten.
	idleMost    = 70
	settleBound = 60 * time.Second // for the waiters to stand in line
)

// memory is what this process has in use.
func memory() (heap, stack float64) {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc), float64(m.StackInuse)
}

// idle watches a Locker that waits for very many names at once.
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

// heldIdle measures what very many processes cost the nodes that each hold one lock
// and do nothing else: renewals, and looks at the nodes' clocks. A process is a
// Locker with connections of its own here.
func (r *run) heldIdle(ctx context.Context) error {
	count := r.scale(1000, 200)
	s := section{
		Workload: "held", Title: fmt.Sprintf("%d Lockers that hold one lock each for %v, with a TTL of %v", count, idleFor, redlock.DefaultTTL),
		Header: []string{"clocks", "commands a second and node", "CPU of the busiest node, % of a core", "client, % of a core"},
	}
	for _, how := range []struct {
		name string
		open opener
	}{
		{"watched", openRedlock},
		{"not watched, nor who the nodes are", bareSpec.open},
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
