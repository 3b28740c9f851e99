package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/quorumkit/redlock"
)

// readersArg makes this program one process of those that read beside each other.
const readersArg = "-readers-child"

// readers is so many processes of so many goroutines that read one name.
var readers = crowd{processes: 4, goroutines: 16}

const (
	// A reader holds the name for nine tenths of its time.
	readHold  = 45 * time.Millisecond
	readPause = 5 * time.Millisecond
	// readLeast is how many times the pairs those who share must have that the same
	// goroutines have when each holds the name alone.
	readLeast = 10
	// One in mixedWrites of the pairs of the mixed load is exclusive.
	mixedWrites = 10
	// A writer may wait for so many of the longest shared hold that stood before it, and
	// writerTrips round trips.
	writerMost  = 2
	writerTrips = 3
	// How long those hold that a writer meets.
	leastRead, mostRead = 10 * time.Millisecond, 60 * time.Millisecond
)

// The kinds of load, as a child is told them.
const (
	loadShared = "shared" // each shares
	loadAlone  = "alone"  // each holds alone
	loadMixed  = "mixed"  // one in mixedWrites holds alone
	loadVaried = "varied" // each shares, for leastRead to mostRead
)

// readRecord is one hold, by the machine's clock, in ns.
type readRecord struct{ From, To int64 }

// readSlice is what a child, or all of them, did in a while.
type readSlice struct {
	Holds  []readRecord
	Failed int
}

// readersChild plays loads, each for as long as it is told, until there is no other.
func readersChild(ctx context.Context, p *part, c contender, s *stage) error {
	locks, ok := c.(*redlockLocks)
	if !ok {
		return errors.New("to share is this library's alone")
	}
	for kind := s.cue(); kind != ""; kind = s.cue() {
		d, err := time.ParseDuration(s.cue())
		if err != nil {
			return err
		}
		all := readSlice{}
		var mu sync.Mutex // guards all
		var workers sync.WaitGroup
		until := time.Now().Add(d)
		for range p.Goroutines {
			workers.Go(func() {
				one := readWorker(ctx, locks.locker, p.Name+kind, kind, until)
				mu.Lock()
				defer mu.Unlock()
				all.Holds, all.Failed = append(all.Holds, one.Holds...), all.Failed+one.Failed
			})
		}
		workers.Wait()
		if err := s.out.Encode(all); err != nil {
			return err
		}
	}
	return nil
}

// readWorker is one goroutine of them.
func readWorker(ctx context.Context, l *redlock.Locker, name, kind string, until time.Time) (s readSlice) {
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	for time.Now().Before(until) {
		var opts []redlock.AcquireOption
		hold := readHold
		switch kind {
		case loadShared:
			opts = append(opts, redlock.WithShared())
		case loadMixed:
			if rand.IntN(mixedWrites) > 0 {
				opts = append(opts, redlock.WithShared())
			}
		case loadVaried:
			opts = append(opts, redlock.WithShared())
			hold = leastRead + rand.N(mostRead-leastRead)
		}
		lock, err := l.Acquire(ctx, name, opts...)
		if err != nil {
			if ctx.Err() == nil {
				s.Failed++
			}
			continue
		}
		from := time.Now()
		time.Sleep(hold)
		to := time.Now()
		if err := lock.Release(context.WithoutCancel(ctx)); err != nil {
			s.Failed++
		}
		s.Holds = append(s.Holds, readRecord{from.UnixNano(), to.UnixNano()})
		time.Sleep(readPause)
	}
	return s
}

// play has all children play one load for d, and does something meanwhile.
func play(cs []*child, kind string, d time.Duration, meanwhile func()) (all readSlice, err error) {
	for _, c := range cs {
		if err := errors.Join(c.say(kind), c.say(d.String())); err != nil {
			return all, err
		}
	}
	meanwhile()
	for _, c := range cs {
		var one readSlice
		if err := c.hear(&one); err != nil {
			return all, err
		}
		all.Holds, all.Failed = append(all.Holds, one.Holds...), all.Failed+one.Failed
	}
	return all, nil
}

// readersTogether is goroutines of several processes that read one name, together and each
// alone, and a writer that comes among them.
func (r *run) readersTogether(ctx context.Context) (err error) {
	const name = "readers"
	d := time.Duration(r.scale(3000, 1000)) * time.Millisecond
	from, err := readUsage(ctx, r.servers)
	if err != nil {
		return err
	}
	cs, err := startChildren(ctx, readersArg, readers.processes, part{
		Library: nameRedlock, Addrs: r.servers.addrs(), Name: "read:", Goroutines: readers.goroutines,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, endChildren(cs)) }()
	pairs, failed := map[string][]float64{}, map[string]int{}
	for round := range 1 + r.rounds {
		for _, kind := range []string{loadShared, loadAlone, loadMixed} {
			all, err := play(cs, kind, d, func() {})
			if err != nil {
				return err
			}
			failed[kind] += all.Failed
			if round > 0 {
				pairs[kind] = append(pairs[kind], float64(len(all.Holds))/d.Seconds())
			}
			r.progress("readers, %s: round %d of %d: %d pairs, %d failed", kind, round, r.rounds, len(all.Holds), all.Failed)
		}
	}
	w, err := r.writerAmongReaders(ctx, cs, d)
	if err != nil {
		return err
	}
	to, err := readUsage(ctx, r.servers)
	if err != nil {
		return err
	}
	s := section{
		Workload: name, Load: to.since(from),
		Title:  fmt.Sprintf("%s goroutines on one name, each holds it for %v and pauses for %v, %v a round, %d rounds", readers, readHold, readPause, d, r.rounds),
		Header: []string{"each pair", "pairs/s", "over all alone", "failed"},
	}
	alone := median(pairs[loadAlone])
	for _, kind := range []string{loadShared, loadAlone, loadMixed} {
		s.Rows = append(s.Rows, []string{kind, number3(median(pairs[kind])), number3(over(median(pairs[kind]), alone)), strconv.Itoa(failed[kind])})
	}
	s.Notes = append(s.Notes,
		fmt.Sprintf("Mixed: one pair of %d is exclusive. In the order of asking that is at most %d pairs in the time of two holds, so about %d times the pairs of all alone.", mixedWrites, mixedWrites, mixedWrites/2),
		fmt.Sprintf("A writer among %s readers who hold for %v to %v: %d waits, p50 %s ms, the longest %s ms; a round trip is %s ms.",
			readers, leastRead, mostRead, len(w.waits), number3(percentile(w.waits, 0.5)), number3(percentile(w.waits, 1)), number3(w.trip)))
	r.add(s,
		demand(name, "pairs of those who share over the same alone", over(median(pairs[loadShared]), alone), atLeast, readLeast, ""),
		demand(name, "failed pairs", float64(failed[loadShared]+failed[loadAlone]+failed[loadMixed]+w.failed), atMost, 0, ""),
		demand(name, fmt.Sprintf("a writer's longest wait without %d round trips, in the longest hold before it", writerTrips), slices.Max(append(w.ratios, 0)), atMost, writerMost, ""),
		demand(name, "a writer's waits that were measured", float64(len(w.waits)), atLeast, 1, ""))
	return nil
}

// writerWaits is how long a writer waited among readers.
type writerWaits struct {
	waits  []float64 // ms
	ratios []float64 // of each wait, but for the round trips, over the longest hold that stood before it
	trip   float64   // ms
	failed int
}

// writerAmongReaders has this process take the name alone, again and again, while all
// others read.
func (r *run) writerAmongReaders(ctx context.Context, cs []*child, d time.Duration) (w writerWaits, err error) {
	c, err := openRedlock(ctx, r.env())
	if err != nil {
		return w, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	var trips []float64
	for range 100 {
		began := time.Now()
		if err := pair(ctx, c, "trip"); err != nil {
			return w, err
		}
		trips = append(trips, micros(time.Since(began))/2000) // a pair is two
	}
	w.trip = percentile(trips, 0.5)
	for range 1 + r.rounds {
		var asked []readRecord
		all, err := play(cs, loadVaried, d, func() {
			until := time.Now().Add(d - 2*mostRead)
			time.Sleep(mostRead) // they begin
			for time.Now().Before(until) {
				from := time.Now()
				h, err := c.acquire(ctx, "read:"+loadVaried)
				if err != nil {
					w.failed++
					continue
				}
				asked = append(asked, readRecord{from.UnixNano(), time.Now().UnixNano()})
				_ = h.release(ctx)
				time.Sleep(leastRead)
			}
		})
		if err != nil {
			return w, err
		}
		w.failed += all.Failed
		w.judge(asked, all.Holds)
	}
	return w, nil
}

// judge holds each wait against the longest hold of those that had begun when it was
// asked, and not ended.
func (w *writerWaits) judge(asked, holds []readRecord) {
	for _, a := range asked {
		longest := int64(0)
		for _, h := range holds {
			if h.From <= a.From && h.To > a.From {
				longest = max(longest, h.To-h.From)
			}
		}
		if longest == 0 {
			continue // nobody was before it
		}
		wait := float64(a.To-a.From) / 1e6
		w.waits = append(w.waits, wait)
		w.ratios = append(w.ratios, max(wait-writerTrips*w.trip, 0)*1e6/float64(longest))
	}
	slices.SortFunc(w.ratios, cmp.Compare[float64])
}
