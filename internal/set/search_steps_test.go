package set_test

import (
	"github.com/quorumkit/redlock/internal/set"
)

// decide makes the caller do what the rule says of its holds.
func (sys *system) decide(s *state, c uint8) {
	me := &s.callers[c]
	order := sys.orderOf(c)
	var held set.Names
	for i, name := range order {
		if me.held>>name&1 != 0 {
			held = held.With(i)
		}
	}
	step := sys.rule(len(order), held, me.asked)
	for i, name := range order {
		if step.Back.Has(i) {
			me.held &^= 1 << name
			me.back |= 1 << name
		}
	}
	switch step.Do {
	case set.Ask:
		me.phase, me.asked, me.won = asks, true, 0
		for _, name := range order {
			me.out |= 1 << name
		}
		me.out &^= me.held
	case set.Wait:
		me.phase, me.asked = waits, false
		me.wait = uint8(order[step.Name])
		me.out = 1 << me.wait
	case set.Done:
		me.phase, me.asked = holds, false
	}
}

// orderOf is in which order the caller takes its names.
func (sys *system) orderOf(c uint8) []int {
	if sys.order {
		return sys.wants[c]
	}
	var order []int
	for name := range sys.names {
		for _, w := range sys.wants[c] {
			if w == name {
				order = append(order, name)
			}
		}
	}
	return order
}

// serve answers an ask of a round: a name is granted that is free and that nobody waits for.
func (s *state) serve(c, name uint8) {
	me := &s.callers[c]
	me.out &^= 1 << name
	if s.holder[name] == 0 && s.line[name][0] == 0 {
		s.holder[name] = c + 1
		me.won |= 1 << name
	}
}

// conclude takes in what the round brought.
func (sys *system) conclude(s *state, c uint8) {
	me := &s.callers[c]
	me.held |= me.won
	me.won = 0
	sys.decide(s, c)
}

// join puts the caller in line.
func (s *state) join(c, name uint8) {
	s.callers[c].out = 0
	for i := range s.line[name] {
		if s.line[name][i] == 0 {
			s.line[name][i] = c + 1
			break
		}
	}
	s.grant(name)
}

// grant gives a free name to the first in line.
func (s *state) grant(name uint8) {
	if s.holder[name] == 0 {
		s.holder[name] = s.line[name][0]
		s.dropped(name, s.holder[name])
	}
}

// dropped takes a caller out of a line.
func (s *state) dropped(name, number uint8) {
	k := 0
	var rest [mostCallers]uint8
	for _, w := range s.line[name] {
		if w != number {
			rest[k] = w
			k++
		}
	}
	s.line[name] = rest
}

// told tells the caller that the name it waited for is its own.
func (sys *system) told(s *state, c uint8) {
	me := &s.callers[c]
	me.held |= 1 << me.wait
	me.wait = 0
	sys.decide(s, c)
}

// free is the arrival of a release, or of a leave.
func (s *state) free(c, name uint8) {
	s.callers[c].back &^= 1 << name
	s.dropped(name, c+1)
	if s.holder[name] == c+1 {
		s.holder[name] = 0
	}
	s.grant(name)
}

// lose takes a name from a caller that holds it, who knows of it by its own clock. One
// that waits for another name takes it anew; one that believed in its set ends it.
func (sys *system) lose(s *state, c, name uint8) {
	me := &s.callers[c]
	s.losses--
	me.held &^= 1 << name
	s.holder[name] = 0
	s.grant(name)
	switch me.phase { //nolint:exhaustive // a round that is out is decided later
	case waits:
		s.unwait(c)
		sys.decide(s, c)
	case holds:
		s.finish(c)
	}
}

// unwait ends a wait: an ask that has not gone does not go.
func (s *state) unwait(c uint8) {
	me := &s.callers[c]
	if me.out == 0 {
		me.back |= 1 << me.wait
	}
	me.out, me.wait = 0, 0
}

// leave is the end of a call's context.
func (s *state) leave(c uint8) {
	s.leaves--
	me := &s.callers[c]
	if me.phase == waits {
		s.unwait(c)
	}
	me.back |= me.held | me.won
	me.held, me.won, me.out, me.asked, me.phase, me.turns = 0, 0, 0, false, over, 0
}

// finish gives all back.
func (s *state) finish(c uint8) {
	me := &s.callers[c]
	me.back |= me.held
	me.held, me.asked = 0, false
	me.turns--
	me.phase = before
	if me.turns == 0 {
		me.phase = over
	}
}
