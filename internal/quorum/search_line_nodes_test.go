package quorum_test

import (
	"hash/maphash"

	"github.com/quorumkit/redlock/internal/quorum"
	"github.com/quorumkit/redlock/internal/scriptmodel"
)

// sendLine puts a message at the end of a line; the same release twice in a row is one.
func (l *lineLink) sendLine(m uint8, place scriptmodel.Number) {
	for i, old := range l.sent {
		switch {
		case old == askNothing:
			l.sent[i], l.of[i] = m, place
		case lineFrees(m) && old == m && (i == lineMessages-1 || l.sent[i+1] == askNothing):
			l.of[i] = max(l.of[i], place)
		default:
			continue
		}
		return
	}
	panic("more messages than a line has room for")
}

// take removes message i.
func (l *lineLink) take(i int) (m uint8, place scriptmodel.Number) {
	m, place = l.sent[i], l.of[i]
	copy(l.sent[i:], l.sent[i+1:])
	copy(l.of[i:], l.of[i+1:])
	l.sent[lineMessages-1], l.of[lineMessages-1] = askNothing, 0
	return m, place
}

// staleLine makes the asks of an attempt that is over such that nobody hears. The writer has
// one batch out, a release and an ask at most; what has not left by then never leaves. It
// tells whether one has left.
func (l *lineLink) staleLine() (out bool) {
	for i := lineMessages - 1; i >= 0; i-- {
		switch {
		case !lineAsks(l.sent[i]):
		case i > 1:
			l.take(i)
		default:
			l.sent[i] += askStale - askPlace
			out = true
		}
	}
	return out
}

// lineDeliver makes the node do what the first message of the line says, and returns the
// waiters that it woke, one bit each.
func (sys *lineSystem) lineDeliver(s *lineState, g, n uint8) (woken uint8) {
	c := &s.columns[n]
	m, place := c.links[g].take(0)
	if lineFrees(m) {
		return sys.lineFree(c, g, m, place)
	}
	outcome, ticket := sys.lineAnswer(c, g, m, place)
	if lineAsks(m) {
		c.links[g].reply, c.links[g].said = outcome, ticket
	}
	return 0
}

// lineFree makes the node do a release.
func (sys *lineSystem) lineFree(c *lineColumn, g, m uint8, place scriptmodel.Number) uint8 {
	if m == leaseEnds {
		c.lapse(g)
		return 0
	}
	r, w := scriptmodel.Release{Owner: owner(g)}, sys.waiter(g)
	entry := [...]uint8{scriptmodel.EntryUnknown, scriptmodel.EntryStays, scriptmodel.EntryGoes, scriptmodel.EntryGoes}[m-freeNothing]
	if m == leaveEntry {
		r.Owner = scriptmodel.Owners // a new one
	}
	var woken scriptmodel.Woken
	if sys.shares[g] {
		_, woken = c.node.EndIn(noon, scriptmodel.EndBeside{
			Release: r, Waiter: w, Named: m != freeNothing, Entry: entry, Place: place, Flaw: sys.flaw,
		})
	} else {
		_, woken = c.node.ReleaseBoth(noon, scriptmodel.LineRelease{Release: r, Waiter: w, Entry: entry, Flaw: sys.flaw})
	}
	c.node.Called = 0 // who lives gives signs of life
	bits := woken.Beside
	if woken.Alone != scriptmodel.NoWaiter {
		bits |= 1 << woken.Alone
	}
	return bits
}

// lapse ends what the goroutine has on the node, by itself.
func (c *lineColumn) lapse(g uint8) {
	if c.node.Holds(0, owner(g)) {
		c.node.Drop(0)
		return
	}
	c.node.Set.Ends[g] = 0
	if c.node.Keys[0].Owner == scriptmodel.Shared && c.node.Set.Latest() == 0 {
		c.node.DropSharers(&c.node.Set, 0)
	}
}

// lineAnswer is what the node does with an ask.
func (sys *lineSystem) lineAnswer(c *lineColumn, g, m uint8, place scriptmodel.Number) (outcome quorum.Outcome, ticket scriptmodel.Number) {
	args := scriptmodel.Acquire{Owner: owner(g), Life: 1, Epoch: epoch}
	if m == askTicket || m == askStaleTicket {
		place = 0
	}
	var reply, more int
	if sys.shares[g] {
		reply, more = c.node.ShareIn(noon, scriptmodel.ShareIn{Acquire: args, Waiter: sys.waiter(g), Place: place, Flaw: sys.flaw})
		c.node.Set.Number = min(c.node.Set.Number, 1)
	} else {
		reply, more = c.node.AskIn(noon, scriptmodel.AskIn{
			Ask: scriptmodel.Ask{Acquire: args, Waiter: sys.waiter(g), Place: place}, Flaw: sys.flaw,
		})
	}
	c.node.Stripes[0] = 0 // the counters stand still
	c.node.Called = 0
	outcome = outcomeOf(reply)
	if c.has(g) { // it may have been there before, and the counter says nothing
		outcome = quorum.Granted
	}
	if reply < 0 && place == 0 {
		ticket = scriptmodel.Number(more)
	}
	return outcome, ticket
}

// Canon: nodes are alike, so they stand in one order.
func (sys *lineSystem) Canon(s lineState) lineState {
	var order [lineNodes]uint64
	for i := range sys.nodes {
		order[i] = maphash.Comparable(seedOfColumns, s.columns[i])
		for j := i; j > 0 && order[j] < order[j-1]; j-- {
			order[j], order[j-1] = order[j-1], order[j]
			s.columns[j], s.columns[j-1] = s.columns[j-1], s.columns[j]
		}
	}
	return s
}

// tidyLine has releases arrive that find nothing to take away: they do nothing whenever they
// arrive. And it forgets hints that would bring about such a one.
func (sys *lineSystem) tidyLine(s *lineState) {
	for n := range sys.nodes {
		c := &s.columns[n]
		for g := range uint8(len(sys.shares)) {
			l, w := &c.links[g], sys.waiter(g)
			entered := c.node.Places[w] != 0 || c.node.Beside[w] != 0
			for lineFrees(l.sent[0]) && (!c.has(g) || l.sent[0] == leaveEntry) && (l.sent[0] < freeEntry || !entered) {
				l.take(0)
			}
			if s.gs[g].phase == lineDone && l.sent[0] == askNothing && !entered {
				l.hint = false
			}
		}
	}
}
