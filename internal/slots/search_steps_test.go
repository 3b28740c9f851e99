package slots_test

import (
	"github.com/quorumkit/redlock/internal/quorum"
	"github.com/quorumkit/redlock/internal/scriptmodel"
	"github.com/quorumkit/redlock/internal/slots"
)

func (sys *system) begin(s *state, c uint8) {
	me := &s.callers[c]
	me.decide, me.before = slots.New(int(sys.limit), slots.None), 0
	for other := range uint8(sys.callers) {
		if s.stands(other) {
			me.before |= 1 << other
		}
	}
}

// ask sends a round.
func (sys *system) ask(s *state, c uint8, roll float64) {
	me := &s.callers[c]
	me.slot, me.phase, me.said, me.split = uint8(me.decide.Pick(roll)), asks, [nodes]reply{}, false
	m := message(anAsk, me.slot, me.by)
	if me.place != 0 {
		m |= placed
	}
	s.sendAll(c, m)
}

// serve has node i do what was sent to it first. A leave that comes twice is sent again,
// behind all that is on its way.
func (sys *system) serve(s *state, c, i uint8, twice bool) {
	me, n := &s.callers[c], &s.nodes[i]
	m := me.out[i][0]
	copy(me.out[i][:], me.out[i][1:])
	me.out[i][mostSent-1] = 0
	if twice {
		s.doubles--
		s.send(c, i, m)
	}
	w, owner := scriptmodel.Waiter(c), ownerOf(c, m.by())
	release := scriptmodel.EndSlot{Waiter: w, Limit: sys.limit, Flaw: sys.flaw, Release: scriptmodel.Release{Name: sys.slotOn(n, m, owner), Owner: owner}}
	var woken scriptmodel.Waiter
	var free uint8
	switch m.kind() {
	case anAsk, aLateAsk:
		a := scriptmodel.AskSlot{Limit: sys.limit, Ask: scriptmodel.Ask{
			Acquire: scriptmodel.Acquire{Name: release.Name, Owner: owner, Life: life, Epoch: epoch}, Waiter: w,
		}}
		if m.placed() {
			a.Place = max(me.place, me.was)
		}
		said := n.AskSlot(0, a, sys.flaw)
		if m.kind() == anAsk {
			r := reply{vote: quorum.Taken, first: said.First, free: said.Free, ticket: scriptmodel.Number(said.Ticket)}
			if said.Vote > 0 {
				r = reply{vote: quorum.Granted}
			}
			me.said[i] = r
		}
		if m.kind() == anAsk && m.placed() && n.Entered(w) {
			me.stands |= 1 << i
		}
		s.forget(i)
		if me.place == 0 {
			me.gone()
		}
		return
	case aPass:
		if n.Pass(0, scriptmodel.Pass{
			Acquire: scriptmodel.Acquire{Name: release.Name, Owner: owner, Life: life, Epoch: epoch}, Old: ownerOf(c, m.from()),
		}) > 0 {
			me.told |= 1 << i
		}
	case aGiveBack:
		if release.Entry = scriptmodel.EntryStays; sys.giveWake {
			release.Entry = scriptmodel.EntryUnknown
		}
		if _, woken, free = n.ReleaseSlot(0, release); woken == w {
			s.broken = brokenLoop
		}
	case aRelease:
		release.Entry = scriptmodel.EntryUnknown
		_, woken, free = n.ReleaseSlot(0, release)
	case aLeave:
		release.Name, release.Entry, release.Place = scriptmodel.NoSlot, scriptmodel.EntryGoes, scriptmodel.Number(m.slot())
		if _, woken, free = n.ReleaseSlot(0, release); me.stands>>i&1 != 0 && !n.Entered(w) {
			s.broken = brokenEntry
		}
	}
	s.forget(i)
	s.hear(i, woken, free, sys.forgets)
}

// slotOn is the slot that a message is about on a node: where the control counts on each
// node, any that is free, or that the caller has.
func (sys *system) slotOn(n *scriptmodel.Waiting, m sent, owner scriptmodel.Owner) uint8 {
	if !sys.anySlot {
		return m.slot()
	}
	for slot := range sys.limit {
		if asks := m.kind() == anAsk || m.kind() == aLateAsk; asks && n.Keys[slot].Owner == scriptmodel.Nobody || n.Holds(slot, owner) {
			return slot
		}
	}
	return m.slot()
}

// votes are what the nodes said, as the decision takes it in.
func (me *caller) votes() (votes []quorum.Vote, heard []quorum.Hearing) {
	for _, r := range me.said {
		v := quorum.Vote{Outcome: r.vote}
		if r.vote == quorum.Granted {
			v.Token = 1
		}
		votes = append(votes, v)
		heard = append(heard, quorum.Hearing{Ticket: int64(r.ticket), Head: r.first, Slots: uint64(r.free)})
	}
	return votes, heard
}

// judged tells whether the round has its verdict.
func (sys *system) judged(me *caller) bool {
	votes, _ := me.votes()
	t := quorum.Count(votes)
	if !sys.early {
		return t.Pending == 0
	}
	return t.Verdict() != quorum.Undecided && t.Verdict() != quorum.Lost
}

func (sys *system) conclude(s *state, c uint8) {
	me := &s.callers[c]
	votes, heard := me.votes()
	for i := range me.out {
		for k, m := range me.out[i] {
			if m.kind() == anAsk {
				me.out[i][k] = m - sent(anAsk) + sent(aLateAsk)
			}
		}
	}
	step := me.decide.Ended(votes, heard, 0)
	me.split = quorum.Count(votes).Granted > 0
	if step == slots.Take {
		s.row[me.slot], me.passed = 0, 0
		sys.heedOrder(s, c)
		sys.take(s, c)
		sys.decline(s, c)
		return
	}
	back := message(aRelease, me.slot, me.by)
	if me.place != 0 {
		back = message(aGiveBack, me.slot, me.by)
	}
	for i, v := range votes {
		if v.Outcome == quorum.Granted || v.Outcome == quorum.Pending {
			s.send(c, uint8(i), back)
		}
	}
	if me.given.slot != 0 { // it needs no place
		me.said, me.phase = [nodes]reply{}, rests
		return
	}
	placed := me.place != 0
	if !placed && step == slots.Rest {
		place, ok := quorum.PositionOf(votes, heard)
		if !ok {
			panic("a verdict without a quorum")
		}
		me.place = scriptmodel.Number(place)
		if !sys.samePlace {
			me.place = max(me.place, me.stood+1)
		}
		me.stood = me.place
	}
	me.said, me.phase = [nodes]reply{}, rests
	if !placed || step == slots.Again {
		sys.ask(s, c, 0)
	}
}

// heedOrder notes where somebody who gets a slot overtakes another.
func (sys *system) heedOrder(s *state, c uint8) {
	for other := range uint8(sys.callers) {
		if s.callers[c].before>>other&1 != 0 && s.stands(other) {
			s.broken = brokenOrder
		}
	}
}

// take makes the caller hold the slot, and leave the line.
func (sys *system) take(s *state, c uint8) {
	me := &s.callers[c]
	for other := range s.callers {
		s.callers[other].before &^= 1 << c
	}
	if me.place != 0 && !sys.stays {
		s.sendAll(c, leaveOf(me.place))
		me.gone()
		me.place = 0
	}
	me.phase, me.said, me.split, me.stands, me.decide, me.before = holds, [nodes]reply{}, false, 0, slots.Caller{}, 0
}

func (sys *system) finish(s *state, c uint8) {
	me := &s.callers[c]
	s.sendAll(c, message(aRelease, me.slot, me.by))
	sys.end(s, c)
}

// end ends a caller's turn, and its place in line.
func (sys *system) end(s *state, c uint8) {
	me := &s.callers[c]
	if me.place != 0 {
		s.sendAll(c, leaveOf(me.place))
		me.gone()
	}
	sys.decline(s, c)
	me.place, me.stands, me.slot, me.decide, me.before, me.split, me.passed = 0, 0, 0, slots.Caller{}, 0, false, 0
	me.phase = away
	if me.turns--; me.turns == 0 {
		me.phase = over
	}
	for other := range s.callers {
		s.callers[other].before &^= 1 << c
	}
}

// die ends a process. What it sent is lost; its sign of life is over.
func (s *state) die(c uint8) {
	s.deaths--
	s.callers[c] = caller{phase: dead}
	for i := range s.nodes {
		s.nodes[i].Live &^= 1 << c
	}
	for other := range s.callers {
		s.callers[other].before &^= 1 << c
	}
}
