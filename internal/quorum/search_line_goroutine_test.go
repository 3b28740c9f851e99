package quorum_test

import (
	"github.com/quorumkit/redlock/internal/quorum"
	"github.com/quorumkit/redlock/internal/scriptmodel"
)

// group is that of a process whose goroutines share, as internal/queue keeps it.
func (sys *lineSystem) group(s *lineState, g uint8) (group quorum.Group) {
	for q := range uint8(len(sys.shares)) {
		if other := &s.gs[q]; sys.waiter(q) == sys.waiter(g) && sys.shares[q] && (other.undecided() || other.phase == lineFollows) {
			group.Undecided++
			group.Led = group.Led || other.phase != lineTicket
			group.Place = max(group.Place, int64(other.place))
		}
	}
	return group
}

// mayBegin tells whether a goroutine's turn has come inside its process. A later one comes
// once the first is decided.
func (sys *lineSystem) mayBegin(s *lineState, g uint8) bool {
	if !sys.twin || g > 1 {
		return true
	}
	group := sys.group(s, g)
	if sys.together && g == 1 {
		return s.gs[0].phase == lineTicket
	}
	return (g == 0 || s.gs[0].phase != lineIdle || s.gs[0].turns > 0) && group.Undecided == 0 && group.Admits(0)
}

// exclude tells whether two cannot hold beside each other.
func (sys *lineSystem) exclude(q, g uint8) bool { return !sys.shares[q] || !sys.shares[g] }

// lineBegin asks all nodes for a ticket.
func (sys *lineSystem) lineBegin(s *lineState, g uint8) {
	me := &s.gs[g]
	if me.phase = lineTicket; sys.together && g == 1 {
		me.phase = lineFollows // its leader asks for it
		return
	}
	for q := range uint8(len(sys.shares)) {
		on, w := 0, sys.waiter(q)
		for n := range sys.nodes {
			c := &s.columns[n].node
			stands := c.Places[w]
			if sys.shares[q] {
				stands = c.Beside[w]
			}
			on += int(boolean(stands != 0 && stands == s.gs[q].place)) // one of an earlier hold is about to go
		}
		waits := s.gs[q].phase == lineBids || s.gs[q].phase == lineRests
		if q != g && sys.exclude(q, g) && on >= quorum.Size(sys.nodes) && waits {
			me.ahead |= 1 << q
		}
	}
	if first := &s.gs[0]; sys.twin && g == 1 && sys.makes(keepsPlace) && first.place != 0 {
		me.place = first.place
		sys.lineAttempt(s, g, 0)
		return
	}
	sys.lineAsk(s, g, true)
}

// lineAttempt asks with the place: the nodes that hinted, or all.
func (sys *lineSystem) lineAttempt(s *lineState, g uint8, hinted uint64) {
	sys.lineClear(s, g)
	me := &s.gs[g]
	me.phase, me.split = lineBids, false
	sys.setLineBid(s, g, quorum.Asked{Hinted: hinted})
	sys.lineAsk(s, g, hinted == 0)
}

// lineAsk sends what is due.
func (sys *lineSystem) lineAsk(s *lineState, g uint8, all bool) {
	me := &s.gs[g]
	me.all = me.all || all
	granted := uint64(0)
	for n := range sys.nodes {
		if s.columns[n].links[g].vote == quorum.Granted {
			granted |= 1 << n
		}
	}
	bid := sys.lineBid(s, g)
	due := bid.Due(me.all, sys.nodes, granted)
	bid.Ask(due)
	sys.setLineBid(s, g, bid)
	kind := askPlace
	if me.phase == lineTicket {
		kind = askTicket
	}
	for n := range sys.nodes {
		if l := &s.columns[n].links[g]; due&(1<<n) != 0 {
			l.vote = quorum.Pending
			l.sendLine(kind, me.place)
		}
	}
}

// lineBid and setLineBid keep the attempt's bid by node, so that nodes are alike.
func (sys *lineSystem) lineBid(s *lineState, g uint8) (b quorum.Asked) {
	for n := range sys.nodes {
		bits := uint64(s.columns[n].links[g].bid)
		b.Sent |= bits & 1 << n
		b.Out |= bits >> 1 & 1 << n
		b.Hinted |= bits >> 2 & 1 << n
	}
	return b
}

func (sys *lineSystem) setLineBid(s *lineState, g uint8, b quorum.Asked) {
	for n := range sys.nodes {
		s.columns[n].links[g].bid = uint8(b.Sent>>n&1 | b.Out>>n&1<<1 | b.Hinted>>n&1<<2)
	}
}

// lineHear takes in a reply, and draws the conclusions.
func (sys *lineSystem) lineHear(s *lineState, g, n uint8) {
	l := &s.columns[n].links[g]
	l.vote, l.ticket = l.reply, l.said
	l.reply, l.said = quorum.Pending, 0
	bid := sys.lineBid(s, g)
	bid.Answered(int(n))
	sys.setLineBid(s, g, bid)
	if bid.Again(int(n)) {
		sys.lineAsk(s, g, false)
	}
	sys.lineConclude(s, g)
}

// lineConclude ends an attempt whose verdict is known.
func (sys *lineSystem) lineConclude(s *lineState, g uint8) {
	me := &s.gs[g]
	votes, heard := make([]quorum.Vote, sys.nodes), make([]quorum.Hearing, sys.nodes)
	for n := range votes {
		l := &s.columns[n].links[g]
		votes[n] = quorum.Vote{Outcome: l.vote}
		heard[n] = quorum.Hearing{Ticket: int64(l.ticket)}
	}
	tally := quorum.Count(votes)
	switch tally.Verdict() {
	case quorum.Won:
		sys.lineWon(s, g)
	case quorum.Contended, quorum.NoQuorum:
		if me.phase == lineTicket {
			place, ok := quorum.PositionOf(votes, heard)
			sys.lineOver(s, g, sys.rollback(s, g))
			if !ok {
				me.phase = lineIdle
				return
			}
			me.place = scriptmodel.Number(place)
			sys.lineAttempt(s, g, 0)
			return
		}
		sys.lineOver(s, g, sys.rollback(s, g))
		me.phase, me.split = lineRests, tally.Granted > 0
	case quorum.Undecided, quorum.Lost:
	}
}

// rollback is what a goroutine that goes on waiting sends to nodes that may have granted.
func (sys *lineSystem) rollback(s *lineState, g uint8) uint8 {
	if !sys.shares[g] {
		return freeKeeps
	}
	return sys.entryOf(s, g)
}

// entryOf is what the release of a shared hold does with its process's entry.
func (sys *lineSystem) entryOf(s *lineState, g uint8) uint8 {
	group := sys.group(s, g)
	return [...]uint8{
		quorum.EntryNot: freeNothing, quorum.EntryGoes: freeEntry, quorum.EntryStays: freeKeeps,
	}[group.EntryAt(int64(s.gs[g].place))]
}

// lineOver ends the attempt: what was granted, or may be, is given back, and asks that are
// under way are nobody's. freeEntry goes to every node: it takes entries away.
func (sys *lineSystem) lineOver(s *lineState, g, release uint8) {
	for n := range sys.nodes {
		l := &s.columns[n].links[g]
		there := l.vote == quorum.Granted || l.reply == quorum.Granted
		l.reply, l.said = quorum.Pending, 0
		there = l.staleLine() || there
		if release == freeEntry || there {
			l.sendLine(release, s.gs[g].place)
		}
	}
	sys.lineClear(s, g)
}

// lineClear forgets what the goroutine knew in its attempt.
func (sys *lineSystem) lineClear(s *lineState, g uint8) {
	for n := range sys.nodes {
		l := &s.columns[n].links[g]
		l.vote, l.ticket, l.bid = quorum.Pending, 0, 0
	}
	s.gs[g].all = false
}

// lineWon makes the goroutine a holder.
func (sys *lineSystem) lineWon(s *lineState, g uint8) {
	me := &s.gs[g]
	for q := range uint8(len(sys.shares)) {
		if q != g && s.gs[q].phase == lineHolds && sys.exclude(q, g) {
			s.broken = lineExclusion
		}
		if me.ahead&(1<<q) != 0 {
			s.broken = lineOvertaken
		}
	}
	unasked := sys.lineBid(s, g)
	others := unasked.Unasked(sys.nodes)
	me.phase, me.ahead = lineHolds, 0
	sys.changed(s, g)
	for n := range sys.nodes { // asks that are under way go on; their replies decide nothing
		l := &s.columns[n].links[g]
		l.reply, l.said = quorum.Pending, 0
		for i, m := range l.sent {
			if lineAsks(m) {
				l.sent[i] += askStale - askPlace
			}
		}
		if others&(1<<n) != 0 {
			l.sendLine(askStale, me.place)
		}
	}
	sys.lineClear(s, g)
	sys.goesAlong(s, g)
}

// goesAlong has one that follows go by the place of its leader, which has been granted, or
// lead where it has given up.
func (sys *lineSystem) goesAlong(s *lineState, leader uint8) {
	if next := &s.gs[1]; sys.together && leader == 0 && next.phase == lineFollows {
		if next.place = s.gs[0].place; next.place == 0 {
			next.phase = lineTicket
			sys.lineAsk(s, 1, true)
			return
		}
		sys.lineAttempt(s, 1, 0)
	}
}

// changed notes that one holds, or waits and holds no longer.
func (sys *lineSystem) changed(s *lineState, g uint8) {
	for q := range s.gs {
		s.gs[q].ahead &^= 1 << g
		s.gs[q].calls = 0
	}
}

// lineRelease ends a hold.
func (sys *lineSystem) lineRelease(s *lineState, g uint8) {
	release := freeEntry
	me := &s.gs[g]
	me.phase = lineDone
	if sys.shares[g] {
		release = sys.entryOf(s, g)
	}
	for n := range sys.nodes {
		l := &s.columns[n].links[g]
		l.staleLine()
		l.sendLine(release, me.place)
	}
	sys.changed(s, g)
	sys.comeBack(s, g)
}

// comeBack makes a goroutine that is done come another time.
func (sys *lineSystem) comeBack(s *lineState, g uint8) {
	if me := &s.gs[g]; me.turns < sys.more {
		*me = lineGoroutine{turns: me.turns + 1}
	}
}

// lineLeave ends a wait.
func (sys *lineSystem) lineLeave(s *lineState, g uint8) {
	me := &s.gs[g]
	release := freeEntry
	if sys.together && g == 0 && s.gs[1].phase == lineFollows {
		release = sys.entryOf(s, g) // another goes on by its place
	}
	me.phase = lineDone
	sys.lineOver(s, g, release)
	me.split = false
	sys.goesAlong(s, g)
	sys.changed(s, g)
	sys.comeBack(s, g)
}

// lineHinted takes in a node's call.
func (sys *lineSystem) lineHinted(s *lineState, g, n uint8) {
	me, l := &s.gs[g], &s.columns[n].links[g]
	switch me.phase {
	case lineRests:
		sys.counted(s, g)
		sys.lineAttempt(s, g, 1<<n)
	case lineTicket, lineBids:
		out := l.reply != quorum.Pending
		for _, m := range l.sent {
			out = out || lineAsks(m)
		}
		if out && sys.makes(deafAsks) {
			return
		}
		sys.counted(s, g)
		bid := sys.lineBid(s, g)
		bid.Hinted |= 1 << n
		sys.setLineBid(s, g, bid)
		sys.lineAsk(s, g, false)
	case lineIdle, lineDone:
		l.sendLine(leaveEntry, scriptmodel.Last)
	case lineHolds:
		if sys.shares[g] { // its process waits no longer
			l.sendLine(leaveEntry, scriptmodel.Last)
		}
	}
}

// counted counts what a hint brings about.
func (sys *lineSystem) counted(s *lineState, g uint8) {
	if me := &s.gs[g]; sys.counts {
		if me.calls++; me.calls > mostCalls {
			s.broken = lineLoop
		}
	}
}

// look makes a goroutine look at one node: if that may be its turn, it asks all.
func (sys *lineSystem) look(s *lineState, g, n uint8) {
	node := &s.columns[n].node
	me, w := &s.gs[g], sys.waiter(g)
	ask := false
	if sys.shares[g] {
		_, ask = node.LookBeside(w, me.place, scriptmodel.Nobody, 0, sys.flaw)
	} else {
		node.LookIn(w, me.place, scriptmodel.Nobody, 0)
	}
	node.Called = 0
	if ask || node.Keys[0].Owner == scriptmodel.Nobody {
		sys.lineAttempt(s, g, 0)
	}
}

// lineDie ends a goroutine's process: what it sent arrives, and nobody hears what is said
// to it.
func (sys *lineSystem) lineDie(s *lineState, g uint8) {
	sys.changed(s, g)
	sys.lineClear(s, g)
	s.gs[g] = lineGoroutine{phase: lineDead, place: s.gs[g].place, turns: s.gs[g].turns}
	for n := range sys.nodes {
		c := &s.columns[n]
		l := &c.links[g]
		c.node.Deaf |= 1 << sys.waiter(g)
		l.staleLine()
		l.reply, l.said, l.hint = quorum.Pending, 0, false
		if c.has(g) || l.sent[0] != askNothing {
			l.sendLine(leaseEnds, 0)
		}
	}
}
