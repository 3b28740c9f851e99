package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync"
	"time"
)

// crowdArg makes this program one process of a crowd.
const crowdArg = "-crowd-child"

const (
	// crowdWarm is the beginning that does not count: connections are made, and
	// the line forms.
	crowdWarm = 400 * time.Millisecond
	// windowSize is how many hand-overs the longest wait is judged by.
	windowSize = 1000
)

// crowd is so many processes of so many goroutines that want one name.
type crowd struct{ processes, goroutines int }

func (c crowd) String() string { return fmt.Sprintf("%d x %d", c.processes, c.goroutines) }

// holdRecord is one hold of the name.
type holdRecord struct {
	At    int64  // when it began, by the machine's clock, in ns
	Wait  int64  // since it was asked for, in ns
	Who   int    // the goroutine
	Token uint64 // 0: the library has none
}

// tokened is a lock with a fencing token.
type tokened interface{ token() uint64 }

// crowdChild takes and releases the name with all its goroutines, for as long as
// it is told.
func crowdChild(ctx context.Context, p *part, c contender, s *stage) error {
	d, err := time.ParseDuration(s.cue())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	holds := make([][]holdRecord, p.Goroutines)
	var workers sync.WaitGroup
	for i := range holds {
		workers.Go(func() { holds[i] = crowdWorker(ctx, c, p.Name, i) })
	}
	workers.Wait()
	return s.out.Encode(slices.Concat(holds...))
}

// crowdWorker is one goroutine of them.
func crowdWorker(ctx context.Context, c contender, name string, who int) (holds []holdRecord) {
	asked := time.Now()
	for ctx.Err() == nil {
		h, err := c.acquire(ctx, name)
		if err != nil {
			continue // a library that gives up by itself asks again
		}
		now := time.Now()
		one := holdRecord{At: now.UnixNano(), Wait: int64(now.Sub(asked)), Who: who}
		if t, ok := h.(tokened); ok {
			one.Token = t.token()
		}
		holds = append(holds, one)
		_ = h.release(context.WithoutCancel(ctx)) // what fails is cleaned by its lease
		asked = time.Now()
	}
	return holds
}

// crowdSlice is what a crowd made of a while.
type crowdSlice struct {
	perSecond float64   // hand-overs from one goroutine to a different one
	longest   []float64 // the longest wait of each window, in mean waits of the window
	least     float64   // a goroutine's share, as a part of the fair one
	most      float64
	commands  float64 // for each hand-over, over all masters
	again     float64 // of all holds, those that the last holder took again
}

// crowded has a crowd want one name for d, after the beginning.
func (r *run) crowded(ctx context.Context, t *crowdRunner, c crowd, d time.Duration) (s crowdSlice, err error) {
	r.serial++
	masters := r.servers[:t.masters]
	cs, err := startChildren(ctx, crowdArg, c.processes, part{
		Library: t.library, Addrs: r.servers.addrs()[:t.masters], Turns: t.turns,
		Name: "hot:" + strconv.Itoa(r.serial), Goroutines: c.goroutines,
	})
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, endChildren(cs)) }()
	_, before, err := commandTime(ctx, masters, t.commands)
	if err != nil {
		return s, err
	}
	start := time.Now()
	for _, child := range cs {
		if err := child.say((crowdWarm + d).String()); err != nil {
			return s, err
		}
	}
	var all []holdRecord
	for i, child := range cs {
		var holds []holdRecord
		if err := child.hear(&holds); err != nil {
			return s, err
		}
		for _, h := range holds {
			h.Who += i * c.goroutines
			all = append(all, h)
		}
	}
	_, after, err := commandTime(ctx, masters, t.commands)
	if err != nil {
		return s, err
	}
	commands := float64(after - before)
	slices.SortFunc(all, func(a, b holdRecord) int { return cmp.Compare(a.At, b.At) })
	changes, fenced := changesOf(all)
	if !fenced {
		return s, fmt.Errorf("the tokens of %s do not grow from hold to hold", t.name)
	}
	counted := between(all, start.Add(crowdWarm), start.Add(crowdWarm+d))
	s.judge(counted, c.processes*c.goroutines, d)
	s.commands = commands / float64(max(changes, 1))
	return s, nil
}

// between are the holds that began in a while.
func between(all []holdRecord, from, to time.Time) []holdRecord {
	return slices.DeleteFunc(slices.Clone(all), func(h holdRecord) bool { return h.At < from.UnixNano() || h.At >= to.UnixNano() })
}

// changesOf counts the holds that another goroutine had than the one before, and
// tells whether the tokens grow, where there are any. Holds do not overlap, so
// their beginnings give their order, no matter the process.
func changesOf(holds []holdRecord) (n int, fenced bool) {
	for i := 1; i < len(holds); i++ {
		if holds[i].Who != holds[i-1].Who {
			n++
		}
		if holds[i].Token != 0 && holds[i].Token <= holds[i-1].Token {
			return n, false
		}
	}
	return n, true
}

// judge tells the figures of holds in their order, which so many goroutines had
// in a while of d.
func (s *crowdSlice) judge(holds []holdRecord, goroutines int, d time.Duration) {
	changes, _ := changesOf(holds)
	s.perSecond = float64(changes) / d.Seconds()
	s.again = 1 - float64(changes+1)/float64(max(len(holds), 1))
	counts := make([]int, goroutines)
	for _, h := range holds {
		counts[h.Who]++
	}
	fair := float64(max(len(holds), 1)) / float64(goroutines)
	s.least, s.most = float64(slices.Min(counts))/fair, float64(slices.Max(counts))/fair
	size := min(windowSize, max(len(holds), 1))
	for w := range slices.Chunk(holds, size) {
		if len(w) == size {
			s.longest = append(s.longest, longestWait(w))
		}
	}
}

// longestWait is the longest wait in mean waits.
func longestWait(holds []holdRecord) float64 {
	sum, longest := int64(0), int64(0)
	for _, h := range holds {
		sum += h.Wait
		longest = max(longest, h.Wait)
	}
	if sum == 0 {
		return math.NaN()
	}
	return float64(longest) * float64(len(holds)) / float64(sum)
}
