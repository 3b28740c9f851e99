package redlock_test

import (
	"github.com/quorumkit/redlock/internal/scriptmodel"
)

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
