package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"
)

// overlapArg makes this program one process that takes sets which overlap with others'.
const overlapArg = "-overlap-child"

const (
	overlapProcesses = 8
	// Each takes overlapSize of overlapNames names, which it draws, in the order in which
	// it draws them.
	overlapNames = 12
	overlapSize  = 4
	// overlapLeast is how many sets a second they must take together.
	overlapLeast = 100
)

// overlapSlice is what a child, or all of them, did in a while. Who waits for longer than
// pairBound has failed: those who wait for each other do so for ever, since what they hold
// is renewed.
type overlapSlice struct {
	Waits  []int64 // of each set that was taken, in ns
	Failed int
	Last   string // failure
}

// overlapChild takes and releases sets, one after another, for as long as it is told.
func overlapChild(ctx context.Context, p *part, c contender, s *stage) error {
	locks, ok := c.(*redlockLocks)
	if !ok {
		return errors.New("sets are this library's alone")
	}
	for word := s.cue(); word != ""; word = s.cue() {
		d, err := time.ParseDuration(word)
		if err != nil {
			return err
		}
		one := overlapSlice{}
		for until := time.Now().Add(d); time.Now().Before(until); {
			asked := time.Now()
			if err := takeSet(ctx, locks, p.Name); err != nil {
				one.Failed, one.Last = one.Failed+1, err.Error()
				continue
			}
			one.Waits = append(one.Waits, int64(time.Since(asked)))
		}
		if err := s.out.Encode(one); err != nil {
			return err
		}
	}
	return nil
}

// takeSet takes and releases one set.
func takeSet(ctx context.Context, locks *redlockLocks, name string) error {
	ctx, cancel := context.WithTimeout(ctx, pairBound)
	defer cancel()
	var names []string
	for _, i := range rand.Perm(overlapNames)[:overlapSize] {
		names = append(names, name+":"+strconv.Itoa(i))
	}
	m, err := locks.locker.AcquireAll(ctx, names)
	if err != nil {
		return err
	}
	return m.Release(ctx)
}

// overlap is processes that take sets of names which overlap, in all orders.
func (r *run) overlap(ctx context.Context) (err error) {
	const name = "overlap"
	d := time.Duration(r.scale(10_000, 2000)) * time.Millisecond
	from, err := readUsage(ctx, r.servers)
	if err != nil {
		return err
	}
	cs, err := startChildren(ctx, overlapArg, overlapProcesses, part{Library: nameRedlock, Addrs: r.servers.addrs(), Name: name})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, endChildren(cs)) }()
	var perSecond, longest []float64
	var waits []int64
	failed, last := 0, ""
	for round := range 1 + r.rounds {
		all, err := overlapped(cs, d)
		if err != nil {
			return err
		}
		failed += all.Failed
		if all.Last != "" {
			last = "The last failure was: " + all.Last + "."
		}
		if round > 0 && len(all.Waits) > 0 { // the one before warms up
			perSecond = append(perSecond, float64(len(all.Waits))/d.Seconds())
			longest = append(longest, micros(time.Duration(slices.Max(all.Waits)))/1000)
			waits = append(waits, all.Waits...)
		}
	}
	to, err := readUsage(ctx, r.servers)
	if err != nil {
		return err
	}
	s := section{
		Workload: name, Load: to.since(from),
		Title:  fmt.Sprintf("%d processes, each of which takes %d of %d names, drawn anew, %v a round, %d rounds", overlapProcesses, overlapSize, overlapNames, d, r.rounds),
		Header: []string{"sets/s", "wait p50 ms", "p99 ms", "longest ms", "failed"},
		Rows: [][]string{{
			number3(median(perSecond)), number3(float64(percentile(waits, 0.5)) / 1e6), number3(float64(percentile(waits, 0.99)) / 1e6),
			number3(median(longest)), strconv.Itoa(failed),
		}},
	}
	if last != "" {
		s.Notes = append(s.Notes, last)
	}
	r.add(s,
		demand(name, "sets a second", median(perSecond), atLeast, overlapLeast, ""),
		demand(name, fmt.Sprintf("sets that were waited for longer than %v", pairBound), float64(failed), atMost, 0, ""))
	return nil
}

// overlapped has all children take sets for d.
func overlapped(cs []*child, d time.Duration) (all overlapSlice, err error) {
	for _, c := range cs {
		if err := c.say(d.String()); err != nil {
			return all, err
		}
	}
	for _, c := range cs {
		var one overlapSlice
		if err := c.hear(&one); err != nil {
			return all, err
		}
		all.Waits, all.Failed = append(all.Waits, one.Waits...), all.Failed+one.Failed
		if one.Last != "" {
			all.Last = one.Last
		}
	}
	return all, nil
}
