package slots_test

import "github.com/quorumkit/redlock/internal/quorum"

// A process has two goroutines here, where they hand slots on: one that holds, and the next,
// which goes to the nodes meanwhile. What the first has is handed to the second, while that
// asks or waits.

// goOn has another goroutine of the process begin, while this one holds.
func (sys *system) goOn(s *state, c uint8) {
	me := &s.callers[c]
	me.mate = hold{slot: me.slot + 1, by: me.by, passed: me.passed}
	me.by = (me.by + 1) % values
	sys.end(s, c)
}

// leave ends the hold of the goroutine that went before: the slot is handed on, or free.
func (sys *system) leave(s *state, c uint8) {
	me := &s.callers[c]
	old := me.mate
	me.mate = hold{}
	goes := me.phase == asks || me.phase == rests
	if !goes || me.given.slot != 0 || !sys.unbound && !quorum.TurnLeft(int(old.passed)+1, sys.row) {
		s.sendAll(c, message(aRelease, old.slot-1, old.by))
		return
	}
	me.given, me.told = hold{slot: old.slot, by: values - old.by - me.by, passed: old.passed + 1}, 0
	if sys.countsNew {
		me.given.passed = 0
	}
	s.sendAll(c, pass(old.slot-1, old.by, me.given.by))
}

// receive makes the caller hold the slot that it was handed, past the callers before it.
func (sys *system) receive(s *state, c uint8) {
	me := &s.callers[c]
	me.slot, me.by, me.passed = me.given.slot-1, me.given.by, me.given.passed
	me.given, me.told = hold{}, 0
	if s.row[me.slot]++; int(s.row[me.slot]) >= sys.row {
		s.broken = brokenTurns
	}
	sys.take(s, c)
}

// decline gives back what was handed to one that goes without it.
func (sys *system) decline(s *state, c uint8) {
	me := &s.callers[c]
	if me.given.slot != 0 && !sys.keepsBoth {
		s.sendAll(c, message(aRelease, me.given.slot-1, me.given.by))
	}
	me.given, me.told = hold{}, 0
}
