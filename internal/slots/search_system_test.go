package slots_test

import (
	"fmt"
	"math/bits"

	"github.com/quorumkit/redlock/internal/scriptmodel"
	"github.com/quorumkit/redlock/internal/search"
	"github.com/quorumkit/redlock/internal/slots"
)

// system is an instance: so many callers of a name with so many slots.
type system struct {
	callers int
	limit   uint8
	turns   uint8
	deaths  uint8
	leaves  uint8
	doubles uint8
	row     int  // holds in a row, of goroutines of a process that hand a slot on (WithTurns); 0 if none hands on
	early   bool // a round is judged as soon as it is decided, not when all have answered
	flaw    scriptmodel.Flaw
	// What is wrong on purpose.
	stays     bool // a caller with a slot leaves the line when it releases
	forgets   bool // a call is forgotten that comes while an ask is out
	anySlot   bool // a quorum of any slots is one of the name
	samePlace bool // who waits anew may have the place at which it waited before
	giveWake  bool // who gives back a part of a slot is woken by that itself
	unbound   bool // a slot is handed on without an end
	countsNew bool // one that was handed on counts as if it had not been
	keepsBoth bool // who gets a slot gives back none that it was handed meanwhile
}

// steps.
const (
	begin uint8 = iota
	serve
	conclude
	again
	look
	finish
	die
	expire
	cancel
	double
	goOn
	leave
	receive
)

var stepNames = [...]string{"begins with slot", "reaches node", "judges its round", "asks again, for slot", "looks, and asks for slot", "releases", "dies", "its lease ends on node", "gives up", "has a leave come twice", "holds, and another goroutine of it begins", "ends the hold of a goroutine that went before", "takes what it was handed"}

var sentNames = [...]string{"nothing", "ask", "late ask", "give-back", "release", "leave", "hand-over"}

func (sys *system) Describe(st search.Step) string {
	if st.Kind == serve || st.Kind == double {
		return fmt.Sprintf("caller %d: its %s of slot %d reaches node %d", st.A+1, sentNames[sent(st.C).kind()], sent(st.C).slot(), st.B+1)
	}
	return fmt.Sprintf("caller %d %s %d", st.A+1, stepNames[st.Kind], st.B)
}

func (sys *system) Init() state {
	s := state{deaths: sys.deaths, leaves: sys.leaves, doubles: sys.doubles}
	for i := range s.nodes {
		s.nodes[i].Epoch, s.nodes[i].Live, s.nodes[i].Waited = epoch, 1<<scriptmodel.Waiters-1, true
	}
	for c := range s.callers {
		s.callers[c].phase = over
		if c < sys.callers {
			s.callers[c] = caller{turns: sys.turns}
		}
	}
	return s
}

func (sys *system) Check(s state) error {
	switch s.broken {
	case brokenOrder:
		return errOvertaken
	case brokenLoop:
		return errHotLoop
	case brokenEntry:
		return errTaken
	case brokenTurns:
		return errTurns
	}
	held, on := 0, [scriptmodel.Names]int{}
	quiet, waiting, done := true, false, true
	for c := range sys.callers {
		me := &s.callers[c]
		if me.phase == holds {
			held++
			on[me.slot]++
		}
		if me.mate.slot != 0 {
			held++
			on[me.mate.slot-1]++
		}
		quiet = quiet && me.phase != asks && me.given.slot == 0 && me.out == [nodes][mostSent]sent{} && (me.phase != rests || !me.decide.Called() && !me.split)
		waiting = waiting || me.phase == rests
		done = done && (me.phase == over || me.phase == dead) && me.mate.slot == 0
	}
	switch {
	case held > int(sys.limit):
		return errTooMany
	case !sys.anySlot && max(on[0], on[1], on[2]) > 1:
		return errTwoHold
	case sys.deaths > 0 || !quiet: // looks find it
	case waiting && held < int(sys.limit):
		return errAsleep
	case done:
		for i := range s.nodes {
			if s.nodes[i].Keys != [scriptmodel.Names]scriptmodel.Key{} || s.nodes[i].Places != [scriptmodel.Waiters]scriptmodel.Number{} {
				return errLitter
			}
		}
	}
	return nil
}

func (sys *system) Next(s state, yield func(search.Step, state)) {
	for c := range uint8(sys.callers) {
		sys.nextOf(&s, c, yield)
	}
}

// nextOf are the steps of one caller, and of what is on its way for it.
func (sys *system) nextOf(s *state, c uint8, yield func(search.Step, state)) {
	me := &s.callers[c]
	step := func(st search.Step, f func(s *state)) {
		next := *s
		f(&next)
		st.A = c
		yield(st, next)
	}
	for i := range uint8(nodes) {
		if m := me.out[i][0]; m != 0 {
			step(search.Step{Kind: serve, B: i, C: uint8(m)}, func(s *state) { sys.serve(s, c, i, false) })
			if m.kind() == aLeave && s.doubles > 0 {
				step(search.Step{Kind: double, B: i, C: uint8(m)}, func(s *state) { sys.serve(s, c, i, true) })
			}
		}
	}
	switch {
	case me.phase == dead:
		sys.expires(s, c, step)
	case me.free():
		sys.acts(s, c, step)
	}
	if s.deaths > 0 && me.phase != dead && me.phase != over {
		step(search.Step{Kind: die}, func(s *state) { s.die(c) })
	}
}

type taker func(search.Step, func(*state))

// expires are the ends of a dead caller's leases.
func (sys *system) expires(s *state, c uint8, step taker) {
	for i := range uint8(nodes) {
		for slot := range sys.limit {
			for by := range uint8(values) {
				if s.nodes[i].Holds(slot, ownerOf(c, by)) {
					step(search.Step{Kind: expire, B: i, C: slot}, func(s *state) { s.nodes[i].Drop(slot) })
				}
			}
		}
	}
}

// acts are what a caller does itself.
func (sys *system) acts(s *state, c uint8, step taker) {
	me := &s.callers[c]
	if me.mate.slot != 0 {
		step(search.Step{Kind: leave}, func(s *state) { sys.leave(s, c) })
	}
	switch me.phase {
	case away:
		sys.picks(s, c, begin, step, func(s *state) { sys.begin(s, c) })
	case asks:
		if sys.judged(me) {
			step(search.Step{Kind: conclude}, func(s *state) { sys.conclude(s, c) })
		}
	case rests:
		switch {
		case me.given.slot != 0:
			if bits.OnesCount8(me.told) > nodes/2 {
				step(search.Step{Kind: receive}, func(s *state) { sys.receive(s, c) })
			}
		case me.decide.Called():
			sys.picks(s, c, again, step, func(*state) {})
		case me.split, s.anyDead():
			sys.picks(s, c, look, step, func(s *state) { s.callers[c].split = false })
		}
		if s.leaves > 0 {
			step(search.Step{Kind: cancel}, func(s *state) { s.leaves--; sys.end(s, c) })
		}
	case holds:
		step(search.Step{Kind: finish}, func(s *state) { sys.finish(s, c) })
		if sys.row > 0 && me.turns > 1 && me.mate.slot == 0 {
			step(search.Step{Kind: goOn}, func(s *state) { sys.goOn(s, c) })
		}
	case over, dead:
	}
}

func (s *state) anyDead() bool {
	for _, c := range s.callers {
		if c.phase == dead {
			return true
		}
	}
	return false
}

// picks are the asks for each slot that a caller may draw, where it knows none.
func (sys *system) picks(s *state, c, kind uint8, step taker, first func(*state)) {
	seen := uint8(0)
	for k := range sys.limit {
		roll := float64(k) / float64(sys.limit)
		probe := s.callers[c].decide
		if kind == begin {
			probe = slots.New(int(sys.limit), slots.None)
		}
		slot := uint8(probe.Pick(roll))
		if seen>>slot&1 != 0 {
			continue
		}
		seen |= 1 << slot
		step(search.Step{Kind: kind, B: slot}, func(s *state) {
			first(s)
			sys.ask(s, c, roll)
		})
	}
}
