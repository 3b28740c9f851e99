package search

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
)

// Options bound a closed search. The zero value bounds nothing.
type Options struct {
	// Workers expand states in parallel; 0: as many as there are processors.
	Workers int
	// MaxStates ends the search, unclosed, when more states than this were seen.
	MaxStates int
}

// Result is what a closed search found.
type Result[S comparable] struct {
	// Closed: every reachable state was seen.
	Closed bool
	// States seen, steps between them, and the length of the longest of the
	// shortest ways to a state.
	States, Transitions, Depth int
	// Trace is a shortest way to a broken state, if there is one.
	Trace *Trace[S]
}

// String gives the figures in one line.
func (r Result[S]) String() string {
	kind := "closed"
	switch {
	case r.Trace != nil:
		kind = fmt.Sprintf("broken in %d steps", len(r.Trace.Events))
	case !r.Closed:
		kind = "not closed"
	}
	return fmt.Sprintf("%s: %d states, %d transitions, depth %d", kind, r.States, r.Transitions, r.Depth)
}

// chunkSize states are expanded by one worker at a time.
const chunkSize = 4096

// chunk is a piece of one level. How each state was reached stays for the trace;
// the states themselves go when they have been expanded.
type chunk[S comparable] struct {
	first  uint32 // number of states before this chunk
	size   uint32
	states store[S]
	parent []uint32
	choice []uint16
}

// closedSearch is one search under way.
type closedSearch[S comparable] struct {
	sys   System[S]
	canon func(S) S
	seen  *set[S]
	opts  Options
	all   []*chunk[S]

	states, transitions atomic.Int64
	stop                atomic.Bool

	mu     sync.Mutex // guards broken, by, via
	broken error
	by     uint32 // the state before the broken one
	via    uint16 // and its step
}

// Closed visits every state that can be reached, breadth first, and checks each.
// It returns at the first broken state, with a shortest way to it.
func Closed[S comparable](sys System[S], opts Options) Result[S] {
	if opts.Workers == 0 {
		opts.Workers = runtime.GOMAXPROCS(0)
	}
	if opts.MaxStates == 0 || opts.MaxStates > math.MaxUint32-chunkSize {
		opts.MaxStates = math.MaxUint32 - chunkSize
	}
	c := &closedSearch[S]{sys: sys, canon: canon(sys), seen: newSet[S](), opts: opts}
	first := c.canon(sys.Init())
	c.seen.add(first)
	c.states.Store(1)
	if err := sys.Check(first); err != nil {
		return Result[S]{States: 1, Trace: &Trace[S]{Err: err}}
	}
	level := push(nil, first, 0, 0)
	depth := 0
	for c.all = level; ; depth++ {
		level = c.expand(level)
		if len(level) == 0 || c.stop.Load() {
			break
		}
		c.number(level)
	}
	r := Result[S]{States: int(c.states.Load()), Transitions: int(c.transitions.Load()), Depth: depth}
	if c.broken != nil {
		r.Trace = retrace(sys, append(c.path(c.by), c.via), c.broken)
	}
	r.Closed = !c.stop.Load()
	return r
}

// expand finds the next level: the new states one step from this one.
func (c *closedSearch[S]) expand(level []*chunk[S]) []*chunk[S] {
	next := make([][]*chunk[S], c.opts.Workers)
	var turn atomic.Int64
	var wg sync.WaitGroup
	for w := range c.opts.Workers {
		wg.Go(func() {
			for i := int(turn.Add(1)) - 1; i < len(level) && !c.stop.Load(); i = int(turn.Add(1)) - 1 {
				next[w] = c.expandChunk(level[i], next[w])
			}
		})
	}
	wg.Wait()
	return slices.Concat(next...)
}

// expandChunk appends the new states one step from the chunk's to out.
func (c *closedSearch[S]) expandChunk(from *chunk[S], out []*chunk[S]) []*chunk[S] {
	fresh, steps := 0, 0
	from.states.each(func(i uint32, s S) {
		id, choice, before := from.first+i, uint16(0), steps
		c.sys.Next(s, func(_ Step, next S) {
			next = c.canon(next)
			if c.seen.add(next) {
				out = push(out, next, id, choice)
				fresh++
				if err := c.sys.Check(next); err != nil {
					c.fail(err, id, choice)
				}
			}
			choice++
			steps++
		})
		if steps-before > math.MaxUint16 {
			panic("search: too many steps from one state")
		}
	})
	from.states = store[S]{}
	c.transitions.Add(int64(steps))
	if c.states.Add(int64(fresh)) > int64(c.opts.MaxStates) {
		c.stop.Store(true)
	}
	return out
}

// push appends a state to the last chunk of a worker's list, or to a new one.
func push[S comparable](to []*chunk[S], s S, parent uint32, choice uint16) []*chunk[S] {
	if len(to) == 0 || to[len(to)-1].size == chunkSize {
		to = append(to, &chunk[S]{})
	}
	last := to[len(to)-1]
	last.states.push(&s)
	last.size++
	last.parent = append(last.parent, parent)
	last.choice = append(last.choice, choice)
	return to
}

// fail notes the first broken state, and ends the search.
func (c *closedSearch[S]) fail(err error, by uint32, via uint16) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.broken == nil {
		c.broken, c.by, c.via = err, by, via
	}
	c.stop.Store(true)
}

// number gives the states of a finished level their numbers.
func (c *closedSearch[S]) number(level []*chunk[S]) {
	last := c.all[len(c.all)-1]
	n := last.first + last.size
	for _, k := range level {
		k.first = n
		n += k.size
	}
	c.all = append(c.all, level...)
}

// path is the choices that lead to state number id.
func (c *closedSearch[S]) path(id uint32) []uint16 {
	var choices []uint16
	for id != 0 {
		i, found := slices.BinarySearchFunc(c.all, id, func(k *chunk[S], id uint32) int {
			return int(int64(k.first) - int64(id))
		})
		if !found {
			i--
		}
		k := c.all[i]
		choices = append(choices, k.choice[id-k.first])
		id = k.parent[id-k.first]
	}
	slices.Reverse(choices)
	return choices
}

// Err is nil when every reachable state was seen and none is broken.
func (r Result[S]) Err() error {
	switch {
	case r.Trace != nil:
		return fmt.Errorf("%w\n%s", r.Trace.Err, r.Trace)
	case !r.Closed:
		return errors.New("search: not closed: more states than allowed")
	default:
		return nil
	}
}
