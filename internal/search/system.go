// Package search proves small protocols by going through all that they can do,
// and larger ones by walking through them at random.
//
// A protocol is a System: a first state, and from each state the steps that may
// come next. A state is a comparable value without pointers (arrays of small
// integers): what is equal is the same state, so nothing may be in it that
// decides nothing, and what a step leaves undecided (which message arrives,
// what expires, what a clock says) is one step for each possibility. A property is
// checked in every state; one about the past (tokens only grow) is written down
// in the state by the step that could break it.
//
//	type state struct{ ... }                       // comparable, small
//	type system struct{ ... }                      // the size of the instance
//	func (system) Init() state
//	func (system) Next(s state, yield func(search.Step, state))
//	func (system) Check(s state) error             // nil, or what is broken
//	func (system) Describe(st search.Step) string  // for the trace
//
//	r := search.Closed(sys, search.Options{})
//	r.Trace == nil && r.Closed                     // holds in every reachable state
//	r := search.Walk(sys, search.WalkOptions{Seed: 1, Walks: 10_000, Steps: 200})
//
// Closed goes breadth first, without a limit on depth, until there is no state
// that it has not seen; so it ends only where the state is bounded (numbers
// that only grow have to be brought down by Canon, or to be bounded by what may
// happen), and a trace that it finds is a shortest one. It keeps 128 bits of each state, hashed under random
// seeds: with 10^9 states two share a hash with a probability of 10^-21. About
// 35 bytes a state, and the states of two levels.
//
// A System that also has
//
//	Canon(s S) S          // the same state for all that differ in names only
//
// is searched up to that symmetry (nodes that are alike, tokens of which only
// the order counts); the trace is still one of real states. Next and Check must
// not tell states with the same Canon apart. A System that also has
//
//	Weight(st Step) int   // 0: never; else the step's share among those possible
//
// is walked with these shares: without, every step that is possible is as likely
// as every other, and faults, of which there are many, crowd out progress.
//
// A walk that breaks a property is shrunk: steps are left out as long as what
// remains still breaks it. Its seed is in the result.
//
// Message loss needs no step of its own where delay has no bound: a lost message
// is one that never arrives. Nor does a client that gives up need one, where
// giving up does nothing but send messages that may never arrive. What else can
// be left out because something with more possibilities is in, say in the System.
package search

import (
	"errors"
	"fmt"
	"hash/maphash"
	"math/bits"
	"strings"
	"sync"
	"unsafe"
)

// Step names one transition: a kind, and what it happens to. What the numbers
// mean is the System's affair; two steps from one state must differ in one.
type Step struct {
	Kind       uint8
	A, B, C, D uint8
}

// System is a protocol together with all that can befall it.
type System[S comparable] interface {
	// Init is the first state.
	Init() S
	// Next calls yield with every step possible in s and the state that it leads
	// to, in an order that depends on s only.
	Next(s S, yield func(step Step, next S))
	// Check returns what is broken in s, or nil.
	Check(s S) error
	// Describe says a step in words.
	Describe(step Step) string
}

// symmetric is a System whose states can be searched up to renaming.
type symmetric[S comparable] interface{ Canon(s S) S }

// weighted is a System whose walks prefer some steps.
type weighted interface{ Weight(step Step) int }

// canon returns the system's Canon, or identity.
func canon[S comparable](sys System[S]) func(S) S {
	if s, ok := sys.(symmetric[S]); ok {
		return s.Canon
	}
	return func(s S) S { return s }
}

// Event is one step of a trace and the state after it.
type Event[S comparable] struct {
	Step  Step
	Text  string
	State S
}

// Trace is a way from the first state to a broken one.
type Trace[S comparable] struct {
	Err    error
	Events []Event[S]
}

// String lists the steps, one a line, then what they broke. States are printed
// where S has a String method.
func (t *Trace[S]) String() string {
	var b strings.Builder
	for i, e := range t.Events {
		fmt.Fprintf(&b, "%3d. %s", i+1, e.Text)
		if s, ok := any(e.State).(fmt.Stringer); ok {
			fmt.Fprintf(&b, "\n       %s", s)
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "     broken: %v", t.Err)
	return b.String()
}

// errNotSymmetric means that Canon merges states that behave differently.
var errNotSymmetric = errors.New("search: Canon is no symmetry: a step of the canonical state is none of the real one")

// retrace turns a path of choices through canonical states into a trace of real
// states: at each step it takes the one that leads to the same canonical state.
func retrace[S comparable](sys System[S], choices []uint16, broken error) *Trace[S] {
	same, actual := canon(sys), sys.Init()
	at, t := same(actual), &Trace[S]{Err: broken}
	for _, choice := range choices {
		_, next := nth(sys, at, choice)
		at = same(next)
		found := false
		var e Event[S]
		sys.Next(actual, func(step Step, s S) {
			if !found && same(s) == at {
				found, e = true, Event[S]{Step: step, Text: sys.Describe(step), State: s}
			}
		})
		if !found {
			t.Err = errors.Join(broken, errNotSymmetric)
			return t
		}
		actual = e.State
		t.Events = append(t.Events, e)
	}
	return t
}

// nth is the step number n of those possible in s.
func nth[S comparable](sys System[S], s S, n uint16) (step Step, next S) {
	i := uint16(0)
	sys.Next(s, func(st Step, t S) {
		if i == n {
			step, next = st, t
		}
		i++
	})
	return step, next
}

// key stands for a state: 128 bits of hash under two random seeds.
type key [2]uint64

// shards is a power of two: enough that two workers seldom meet in one, and that
// the growth of one (which holds it twice for a moment) is small.
const shards = 256

// set holds the keys of the states seen so far. It is safe for concurrent use.
type set[S comparable] struct {
	seeds [2]maphash.Seed
	parts [shards]part
}

// part is an open-addressing table: the zero key marks a free place.
type part struct {
	mu    sync.Mutex // guards all below
	table []key      // of mask+1 places
	mask  uint64
	used  int
}

func newSet[S comparable]() *set[S] {
	return &set[S]{seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}}
}

// add puts the state in, and tells whether it is new.
func (v *set[S]) add(s S) bool {
	k := key{maphash.Comparable(v.seeds[0], s), maphash.Comparable(v.seeds[1], s) | 1}
	p := &v.parts[k[0]%shards]
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.add(k)
}

func (p *part) add(k key) bool {
	if p.used*4 >= len(p.table)*3 {
		p.grow()
	}
	if !p.place(k) {
		return false
	}
	p.used++
	return true
}

// place writes k to the first free place of its run, unless it is there already.
func (p *part) place(k key) bool {
	for i := (k[0] / shards) & p.mask; ; i = (i + 1) & p.mask {
		switch p.table[i] {
		case key{}:
			p.table[i] = k
			return true
		case k:
			return false
		}
	}
}

func (p *part) grow() {
	old := p.table
	p.mask = max(63, 2*p.mask+1)
	p.table = make([]key, p.mask+1)
	for _, k := range old {
		if k != (key{}) {
			p.place(k)
		}
	}
}

// store keeps the states of a chunk that wait to be expanded. A state is mostly
// zeros (places that the instance does not use, messages that are not under way),
// so each run of eight bytes is kept as a mask and the bytes that are not zero: a
// third or less, and it is the two levels of waiting states that fill memory.
type store[S comparable] struct {
	packed []byte
	n      uint32
}

// push appends a state.
func (st *store[S]) push(s *S) {
	raw := bytesOf(s)
	for i := 0; i < len(raw); i += 8 {
		at, mask := len(st.packed), byte(0)
		st.packed = append(st.packed, 0)
		for j, b := range raw[i:min(i+8, len(raw))] {
			if b != 0 {
				mask |= 1 << j
				st.packed = append(st.packed, b)
			}
		}
		st.packed[at] = mask
	}
	st.n++
}

// each calls f with the states in order.
func (st *store[S]) each(f func(i uint32, s S)) {
	rest := st.packed
	for n := range st.n {
		var s S
		raw := bytesOf(&s)
		for i := 0; i < len(raw); i += 8 {
			mask := rest[0]
			rest = rest[1:]
			for ; mask != 0; mask &= mask - 1 {
				raw[i+bits.TrailingZeros8(mask)] = rest[0]
				rest = rest[1:]
			}
		}
		f(n, s)
	}
}

// bytesOf is the state as it lies in memory: a System's states have no pointers.
func bytesOf[S any](s *S) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(s)), unsafe.Sizeof(*s)) //nolint:gosec // all of one value, while it lives
}
