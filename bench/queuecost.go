package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
)

// queueTimes is what an uncontended pair may cost in script time, in pairs by the
// scripts of before there was a queue.
const queueTimes = 1.1

// queueCost measures the acquire and release scripts beside those of before
// there was a queue, in turn, where nobody waits: what the queue costs everybody.
func (r *run) queueCost(ctx context.Context) error {
	const name = "queue"
	from, err := readUsage(ctx, r.servers)
	if err != nil {
		return err
	}
	s := section{Workload: name, Title: "server time of an uncontended pair with the queue and without, one call at a time", Header: []string{
		"locks in a call", "without: acquire us, p10", "release", "with: acquire us, p10", "release", "pair with / without",
	}}
	dir, err := fs.Sub(beforeQueue, "before")
	if err != nil {
		return err
	}
	var gates []gate
	for _, batch := range []int{1, 16, batchMax} {
		now, then, err := r.timeBoth(ctx, dir, batch)
		if err != nil {
			return err
		}
		ratio := over(now.pair(), then.pair())
		s.Rows = append(s.Rows, []string{
			strconv.Itoa(batch), number3(percentile(then.acquires, 0.1)), number3(percentile(then.releases, 0.1)),
			number3(percentile(now.acquires, 0.1)), number3(percentile(now.releases, 0.1)), number3(ratio),
		})
		gates = append(gates, demand(name, fmt.Sprintf("script time of a pair over before, calls of %d", batch), ratio, atMost, queueTimes, ""))
	}
	to, err := readUsage(ctx, r.servers)
	if err != nil {
		return err
	}
	s.Load = to.since(from)
	r.add(s, gates...)
	return nil
}

// timeBoth measures the scripts and older ones, slice by slice in turn.
func (r *run) timeBoth(ctx context.Context, older fs.FS, batch int) (now, then *callTimes, err error) {
	old, err := readPair(older)
	if err != nil {
		return nil, nil, err
	}
	var timers []*scriptTimer
	defer func() {
		for _, t := range timers {
			err = errors.Join(err, t.conn.Close())
		}
	}()
	for _, s := range []*scripts{r.scripts, old} {
		t, err := newScriptTimer(ctx, r.servers[0], s)
		if err != nil {
			return nil, nil, err
		}
		timers = append(timers, t)
	}
	for range r.scale(200, 40) {
		for _, t := range timers {
			if err := t.slice(ctx, batch); err != nil {
				return nil, nil, err
			}
		}
	}
	return &timers[0].times, &timers[1].times, nil
}
