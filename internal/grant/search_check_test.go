package grant_test

import (
	"errors"

	"github.com/quorumkit/redlock/internal/scriptmodel"
	"github.com/quorumkit/redlock/internal/search"
)

var (
	errOvertaken = errors.New("a process had its turn before one that stood on a quorum when it began")
	errTwoHold   = errors.New("two processes hold the name")
	errToken     = errors.New("a token is no greater than one before")
	errKeyLeft   = errors.New("a key is left that nobody wants, and nothing is under way that takes it away")
	errStuck     = errors.New("somebody waits, and nothing is under way")
)

// Check: what steps have broken, what is left behind, and whether all stands still.
func (sys *system) Check(s state) error {
	switch s.broken {
	case brokenOrder:
		if sys.time == 0 { // a grant or a sign of life that ran out moves others up
			return errOvertaken
		}
	case brokenExclusion:
		return errTwoHold
	case brokenToken:
		return errToken
	}
	if sys.ends(&s) {
		return nil
	}
	if sys.time == 0 {
		for n := range uint8(sys.nodes) {
			if sys.litters(&s, n) {
				return errKeyLeft
			}
		}
		return sys.standsStill(s)
	}
	return nil
}

// litters tells whether a node has a key of an attempt that is over, and its process has
// nothing under way there.
func (sys *system) litters(s *state, n uint8) bool {
	o := s.columns[n].node.Keys[0].Owner
	if o == scriptmodel.Nobody {
		return false
	}
	p := sys.processOf(o)
	me, l := &s.processes[p], &s.columns[n].links[p]
	if l.busy() || me.phase == dead || o == me.owner && me.phase != done {
		return false
	}
	return s.columns[n].node.Deaf&(1<<p) == 0 && s.lost == 0 // it looks, and finds it
}

// standsStill tells whether somebody waits, nobody holds, and nothing is under way.
func (sys *system) standsStill(s state) error {
	waiting := false
	for p := range sys.processes {
		switch s.processes[p].phase {
		case holding, idle:
			return nil
		case tickets, inLine, raising, passing:
			waiting = true
		}
		for n := range sys.nodes {
			if s.columns[n].links[p].busy() && s.processes[p].phase != dead {
				return nil
			}
		}
	}
	if !waiting {
		return nil
	}
	moves := false
	sys.steps(&s, func(st search.Step, _ state) { moves = moves || !byChance(st.Kind) })
	if moves || sys.polls > 0 && sys.looksGetThere(s) {
		return nil
	}
	return errStuck
}

// looksGetThere tells whether looks alone bring the name to somebody: each in turn looks,
// and all that this sends arrives. Signs of life of the dead have ended by then.
func (sys *system) looksGetThere(s state) bool {
	for p := range sys.processes {
		for n := range sys.nodes {
			if s.processes[p].phase == dead {
				s.columns[n].node.Silence(scriptmodel.Waiter(p))
				if sys.holdsOf(&s, p, uint8(n)) {
					s.columns[n].node.Drop(0)
				}
			}
		}
	}
	for range 4 {
		for p := range sys.processes {
			if me := &s.processes[p]; me.phase != inLine || me.place == 0 || !sys.room(&s, p) {
				continue
			}
			sys.look(&s, p)
			for moved := true; moved; {
				moved = false
				sys.steps(&s, func(st search.Step, next state) {
					if !moved && !byChance(st.Kind) && st.Kind != stepAgain && st.Kind != stepRelease {
						moved, s = true, next
					}
				})
				for q := range sys.processes {
					if s.processes[q].phase == holding {
						return true
					}
				}
			}
		}
	}
	return false
}
