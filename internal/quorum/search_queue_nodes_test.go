package quorum_test

import (
	"github.com/quorumkit/redlock/internal/quorum"
	"github.com/quorumkit/redlock/internal/scriptmodel"
)

// send puts a message at the end of a line. A release goes before the handovers
// that the writer has not come to, as it does there.
func (l *queueLink) send(m queueMessage) {
	for i, old := range l.sent {
		switch {
		case !old.sent():
			l.sent[i] = m
		case m.frees() && old == m && (i == len(l.sent)-1 || !l.sent[i+1].sent() || l.sent[i+1].kind() == duePass):
			// a release twice in a row is one
		case m.frees() && old.kind() == duePass:
			l.unsend(i)
			l.insert(i, m)
		default:
			continue
		}
		return
	}
	panic("more messages than a line has room for")
}

// unsend takes away the asks behind a handover that the writer has not come to:
// they have not left, and their attempt is over.
func (l *queueLink) unsend(due int) {
	for i := queueMessages - 1; i > due; i-- {
		if k := l.sent[i].kind(); k >= sendTicket && k <= sendStale {
			l.take(i)
		}
	}
}

// first puts a release before all that is no release.
func (l *queueLink) first(m queueMessage) {
	i := 0
	for l.sent[i].frees() {
		i++
	}
	l.insert(i, m)
}

func (l *queueLink) insert(i int, m queueMessage) {
	if l.sent[queueMessages-1].sent() {
		panic("more messages than a line has room for")
	}
	copy(l.sent[i+1:], l.sent[i:])
	l.sent[i] = m
}

// take removes message i.
func (l *queueLink) take(i int) queueMessage {
	m := l.sent[i]
	copy(l.sent[i:], l.sent[i+1:])
	l.sent[queueMessages-1] = 0
	return m
}

// stale makes the asks of an attempt that is over such that nobody hears. The
// writer has one batch out, a release and an ask at most; what has not left by
// then never leaves. It tells whether one has left.
func (l *queueLink) stale() (out bool) {
	due := false
	for i := range l.sent {
		due = due || l.sent[i].kind() == duePass
		switch {
		case !l.sent[i].asks():
		case i > 1 || due:
			l.take(i)
		default:
			l.sent[i] += staleAsk
			out = true
		}
	}
	return out
}

// deliver makes the node do what the first message of the line says.
func (sys *queueSystem) deliver(s *queueState, p, n uint8) (woken scriptmodel.Waiter) {
	c := &s.columns[n]
	m := c.links[p].take(0)
	node := &c.node
	woken = scriptmodel.NoWaiter
	if sys.makes(noSignOfLife) {
		for q, place := range node.Places {
			if place != 0 {
				node.Live |= 1 << q
			}
		}
	}
	if m.frees() {
		woken = sys.freed(s, p, n, m)
	} else {
		sys.asked(s, p, n, m)
	}
	return woken
}

// freed makes the node do a release. It leaves a tombstone where a command may still
// come that puts the claim there.
func (sys *queueSystem) freed(s *queueState, p, n uint8, m queueMessage) (woken scriptmodel.Waiter) {
	c, w := &s.columns[n], scriptmodel.Waiter(p)
	l, node := &c.links[p], &c.node
	entry := scriptmodel.EntryStays
	if m.kind() == sendEnd {
		entry = scriptmodel.EntryGoes
	}
	r := scriptmodel.Release{Name: 0, Owner: valueOf(p, m.claim())}
	if l.of == m.claim() {
		r.Tombstone = scriptmodel.Tick(boolean(l.mark.Doubtful() && !sys.makes(noTombstones)))
		l.mark = quorum.Absent
	}
	live := node.Live
	if sys.makes(dropsUnheard) {
		node.Live &^= node.Deaf
	}
	_, woken = node.ReleaseFrom(0, r, w, entry)
	node.Live, node.Called = live, 0 // who lives gives signs of life
	if m.kind() == sendKeep && woken == scriptmodel.NoWaiter && sys.makes(wakesItself) && node.Entered(w) {
		woken = w
	}
	if woken == w {
		s.broken = brokenLoop
	}
	if sys.makes(leavesInPeace) && s.processes[p].phase == queueDone {
		woken = scriptmodel.NoWaiter
	}
	return woken
}

// asked makes the node answer an ask.
func (sys *queueSystem) asked(s *queueState, p, n uint8, m queueMessage) {
	l := &s.columns[n].links[p]
	r := sys.answer(s, p, n, m)
	if sys.passes(p) {
		l.of, l.mark = m.claim(), quorum.Unsure.After(r.outcome)
	}
	if m.asks() {
		l.reply = r
	}
}

// answer is what the node does with an ask.
func (sys *queueSystem) answer(s *queueState, p, n uint8, m queueMessage) queueReply {
	ask := scriptmodel.Ask{Acquire: scriptmodel.Acquire{Owner: valueOf(p, m.claim()), Life: 1, Epoch: epoch}, Waiter: scriptmodel.Waiter(p)}
	if m.kind() == sendAsk || m.kind() == sendStale {
		ask.Place = s.processes[p].place
	}
	ask.Barging = sys.makes(ignoresQueue) && ask.Place == 0
	if sys.makes(ownPlaces) && ask.Place != 0 {
		ask.Place = scriptmodel.Number(1 + (p+n)%3)
	}
	node := &s.columns[n].node
	reply, more := node.Ask(0, ask)
	node.Stripes = [scriptmodel.Stripes]scriptmodel.Number{} // the counters stand still
	r := queueReply{outcome: outcomeOf(reply)}
	if node.Holds(0, ask.Owner) { // it may have been there before, and the counter says nothing
		r.outcome = quorum.Granted
	}
	if reply < 0 && ask.Place == 0 {
		r.ticket = scriptmodel.Number(more)
	}
	return r
}

// outcomeOf is what a reply to an acquire or a pass says (acquireVote).
func outcomeOf(reply int) quorum.Outcome {
	switch {
	case reply > 0:
		return quorum.Granted
	case reply == scriptmodel.Abstained:
		return quorum.Abstained
	case reply == scriptmodel.Dead:
		return quorum.Failed
	default:
		return quorum.Taken
	}
}
