package quorum_test

import (
	"github.com/quorumkit/redlock/internal/quorum"
	"github.com/quorumkit/redlock/internal/scriptmodel"
)

// begin asks all nodes for a ticket.
func (sys *queueSystem) begin(s *queueState, p uint8) {
	me := &s.processes[p]
	*me = queueProcess{phase: queueTicket, claim: me.claim, all: true, more: me.more, held: me.held}
	if !sys.renew(s, p) {
		me.phase, me.all = queueIdle, false
		return
	}
	for q := range sys.processes {
		on := 0
		for n := range sys.nodes {
			on += int(boolean(s.columns[n].node.Entered(scriptmodel.Waiter(q))))
		}
		if other := s.processes[q].phase; q != p && on >= quorum.Size(sys.nodes) && (other == queueBid || other == queueRest) {
			me.ahead |= 1 << q
		}
	}
	sys.ask(s, p, true)
}

// attempt asks with the place: the nodes that hinted, or all.
func (sys *queueSystem) attempt(s *queueState, p uint8, hinted uint64) {
	me := &s.processes[p]
	if !sys.renew(s, p) {
		me.phase, me.split = queueRest, true
		return
	}
	sys.clear(s, p)
	me.phase, me.split = queueBid, false
	sys.setBid(s, p, quorum.Asked{Sent: 0, Out: 0, Hinted: hinted})
	sys.ask(s, p, hinted == 0)
}

// ask sends what is due.
func (sys *queueSystem) ask(s *queueState, p uint8, all bool) {
	me := &s.processes[p]
	me.all = me.all || all
	granted := uint64(0)
	for n := range sys.nodes {
		if s.columns[n].links[p].vote == quorum.Granted {
			granted |= 1 << n
		}
	}
	bid := sys.bidOf(s, p)
	due := bid.Due(me.all, sys.nodes, granted)
	bid.Ask(due)
	sys.setBid(s, p, bid)
	kind := sendAsk
	if me.phase == queueTicket {
		kind = sendTicket
	}
	for n := range sys.nodes {
		if l := &s.columns[n].links[p]; due&(1<<n) != 0 {
			l.vote = quorum.Pending
			l.send(messageOf(kind, me.claim, 0))
		}
	}
}

// hear takes in a reply, and draws the conclusions.
func (sys *queueSystem) hear(s *queueState, p, n uint8) {
	l := &s.columns[n].links[p]
	if l.reply.pass != 0 {
		sys.heardPass(s, p, n)
		return
	}
	l.vote, l.ticket = l.reply.outcome, l.reply.ticket
	l.reply = queueReply{}
	bid := sys.bidOf(s, p)
	bid.Answered(int(n))
	sys.setBid(s, p, bid)
	if bid.Again(int(n)) {
		sys.ask(s, p, false)
	}
	sys.conclude(s, p)
}

// conclude ends an attempt whose verdict is known.
func (sys *queueSystem) conclude(s *queueState, p uint8) {
	me := &s.processes[p]
	votes, heard := make([]quorum.Vote, sys.nodes), make([]quorum.Hearing, sys.nodes)
	granted := 0
	for n := range votes {
		l := &s.columns[n].links[p]
		votes[n] = quorum.Vote{Outcome: l.vote}
		heard[n] = quorum.Hearing{Ticket: int64(l.ticket)}
		granted += int(boolean(l.vote == quorum.Granted))
	}
	switch quorum.Count(votes).Verdict() {
	case quorum.Won:
		sys.won(s, p)
	case quorum.Contended, quorum.NoQuorum:
		switch me.phase {
		case queueTicket:
			sys.placed(s, p, votes, heard)
			return
		case queuePass:
			sys.notPassed(s, p)
			return
		}
		if !sys.makes(splitForGood) {
			sys.over(s, p, sendKeep)
		}
		me.phase, me.split = queueRest, granted > 0 && !sys.makes(splitForGood)
	case quorum.Undecided, quorum.Lost: // every vote is there, and no token was said
	}
}

// placed takes the place that the tickets give, and asks with it.
func (sys *queueSystem) placed(s *queueState, p uint8, votes []quorum.Vote, heard []quorum.Hearing) {
	me := &s.processes[p]
	place, ok := quorum.PositionOf(votes, heard)
	if sys.makes(oneTicket) {
		for n := range votes {
			if l := &s.columns[n].links[p]; l.vote == quorum.Taken {
				place, ok = int64(l.ticket), true
				break
			}
		}
	}
	if sys.makes(wallClock) {
		place = int64(9 - p)
	}
	sys.over(s, p, sendKeep)
	if !ok {
		me.phase, me.split = queueIdle, false
		return
	}
	me.place = scriptmodel.Number(place)
	sys.attempt(s, p, 0)
}

// over ends the attempt: what was granted, or may be, is given back, and asks that
// are under way are nobody's. sendEnd goes to every node: it takes entries away.
func (sys *queueSystem) over(s *queueState, p uint8, release uint8) {
	claim := s.processes[p].claim
	for n := range sys.nodes {
		l := &s.columns[n].links[p]
		there := l.vote == quorum.Granted || l.mark != quorum.Absent && l.of == claim
		if l.reply.pass == 0 {
			there = there || l.reply.outcome == quorum.Granted
			l.reply = queueReply{}
		}
		there = l.stale() || there
		if release == sendEnd || there {
			l.send(messageOf(release, claim, 0))
		}
	}
	sys.clear(s, p)
}

// clear forgets what the process knew in its attempt.
func (sys *queueSystem) clear(s *queueState, p uint8) {
	for n := range sys.nodes {
		l := &s.columns[n].links[p]
		l.vote, l.ticket, l.bid = quorum.Pending, 0, 0
	}
	s.processes[p].all = false
}

// won makes the process the holder.
func (sys *queueSystem) won(s *queueState, p uint8) {
	me := &s.processes[p]
	for q := range sys.processes {
		if q != p && s.processes[q].phase == queueHolds {
			s.broken = brokenExclusion
		}
		if me.ahead&(1<<q) != 0 && me.held == 0 {
			s.broken = brokenOrder
		}
	}
	others := uint64(0)
	if bid := sys.bidOf(s, p); me.phase != queuePass {
		others = bid.Unasked(sys.nodes)
	}
	me.phase, me.ahead = queueHolds, 0
	me.held++
	sys.forget(s, p)
	for n := range sys.nodes { // asks that are under way go on; their replies decide nothing
		l := &s.columns[n].links[p]
		if l.reply.pass == 0 {
			l.reply = queueReply{}
		}
		for i, m := range l.sent {
			if m.asks() {
				l.sent[i] += staleAsk
			}
		}
		if others&(1<<n) != 0 {
			l.send(messageOf(sendStale, me.claim, 0))
		}
	}
	sys.clear(s, p)
}

// forget takes the process out of what others wait behind.
func (sys *queueSystem) forget(s *queueState, p uint8) {
	for q := range sys.processes {
		s.processes[q].ahead &^= 1 << p
	}
}

// handOn hands the name to the next goroutine while the turn lasts, or ends the
// turn.
func (sys *queueSystem) handOn(s *queueState, p uint8) {
	if sys.handsOn(s, p) {
		sys.pass(s, p)
		return
	}
	me := &s.processes[p]
	place := me.place
	sys.over(s, p, sendEnd)
	me.phase, me.place, me.held = queueDone, 0, 0
	if me.more > 0 {
		me.more--
		sys.begin(s, p)
		if sys.makes(staysInFront) && place > 0 {
			sys.over(s, p, sendKeep)
			me.place, me.phase = place, queueBid
			sys.attempt(s, p, 0)
		}
	}
}

// hinted takes in a node's call.
func (sys *queueSystem) hinted(s *queueState, p, n uint8) {
	l := &s.columns[n].links[p]
	switch s.processes[p].phase {
	case queueRest:
		sys.attempt(s, p, 1<<n)
	case queueTicket, queueBid:
		out := l.reply.outcome != quorum.Pending
		for _, m := range l.sent {
			out = out || m.asks()
		}
		if out && sys.makes(deafWhileAsks) {
			return
		}
		bid := sys.bidOf(s, p)
		bid.Hinted |= 1 << n
		sys.setBid(s, p, bid)
		sys.ask(s, p, false)
	case queueDone:
		l.send(messageOf(sendEnd, s.processes[p].claim, 0))
	}
}

// renewed makes a process look at what a node may have said in vain (presence.renewed):
// while it rests, whether the name is free there; while it asks, by asking again.
func (sys *queueSystem) renewed(s *queueState, p, n uint8) {
	me, c := &s.processes[p], &s.columns[n]
	switch me.phase {
	case queueRest:
		c.node.LookAt(scriptmodel.Waiter(p), me.place)
		if c.node.Keys[0].Owner != scriptmodel.Nobody {
			return
		}
		if sys.room(s, p) {
			sys.attempt(s, p, 0)
		} else {
			sys.hinted(s, p, n)
		}
	case queueBid:
		if !sys.makes(mendsAtRest) {
			sys.hinted(s, p, n)
		}
	}
}

// die ends a process: what it sent arrives, and nobody hears what is said to it.
func (sys *queueSystem) die(s *queueState, p uint8) {
	sys.forget(s, p)
	sys.clear(s, p)
	s.processes[p] = queueProcess{phase: queueDead, place: s.processes[p].place}
	for n := range sys.nodes {
		c := &s.columns[n]
		if !sys.silent {
			c.node.Deaf |= 1 << p
		}
		c.links[p].reply, c.links[p].hint = queueReply{}, false
		c.links[p].stale()
	}
}
