package redlock_test

import (
	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/scriptmodel"
	"github.com/quorumkit/redlock/internal/search"
)

type yieldQueue = func(search.Step, queueState)

// Next: what is under way, what processes decide, and what befalls them.
func (sys *queueSystem) Next(s queueState, yield func(search.Step, queueState)) {
	if s.broken == 0 {
		sys.steps(&s, yield)
	}
}

func (sys *queueSystem) steps(s *queueState, yield yieldQueue) {
	for p := range sys.processes {
		for n := range uint8(sys.nodes) {
			sys.arrives(s, p, n, yield)
		}
		sys.decides(s, p, yield)
	}
	for n := range uint8(sys.nodes) {
		sys.remembers(s, n, yield)
	}
}

// remembers yields what becomes of a node's memory: one at a time forgets, and
// votes again when all that it may have promised is over, as membership has it.
// Meanwhile those who wait have told it so (lookout.go), whether they stand on a
// quorum yet or not.
func (sys *queueSystem) remembers(s *queueState, n uint8, yield yieldQueue) {
	node := &s.columns[n].node
	if node.Epoch == 0 {
		if sys.owesNothing(s, n) {
			next := *s
			next.columns[n].node.Epoch = epoch
			for p := range sys.processes {
				if me := &next.processes[p]; (me.phase == queueBid || me.phase == queueRest) && !sys.makes(rejoinsBlank) {
					next.columns[n].node.LookAt(scriptmodel.Waiter(p), me.place)
				}
			}
			yield(search.Step{Kind: stepRejoin, B: n}, next)
		}
		return
	}
	if s.forgot == sys.forgets {
		return
	}
	for i := range sys.nodes {
		if s.columns[i].node.Epoch == 0 {
			return
		}
	}
	next := *s
	next.forgot++
	next.columns[n].node = scriptmodel.Waiting{Deaf: node.Deaf}
	yield(search.Step{Kind: stepForget, B: n}, next)
}

// owesNothing tells whether nobody holds, or may come to hold, by what a node has
// forgotten, and nothing is under way to it.
func (sys *queueSystem) owesNothing(s *queueState, n uint8) bool {
	for p := range sys.processes {
		me, l := &s.processes[p], &s.columns[n].links[p]
		if me.phase == queueHolds || me.votes[n] == redlock.Granted || l.reply.granted || l.sent[0] != noMessage {
			return false
		}
	}
	return true
}

// arrives yields what becomes of the line between a process and a node.
func (sys *queueSystem) arrives(s *queueState, p, n uint8, yield yieldQueue) {
	l := &s.columns[n].links[p]
	if l.sent[0] != noMessage {
		next := *s
		woken := sys.deliver(&next, p, n)
		if woken != scriptmodel.NoWaiter {
			if sys.lost > s.lost {
				without := next
				without.lost++
				yield(search.Step{Kind: stepLoseHint, A: p, B: n}, without)
			}
			next.columns[n].links[woken].hint = true
		}
		yield(search.Step{Kind: stepDeliver, A: p, B: n}, next)
	}
	if l.reply.there && s.processes[p].phase != queueDead {
		next := *s
		sys.hear(&next, p, n)
		yield(search.Step{Kind: stepHear, A: p, B: n}, next)
	}
	if l.hint {
		next := *s
		next.columns[n].links[p].hint = false
		sys.hinted(&next, p, n)
		yield(search.Step{Kind: stepHint, A: p, B: n}, next)
	}
	if node := &s.columns[n].node; s.processes[p].phase == queueDead && (node.Lives(scriptmodel.Waiter(p)) || node.Holds(0, owner(p)) && l.sent[0] == noMessage) {
		next := *s
		next.columns[n].node.Live &^= 1 << p
		if node.Holds(0, owner(p)) { // its lease ends
			next.columns[n].node.Drop(0)
		}
		yield(search.Step{Kind: stepSilence, A: p, B: n}, next)
	}
}

// decides yields what a process does by itself.
func (sys *queueSystem) decides(s *queueState, p uint8, yield yieldQueue) {
	do := func(kind uint8, change func(*queueState)) {
		next := *s
		change(&next)
		yield(search.Step{Kind: kind, A: p}, next)
	}
	me := &s.processes[p]
	waits := me.phase == queueTicket || me.phase == queueBid || me.phase == queueRest
	switch me.phase {
	case queueIdle:
		do(stepQueueBegin, func(s *queueState) { sys.begin(s, p) })
	case queueTicket, queueBid:
		if !me.all && !sys.makes(onlyHinted) {
			do(stepGather, func(s *queueState) { sys.ask(s, p, true) })
		}
	case queueRest:
		if me.split && sys.room(s, p) {
			do(stepAgain, func(s *queueState) { sys.attempt(s, p, 0) })
		} else if sys.polls && sys.room(s, p) {
			do(stepPoll, func(s *queueState) { sys.attempt(s, p, 0) })
		}
	case queueHolds:
		do(stepHandOn, func(s *queueState) { sys.handOn(s, p) })
	}
	if waits && p >= sys.processes-sys.leaver {
		do(stepLeave, func(s *queueState) {
			sys.over(s, p, sendEnd)
			s.processes[p].phase = queueDone
			sys.forget(s, p)
		})
	}
	if waits && p >= sys.processes-sys.mortal {
		do(stepDie, func(s *queueState) { sys.die(s, p) })
	}
}

// room tells whether nothing of the process is under way: it looks no faster than
// its nodes answer.
func (sys *queueSystem) room(s *queueState, p uint8) bool {
	for n := range sys.nodes {
		if s.columns[n].links[p].sent[0] != noMessage {
			return false
		}
	}
	return true
}

// send puts a message at the end of a line.
func (l *queueLink) send(m uint8) {
	for i, old := range l.sent {
		if old == noMessage {
			if i == 0 || l.sent[i-1] != m || m < sendKeep { // a release twice in a row is one
				l.sent[i] = m
			}
			return
		}
	}
	panic("more messages than a line has room for")
}

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

// deliver has the node do what the first message of the line says.
func (sys *queueSystem) deliver(s *queueState, p, n uint8) (woken scriptmodel.Waiter) {
	c, w := &s.columns[n], scriptmodel.Waiter(p)
	l, node := &c.links[p], &c.node
	m := l.sent[0]
	copy(l.sent[:], l.sent[1:])
	l.sent[queueMessages-1] = noMessage
	woken = scriptmodel.NoWaiter
	if sys.makes(noSignOfLife) {
		for q, place := range node.Places {
			if place != 0 {
				node.Live |= 1 << q
			}
		}
	}
	switch m {
	case sendKeep, sendEnd:
		entry := scriptmodel.EntryStays
		if m == sendEnd {
			entry = scriptmodel.EntryGoes
		}
		_, woken = node.ReleaseFrom(0, scriptmodel.Release{Name: 0, Owner: owner(p)}, w, entry)
		if m == sendKeep && woken == scriptmodel.NoWaiter && sys.makes(wakesItself) && node.Entered(w) {
			woken = w
		}
		if woken == w {
			s.broken = brokenLoop
		}
		if sys.makes(leavesInPeace) && s.processes[p].phase == queueDone {
			woken = scriptmodel.NoWaiter
		}
	default:
		sys.asked(s, p, n, m)
	}
	node.Stripes = [scriptmodel.Stripes]scriptmodel.Number{} // the counters stand still
	return woken
}

// asked has the node answer an ask.
func (sys *queueSystem) asked(s *queueState, p, n uint8, m uint8) {
	c := &s.columns[n]
	ask := scriptmodel.Ask{Acquire: scriptmodel.Acquire{Owner: owner(p), Life: 1, Epoch: epoch}, Waiter: scriptmodel.Waiter(p)}
	if m == sendAsk || m == sendStale {
		ask.Place = s.processes[p].place
	}
	ask.Barging = sys.makes(ignoresQueue) && ask.Place == 0
	if sys.makes(ownPlaces) && ask.Place != 0 {
		ask.Place = scriptmodel.Number(1 + (p+n)%3)
	}
	reply, more := c.node.Ask(0, ask)
	if m == sendStale || m == sendStaleTicket {
		return
	}
	r := queueReply{there: true, granted: reply > 0, abstained: reply == scriptmodel.Abstained}
	if reply < 0 && ask.Place == 0 {
		r.ticket = scriptmodel.Number(more)
	}
	c.links[p].reply = r
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

// stale makes the asks of an attempt that is over such that nobody hears. The
// writer has one flight out, a release and an ask at most; what has not left by
// then never leaves. It tells whether one has left.
func (l *queueLink) stale() (out bool) {
	for i := range l.sent {
		switch {
		case l.sent[i] != sendAsk && l.sent[i] != sendTicket:
		case i > 1:
			copy(l.sent[i:], l.sent[i+1:])
			l.sent[queueMessages-1] = noMessage
		default:
			l.sent[i] += sendStale - sendAsk
			out = true
		}
	}
	return out
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
