package quorum_test

import (
	"hash/maphash"

	"github.com/quorumkit/redlock/internal/quorum"
	"github.com/quorumkit/redlock/internal/scriptmodel"
)

// Canon: nodes are alike, so they stand in one order. All that a process knows of
// a node is in the node's column.
func (sys *queueSystem) Canon(s queueState) queueState {
	var order [queueNodes]uint64
	for i := range sys.nodes {
		order[i] = maphash.Comparable(seedOfColumns, s.columns[i])
		for j := i; j > 0 && order[j] < order[j-1]; j-- {
			order[j], order[j-1] = order[j-1], order[j]
			s.columns[j], s.columns[j-1] = s.columns[j-1], s.columns[j]
		}
	}
	return s
}

// tidy takes away what decides nothing any more.
func (sys *queueSystem) tidy(s *queueState) {
	if sys.passes(0) {
		sys.tidyClaims(s, 0)
	}
	if sys.makes(wakesItself) || sys.forgets > 0 {
		return
	}
	for n := range sys.nodes {
		c := &s.columns[n]
		for p := range sys.processes {
			l := &c.links[p]
			for c.idle(p) {
				if m := l.take(0); l.of == m.claim() {
					l.mark = quorum.Absent
				}
			}
			if s.processes[p].phase == queueDone && !l.sent[0].sent() && !c.node.Entered(scriptmodel.Waiter(p)) {
				l.hint = false // it would bring about a release, and that does nothing
			}
		}
	}
}

// idle tells whether the first message of a line is a release that finds nothing
// to take away. What could put something there is behind it, so it does nothing
// whenever it arrives, and may as well at once.
func (c *queueColumn) idle(p uint8) bool {
	l := &c.links[p]
	m := l.sent[0]
	switch {
	case !m.frees() || l.reply.pass != 0 || c.node.Holds(0, valueOf(p, m.claim())):
		return false
	case l.of == m.claim() && l.mark.Doubtful() || l.late.claims()&(1<<m.claim()) != 0:
		return false // it leaves a tombstone, or a pass may come before it
	default:
		return m.kind() == sendKeep || !c.node.Entered(scriptmodel.Waiter(p))
	}
}

// tidyClaims takes away what is left of claims that are over: passes that came too
// late and marks and tombstones of which nothing is under way. Then it names the
// claims by age, the current one first: owner values are names only.
func (sys *queueSystem) tidyClaims(s *queueState, p uint8) {
	for n := range sys.nodes {
		c := &s.columns[n]
		l := &c.links[p]
		if l.late != 0 && !sys.makes(passesAnyKey) && !c.matters(p, l.late) {
			l.late = 0
		}
		if l.mark == quorum.Absent {
			l.of = 0
		}
	}
	used := sys.usedClaims(s, p) | 1<<s.processes[p].claim
	names, next := [queueClaims]uint8{}, uint8(0)
	for claim := range uint8(queueClaims) {
		if used&(1<<claim) == 0 {
			for n := range sys.nodes {
				s.columns[n].node.DropDead(valueOf(p, claim))
			}
			continue
		}
		names[claim] = next
		next++
	}
	sys.rename(s, p, names)
}

// matters tells whether a message that was given up can still do anything.
func (c *queueColumn) matters(p uint8, late queueMessage) bool {
	return c.node.Dead[valueOf(p, late.claim())-1] == 0 && (!late.hands() || c.mayCome(p, late.old()))
}

// mayCome tells whether a claim is on the node, or something under way may put it
// there.
func (c *queueColumn) mayCome(p, claim uint8) bool {
	if c.node.Holds(0, valueOf(p, claim)) {
		return true
	}
	for _, m := range c.links[p].sent {
		if m.sent() && !m.frees() && m.claim() == claim {
			return true
		}
	}
	return false
}

// rename gives a process's claims other names.
func (sys *queueSystem) rename(s *queueState, p uint8, names [queueClaims]uint8) {
	message := func(m queueMessage) queueMessage {
		switch {
		case m == 0:
			return 0
		case m.hands():
			return messageOf(m.kind(), names[m.claim()], names[m.old()])
		default:
			return messageOf(m.kind(), names[m.claim()], 0)
		}
	}
	me := &s.processes[p]
	me.claim = names[me.claim]
	for n := range sys.nodes {
		c := &s.columns[n]
		l := &c.links[p]
		for i, m := range l.sent {
			l.sent[i] = message(m)
		}
		l.late, l.reply.pass = message(l.late), message(l.reply.pass)
		if l.mark != quorum.Absent {
			l.of = names[l.of]
		}
		if o := c.node.Keys[0].Owner; o != scriptmodel.Nobody {
			if q, claim := claimOf(o); q == p {
				c.node.Keys[0].Owner = valueOf(p, names[claim])
			}
		}
		dead := c.node.Dead
		for claim := range uint8(queueClaims) {
			c.node.Dead[valueOf(p, claim)-1] = 0
		}
		for claim := range uint8(queueClaims) {
			if until := dead[valueOf(p, claim)-1]; until != 0 {
				c.node.Dead[valueOf(p, names[claim])-1] = until
			}
		}
	}
}
