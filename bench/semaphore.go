package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/quorumkit/redlock"
)

// permitsArg makes this program one process of those that want a permit of one name.
const permitsArg = "-permits-child"

// claimants is so many processes of so many goroutines that want one.
var claimants = crowd{processes: 4, goroutines: 10}

const (
	// permits is how many hold at once.
	permits = 10
	// permitHold is for how long each holds: so that as many as may hold at once.
	permitHold = 2 * time.Millisecond
	// permitsLeast is what part of the hand-overs of as many plain locks they must have.
	permitsLeast = 0.5
)

// The kinds of load, as a child is told them.
const (
	loadPermits = "permits" // one name WithLimit(permits)
	loadNames   = "names"   // as many plain names, each goroutine always wants the same
)

// permitRecord is one hold, by the machine's clock, in ns.
type permitRecord struct {
	From, To int64
	Slot     int
	Who      int // the goroutine
}

// permitSlice is what a child, or all of them, did in a while.
type permitSlice struct {
	Holds  []permitRecord
	Failed int
}

// permitsChild plays loads, each for as long as it is told, until there is no other.
func permitsChild(ctx context.Context, p *part, c contender, s *stage) error {
	locks, ok := c.(*redlockLocks)
	if !ok {
		return errors.New("permits are this library's alone")
	}
	for kind := s.cue(); kind != ""; kind = s.cue() {
		d, err := time.ParseDuration(s.cue())
		if err != nil {
			return err
		}
		until := time.Now().Add(d)
		each := make([]permitSlice, p.Goroutines)
		var workers sync.WaitGroup
		for i := range each {
			workers.Go(func() { each[i] = permitWorker(ctx, locks.locker, p.Name, kind, i, until) })
		}
		workers.Wait()
		var all permitSlice
		for _, one := range each {
			all.Holds, all.Failed = append(all.Holds, one.Holds...), all.Failed+one.Failed
		}
		if err := s.out.Encode(all); err != nil {
			return err
		}
	}
	return nil
}

// permitWorker is goroutine i of them.
func permitWorker(ctx context.Context, l *redlock.Locker, name, kind string, i int, until time.Time) (s permitSlice) {
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	opts := []redlock.AcquireOption{redlock.WithLimit(permits)}
	if kind == loadNames {
		name, opts = name+":"+strconv.Itoa(i%permits), nil
	}
	for time.Now().Before(until) {
		lock, err := l.Acquire(ctx, name, opts...)
		if err != nil {
			if ctx.Err() == nil {
				s.Failed++
			}
			continue
		}
		h := permitRecord{From: time.Now().UnixNano(), Slot: lock.Slot(), Who: i}
		if kind == loadNames {
			h.Slot = i % permits
		}
		time.Sleep(permitHold)
		h.To = time.Now().UnixNano()
		if err := lock.Release(context.WithoutCancel(ctx)); err != nil {
			s.Failed++
		}
		s.Holds = append(s.Holds, h)
	}
	return s
}

// semaphore is claimants of one name that permits hold at once, beside the same on as many
// plain names.
func (r *run) semaphore(ctx context.Context) (err error) {
	const name = "semaphore"
	d := time.Duration(r.scale(3000, 1000)) * time.Millisecond
	from, err := readUsage(ctx, r.servers)
	if err != nil {
		return err
	}
	cs, err := startChildren(ctx, permitsArg, claimants.processes, part{
		Library: nameRedlock, Addrs: r.servers.addrs(), Name: name, Goroutines: claimants.goroutines,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, endChildren(cs)) }()
	speed, failed, together, twice := map[string][]float64{}, map[string]int{}, map[string]int{}, map[string]int{}
	for round := range 1 + r.rounds {
		for _, kind := range []string{loadPermits, loadNames} {
			all, err := permitsPlayed(cs, kind, d)
			if err != nil {
				return err
			}
			failed[kind] += all.Failed
			most, same := overlaps(all.Holds)
			together[kind], twice[kind] = max(together[kind], most), twice[kind]+same
			if round > 0 {
				speed[kind] = append(speed[kind], float64(slotChanges(all.Holds))/d.Seconds())
			}
			r.progress("semaphore, %s: round %d of %d: %d holds, %d at once, %d failed", kind, round, r.rounds, len(all.Holds), most, all.Failed)
		}
	}
	to, err := readUsage(ctx, r.servers)
	if err != nil {
		return err
	}
	s := section{
		Workload: name, Load: to.since(from),
		Title:  fmt.Sprintf("%s goroutines want one of %d permits and hold it for %v, %v a round, %d rounds", claimants, permits, permitHold, d, r.rounds),
		Header: []string{"", "hand-overs/s", "over plain names", "most at once", "failed"},
	}
	plain := median(speed[loadNames])
	for _, kind := range []string{loadPermits, loadNames} {
		s.Rows = append(s.Rows, []string{
			kind, number3(median(speed[kind])), number3(over(median(speed[kind]), plain)), strconv.Itoa(together[kind]), strconv.Itoa(failed[kind]),
		})
	}
	r.add(s,
		demand(name, "hand-overs over those of as many plain names", over(median(speed[loadPermits]), plain), atLeast, permitsLeast, ""),
		demand(name, "holders at once", float64(together[loadPermits]), atMost, permits, ""),
		demand(name, "holds of one slot that overlap", float64(twice[loadPermits]), atMost, 0, ""),
		demand(name, "failed pairs", float64(failed[loadPermits]+failed[loadNames]), atMost, 0, ""))
	return nil
}

// permitsPlayed has all children play one load for d.
func permitsPlayed(cs []*child, kind string, d time.Duration) (all permitSlice, err error) {
	for _, c := range cs {
		if err := errors.Join(c.say(kind), c.say(d.String())); err != nil {
			return all, err
		}
	}
	for i, c := range cs {
		var one permitSlice
		if err := c.hear(&one); err != nil {
			return all, err
		}
		for _, h := range one.Holds {
			h.Who += i * claimants.goroutines
			all.Holds = append(all.Holds, h)
		}
		all.Failed += one.Failed
	}
	slices.SortFunc(all.Holds, func(a, b permitRecord) int { return cmp.Compare(a.From, b.From) })
	return all, nil
}

// overlaps are how many of the holds, in their order, stood at once, and how many began
// while their slot was held.
func overlaps(holds []permitRecord) (most, same int) {
	var open []permitRecord
	for _, h := range holds {
		open = slices.DeleteFunc(open, func(o permitRecord) bool { return o.To <= h.From })
		if slices.ContainsFunc(open, func(o permitRecord) bool { return o.Slot == h.Slot }) {
			same++
		}
		open = append(open, h)
		most = max(most, len(open))
	}
	return most, same
}

// slotChanges are the hand-overs of each slot to another goroutine.
func slotChanges(holds []permitRecord) (n int) {
	last := map[int]int{}
	for _, h := range holds {
		if who, ok := last[h.Slot]; ok && who != h.Who {
			n++
		}
		last[h.Slot] = h.Who
	}
	return n
}
