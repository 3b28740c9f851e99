package grant_test

import (
	"slices"

	"github.com/quorumkit/redlock/internal/quorum"
	"github.com/quorumkit/redlock/internal/scriptmodel"
	"github.com/quorumkit/redlock/internal/search"
)

// epoch is what a message is sent with: that of its node, or one that has ended since.
func (m message) epoch() scriptmodel.Epoch {
	if m.old {
		return epoch + 1
	}
	return epoch
}

// remembers yields what becomes of a node's memory: one at a time forgets, and votes
// again when all that it may have granted is over, as package membership has it.
func (sys *system) remembers(s *state, n uint8, yield yieldState) {
	c := &s.columns[n]
	if c.node.Epoch == 0 {
		if sys.owesNothing(s, n) || sys.makes(rejoinsAtOnce) {
			next := *s
			sys.rejoin(&next, n)
			yield(search.Step{Kind: stepRejoin, B: n}, next)
		}
		return
	}
	if s.forgot == sys.forgets || c.node.Keys[0].Owner == scriptmodel.Nobody && c.node.Places == [scriptmodel.Waiters]number{} {
		return // nobody would miss anything of it
	}
	deaf := c.node.Deaf
	for i := range sys.nodes {
		if s.columns[i].node.Epoch == 0 {
			return
		}
	}
	for p := range sys.processes { // its connections break
		if ph := s.processes[p].phase; ph == tickets || ph == inLine || ph == raising {
			deaf |= 1 << p
		}
	}
	next := *s
	next.forgot++
	next.columns[n].since = s.now
	next.columns[n].node = scriptmodel.Granting{Waiting: scriptmodel.Waiting{Deaf: deaf}}
	yield(search.Step{Kind: stepForget, B: n}, next)
}

// owesNothing tells whether nobody holds, or may come to hold, by what a node has
// forgotten: where time runs, because the longest lease has passed.
func (sys *system) owesNothing(s *state, n uint8) bool {
	if sys.time != 0 {
		return s.now >= s.columns[n].since+askLife
	}
	for p := range sys.processes {
		me, l := &s.processes[p], &s.columns[n].links[p]
		if me.phase == holding && me.stands&(1<<n) != 0 || l.outcome == quorum.Granted || l.token != 0 {
			return false
		}
		for _, r := range l.replies {
			if r.token != 0 {
				return false
			}
		}
	}
	return true
}

// rejoin makes a node vote again: it counts from what as many of the others have as share
// a node with every quorum that had this one. Each waiter has told it so. Messages under
// way are of the earlier epoch.
func (sys *system) rejoin(s *state, n uint8) {
	c := &s.columns[n]
	var counters []number
	for i := range sys.nodes {
		if uint8(i) != n {
			counters = append(counters, s.columns[i].node.Number(0))
		}
	}
	slices.Sort(counters)
	c.node.Epoch, c.since = epoch, 0
	if !sys.makes(rejoinsAtZero) {
		c.node.Base = counters[sys.nodes-quorum.Size(sys.nodes)]
	}
	for p := range sys.processes {
		l := &c.links[p]
		for i := range l.sent {
			l.sent[i].old = l.sent[i].kind != noMessage
		}
		l.late.old = l.late.kind != noMessage
		for i := range l.pushes {
			l.pushes[i].old = l.pushes[i].owner != scriptmodel.Nobody
		}
		me := &s.processes[p]
		if waits := me.phase == inLine || me.phase == raising; !waits || me.place == 0 || sys.makes(rejoinsBlank) {
			continue
		}
		with := me.owner
		if !sys.takesPushes(p) {
			with = scriptmodel.Nobody
		}
		c.node.LookIn(scriptmodel.Waiter(p), me.place, with, s.now)
	}
}
