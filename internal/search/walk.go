package search

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
)

// WalkOptions say how far to walk.
type WalkOptions struct {
	// Seed of the first walk; walk i has Seed+i.
	Seed uint64
	// Walks from the first state, each of at most Steps steps.
	Walks, Steps int
	// Workers walk in parallel; 0: as many as there are processors.
	Workers int
}

// WalkResult is what the walks found.
type WalkResult[S comparable] struct {
	// Walks made, and steps in all of them.
	Walks, Steps int
	// Trace of the broken walk with the smallest seed that was seen, shrunk; its
	// length before; and its seed.
	Trace  *Trace[S]
	Length int
	Seed   uint64
}

// String gives the figures in one line.
func (r WalkResult[S]) String() string {
	if r.Trace != nil {
		return fmt.Sprintf("broken by seed %d in %d steps, shrunk to %d: %d walks, %d steps",
			r.Seed, r.Length, len(r.Trace.Events), r.Walks, r.Steps)
	}
	return fmt.Sprintf("%d walks, %d steps", r.Walks, r.Steps)
}

// Err is nil when no walk broke anything.
func (r WalkResult[S]) Err() error {
	if r.Trace == nil {
		return nil
	}
	return fmt.Errorf("seed %d: %w\n%s", r.Seed, r.Trace.Err, r.Trace)
}

// Walk walks at random from the first state, and checks each state on the way.
// It stops soon after the first broken one. The same seed walks the same way.
func Walk[S comparable](sys System[S], opts WalkOptions) WalkResult[S] {
	if opts.Workers == 0 {
		opts.Workers = runtime.GOMAXPROCS(0)
	}
	var (
		left, walks, steps atomic.Int64
		seeds              atomic.Uint64
		mu                 sync.Mutex // guards broken, seed
		broken             []Step
		seed               uint64
		wg                 sync.WaitGroup
		stop               atomic.Bool
	)
	left.Store(int64(opts.Walks))
	seeds.Store(opts.Seed)
	for range opts.Workers {
		wg.Go(func() {
			for left.Add(-1) >= 0 && !stop.Load() {
				mine := seeds.Add(1) - 1
				path, bad := walk(sys, mine, opts.Steps)
				walks.Add(1)
				steps.Add(int64(len(path)))
				if !bad {
					continue
				}
				mu.Lock()
				if broken == nil || mine < seed {
					broken, seed = path, mine
				}
				mu.Unlock()
				stop.Store(true)
			}
		})
	}
	wg.Wait()
	r := WalkResult[S]{Walks: int(walks.Load()), Steps: int(steps.Load())}
	if broken != nil {
		r.Trace, r.Length, r.Seed = shrink(sys, broken), len(broken), seed
	}
	return r
}

// walk is one walk: its steps, and whether the last one broke something.
func walk[S comparable](sys System[S], seed uint64, limit int) (path []Step, broken bool) {
	rnd := rand.New(rand.NewPCG(seed, 0))
	weight := func(Step) int { return 1 }
	if w, ok := sys.(weighted); ok {
		weight = w.Weight
	}
	for s := sys.Init(); ; {
		if sys.Check(s) != nil {
			return path, true
		}
		if len(path) == limit {
			return path, false
		}
		step, next, ok := pick(sys, s, weight, rnd)
		if !ok {
			return path, false
		}
		path, s = append(path, step), next
	}
}

// pick chooses one step: each replaces the choice so far with its share of the
// weights seen so far.
func pick[S comparable](sys System[S], s S, weight func(Step) int, rnd *rand.Rand) (step Step, next S, ok bool) {
	total := 0
	sys.Next(s, func(st Step, t S) {
		w := weight(st)
		if w == 0 {
			return
		}
		total += w
		if rnd.IntN(total) < w {
			step, next, ok = st, t, true
		}
	})
	return step, next, ok
}

// shrink leaves out steps, many at once and then single ones, as long as what
// remains breaks something.
func shrink[S comparable](sys System[S], path []Step) *Trace[S] {
	best := replay(sys, path)
	for size := max(len(path)/2, 1); ; {
		smaller := false
		for at := 0; at+size <= len(best.Events); {
			t := replay(sys, without(best, at, size))
			if t != nil && len(t.Events) < len(best.Events) {
				best, smaller = t, true
				continue
			}
			at += size
		}
		switch {
		case size > 1:
			size /= 2
		case !smaller:
			return best
		}
	}
}

// without is the trace's steps, but for size of them.
func without[S comparable](t *Trace[S], at, size int) []Step {
	var path []Step
	for i, e := range t.Events {
		if i < at || i >= at+size {
			path = append(path, e.Step)
		}
	}
	return path
}

// replay takes the steps that are possible, skips the others, and returns the
// trace up to the first broken state, or nil.
func replay[S comparable](sys System[S], path []Step) *Trace[S] {
	s, t := sys.Init(), &Trace[S]{}
	for _, want := range path {
		found := false
		var next S
		sys.Next(s, func(st Step, n S) {
			if !found && st == want {
				found, next = true, n
			}
		})
		if !found {
			continue
		}
		s = next
		t.Events = append(t.Events, Event[S]{Step: want, Text: sys.Describe(want), State: s})
		if t.Err = sys.Check(s); t.Err != nil {
			return t
		}
	}
	return nil
}
