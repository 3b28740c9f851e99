package quorum_test

import (
	"slices"

	"github.com/quorumkit/redlock/internal/quorum"
	"github.com/quorumkit/redlock/internal/scriptmodel"
	"github.com/quorumkit/redlock/internal/search"
)

// arrive yields what becomes of each message of the attempt that is under way to the node.
func (sys *sharedSystem) arrive(s *sharedState, a, n uint8, yield yieldShared) {
	l := &s.columns[n].links[a]
	if l.asks > 0 {
		sys.arriveAsk(s, a, n, yield)
	}
	for r, raises := range l.raises {
		if raises > 0 {
			sys.arriveRaised(s, a, n, uint8(r), yield)
		}
	}
	if l.extends > 0 {
		sys.arriveRenewal(s, a, n, yield)
	}
	if l.reseeds > 0 {
		sys.arrivePutBack(s, a, n, yield)
	}
	if l.releases > 0 {
		sys.arriveEnd(s, a, n, yield)
	}
}

// yieldFrom yields next, unless the message did no more than arrive.
func (sys *sharedSystem) yieldFrom(s, next *sharedState, n uint8, learned bool, st search.Step, yield yieldShared) {
	from, to := &s.columns[n], &next.columns[n]
	if !learned && to.node == from.node && to.set == from.set || !sys.time && to.node.Number(0) > sys.most {
		return
	}
	sys.tidyShared(next)
	yield(st, *next)
}

// vanish ends the name's key.
func (c *shareColumn) vanish() {
	c.node.Keys[0], c.set = scriptmodel.Key{}, scriptmodel.Sharers{}
}

// arriveAsk yields a grant with every hint that makes a difference, and, without time, also
// what comes of it where the key that is there has gone.
func (sys *sharedSystem) arriveAsk(s *sharedState, a, n uint8, yield yieldShared) {
	c := &s.columns[n]
	for gone := range uint8(2) {
		there := c.node.Keys[0].Owner != scriptmodel.Nobody
		if gone == 1 && (sys.time || sys.alike || sys.ahead || !there || c.node.Keys[0].Owner == scriptmodel.Alien) {
			continue
		}
		least := scriptmodel.Number(0)
		if sys.hinted && (!sys.holds[a] || sys.flaw == scriptmodel.HintedShare) && (gone == 1 || !there) {
			least = sys.most
		}
		for hint := min(c.node.Number(0)+1, least); hint <= least; hint++ {
			next := *s
			if gone == 1 {
				next.columns[n].vanish()
			}
			learned := sys.ask(&next, a, n, hint)
			sys.yieldFrom(s, &next, n, learned, search.Step{Kind: shareAsk, A: a, B: n, C: uint8(hint), D: gone}, yield)
		}
	}
}

// ask makes the node answer an ask. It tells whether the reply can mean anything to the client.
func (sys *sharedSystem) ask(s *sharedState, a, n uint8, hint scriptmodel.Number) (learned bool) {
	c := &s.columns[n]
	l := &c.links[a]
	l.asks--
	args := scriptmodel.Acquire{Owner: owner(a), Life: sys.life(a), Hint: hint, Epoch: epoch}
	var reply int
	if sys.holds[a] {
		reply = c.node.Share(noon, &c.set, args, sys.flaw)
	} else {
		reply = c.node.Acquire(noon, args, 0)
	}
	if reply <= 0 {
		return false
	}
	sys.promise(l, a)
	if sys.lean {
		reply = 1
	}
	return s.holds[a].phase == acquiring && l.hear(scriptmodel.Number(reply))
}

// promise notes the end of a shared lease that begins now.
func (sys *sharedSystem) promise(l *holdLink, a uint8) {
	if sys.time && sys.holds[a] {
		l.due = sys.stays(a)
	}
}

// hear notes what a reply says; false: it is known.
func (l *holdLink) hear(number scriptmodel.Number) bool {
	switch {
	case l.heard[0] == number || l.heard[1] == number:
		return false
	case l.heard[0] == 0:
		l.heard[0] = number
	case l.heard[1] == 0:
		l.heard[1] = number
		slices.Sort(l.heard[:])
	default:
		return false
	}
	return true
}

// arriveRaised yields a raise.
func (sys *sharedSystem) arriveRaised(s *sharedState, a, n, round uint8, yield yieldShared) {
	next := *s
	c, h := &next.columns[n], &next.holds[a]
	l := &c.links[a]
	l.raises[round]--
	r := scriptmodel.Raise{Owner: owner(a), Token: h.targets[round], Epoch: epoch}
	said := scriptmodel.Number(0)
	if sys.holds[a] {
		said = scriptmodel.Number(max(c.node.RaiseShared(noon, &c.set, r, sys.flaw), 0))
	} else if c.node.Raise(r, 0) == scriptmodel.Done {
		said = r.Token
	}
	current := h.phase == raising && round == h.rounds-1
	learned := current && said != 0 && l.hear(said)
	sys.yieldFrom(s, &next, n, learned, search.Step{Kind: shareRaise, A: a, B: n, C: round}, yield)
}

// arriveRenewal yields an extension that the node confirms.
func (sys *sharedSystem) arriveRenewal(s *sharedState, a, n uint8, yield yieldShared) {
	next := *s
	c := &next.columns[n]
	l := &c.links[a]
	l.extends--
	e := scriptmodel.Extend{Owner: owner(a), Life: sys.life(a), Epoch: epoch}
	var reply int
	if sys.holds[a] {
		reply = c.node.ExtendShared(noon, &c.set, e, sys.flaw)
	} else {
		reply = c.node.Extend(noon, e)
	}
	learned := false
	if reply == scriptmodel.Done {
		sys.promise(l, a)
		if h := &next.holds[a]; h.phase == held && h.next != 0 && !l.confirmed {
			l.confirmed, learned = true, true
		}
	}
	sys.yieldFrom(s, &next, n, learned, search.Step{Kind: shareExtend, A: a, B: n}, yield)
}

// arrivePutBack yields a re-seed, and, without time, also where the key that is there has gone.
func (sys *sharedSystem) arrivePutBack(s *sharedState, a, n uint8, yield yieldShared) {
	for gone := range uint8(2) {
		if gone == 1 && (sys.time || sys.alike || sys.ahead || s.columns[n].node.Keys[0].Owner == scriptmodel.Nobody) {
			continue
		}
		next := *s
		c := &next.columns[n]
		l := &c.links[a]
		l.reseeds--
		if gone == 1 {
			c.vanish()
		}
		r := scriptmodel.Reseed{Owner: owner(a), Life: sys.life(a), Token: s.holds[a].token, Epoch: epoch}
		if sys.holds[a] {
			c.node.ReseedShared(noon, &c.set, r, sys.flaw)
		} else {
			c.node.Reseed(noon, r, 0)
		}
		if c.node != s.columns[n].node || c.set != s.columns[n].set {
			sys.promise(l, a)
		}
		sys.yieldFrom(s, &next, n, false, search.Step{Kind: shareReseed, A: a, B: n, D: gone}, yield)
	}
}

// arriveEnd yields a release. It leaves a tombstone, also where its sender has no doubt:
// more is kept away then, of which nothing is under way.
func (sys *sharedSystem) arriveEnd(s *sharedState, a, n uint8, yield yieldShared) {
	next := *s
	c := &next.columns[n]
	l := &c.links[a]
	l.releases--
	r := scriptmodel.Release{Owner: owner(a), Tombstone: sys.life(a)}
	if sys.holds[a] {
		c.node.EndShared(noon, &c.set, r, sys.flaw)
	} else {
		c.node.Release(noon, r)
	}
	l.due, l.gone = 0, sys.stays(a)
	sys.yieldFrom(s, &next, n, true, search.Step{Kind: shareRelease, A: a, B: n}, yield)
}

// befalls yields what happens to a node by itself, or by others.
func (sys *sharedSystem) befalls(s *sharedState, n uint8, yield yieldShared) {
	c := &s.columns[n]
	switch {
	case c.node.Epoch != epoch && (c.waits == 0 || sys.mistake == rejoinsEarly):
		next := *s
		sys.rejoin(&next, n)
		yield(search.Step{Kind: shareRejoin, B: n}, next)
	case c.node.Epoch != epoch:
		return
	}
	if s.moved < sys.moves && c.node.Number(0) < sys.most {
		next := *s
		next.moved++
		next.columns[n].node.Stripes[0] = c.node.Number(0) + 1
		sys.tidyShared(&next)
		yield(search.Step{Kind: shareMove, B: n}, next)
	}
	if s.forgot < sys.forgets && c.node.Keys[0].Owner != scriptmodel.Nobody && sys.allVote(s) {
		next := *s
		next.forgot++
		col := &next.columns[n]
		col.node, col.set, col.waits = scriptmodel.Node{}, scriptmodel.Sharers{}, uint8(sys.longest())+1
		sys.outdate(col)
		yield(search.Step{Kind: shareForget, B: n}, next)
	}
}

// allVote tells whether no node has forgotten: one at a time does.
func (sys *sharedSystem) allVote(s *sharedState) bool {
	for i := range sys.nodes {
		if s.columns[i].node.Epoch != epoch {
			return false
		}
	}
	return true
}

// outdate ends what is under way in voting scripts: it has an older epoch.
func (sys *sharedSystem) outdate(c *shareColumn) {
	for a := range sys.holds {
		l := &c.links[a]
		l.asks, l.extends, l.reseeds, l.raises = 0, 0, 0, [mostRaiseRounds]uint8{}
		l.due, l.gone = 0, 0
	}
}

// rejoin makes a node vote again: it counts from what as many of the others have as share a
// node with every quorum that had this one.
func (sys *sharedSystem) rejoin(s *sharedState, n uint8) {
	var counters []scriptmodel.Number
	for i := range sys.nodes {
		if uint8(i) != n {
			counters = append(counters, s.columns[i].node.Number(0))
		}
	}
	slices.Sort(counters)
	c := &s.columns[n]
	c.node.Epoch, c.waits = epoch, 0
	c.node.Base = counters[sys.nodes-quorum.Size(sys.nodes)]
	sys.outdate(c)
}

// tick brings all ends nearer.
func (sys *sharedSystem) tick(s *sharedState, yield yieldShared) {
	next := *s
	for i := range sys.nodes {
		next.columns[i].tick()
	}
	for a := range sys.holds {
		h := &next.holds[a]
		if h.phase == idle || h.phase == over {
			continue
		}
		h.left, h.next = max(h.left, 1)-1, max(h.next, 1)-1
		if h.left == 0 && sys.mistake != lapseExtends {
			// It can never be valid again: only what it has sent matters.
			h.phase, h.next = over, 0
			for i := range sys.nodes {
				sys.deafen(&next.columns[i].links[a])
			}
		}
	}
	if next == *s {
		return
	}
	sys.tidyShared(&next)
	yield(search.Step{Kind: shareTick}, next)
}

// tick is one node's.
func (c *shareColumn) tick() {
	near := func(end *scriptmodel.Tick) {
		if *end--; *end < noon {
			*end = 0
		}
	}
	if k := &c.node.Keys[0]; k.Owner != scriptmodel.Nobody && k.Owner != scriptmodel.Alien {
		if k.Until--; k.Until < noon {
			c.vanish()
		}
		for i, end := range c.set.Ends {
			if end > before {
				c.set.Ends[i]--
			}
		}
	}
	for i := range c.node.Dead {
		if c.node.Dead[i] != 0 {
			near(&c.node.Dead[i])
		}
	}
	for a := range c.links {
		if l := &c.links[a]; l.due != 0 {
			near(&l.due)
		}
		if l := &c.links[a]; l.gone != 0 {
			near(&l.gone)
		}
	}
	c.waits = max(c.waits, 1) - 1
}
