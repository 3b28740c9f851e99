package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumkit/redlock"
)

// The names workload: every eighth lock is not released but lapses, because a
// name must leave nothing behind in either case.
const (
	namesTTL     = 2 * time.Second
	lapseEvery   = 8
	namesWorkers = 256
	settleBound  = 60 * time.Second
)

// names acquires very many distinct names and looks at what is left on the nodes.
func (r *run) names(ctx context.Context) (err error) {
	const name = "names"
	count := r.scale(1_000_000, 100_000)
	l, err := redlock.Open(ctx, r.servers.addrs(), redlock.WithTTL(namesTTL), redlock.WithFixedLease())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }() //nolint:contextcheck // Close is bounded by itself
	if err := pair(ctx, &redlockLocks{locker: l}, "first"); err != nil {
		return err
	}
	before, _, err := r.nodeMemory(ctx)
	if err != nil {
		return err
	}
	from, err := readUsage(ctx, r.servers)
	if err != nil {
		return err
	}
	if err := lockOnce(ctx, l, count); err != nil {
		return err
	}
	to, err := readUsage(ctx, r.servers)
	if err != nil {
		return err
	}
	after, keys, err := r.settled(ctx)
	if err != nil {
		return err
	}
	grown := 0.0
	for i := range after {
		grown = max(grown, float64(after[i]-before[i])/(1<<20))
	}
	wall := to.at.Sub(from.at)
	r.add(section{
		Workload: name, Load: to.since(from),
		Title:  fmt.Sprintf("%d acquisitions of as many names in %v, every %dth left to lapse", count, wall.Round(time.Second), lapseEvery),
		Header: []string{"node", "MB before", "MB after", "keys left"},
		Rows: func() (rows [][]string) {
			for i := range after {
				rows = append(rows, []string{
					strconv.Itoa(i), fmt.Sprintf("%.2f", float64(before[i])/(1<<20)),
					fmt.Sprintf("%.2f", float64(after[i])/(1<<20)), strconv.FormatInt(keys[i], 10),
				})
			}
			return rows
		}(),
	}, demand(name, "growth of the fullest node", grown, atMost, 2, " MB"))
	return nil
}

// lockOnce acquires n names, each once.
func lockOnce(ctx context.Context, l *redlock.Locker, n int) error {
	var next atomic.Int64
	errs := make([]error, namesWorkers)
	var wg sync.WaitGroup
	for w := range namesWorkers {
		wg.Go(func() {
			for errs[w] == nil {
				i := next.Add(1)
				if i > int64(n) {
					return
				}
				var lock *redlock.Lock
				if lock, errs[w] = l.Acquire(ctx, "name:"+strconv.FormatInt(i, 10)); errs[w] == nil && i%lapseEvery != 0 {
					errs[w] = ignoreLate(lock.Release(ctx))
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// ignoreLate leaves out what a loaded machine does to a release: it found the
// lease over, or no quorum in time. The key goes all the same.
func ignoreLate(err error) error {
	if errors.Is(err, redlock.ErrNotHeld) || errors.Is(err, redlock.ErrNoQuorum) {
		return nil
	}
	return err
}

// settled waits until the leases have gone by everywhere (the record is the one
// key that stays), and returns each node's memory and keys then.
func (r *run) settled(ctx context.Context) (memory, keys []int64, err error) {
	for start := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		if memory, keys, err = r.nodeMemory(ctx); err != nil {
			return nil, nil, err
		}
		left := int64(0)
		for _, k := range keys {
			left += k - 1
		}
		if left == 0 || time.Since(start) > settleBound {
			return memory, keys, nil
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
