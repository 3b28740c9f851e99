package quorum_test

import (
	"math/bits"

	"github.com/quorumkit/redlock/internal/quorum"
	"github.com/quorumkit/redlock/internal/scriptmodel"
	"github.com/quorumkit/redlock/internal/search"
)

// handsOn tells whether the holder has somebody inside to hand the name to.
func (sys *queueSystem) handsOn(s *queueState, p uint8) bool {
	me := &s.processes[p]
	return me.more > 0 && (quorum.TurnLeft(int(me.held), sys.turns) || sys.makes(endlessTurn))
}

// pass hands the name to the next goroutine: its claim is new, and each node gets
// a handover from the old one.
func (sys *queueSystem) pass(s *queueState, p uint8) {
	me := &s.processes[p]
	if me.held >= uint8(sys.turns) {
		for q := range sys.processes {
			if s.processes[q].phase == queueRest && q != p {
				s.broken = brokenOrder
			}
		}
	}
	old := sys.newClaim(s, p)
	me.phase = queuePass
	me.more--
	for n := range sys.nodes {
		s.columns[n].links[p].send(messageOf(duePass, me.claim, old))
	}
}

// usedClaims is which claims of a process are under way, or on a node, or marked
// there; one bit each.
func (sys *queueSystem) usedClaims(s *queueState, p uint8) (used uint8) {
	for n := range sys.nodes {
		l := &s.columns[n].links[p]
		used |= l.late.claims() | l.reply.pass.claims()
		for _, m := range l.sent {
			used |= m.claims()
		}
		if l.mark != quorum.Absent {
			used |= 1 << l.of
		}
		if o := s.columns[n].node.Keys[0].Owner; o != scriptmodel.Nobody {
			if q, claim := claimOf(o); q == p {
				used |= 1 << claim
			}
		}
	}
	return used
}

// unused tells whether there is a claim whose owner value is as good as a fresh
// one.
func (sys *queueSystem) unused(s *queueState, p uint8) bool {
	return bits.OnesCount8(sys.usedClaims(s, p)|1<<s.processes[p].claim) < queueClaims
}

// newClaim gives the process one: it is the first, and all that are in use move
// up. It returns the one before.
func (sys *queueSystem) newClaim(s *queueState, p uint8) (old uint8) {
	sys.tidyClaims(s, p)
	me := &s.processes[p]
	used := sys.usedClaims(s, p) | 1<<me.claim
	names, next := [queueClaims]uint8{}, uint8(1)
	for claim := range uint8(queueClaims) {
		if used&(1<<claim) != 0 {
			names[claim] = next
			next++
		}
	}
	sys.rename(s, p, names)
	old, me.claim = me.claim, 0
	return old
}

// renew gives the process a claim for another attempt. Without passes one serves
// for all: its messages never overtake each other. It is false where none is free;
// what was given up long ago has then been lost.
func (sys *queueSystem) renew(s *queueState, p uint8) bool {
	if !sys.passes(p) {
		return true
	}
	me := &s.processes[p]
	if sys.usedClaims(s, p)&(1<<me.claim) == 0 {
		return true
	}
	if !sys.unused(s, p) {
		for n := range sys.nodes {
			s.columns[n].links[p].late = 0
		}
	}
	if !sys.unused(s, p) {
		return false
	}
	sys.newClaim(s, p)
	return true
}

// passArrives yields what becomes of the handovers between a process and a node.
func (sys *queueSystem) passArrives(s *queueState, p, n uint8, yield yieldQueue) {
	do := func(kind uint8, change func(next *queueState, l *queueLink)) {
		next := *s
		change(&next, &next.columns[n].links[p])
		yield(search.Step{Kind: kind, A: p, B: n}, next)
	}
	l := &s.columns[n].links[p]
	if l.late != 0 {
		do(stepTooLate, func(next *queueState, l *queueLink) {
			sys.swap(next, p, n, l.late)
			l.late = 0
		})
	}
	if l.reply.pass != 0 {
		return // the batch is out
	}
	mayGiveUp := s.unknown < sys.unknown && l.late == 0
	switch l.sent[0].kind() {
	case duePass:
		do(stepTakePass, func(next *queueState, _ *queueLink) { sys.taken(next, p, n) })
	case sendPass:
		do(stepDeliver, func(next *queueState, l *queueLink) {
			m := l.take(0)
			l.reply = queueReply{outcome: sys.swap(next, p, n, m), pass: m}
		})
		if mayGiveUp {
			do(stepNoReply, func(next *queueState, l *queueLink) {
				next.unknown++
				l.late = l.take(0)
				l.reply = queueReply{outcome: quorum.Unknown, pass: l.late}
			})
		}
	}
}

// taken lets the writer come to a handover.
func (sys *queueSystem) taken(s *queueState, p, n uint8) {
	me, l := &s.processes[p], &s.columns[n].links[p]
	claim, old := l.sent[0].claim(), l.sent[0].old()
	has := quorum.Absent
	if l.of == old {
		has = l.mark
	}
	over := me.claim != claim || me.phase != queuePass && me.phase != queueHolds
	vote := quorum.Pending
	switch quorum.PassingOf(has, true, over && !sys.makes(passesLate)) {
	case quorum.PassGone:
		l.take(0)
		vote = quorum.Taken
	case quorum.PassDoubted:
		l.sent[0] = messageOf(sendKeep, old, 0)
		vote = quorum.Failed
	case quorum.PassOver:
		if !l.onward() {
			l.sent[0] = messageOf(sendKeep, old, 0)
		}
	case quorum.PassGoes:
		l.sent[0] = messageOf(sendPass, claim, old)
		l.of, l.mark = claim, quorum.Unsure
	}
	if vote != quorum.Pending {
		sys.voted(s, p, n, claim, vote)
	}
}

// onward makes a later handover begin at the first one's old claim.
func (l *queueLink) onward() bool {
	first := l.sent[0]
	for i, m := range l.sent[1:] {
		if m.kind() == duePass && m.old() == first.claim() {
			l.sent[1+i] = messageOf(duePass, m.claim(), first.old())
			l.take(0)
			return true
		}
	}
	return false
}

// swap makes the node do a pass.
func (sys *queueSystem) swap(s *queueState, p, n uint8, m queueMessage) quorum.Outcome {
	node := &s.columns[n].node
	if old := node.Keys[0].Owner; sys.makes(passesAnyKey) && old != scriptmodel.Nobody {
		node.Keys[0].Owner = valueOf(p, m.old())
	}
	reply := node.Pass(0, scriptmodel.Pass{
		Acquire: scriptmodel.Acquire{Owner: valueOf(p, m.claim()), Life: 1, Epoch: epoch}, Old: valueOf(p, m.old()),
	})
	node.Stripes = [scriptmodel.Stripes]scriptmodel.Number{}
	return outcomeOf(reply)
}

// heardPass takes in the reply to a pass. The old claim is released where the pass
// did not happen, or may not have.
func (sys *queueSystem) heardPass(s *queueState, p, n uint8) {
	l := &s.columns[n].links[p]
	m, vote := l.reply.pass, l.reply.outcome
	l.reply = queueReply{}
	l.mark = l.mark.After(vote)
	if !quorum.TookOver(vote) && !sys.makes(forgetsTheOld) {
		l.first(messageOf(sendKeep, m.old(), 0))
	}
	if vote == quorum.Unknown && sys.makes(trustsSilence) {
		vote = quorum.Granted
	}
	sys.voted(s, p, n, m.claim(), vote)
}

// voted takes in a node's word on a handover, if anybody still asks.
func (sys *queueSystem) voted(s *queueState, p, n, claim uint8, vote quorum.Outcome) {
	if me := &s.processes[p]; me.phase == queuePass && me.claim == claim {
		s.columns[n].links[p].vote = vote
		sys.conclude(s, p)
	}
}

// notPassed rolls the new claim back, and its goroutine asks as any other.
func (sys *queueSystem) notPassed(s *queueState, p uint8) {
	sys.over(s, p, sendKeep)
	if s.processes[p].place == 0 {
		sys.begin(s, p)
	} else {
		sys.attempt(s, p, 0)
	}
}
