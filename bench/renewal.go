package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/quorumkit/redlock"
)

// renewalTTL is the lease of the locks that are renewed; a third of it is the
// time between two renewals of one lock.
const renewalTTL = 30 * time.Second

// renewal holds many locks and measures what it costs to keep them.
func (r *run) renewal(ctx context.Context) (err error) {
	const name = "renewal"
	count := r.scale(100_000, 10_000)
	window := time.Duration(r.scale(30, 10)) * time.Second // whole periods of renewal
	l, err := redlock.Open(ctx, r.servers.addrs(), redlock.WithTTL(renewalTTL))
	if err != nil {
		return err
	}
	defer func() { _ = l.Close() }() //nolint:contextcheck // Close is bounded by itself; what it leaves lapses
	if err := pair(ctx, &redlockLocks{locker: l}, "first"); err != nil {
		return err
	}
	bare := heap()
	locks, err := hold(ctx, l, count)
	if err != nil {
		return err
	}
	perLock := float64(heap()-bare) / float64(count)
	from, before, err := r.costs(ctx)
	if err != nil {
		return err
	}
	select {
	case <-time.After(window):
	case <-ctx.Done():
		return ctx.Err()
	}
	to, after, err := r.costs(ctx)
	if err != nil {
		return err
	}
	lost := 0
	for _, l := range locks {
		if l.Err() != nil {
			lost++
		}
	}
	r.tellRenewal(name, count, from, to, after-before, perLock, lost)
	return nil
}

// costs reads the processors' use and the number of scripts that the masters ran.
func (r *run) costs(ctx context.Context) (usage, int64, error) {
	u, err := readUsage(ctx, r.servers)
	if err != nil {
		return u, 0, err
	}
	_, calls, err := commandTime(ctx, r.servers, scriptsOnly)
	return u, calls, err
}

// hold acquires n locks by 256 goroutines.
func hold(ctx context.Context, l *redlock.Locker, n int) ([]*redlock.Lock, error) {
	const workers = 256
	locks, errs := make([]*redlock.Lock, n), make([]error, workers)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := w; i < n && errs[w] == nil; i += workers {
				locks[i], errs[w] = l.Acquire(ctx, "kept:"+strconv.Itoa(i))
			}
		})
	}
	wg.Wait()
	return locks, errors.Join(errs...)
}

// heap is what is in use after a collection.
func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func (r *run) tellRenewal(name string, count int, from, to usage, calls int64, perLock float64, lost int) {
	wall, used := to.at.Sub(from.at), to.since(from)
	most := 0.0
	for i := range to.each {
		most = max(most, 100*float64(to.each[i]-from.each[i])/float64(wall))
	}
	// A quick run holds a tenth of the locks; what they cost grows with them.
	share := 100_000 / float64(count)
	what := "of one core"
	if share != 1 {
		what = fmt.Sprintf("of one core, times %g for 100,000 locks", share)
	}
	perSecond := float64(calls) / wall.Seconds() / float64(len(r.servers))
	r.add(section{
		Workload: name, Load: used,
		Title:  fmt.Sprintf("%d locks with a TTL of %v, kept for %v", count, renewalTTL, wall.Round(time.Second)),
		Header: []string{"client % of a core", "busiest server % of a core", "scripts a second and server", "client bytes a lock", "lost"},
		Rows: [][]string{{
			number3(100 * used.Self), number3(most), number3(perSecond), number3(perLock), strconv.Itoa(lost),
		}},
	},
		demand(name, "client, "+what, 100*used.Self*share, atMost, 25, "%"),
		demand(name, "busiest server, "+what, most*share, atMost, 8, "%"),
		demand(name, "locks lost", float64(lost), atMost, 0, ""))
}
