package grant_test

import (
	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/grant"
	"github.com/quorumkit/redlock/internal/quorum"
	"github.com/quorumkit/redlock/internal/scriptmodel"
)

// What a step can break.
const (
	brokenOrder uint8 = 1 + iota
	brokenExclusion
	brokenToken
)

// hint is what the process's counters go to.
func (sys *system) hint(s *state, p uint8) number {
	if s.processes[p].phase == holding {
		return s.processes[p].token + 1
	}
	return 0
}

// comes notes who stood on a quorum before: they have their turns first.
func (sys *system) comes(s *state, p uint8) {
	me := &s.processes[p]
	me.ahead = 0
	for q := range sys.processes {
		if q != p && sys.waitsOnAQuorum(s, q) {
			me.ahead |= 1 << q
		}
	}
}

// waitsOnAQuorum tells whether a process stands in line there.
func (sys *system) waitsOnAQuorum(s *state, p uint8) bool {
	me := &s.processes[p]
	if me.phase != inLine && me.phase != raising || me.place == 0 {
		return false
	}
	on := 0
	for n := range sys.nodes {
		if sys.standsOn(&s.columns[n], p, me) {
			on++
		}
	}
	return on >= quorum.Size(sys.nodes)
}

// standsOn tells whether a process stands on a node, as far as it knows: it has an entry
// there, or the key, and the node has said its place, and is not about to be told another.
func (sys *system) standsOn(c *column, p uint8, me *process) bool {
	l := &c.links[p]
	stands := c.node.Entries[me.owner-1].Place != 0 && c.node.Entered(scriptmodel.Waiter(p))
	if sys.plain != 0 { // of some the place is all that stands there
		stands = c.node.Places[p] == me.place
	}
	there := stands || !sys.isCalled(p) && c.node.Holds(0, me.owner) // whose number is no lower than the place
	return there && l.bits&2 == 0 && !l.expects
}

// begin asks all nodes for a place.
func (sys *system) begin(s *state, p uint8) {
	me := &s.processes[p]
	if me.phase == idle && (!sys.isStranger(p) || !sys.barges) {
		sys.comes(s, p)
	}
	sys.forgetAttempt(s, p)
	sys.forgetPlace(s, p)
	me.phase, me.split, me.held, me.stood, me.inside = tickets, false, 0, scriptmodel.Nobody, false
	me.owner = scriptmodel.Nobody
	me.owner = sys.fresh(s, p)
	a := sys.attemptOf(s, p)
	a.All = true
	a.Ask(a.Unasked(sys.nodes))
	sys.keep(s, p, a)
	kind := sendTicket
	if sys.isStranger(p) {
		kind = sendTry
	}
	for n := range sys.nodes {
		s.columns[n].links[p].send(message{kind: kind, owner: me.owner, reading: s.now})
	}
}

// drive does what the rules say, until they say to wait.
func (sys *system) drive(s *state, p uint8) {
	me := &s.processes[p]
	if sys.isCalled(p) {
		sys.bid(s, p)
		return
	}
	for me.phase == inLine && !s.pruned {
		a := sys.attemptOf(s, p)
		step, nodes, t := a.Next()
		switch step {
		case grant.Ask:
			if me.place == 0 {
				return // the nodes say it soon
			}
			a.Ask(nodes)
			sys.keep(s, p, a)
			sys.ask(s, p, nodes)
		case grant.Hold:
			sys.won(s, p, number(t))
			return
		case grant.Raise:
			sys.raise(s, p, a)
			return
		case grant.GiveBack:
			sys.giveBack(s, p)
			return
		case grant.Rest, grant.Wait:
			return
		}
	}
}

// ask sends the attempt's ask to these nodes.
func (sys *system) ask(s *state, p uint8, nodes uint64) {
	me := &s.processes[p]
	with := me.owner
	if sys.makes(freshWhileOpen) && sys.attemptOf(s, p).All && !me.split {
		if o := sys.fresh(s, p); o != scriptmodel.Nobody {
			with = o
			me.owner = o
		}
	}
	for n := range sys.nodes {
		if nodes&(1<<n) != 0 {
			s.columns[n].links[p].send(message{kind: sendAsk, owner: with, place: me.place, reading: s.now})
		}
	}
}

// raise sends the largest grant to the nodes with a smaller one.
func (sys *system) raise(s *state, p uint8, a *grant.Attempt) {
	me := &s.processes[p]
	me.phase, me.token = raising, 0
	for _, v := range a.Votes {
		if v.Outcome == quorum.Granted {
			me.token = max(me.token, number(v.Token))
		}
	}
	if sys.makes(raisesNothing) {
		sys.won(s, p, me.token)
		return
	}
	for n := range sys.nodes {
		l := &s.columns[n].links[p]
		if l.outcome == quorum.Granted && l.granted < me.token {
			l.raised = true
			l.send(message{kind: sendRaise, owner: me.owner, number: me.token, reading: s.now})
		}
	}
	sys.raised(s, p)
}

// raised ends a raise when a quorum has the number, or all have answered. Where counters
// were in its way, all is given back.
func (sys *system) raised(s *state, p uint8) {
	me := &s.processes[p]
	at, out := 0, false
	for n := range sys.nodes {
		l := &s.columns[n].links[p]
		if l.outcome == quorum.Granted && l.granted == me.token {
			at++
		}
		out = out || l.raised
	}
	switch {
	case at >= quorum.Size(sys.nodes):
		sys.won(s, p, me.token)
	case out:
	default:
		sys.giveBack(s, p)
	}
}

// giveBack rolls all nodes back to a fresh owner at the same place.
func (sys *system) giveBack(s *state, p uint8) {
	me := &s.processes[p]
	me.stood, me.inside = scriptmodel.Nobody, false
	switch {
	case me.place == 0: // it never stood in line
		sys.goBack(s, p)
		return
	case sys.isCalled(p):
		me.phase = inLine
		sys.bidOver(s, p)
		return
	}
	old, next := me.owner, sys.fresh(s, p)
	if next == scriptmodel.Nobody {
		return
	}
	sys.forgetAttempt(s, p)
	me.phase, me.owner, me.split, me.token = inLine, next, true, 0
	for n := range uint8(sys.nodes) {
		sys.free(s, p, n, message{kind: sendRelease, mode: scriptmodel.EntryStays, owner: old, next: next, place: me.place})
	}
}

// free sends a release, with a tombstone where something of the owner may still come.
func (sys *system) free(s *state, p, n uint8, m message) {
	l := &s.columns[n].links[p]
	m.reading = s.now
	if sys.isStranger(p) {
		m.mode = scriptmodel.EntryUnknown
	}
	if sys.doubts(l, m.owner) {
		m.tomb = true
		l.doubt &^= sys.bit(m.owner)
	}
	if !l.full() {
		l.send(m)
	}
}

// doubts tells whether something may still come that puts the owner on the node: its
// reply is out, or was given up.
func (sys *system) doubts(l *link, o owner) bool {
	if l.doubt&sys.bit(o) != 0 {
		return true
	}
	for _, m := range l.sent {
		if (m.kind == sendTicket || m.kind == sendAsk || m.kind == sendTry || m.kind == sendReseed) && m.owner == o || (m.kind == sendHand || m.goneOut()) && m.next == o {
			return true
		}
	}
	for _, r := range l.replies {
		if (r.kind == sendTicket || r.kind == sendAsk || r.kind == sendTry || r.kind == sendReseed) && r.owner == o || (r.kind == sendHand || r.kind == sendPass) && r.next == o {
			return true
		}
	}
	return false
}

func (l *link) full() bool { return l.sent[lineRoom-1].kind != noMessage }

// won makes the process the holder.
func (sys *system) won(s *state, p uint8, t number) {
	me := &s.processes[p]
	a := sys.attemptOf(s, p)
	until, _ := a.LeaseUntil(quorum.Token(t))
	if sys.time != 0 && until <= clock.Instant(s.now) {
		me.phase = inLine
		sys.giveBack(s, p)
		return
	}
	for q := range sys.processes {
		if other := &s.processes[q]; q != p && other.phase == holding && (sys.time == 0 || s.now < other.until) {
			s.broken = brokenExclusion
		}
		if me.ahead&(1<<q) != 0 && s.broken == 0 {
			s.broken = brokenOrder
		}
	}
	if !sys.isStranger(p) || !sys.foreign {
		if t <= s.last {
			s.broken = brokenToken
		}
		s.last = t
	}
	me.phase, me.ahead, me.split, me.token, me.until = holding, 0, false, t, tick(until)
	me.held++
	me.extend, me.stands = 0, uint8(grantedBy(a))
	if !me.inside {
		me.stood = scriptmodel.Nobody
		if (me.place != 0 || me.handed != scriptmodel.Nobody) && sys.takesPushes(p) {
			me.stood = me.owner
		}
	}
	for q := range sys.processes {
		s.processes[q].ahead &^= 1 << p
	}
	sys.forgetAttempt(s, p)
}

// handOver ends the hold: each node that votes grants it to the one who is first there, or
// calls, where the holder wants it so, or knows no better.
func (sys *system) handOver(s *state, p uint8, calls bool) {
	me := &s.processes[p]
	old, hint, next := me.owner, sys.hint(s, p), scriptmodel.Nobody
	if me.more > 0 && sys.takesPushes(p) && !sys.anew {
		if next = sys.fresh(s, p); next == scriptmodel.Nobody {
			return
		}
	}
	stood, mode := me.stood, handsAs
	if sys.isStranger(p) || sys.anew && me.place == 0 {
		mode = handsOff
	}
	if calls {
		mode = callsAs
	}
	sys.forgetAttempt(s, p)
	sys.forgetPlace(s, p)
	me.held, me.token, me.until, me.stood, me.inside = 0, 0, 0, scriptmodel.Nobody, false
	calls = calls && next == scriptmodel.Nobody || sys.isCalled(p) && !sys.makes(handsByID)
	if calls || next != scriptmodel.Nobody && !sys.hands(s, p, old) {
		for n := range uint8(sys.nodes) {
			sys.free(s, p, n, message{kind: sendRelease, mode: scriptmodel.EntryGoes, owner: old, byID: stood != old})
		}
		sys.comesAgain(s, p)
		return
	}
	me.handed = old
	for n := range uint8(sys.nodes) {
		l := &s.columns[n].links[p]
		if sys.doubts(l, old) {
			leaves := scriptmodel.EntryGoes
			if next != scriptmodel.Nobody {
				leaves = scriptmodel.EntryStays
			}
			sys.free(s, p, n, message{kind: sendRelease, mode: leaves, owner: old, byID: stood != old})
			continue
		}
		l.expects = true
		l.send(message{kind: sendHand, mode: mode, owner: old, next: next, stood: stood, number: hint, reading: s.now})
	}
	if next == scriptmodel.Nobody {
		sys.comesAgain(s, p)
		return
	}
	me.owner = next
	me.more--
	me.phase = inLine
	sys.comes(s, p)
}

// comesAgain begins the process's next turn from the start, if it has one left.
func (sys *system) comesAgain(s *state, p uint8) {
	me := &s.processes[p]
	if me.more == 0 {
		me.phase, me.owner = done, scriptmodel.Nobody
		return
	}
	me.more--
	me.phase = idle
	sys.begin(s, p)
}

// hands tells whether so many nodes can be handed to that they will say a place.
func (sys *system) hands(s *state, p uint8, old owner) bool {
	can := 0
	for n := range sys.nodes {
		if !sys.doubts(&s.columns[n].links[p], old) {
			can++
		}
	}
	return can >= quorum.Size(sys.nodes)
}

// leave ends the attempt, and takes its entries off the nodes.
func (sys *system) leave(s *state, p uint8) {
	me := &s.processes[p]
	for n := range uint8(sys.nodes) {
		sys.free(s, p, n, message{kind: sendRelease, mode: scriptmodel.EntryGoes, owner: me.owner})
	}
	sys.forgetAttempt(s, p)
	sys.forgetPlace(s, p)
	*me = process{phase: done}
	for q := range sys.processes {
		s.processes[q].ahead &^= 1 << p
	}
}

// replied takes in a reply.
func (sys *system) replied(s *state, p, n uint8) {
	me := &s.processes[p]
	r := s.columns[n].links[p].hear()
	switch r.kind {
	case sendHand:
		sys.stands(s, p, n, r)
	case sendPass:
		sys.heardPass(s, p, n, r)
	case sendExtend:
		sys.extended(s, p, n, r)
	case sendReseed:
		sys.reseeded(s, p, n, r)
	case sendRaise:
		if me.phase == raising && r.owner == me.owner {
			l := &s.columns[n].links[p]
			l.raised = false
			if r.outcome == quorum.Granted {
				l.granted = r.token
			}
			sys.raised(s, p)
		}
	case sendTicket, sendAsk, sendTry:
		if r.outcome == quorum.Granted {
			s.columns[n].links[p].has = r.owner
		}
		if r.owner == me.owner && (me.phase == tickets || me.phase == inLine || me.phase == raising) {
			sys.answered(s, p, n, r)
		}
	}
}

// answered takes in the reply to an ask of the open attempt.
func (sys *system) answered(s *state, p, n uint8, r answer) {
	me := &s.processes[p]
	a := sys.attemptOf(s, p)
	a.Answered(int(n))
	if sys.isCalled(p) {
		a.Votes[n] = quorum.Vote{Outcome: r.outcome, Token: quorum.Token(r.token)}
		a.Until[n] = clock.Instant(sys.from(s, n, p, r.reading, askLife))
	} else if r.outcome == quorum.Granted {
		sys.take(a, n, r.token, sys.from(s, n, p, r.reading, askLife))
	} else {
		if sys.makes(refusalUndoes) {
			a.Votes[n] = quorum.Vote{}
		}
		a.Refused(int(n), r.outcome)
	}
	sys.keep(s, p, a)
	if me.phase == tickets {
		s.columns[n].links[p].place = r.ticket
		sys.placed(s, p)
		return
	}
	sys.drive(s, p)
}

// take takes in a grant.
func (sys *system) take(a *grant.Attempt, n uint8, t number, until tick) {
	a.Granted(int(n), quorum.Token(t), clock.Instant(until))
}

// from is until when a lease lasts.
func (sys *system) from(s *state, n, p uint8, reading, life tick) tick {
	if sys.makes(countsFromArrival) {
		reading = s.now
	}
	if sys.makes(countsFromLastSign) {
		reading = max(reading, s.columns[n].node.Readings[p])
	}
	return reading + sys.life(life)
}

// placed concludes the asks for a place.
func (sys *system) placed(s *state, p uint8) {
	me := &s.processes[p]
	a := sys.attemptOf(s, p)
	switch quorum.Count(a.Votes).Verdict() {
	case quorum.Won:
		if v, t := quorum.Settle(a.Votes); v == quorum.Settled {
			sys.won(s, p, number(t))
		} else if v == quorum.Uneven {
			sys.raise(s, p, a)
		}
		return
	case quorum.Undecided, quorum.Lost:
		return
	case quorum.Contended, quorum.NoQuorum:
	}
	if sys.isStranger(p) {
		sys.triesAgain(s, p)
		return
	}
	heard := make([]quorum.Hearing, sys.nodes)
	for n := range heard {
		heard[n] = quorum.Hearing{Ticket: int64(s.columns[n].links[p].place)}
	}
	place, ok := quorum.PositionOf(a.Votes, heard)
	old := me.owner
	for n := range uint8(sys.nodes) { // what was granted goes back, and what is out may be
		if l := &s.columns[n].links[p]; l.outcome == quorum.Granted || sys.doubts(l, old) {
			sys.free(s, p, n, message{kind: sendRelease, mode: scriptmodel.EntryStays, owner: old})
		}
	}
	sys.forgetAttempt(s, p)
	sys.forgetPlace(s, p)
	if !ok {
		me.phase, me.owner = idle, scriptmodel.Nobody
		return
	}
	me.owner = sys.fresh(s, p)
	me.phase, me.place = inLine, number(place)
	sys.look(s, p)
}

// look asks every node again.
func (sys *system) look(s *state, p uint8) {
	a := sys.attemptOf(s, p)
	if sys.isCalled(p) && a.Sent != 0 {
		return // its bid is out
	}
	a.Sent, a.All, a.Late = a.Out, true, false
	s.processes[p].split = false
	nodes := a.Due(true, sys.nodes, grantedBy(a))
	a.Ask(nodes)
	sys.keep(s, p, a)
	sys.ask(s, p, nodes)
	sys.drive(s, p)
}

func grantedBy(a *grant.Attempt) (nodes uint64) {
	for i, v := range a.Votes {
		if v.Outcome == quorum.Granted {
			nodes |= 1 << i
		}
	}
	return nodes
}
