package redlock_test

import (
	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/scriptmodel"
)

// begin asks all nodes for a ticket.
func (sys *queueSystem) begin(s *queueState, p uint8) {
	me := &s.processes[p]
	more := me.more
	*me = queueProcess{phase: queueTicket, all: true, more: more}
	for q := range sys.processes {
		on := 0
		for n := range sys.nodes {
			on += int(boolean(s.columns[n].node.Entered(scriptmodel.Waiter(q))))
		}
		if other := s.processes[q].phase; q != p && on >= redlock.QuorumOf(sys.nodes) && (other == queueBid || other == queueRest) {
			me.ahead |= 1 << q
		}
	}
	sys.ask(s, p, true)
}

// attempt asks with the place: the nodes that hinted, or all.
func (sys *queueSystem) attempt(s *queueState, p uint8, hinted uint64) {
	me := &s.processes[p]
	me.phase, me.split, me.all = queueBid, false, false
	me.bid, me.votes, me.tickets = redlock.Bid{}, [queueNodes]redlock.Outcome{}, [queueNodes]scriptmodel.Number{}
	for n := range sys.nodes {
		if hinted&(1<<n) != 0 {
			me.bid.Hint(n)
		}
	}
	sys.ask(s, p, hinted == 0)
}

// ask sends what is due.
func (sys *queueSystem) ask(s *queueState, p uint8, all bool) {
	me := &s.processes[p]
	me.all = me.all || all
	granted := uint64(0)
	for n, v := range me.votes[:sys.nodes] {
		if v == redlock.Granted {
			granted |= 1 << n
		}
	}
	due := me.bid.Due(me.all, sys.nodes, granted)
	me.bid.Ask(due)
	message := sendAsk
	if me.phase == queueTicket {
		message = sendTicket
	}
	for n := range sys.nodes {
		if due&(1<<n) != 0 {
			me.votes[n] = redlock.Pending
			s.columns[n].links[p].send(message)
		}
	}
}

// hear takes in a reply, and draws the conclusions.
func (sys *queueSystem) hear(s *queueState, p, n uint8) {
	me, l := &s.processes[p], &s.columns[n].links[p]
	r := l.reply
	l.reply = queueReply{}
	me.bid.Answered(int(n))
	me.votes[n], me.tickets[n] = redlock.Taken, r.ticket
	switch {
	case r.granted:
		me.votes[n] = redlock.Granted
	case r.abstained:
		me.votes[n] = redlock.Abstained
	}
	if me.bid.Again(int(n)) {
		sys.ask(s, p, false)
	}
	sys.conclude(s, p)
}

// conclude ends an attempt whose verdict is known.
func (sys *queueSystem) conclude(s *queueState, p uint8) {
	me := &s.processes[p]
	votes, heard := make([]redlock.Ballot, sys.nodes), make([]redlock.Hearing, sys.nodes)
	granted := 0
	for n := range votes {
		votes[n] = redlock.BallotOf(me.votes[n], 0)
		heard[n] = redlock.Ticket(int64(me.tickets[n]))
		granted += int(boolean(me.votes[n] == redlock.Granted))
	}
	switch redlock.VerdictOf(votes) {
	case redlock.Won:
		sys.won(s, p)
	case redlock.Contended, redlock.NoQuorum:
		if me.phase == queueTicket {
			sys.placed(s, p, votes, heard)
			return
		}
		if !sys.makes(splitForGood) {
			sys.over(s, p, sendKeep)
		}
		me.phase, me.split = queueRest, granted > 0 && !sys.makes(splitForGood)
	case redlock.Undecided, redlock.Lost: // every vote is there, and no token was said
	}
}

// placed takes the place that the tickets give, and asks with it.
func (sys *queueSystem) placed(s *queueState, p uint8, votes []redlock.Ballot, heard []redlock.Hearing) {
	me := &s.processes[p]
	place, ok := redlock.PositionOf(votes, heard)
	if sys.makes(oneTicket) {
		for n := range votes {
			if me.votes[n] == redlock.Taken {
				place, ok = int64(me.tickets[n]), true
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
	me := &s.processes[p]
	for n := range sys.nodes {
		l := &s.columns[n].links[p]
		out := l.reply.there
		l.reply = queueReply{}
		out = l.stale() || out
		if release == sendEnd || out || me.votes[n] == redlock.Granted {
			l.send(release)
		}
	}
	me.bid, me.votes, me.tickets = redlock.Bid{}, [queueNodes]redlock.Outcome{}, [queueNodes]scriptmodel.Number{}
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
	me.phase = queueHolds
	me.held++
	sys.forget(s, p)
	others := me.bid.Unasked(sys.nodes)
	me.bid.Ask(others)
	for n := range sys.nodes { // asks that are under way go on; their replies decide nothing
		l := &s.columns[n].links[p]
		l.reply = queueReply{}
		if others&(1<<n) != 0 {
			l.send(sendStale)
		}
	}
}

// forget takes the process out of what others wait behind.
func (sys *queueSystem) forget(s *queueState, p uint8) {
	for q := range sys.processes {
		s.processes[q].ahead &^= 1 << p
	}
}

// handOn hands the name to the next goroutine while the turn lasts (what a node
// does for it is to swap the owner: nothing that others see), or ends the turn.
func (sys *queueSystem) handOn(s *queueState, p uint8) {
	me := &s.processes[p]
	if me.more > 0 && (redlock.TurnLeft(int(me.held), sys.turns) || sys.makes(endlessTurn)) {
		if me.held >= uint8(sys.turns) {
			for q := range sys.processes {
				if s.processes[q].phase == queueRest && q != p {
					s.broken = brokenOrder
				}
			}
		}
		me.more--
		me.held++
		return
	}
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
	me := &s.processes[p]
	switch me.phase {
	case queueRest:
		sys.attempt(s, p, 1<<n)
	case queueTicket, queueBid:
		out := s.columns[n].links[p].reply.there
		for _, m := range s.columns[n].links[p].sent {
			out = out || m == sendAsk || m == sendTicket
		}
		if out && sys.makes(deafWhileAsks) {
			return
		}
		me.bid.Hint(int(n))
		sys.ask(s, p, false)
	case queueDone:
		s.columns[n].links[p].send(sendEnd)
	}
}

// die ends a process: what it sent arrives, and nobody hears what is said to it.
func (sys *queueSystem) die(s *queueState, p uint8) {
	sys.forget(s, p)
	s.processes[p] = queueProcess{phase: queueDead, place: s.processes[p].place, deaf: true}
	for n := range sys.nodes {
		c := &s.columns[n]
		if !sys.silent {
			c.node.Deaf |= 1 << p
		}
		c.links[p].reply, c.links[p].hint = queueReply{}, false
		c.links[p].stale()
	}
}
