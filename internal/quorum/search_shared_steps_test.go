package quorum_test

import (
	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/quorum"
	"github.com/quorumkit/redlock/internal/scriptmodel"
	"github.com/quorumkit/redlock/internal/search"
)

type yieldShared = func(search.Step, sharedState)

// Next: what clients decide, what arrives, and what befalls the nodes.
func (sys *sharedSystem) Next(s sharedState, yield func(search.Step, sharedState)) {
	var begun [2]bool
	for i, shared := range sys.holds {
		a := uint8(i)
		if s.holds[a].phase == idle {
			// Attempts of a kind are alike until they begin: the first one does.
			if kind := boolean(shared); !begun[kind] {
				begun[kind] = true
				n := sys.begin(s, a)
				for node := range uint8(sys.nodes) {
					sys.arriveAsk(&n, a, node, yield)
				}
			}
			continue
		}
		sys.decide(&s, a, yield)
		for n := range uint8(sys.nodes) {
			sys.arrive(&s, a, n, yield)
		}
	}
	for n := range uint8(sys.nodes) {
		sys.befalls(&s, n, yield)
	}
	if sys.time {
		sys.tick(&s, yield)
	}
}

// begin sends an ask to every node that votes.
func (sys *sharedSystem) begin(s sharedState, a uint8) sharedState {
	c := &s.holds[a]
	c.phase = acquiring
	if sys.time {
		c.left = uint8(sys.life(a)) + 1
	}
	for j, shared := range sys.holds {
		switch issued := s.holds[j].token; {
		case shared && sys.holds[a]:
			c.least = max(c.least, issued)
		default:
			c.above = max(c.above, issued)
		}
	}
	for i := range sys.nodes {
		if s.columns[i].node.Epoch == epoch {
			s.columns[i].links[a].asks = sys.copies
		}
	}
	return s
}

// decide yields what the attempt's client may do by itself.
func (sys *sharedSystem) decide(s *sharedState, a uint8, yield yieldShared) {
	c := &s.holds[a]
	switch {
	case c.phase == acquiring || c.phase == raising:
		sys.settle(s, a, yield)
		if c.phase == raising && sys.holds[a] && c.rounds < sys.raises && (!sys.ahead || sys.leftOut(s, a)) {
			least, most := sys.further(s, a)
			for t := least; t <= most; t++ {
				n := *s
				sys.raiseAgain(&n, a, t)
				yield(search.Step{Kind: shareRaiseRound, A: a, C: uint8(t)}, n)
			}
		}
	case c.phase == held && sys.time:
		sys.keep(s, a, yield)
	}
	if sys.time && c.phase != over {
		n := sys.giveUp(*s, a)
		if !sys.lean {
			yield(search.Step{Kind: shareGiveUp, A: a}, n)
			return
		}
		for node := range uint8(sys.nodes) {
			sys.arriveEnd(&n, a, node, yield)
		}
	}
}

// giveUp sends releases to all nodes: a rollback, or the end of a hold.
func (sys *sharedSystem) giveUp(s sharedState, a uint8) sharedState {
	s.holds[a].phase, s.holds[a].left, s.holds[a].next = over, 0, 0
	for i := range sys.nodes {
		l := &s.columns[i].links[a]
		sys.deafen(l)
		l.releases = sys.copies
	}
	sys.tidyShared(&s)
	return s
}

// further is what a repeated raise may go to.
func (sys *sharedSystem) further(s *sharedState, a uint8) (least, most scriptmodel.Number) {
	least = s.holds[a].targets[s.holds[a].rounds-1] + 1
	top, shown := scriptmodel.Number(0), least-1
	for i := range sys.nodes {
		c := &s.columns[i]
		top, shown = max(top, c.node.Number(0)), max(shown, c.links[a].heard[1], c.links[a].heard[0])
	}
	switch {
	case sys.mistake == raisesToGrants:
		return shown, shown
	case sys.ahead:
		return max(top+1, least), max(top+1, least)
	default:
		return least, sys.most
	}
}

// deafen forgets what came back: nothing of it matters any more.
func (sys *sharedSystem) deafen(l *holdLink) {
	l.heard, l.carried, l.raised, l.confirmed = [2]scriptmodel.Number{}, 0, false, false
}

// settle yields what the client may make of the replies, whichever of them it has: a
// token, or a first raise, as the library's rules say.
func (sys *sharedSystem) settle(s *sharedState, a uint8, yield yieldShared) {
	votes := make([]quorum.Vote, sys.nodes)
	var tried [2][256]bool // results that were yielded
	c := &s.holds[a]
	sys.votes(s, a, votes, 0, func() {
		if verdict, _ := quorum.Settle(votes); sys.alike && verdict == quorum.Uneven && !c.uneven {
			n := *s
			n.holds[a].uneven = true
			yield(search.Step{Kind: shareGiveUp, A: a}, n)
		}
		token, raise, ok := sys.ruling(votes)
		if !ok || raise && c.phase == raising || tried[boolean(raise)][token] {
			return
		}
		tried[boolean(raise)][token] = true
		if sys.time && !c.validity().Holds(0) {
			return
		}
		n := *s
		if raise {
			sys.raiseFirst(&n, a, token)
			yield(search.Step{Kind: shareRaiseRound, A: a, C: uint8(token)}, n)
			return
		}
		sys.issue(&n, a, token)
		yield(search.Step{Kind: shareSettle, A: a, C: uint8(token)}, n)
	})
}

// votes calls f with every selection of the replies that are there.
func (sys *sharedSystem) votes(s *sharedState, a uint8, votes []quorum.Vote, from int, f func()) {
	if from == sys.nodes {
		f()
		return
	}
	l := &s.columns[from].links[a]
	said := [3]scriptmodel.Number{l.carried, l.heard[0], l.heard[1]}
	if l.carried == 0 {
		votes[from] = quorum.Vote{Outcome: quorum.Pending}
		sys.votes(s, a, votes, from+1, f)
	}
	for _, number := range said {
		if number != 0 {
			votes[from] = quorum.Vote{Outcome: quorum.Granted, Token: quorum.Token(number)}
			sys.votes(s, a, votes, from+1, f)
		}
	}
}

// ruling applies the library's rules, or a mistaken client's.
func (sys *sharedSystem) ruling(votes []quorum.Vote) (token scriptmodel.Number, raise, ok bool) {
	won := quorum.Count(votes).Verdict() == quorum.Won
	if sys.lean {
		return 1, false, won
	}
	if sys.mistake == takesLargest || sys.mistake == takesSmallest {
		for _, v := range votes {
			number := scriptmodel.Number(v.Token)
			if number != 0 && (token == 0 || (number > token) == (sys.mistake == takesLargest)) {
				token = number
			}
		}
		return token, false, won
	}
	verdict, t := quorum.Settle(votes)
	return scriptmodel.Number(t), verdict != quorum.Settled, won && verdict != quorum.Unsettled
}

// raiseFirst sends the first raise round, to the largest grant of those that were chosen.
func (sys *sharedSystem) raiseFirst(s *sharedState, a uint8, t scriptmodel.Number) {
	c := &s.holds[a]
	c.phase, c.rounds, c.targets[0] = raising, 1, t
	for i := range sys.nodes {
		l := &s.columns[i].links[a]
		for _, grant := range l.heard {
			v := quorum.Vote{Outcome: quorum.Granted, Token: quorum.Token(grant)}
			switch {
			case grant == 0 || grant > t:
			case quorum.NeedsRaise(v, quorum.Token(t)):
				l.raised, l.raises[0] = true, sys.copies
			default:
				l.raised, l.carried = true, t
			}
		}
		l.heard = [2]scriptmodel.Number{}
	}
	sys.tidyShared(s)
}

// raiseAgain sends a further one, to all nodes of the last.
func (sys *sharedSystem) raiseAgain(s *sharedState, a uint8, t scriptmodel.Number) {
	c := &s.holds[a]
	c.targets[c.rounds] = t
	for i := range sys.nodes {
		l := &s.columns[i].links[a]
		l.heard, l.carried = [2]scriptmodel.Number{}, 0
		if l.raised {
			l.raises[c.rounds] = sys.copies
		}
	}
	c.rounds++
	sys.tidyShared(s)
}

// issue ends the acquisition with a token.
func (sys *sharedSystem) issue(s *sharedState, a uint8, token scriptmodel.Number) {
	c := &s.holds[a]
	c.phase, c.token = held, token
	for i := range sys.nodes {
		l := &s.columns[i].links[a]
		sys.deafen(l)
		if !sys.time && sys.reseeds && sys.holds[a] {
			l.reseeds = sys.copies
		}
	}
	if token > c.above {
		c.above = 0
	}
	if token >= c.least {
		c.least = 0
	}
	sys.tidyShared(s)
}

// keep yields what the holder may do, with time: extend, and take in what comes of it.
func (sys *sharedSystem) keep(s *sharedState, a uint8, yield yieldShared) {
	c := s.holds[a]
	if c.renewed < sys.extends && (c.valid() || sys.mistake == lapseExtends) {
		n := *s
		n.holds[a].renewed++
		n.holds[a].next = uint8(sys.life(a)) + 1
		for i := range sys.nodes {
			if s.columns[i].node.Epoch == epoch {
				n.columns[i].links[a].extends = sys.copies
			}
			n.columns[i].links[a].confirmed = false
		}
		yield(search.Step{Kind: shareRenew, A: a}, n)
	}
	sys.confirmShared(s, a, yield)
}

// confirmShared yields the end of an extension that a quorum confirmed, with re-seeds to
// the nodes that did not.
func (sys *sharedSystem) confirmShared(s *sharedState, a uint8, yield yieldShared) {
	c := &s.holds[a]
	votes := make([]quorum.Vote, sys.nodes)
	for i := range votes {
		votes[i] = quorum.Vote{Outcome: quorum.Pending}
		if s.columns[i].links[a].confirmed {
			votes[i] = quorum.Vote{Outcome: quorum.Granted}
		}
	}
	next := validUntil(clock.Instant(c.next))
	if c.next == 0 || quorum.Count(votes).Extension() != quorum.Won {
		return
	}
	v, ok := c.validity().Confirm(next, 0)
	if sys.mistake == lapseExtends {
		v, ok = next, true
	}
	if !ok {
		return
	}
	n := *s
	n.holds[a].left, n.holds[a].next = uint8(v.Until), 0
	for i := range sys.nodes {
		l := &n.columns[i].links[a]
		if !l.confirmed && n.columns[i].node.Epoch == epoch {
			l.reseeds = sys.copies
		}
		l.confirmed = false
	}
	sys.tidyShared(&n)
	yield(search.Step{Kind: shareConfirm, A: a}, n)
}

// tidyShared forgets what can no longer matter, so that fewer states differ: raises that
// will be refused whenever they arrive, and then their targets.
func (sys *sharedSystem) tidyShared(s *sharedState) {
	if sys.lean {
		sys.tidyEnds(s)
		return
	}
	if sys.flaw != 0 {
		return
	}
	for a := range uint8(len(sys.holds)) {
		c := &s.holds[a]
		for r := range c.targets {
			now := c.phase == raising && r == int(c.rounds)-1
			left := now
			for i := range sys.nodes {
				col := &s.columns[i]
				if l := &col.links[a]; l.raises[r] != 0 {
					if col.node.Number(0) > c.targets[r] && (!now || !sys.holds[a]) {
						l.raises[r] = 0
					}
					left = left || l.raises[r] != 0
				}
			}
			if !left {
				c.targets[r] = 0
			}
		}
	}
}

// tidyEnds forgets numbers, what is under way of attempts that are over and does nothing for
// others, and releases and tombstones where nothing is left to keep away.
func (sys *sharedSystem) tidyEnds(s *sharedState) {
	for i := range sys.nodes {
		c := &s.columns[i]
		c.node.Stripes[0], c.node.Base, c.set.Number = 0, 0, min(c.set.Number, 1)
		for a := range sys.holds {
			l := &c.links[a]
			if s.holds[a].phase != over {
				continue
			}
			l.extends = 0
			there := c.node.Keys[0].Owner == owner(uint8(a)) || c.set.Ends[a] != 0
			if !there && l.asks == 0 && l.reseeds == 0 {
				l.releases, l.gone, c.node.Dead[a] = 0, 0, 0
			}
		}
	}
}
