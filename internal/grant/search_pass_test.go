package grant_test

import (
	"github.com/quorumkit/redlock/internal/quorum"
	"github.com/quorumkit/redlock/internal/scriptmodel"
)

// The modes of a pass.
const (
	passDue uint8 = iota
	passOut       // the writer has come to it
)

// goneOut tells whether it is a pass that is under way to its node.
func (m message) goneOut() bool { return m.kind == sendPass && m.mode == passOut }

// mayPass tells whether the holder has another goroutine to hand the name to.
func (sys *system) mayPass(s *state, p uint8) bool {
	me := &s.processes[p]
	left := quorum.TurnLeft(int(me.held), int(sys.row)) || sys.makes(endlessTurn)
	return sys.row > 1 && !sys.isStranger(p) && me.more > 0 && left && sys.unused(s, p)
}

// pass hands the name to the process's next goroutine, past the queue: each node is to
// swap the owner. The place stays until the turn is over.
func (sys *system) pass(s *state, p uint8) {
	me := &s.processes[p]
	if me.held >= sys.row {
		for q := range sys.processes {
			if q != p && sys.waitsOnAQuorum(s, q) {
				s.broken = brokenOrder
			}
		}
	}
	old, next := me.owner, sys.fresh(s, p)
	me.inside = true
	me.phase, me.owner, me.token, me.until, me.extend = passing, next, 0, 0, 0
	me.more--
	for n := range sys.nodes {
		s.columns[n].links[p].send(message{kind: sendPass, owner: old, next: next, reading: s.now})
	}
}

// takePass lets the writer come to a pass.
func (sys *system) takePass(s *state, p, n uint8) {
	me, l := &s.processes[p], &s.columns[n].links[p]
	m := l.sent[0]
	has := quorum.Absent
	if l.has == m.owner {
		has = quorum.Present
	}
	if sys.doubts(l, m.owner) {
		has |= quorum.Unsure
	}
	over := me.owner != m.next || me.phase != passing && me.phase != raising && me.phase != holding
	vote := quorum.Pending
	switch quorum.PassingOf(has, true, over && !sys.makes(passesLate)) {
	case quorum.PassGone: // what the old owner waits with may stand there
		l.sent[0] = message{kind: sendRelease, mode: scriptmodel.EntryGoes, owner: m.owner, reading: s.now}
		vote = quorum.Taken
	case quorum.PassDoubted:
		l.sent[0] = message{kind: sendRelease, mode: scriptmodel.EntryStays, owner: m.owner, reading: s.now, tomb: sys.doubts(l, m.owner)}
		l.doubt &^= sys.bit(m.owner)
		vote = quorum.Failed
	case quorum.PassOver:
		if !l.onward() {
			l.sent[0] = message{kind: sendRelease, mode: scriptmodel.EntryStays, owner: m.owner, reading: s.now}
		}
	case quorum.PassGoes:
		l.sent[0].mode = passOut
	}
	if vote != quorum.Pending {
		sys.voted(s, p, n, m.next, answer{outcome: vote})
	}
}

// onward makes a later pass begin at the first one's old owner.
func (l *link) onward() bool {
	first := l.sent[0]
	for i, m := range l.sent[1:] {
		if m.kind == sendPass && m.owner == first.next {
			l.sent[1+i].owner = first.owner
			l.take()
			return true
		}
	}
	return false
}

// heardPass takes in the reply to a pass. The old owner is released where the pass did
// not happen, or may not have.
func (sys *system) heardPass(s *state, p, n uint8, r answer) {
	l := &s.columns[n].links[p]
	switch {
	case r.outcome == quorum.Granted:
		l.has = r.next
	case l.has == r.owner && quorum.TookOver(r.outcome):
		l.has = scriptmodel.Nobody
	}
	if !quorum.TookOver(r.outcome) && !sys.makes(forgetsTheOld) {
		l.first(message{kind: sendRelease, mode: scriptmodel.EntryStays, owner: r.owner, reading: s.now})
	}
	if r.outcome == quorum.Unknown && sys.makes(trustsSilence) {
		r.outcome, r.token = quorum.Granted, s.last+1
	}
	sys.voted(s, p, n, r.next, r)
}

// first puts a message before all that have not gone out.
func (l *link) first(m message) {
	if l.full() {
		l.over = true
		return
	}
	copy(l.sent[1:], l.sent[:])
	l.sent[0] = m
}

// voted takes in a node's word on a pass to this owner, if anybody still asks.
func (sys *system) voted(s *state, p, n uint8, next owner, r answer) {
	me := &s.processes[p]
	if me.phase != passing || me.owner != next {
		return
	}
	a := sys.attemptOf(s, p)
	if r.outcome == quorum.Granted {
		sys.take(a, n, r.token, sys.from(s, n, p, r.reading, askLife))
	} else {
		a.Refused(int(n), r.outcome)
	}
	sys.keep(s, p, a)
	switch quorum.Count(a.Votes).Verdict() {
	case quorum.Won:
		if v, t := quorum.Settle(a.Votes); v == quorum.Settled {
			sys.won(s, p, number(t))
		} else if v == quorum.Uneven {
			sys.raise(s, p, a)
		}
	case quorum.Contended, quorum.NoQuorum:
		sys.notPassed(s, p)
	case quorum.Undecided, quorum.Lost:
	}
}

// notPassed rolls the next owner back, and its goroutine asks as any other: at the place
// of the process, whose turn is not over.
func (sys *system) notPassed(s *state, p uint8) {
	me := &s.processes[p]
	for n := range uint8(sys.nodes) {
		if l := &s.columns[n].links[p]; l.outcome == quorum.Granted || sys.doubts(l, me.owner) {
			sys.free(s, p, n, message{kind: sendRelease, mode: scriptmodel.EntryStays, owner: me.owner})
		}
	}
	me.stood, me.inside = scriptmodel.Nobody, false
	if me.place == 0 {
		me.phase = idle
		sys.begin(s, p)
		return
	}
	sys.forgetAttempt(s, p)
	if me.owner = sys.fresh(s, p); me.owner == scriptmodel.Nobody {
		return
	}
	me.phase = inLine
	sys.look(s, p)
}
