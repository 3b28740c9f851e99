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
	"github.com/redis/go-redis/v9"
)

// manyNames makes this program the process of the idle workload.
const manyNames = "-idle-child"

const (
	// idleFor is how long the waiters are watched: more than a round of looks.
	idleFor = 12 * time.Second
	// idleSettle is how long the last asks are given, which are not idleness.
	idleSettle = 3 * time.Second
	// idleLease is the lease of the names, and idleBatch how many are renewed at
	// once, each at a third of it: as a holder of this library does.
	idleLease = 10 * time.Second
	idleBatch = 250
	// idleMost is how many commands a second may go to all five nodes. Those that do
	// not grow with the names are 52.5: each node has its clock read (TIME) four times a
	// second, with a look at who it is (INFO), and is given 2.5 signs of life. The looks
	// at 10,000 names, 250 a command, are some ten.
	idleMost = 70
	// settleBound is how long the waiters are given to stand in line.
	settleBound = 60 * time.Second
)

// memory is what a process has in use.
type memory struct{ Heap, Stack uint64 }

func memoryInUse() memory {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return memory{m.HeapAlloc, m.StackInuse}
}

// idleChild waits for as many names as it has goroutines, and tells its memory
// before and, each time it is asked, after.
func idleChild(ctx context.Context, p *part, c contender, s *stage) error {
	ctx, cancel := context.WithCancel(ctx)
	if err := s.out.Encode(memoryInUse()); err != nil {
		cancel()
		return err
	}
	var waiters sync.WaitGroup
	for i := range p.Goroutines {
		waiters.Go(func() {
			if h, err := c.acquire(ctx, p.Name+strconv.Itoa(i)); err == nil {
				_ = h.release(context.WithoutCancel(ctx)) // it lapses
			}
		})
	}
	var err error
	for err == nil && s.cue() != "" {
		err = s.out.Encode(memoryInUse())
	}
	cancel()
	waiters.Wait()
	return err
}

// idle watches a process that waits for very many names at once.
func (r *run) idle(ctx context.Context) (err error) {
	const name = "idle"
	count := r.scale(10_000, 2_000)
	leave, err := r.occupy(ctx, name+":", count)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, leave()) }()
	used, keys, err := r.nodeMemory(ctx)
	if err != nil {
		return err
	}
	c, err := startChild(ctx, manyNames, part{Library: nameRedlock, Addrs: r.servers.addrs(), Name: name + ":", Goroutines: count})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.end()) }()
	var before, after memory
	if err := errors.Join(c.hear(&before), r.awaitQueued(ctx, keys, count)); err != nil {
		return err
	}
	time.Sleep(idleSettle)
	if err := errors.Join(c.say("memory"), c.hear(&after)); err != nil {
		return err
	}
	l, perSecond, err := r.watchIdle(ctx)
	if err != nil {
		return err
	}
	usedNow, _, err := r.nodeMemory(ctx)
	if err != nil {
		return err
	}
	grown := int64(0)
	for i := range used {
		grown += usedNow[i] - used[i]
	}
	n := float64(count)
	r.add(section{
		Workload: name, Load: l,
		Title:  fmt.Sprintf("%d goroutines of one process, each waiting for a name of its own that is held", count),
		Header: []string{"commands/s over five nodes", "client heap bytes a waiter", "client stack bytes a waiter", "server bytes a waiter and node"},
		Rows: [][]string{{
			number3(perSecond), number3(float64(after.Heap-before.Heap) / n), number3(float64(after.Stack-before.Stack) / n),
			number3(float64(grown) / n / float64(len(used))),
		}},
	}, demand(name, fmt.Sprintf("commands a second over all nodes, %d waiters", count), perSecond, atMost, idleMost, ""))
	return nil
}

// watchIdle counts what is sent while nothing happens.
func (r *run) watchIdle(ctx context.Context) (l load, perSecond float64, err error) {
	from, err := readUsage(ctx, r.servers)
	if err != nil {
		return l, 0, err
	}
	_, before, err := commandTime(ctx, r.servers, sentByRedlock)
	if err != nil {
		return l, 0, err
	}
	select {
	case <-time.After(idleFor):
	case <-ctx.Done():
		return l, 0, ctx.Err()
	}
	_, after, err := commandTime(ctx, r.servers, sentByRedlock)
	if err != nil {
		return l, 0, err
	}
	to, err := readUsage(ctx, r.servers)
	return to.since(from), float64(after-before) / to.at.Sub(from.at).Seconds(), err
}

// occupy sets the names as a holder of this library would, and renews them until
// leave is called, by a command that the waiters do not send.
func (r *run) occupy(ctx context.Context, prefix string, count int) (leave func() error, err error) {
	owner := uuid.NewString()
	each := func(from int, add func(p redis.Pipeliner, key string)) error {
		for _, s := range r.servers {
			pipe := s.control.Pipeline()
			for i := from; i < min(from+idleBatch, count); i++ {
				add(pipe, prefix+strconv.Itoa(i))
			}
			if _, err := pipe.Exec(ctx); err != nil {
				return err
			}
		}
		return nil
	}
	for from := 0; from < count; from += idleBatch {
		if err := each(from, func(p redis.Pipeliner, key string) { p.Set(ctx, key, owner, idleLease) }); err != nil {
			return nil, err
		}
	}
	stop, done := make(chan struct{}), make(chan error, 1)
	go func() {
		beat := time.NewTicker(idleLease / 3 / time.Duration((count+idleBatch-1)/idleBatch))
		defer beat.Stop()
		for from := 0; ; from = (from + idleBatch) % count {
			select {
			case <-stop:
				done <- nil
				return
			case <-beat.C:
			}
			if err := each(from, func(p redis.Pipeliner, key string) { p.PExpire(ctx, key, idleLease) }); err != nil {
				done <- err
				return
			}
		}
	}()
	return func() error { close(stop); return <-done }, nil
}

// awaitQueued waits until the nodes have as many keys more as a quorum of entries for
// each waiter makes: where a quorum refused, the others are not asked any more.
func (r *run) awaitQueued(ctx context.Context, before []int64, waiters int) error {
	want := int64(waiters) * int64(len(r.servers)/2+1)
	for start := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		sum := int64(0)
		for i, s := range r.servers {
			n, err := s.control.DBSize(ctx).Result()
			if err != nil {
				return err
			}
			sum += n - before[i]
		}
		if sum >= want {
			return nil
		}
		if time.Since(start) > settleBound {
			return fmt.Errorf("%d entries after %v; want %d", sum, settleBound, want)
		}
	}
}

// nodeMemory returns used_memory and the number of keys of each node.
func (r *run) nodeMemory(ctx context.Context) (memory, keys []int64, err error) {
	for _, s := range r.servers {
		if _, err := s.do(ctx, "MEMORY", "PURGE"); err != nil {
			return nil, nil, err
		}
		fields, err := s.info(ctx, "memory")
		if err != nil {
			return nil, nil, err
		}
		used, err := strconv.ParseInt(fields["used_memory"], 10, 64)
		if err != nil {
			return nil, nil, err
		}
		n, err := s.control.DBSize(ctx).Result()
		if err != nil {
			return nil, nil, err
		}
		memory, keys = append(memory, used), append(keys, n)
	}
	return memory, keys, nil
}
