package quorum_test

import (
	"errors"

	"github.com/quorumkit/redlock/internal/quorum"
	"github.com/quorumkit/redlock/internal/scriptmodel"
	"github.com/quorumkit/redlock/internal/search"
)

// What a step can break.
const (
	brokenOrder uint8 = 1 + iota
	brokenLoop
	brokenExclusion
)

var (
	errOvertaken = errors.New("a process had its turn before one that stood on a quorum when it began")
	errHotLoop   = errors.New("a process woke itself")
	errTwoHold   = errors.New("two processes hold the name")
	errKeyLeft   = errors.New("a key is left that nobody wants, and nothing is under way that takes it away")
	errStuck     = errors.New("somebody waits, and nothing is under way")
)

// Check: what steps have broken, what is left behind, and whether all stands still.
func (sys *queueSystem) Check(s queueState) error {
	switch s.broken {
	case brokenOrder:
		return errOvertaken
	case brokenLoop:
		return errHotLoop
	case brokenExclusion:
		return errTwoHold
	}
	for n := range sys.nodes {
		if sys.litters(&s, n) {
			return errKeyLeft
		}
	}
	waiting := false
	for i := range sys.processes {
		switch s.processes[i].phase {
		case queueHolds, queueIdle:
			return nil
		case queueTicket, queueBid, queueRest, queuePass:
			waiting = true
		}
	}
	if !waiting || sys.underWay(&s) {
		return nil
	}
	moves := false
	sys.steps(&s, func(st search.Step, _ queueState) {
		moves = moves || !byChance(st.Kind) && (!sys.polls || st.Kind != stepAgain)
	})
	if moves || sys.polls && sys.pollsGetThere(s) {
		return nil
	}
	return errStuck
}

// underWay tells whether a message, a reply or a hint is: then there is a step.
func (sys *queueSystem) underWay(s *queueState) bool {
	for n := range sys.nodes {
		for p := range sys.processes {
			if l := &s.columns[n].links[p]; l.sent[0].sent() || l.reply.outcome != quorum.Pending || l.hint {
				return true
			}
		}
	}
	return false
}

// litters tells whether a node has a key of a claim that is over, and its process
// has nothing under way there. A dead one's lease ends by itself.
func (sys *queueSystem) litters(s *queueState, n int) bool {
	o := s.columns[n].node.Keys[0].Owner
	if o == scriptmodel.Nobody || sys.makes(splitForGood) {
		return false
	}
	p, claim := claimOf(o)
	me, l := &s.processes[p], &s.columns[n].links[p]
	if l.sent[0].sent() || l.reply.outcome != quorum.Pending {
		return false
	}
	switch me.phase {
	case queueDead:
		return false
	case queueTicket, queueBid, queuePass, queueHolds:
		return claim != me.claim
	default:
		return true
	}
}

// pollsGetThere tells whether looks alone bring the name to somebody: each in
// turn looks, and all that this sends arrives.
func (sys *queueSystem) pollsGetThere(s queueState) bool {
	for range 4 {
		for p := range sys.processes {
			if s.processes[p].phase != queueRest {
				continue
			}
			sys.attempt(&s, p, 0)
			for moved := true; moved; {
				moved = false
				sys.steps(&s, func(st search.Step, next queueState) {
					if !moved && !byChance(st.Kind) && st.Kind != stepDie && st.Kind != stepAgain && st.Kind != stepLeave {
						moved, s = true, next
					}
				})
				if s.processes[p].phase == queueHolds || s.processes[p].phase == queueDone {
					return true
				}
			}
		}
	}
	return false
}
