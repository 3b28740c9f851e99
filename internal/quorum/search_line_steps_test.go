package quorum_test

import (
	"github.com/quorumkit/redlock/internal/quorum"
	"github.com/quorumkit/redlock/internal/search"
)

type yieldLine = func(search.Step, lineState)

// Next: what is under way, what goroutines decide, and what befalls them.
func (sys *lineSystem) Next(s lineState, yield func(search.Step, lineState)) {
	if s.broken != 0 {
		return
	}
	sys.steps(&s, yield)
}

func (sys *lineSystem) steps(s *lineState, yield yieldLine) {
	out := func(st search.Step, next lineState) {
		if sys.lean {
			sys.tidyLine(&next)
		}
		yield(st, next)
	}
	for g := range uint8(len(sys.shares)) {
		for n := range uint8(sys.nodes) {
			sys.lineArrives(s, g, n, out)
		}
		sys.lineDecides(s, g, out)
	}
}

// lineArrives yields what becomes of the line between a goroutine and a node.
func (sys *lineSystem) lineArrives(s *lineState, g, n uint8, yield yieldLine) {
	c := &s.columns[n]
	l := &c.links[g]
	if l.sent[0] != askNothing {
		next := *s
		woken := sys.lineDeliver(&next, g, n)
		if woken != 0 && s.lost < sys.lost {
			without := next
			without.lost++
			yield(search.Step{Kind: lineLose, A: g, B: n}, without)
		}
		sys.call(&next, n, woken)
		yield(search.Step{Kind: lineDeliver, A: g, B: n}, next)
	}
	if l.reply != quorum.Pending {
		next := *s
		sys.lineHear(&next, g, n)
		yield(search.Step{Kind: lineHear, A: g, B: n}, next)
	}
	if l.hint {
		next := *s
		next.columns[n].links[g].hint = false
		sys.lineHinted(&next, g, n)
		yield(search.Step{Kind: lineHint, A: g, B: n}, next)
	}
	if s.gs[g].phase == lineDead && c.node.Lives(sys.waiter(g)) {
		next := *s
		next.columns[n].node.Silence(sys.waiter(g))
		yield(search.Step{Kind: lineSilence, A: g, B: n}, next)
	}
	if s.dropped < sys.drops && c.node.Holds(0, owner(g)) && s.gs[g].phase == lineHolds && sys.onAll(s, g) {
		next := *s
		next.dropped++
		next.columns[n].node.Drop(0)
		yield(search.Step{Kind: lineDrops, A: g, B: n}, next)
	}
}

// onAll tells whether all nodes have the hold, and are not about to give it back.
func (sys *lineSystem) onAll(s *lineState, g uint8) bool {
	for n := range sys.nodes {
		c := &s.columns[n]
		for _, m := range c.links[g].sent {
			if lineFrees(m) || !c.has(g) {
				return false
			}
		}
	}
	return true
}

// call brings hints to the processes that are woken, one bit each: to whom of each asks or
// waits, or else to its first.
func (sys *lineSystem) call(s *lineState, n, woken uint8) {
	told := uint8(0)
	for pass := range 2 {
		for g := range uint8(len(sys.shares)) {
			bit := uint8(1) << sys.waiter(g)
			if woken&bit&^told != 0 && s.gs[g].phase != lineDead && (pass == 1 || s.gs[g].undecided()) {
				s.columns[n].links[g].hint = true
				told |= bit
			}
		}
	}
}

// undecided tells whether the goroutine asks or waits.
func (g *lineGoroutine) undecided() bool {
	return g.phase == lineTicket || g.phase == lineBids || g.phase == lineRests
}

// lineDecides yields what a goroutine does by itself.
func (sys *lineSystem) lineDecides(s *lineState, g uint8, yield yieldLine) {
	do := func(kind, node uint8, change func(*lineState)) {
		next := *s
		change(&next)
		yield(search.Step{Kind: kind, A: g, B: node}, next)
	}
	me := &s.gs[g]
	switch me.phase {
	case lineIdle:
		if sys.mayBegin(s, g) {
			do(lineBegins, 0, func(s *lineState) { sys.lineBegin(s, g) })
		}
	case lineTicket, lineBids:
		if !me.all {
			do(lineGather, 0, func(s *lineState) { sys.lineAsk(s, g, true) })
		}
	case lineRests:
		switch {
		case !sys.roomFor(s, g):
		case me.split:
			do(lineAgain, 0, func(s *lineState) { sys.lineAttempt(s, g, 0) })
		case sys.looks:
			for n := range uint8(sys.nodes) {
				do(lineLook, n, func(s *lineState) { sys.look(s, g, n) })
			}
		}
	case lineHolds:
		if sys.counts && s.dropped != 0 && !sys.shares[g] {
			return // for an hour
		}
		do(lineEnds, 0, func(s *lineState) { sys.lineRelease(s, g) })
	}
	if me.undecided() && sys.leavers&(1<<g) != 0 {
		do(lineLeaves, 0, func(s *lineState) { sys.lineLeave(s, g) })
	}
	if (me.undecided() || me.phase == lineHolds) && sys.mortals&(1<<g) != 0 {
		do(lineDies, 0, func(s *lineState) { sys.lineDie(s, g) })
	}
}

// roomFor tells whether nothing of the goroutine is under way.
func (sys *lineSystem) roomFor(s *lineState, g uint8) bool {
	for n := range sys.nodes {
		if s.columns[n].links[g].sent[0] != askNothing {
			return false
		}
	}
	return true
}
