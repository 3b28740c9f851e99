package grant_test

import (
	"hash/maphash"

	"github.com/quorumkit/redlock/internal/scriptmodel"
)

var seedOfColumns = maphash.MakeSeed()

// Canon: nodes are alike, so they stand in one order, and so do pushes. What nothing
// asks for is left out.
func (sys *system) Canon(s state) state {
	sys.leaveOut(&s)
	var order [mostNodes]uint64
	for i := range sys.nodes {
		for p := range sys.processes {
			sortPushes(&s.columns[i].links[p])
		}
		order[i] = maphash.Comparable(seedOfColumns, s.columns[i])
		for j := i; j > 0 && order[j] < order[j-1]; j-- {
			order[j], order[j-1] = order[j-1], order[j]
			s.columns[j], s.columns[j-1] = s.columns[j-1], s.columns[j]
		}
	}
	return s
}

// leaveOut takes away what is noted only for passes, and for nodes that forget.
func (sys *system) leaveOut(s *state) {
	for p := range sys.processes {
		if sys.forgets == 0 {
			s.processes[p].stands = 0
		}
		if sys.row > 1 {
			continue
		}
		s.processes[p].held = 0
		for n := range sys.nodes {
			s.columns[n].links[p].has = scriptmodel.Nobody
		}
	}
}

func sortPushes(l *link) {
	for i := range l.pushes {
		for j := i; j > 0 && l.pushes[j].owner != scriptmodel.Nobody && (l.pushes[j].owner > l.pushes[j-1].owner ||
			l.pushes[j].owner == l.pushes[j-1].owner && l.pushes[j].token > l.pushes[j-1].token); j-- {
			l.pushes[j], l.pushes[j-1] = l.pushes[j-1], l.pushes[j]
		}
	}
}

// widest is the widest gap between two numbers that is told apart: whether a number lies
// between, and whether two do, decides something.
const widest = 2

// tidy brings numbers down: only their order counts, and whether others fit between.
func (sys *system) tidy(s *state) {
	var seen [256]bool
	sys.numbers(s, func(n *number) { seen[*n] = true })
	var down [256]number
	at, before := number(0), 0
	for n := 1; n < len(seen); n++ {
		if seen[n] {
			at += number(min(n-before, widest))
			before = n
		}
		down[n] = at
	}
	sys.numbers(s, func(n *number) { *n = down[*n] })
}

// numbers calls yield with all places, counters and tokens.
func (sys *system) numbers(s *state, yield func(*number)) {
	yield(&s.last)
	for p := range sys.processes {
		yield(&s.processes[p].place)
		yield(&s.processes[p].token)
	}
	for n := range sys.nodes {
		c := &s.columns[n]
		yield(&c.node.Base)
		yield(&c.node.Stripes[0])
		for p := range sys.processes {
			yield(&c.node.Places[p])
			l := &c.links[p]
			yield(&l.granted)
			yield(&l.place)
			yield(&l.token)
			for i := range l.sent {
				yield(&l.sent[i].place)
				yield(&l.sent[i].number)
			}
			yield(&l.late.place)
			yield(&l.late.number)
			for i := range l.replies {
				yield(&l.replies[i].token)
				yield(&l.replies[i].ticket)
			}
			for i := range l.pushes {
				yield(&l.pushes[i].token)
			}
		}
		for o := range c.node.Entries {
			yield(&c.node.Entries[o].Place)
		}
	}
}
