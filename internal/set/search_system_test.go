package set_test

import (
	"errors"
	"fmt"

	"github.com/quorumkit/redlock/internal/search"
	"github.com/quorumkit/redlock/internal/set"
)

const (
	mostNames   = 4
	mostCallers = 4
)

// What a search can find.
var (
	errDeadlock = errors.New("nothing can happen any more, and not all are done")
	errLitter   = errors.New("all are done, and something is held or waited for")
	errHalf     = errors.New("a caller believes in a set of which it does not hold all")
	errLivelock = errors.New("callers can go on for ever without one of them being done")
)

// phase is where a caller stands.
type phase uint8

const (
	before phase = iota // it has not begun, or is between two holds
	asks                // its round is out
	waits               // for one name
	holds               // all of them
	over                // it is done for good
)

// caller is one who wants a set. Bits are names.
type caller struct {
	phase phase
	asked bool
	held  uint8 // as far as it knows
	out   uint8 // asks that no node has answered: of the round, or for a place in line
	won   uint8 // of the round
	back  uint8 // releases that have not come: of what it gave back, or of its place in line
	wait  uint8 // the name
	turns uint8 // holds that are left
}

// state is the names, as they are stored, and the callers. A name is one thing here that
// is had by one or by nobody: that a quorum makes it so is another search's.
type state struct {
	holder  [mostNames]uint8 // the caller's number, from 1; 0: it is free
	line    [mostNames][mostCallers]uint8
	callers [mostCallers]caller
	losses  uint8 // that may still come
	leaves  uint8 // calls whose context may still end
}

// rule is the decision: Next, or what is wrong on purpose.
type rule func(n int, held set.Names, asked bool) set.Step

// system is an instance: who wants which names.
type system struct {
	names  int
	wants  [][]int // in the caller's order
	turns  uint8
	losses uint8
	leaves uint8
	rule   rule
	order  bool // a control: each caller goes by its own order
}

// steps.
const (
	begin uint8 = iota
	serve
	conclude
	join
	told
	freed
	finish
	lose
	leave
)

var stepNames = [...]string{"begins", "is answered of", "has all answers", "stands in line for", "is told that it has", "its release comes of", "is done", "loses", "gives up"}

func (sys *system) Describe(st search.Step) string {
	switch st.Kind {
	case serve, join, told, freed, lose:
		return fmt.Sprintf("caller %d %s name %d", st.A+1, stepNames[st.Kind], st.B)
	default:
		return fmt.Sprintf("caller %d %s", st.A+1, stepNames[st.Kind])
	}
}

func (sys *system) Init() state {
	s := state{losses: sys.losses, leaves: sys.leaves}
	for c := range s.callers {
		s.callers[c].phase = over
		if c < len(sys.wants) {
			s.callers[c] = caller{turns: sys.turns}
		}
	}
	return s
}

func (sys *system) Check(s state) error {
	for c, wants := range sys.wants {
		if s.callers[c].phase != holds {
			continue
		}
		for _, name := range wants {
			if s.holder[name] != uint8(c)+1 {
				return errHalf
			}
		}
	}
	moves := false
	sys.Next(s, func(search.Step, state) { moves = true })
	if moves {
		return nil
	}
	for c := range sys.wants {
		if s.callers[c].phase != over {
			return errDeadlock
		}
	}
	if s.holder != [mostNames]uint8{} || s.line != [mostNames][mostCallers]uint8{} {
		return errLitter
	}
	return nil
}

func (sys *system) Next(s state, yield func(search.Step, state)) {
	for c := range sys.wants {
		sys.nextOf(s, uint8(c), yield)
	}
}

// nextOf are the steps of one caller, and of what is on its way for it.
func (sys *system) nextOf(s state, c uint8, yield func(search.Step, state)) {
	me := s.callers[c]
	step := func(kind, name uint8, f func(s *state)) {
		next := s
		f(&next)
		yield(search.Step{Kind: kind, A: c, B: name}, next)
	}
	for name := range uint8(sys.names) {
		bit := uint8(1) << name
		if me.out&bit != 0 && me.back&bit == 0 { // a node gets what one caller sends in that order
			switch me.phase { //nolint:exhaustive // in the others nothing is out
			case asks:
				step(serve, name, func(s *state) { s.serve(c, name) })
			case waits:
				step(join, name, func(s *state) { s.join(c, name) })
			}
		}
		if me.back&bit != 0 {
			step(freed, name, func(s *state) { s.free(c, name) })
		}
		if me.held&bit != 0 && s.losses > 0 {
			step(lose, name, func(s *state) { sys.lose(s, c, name) })
		}
	}
	if s.leaves > 0 && (me.phase == asks || me.phase == waits) {
		step(leave, 0, func(s *state) { s.leave(c) })
	}
	switch me.phase {
	case before:
		step(begin, 0, func(s *state) { sys.decide(s, c) })
	case asks:
		if me.out == 0 {
			step(conclude, 0, func(s *state) { sys.conclude(s, c) })
		}
	case waits:
		if s.holder[me.wait] == c+1 && me.out == 0 {
			step(told, me.wait, func(s *state) { sys.told(s, c) })
		}
	case holds:
		step(finish, 0, func(s *state) { s.finish(c) })
	case over:
	}
}
