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
