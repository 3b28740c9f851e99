package quorum_test

import (
	"github.com/quorumkit/redlock/internal/scriptmodel"
	"github.com/quorumkit/redlock/internal/search"
)

// arrive yields what becomes of each message of the attempt that is under way to
// the node. top is the largest number in use, where any hint may come.
func (sys *tokenSystem) arrive(s *tokenState, a, n uint8, top scriptmodel.Number, yield yieldToken) {
	l := &s.columns[n].links[a]
	if l.acquires > 0 {
		sys.arriveAcquire(s, a, n, top, yield)
	}
	if l.raises > 0 {
		sys.arriveRaise(s, a, n, yield)
	}
	if l.extends > 0 {
		sys.arriveExtend(s, a, n, yield)
	}
	if l.reseeds > 0 {
		next := *s
		c := &next.columns[n]
		c.links[a].reseeds--
		c.node.Reseed(0, scriptmodel.Reseed{
			Name: sys.attempts[a], Owner: owner(a), Life: scriptmodel.Tick(s.attempts[a].until),
			Stripe: sys.stripeOf(a), Token: s.attempts[a].token, Epoch: epoch,
		}, sys.flaw)
		sys.yieldChange(s, &next, n, search.Step{Kind: stepReseed, A: a, B: n}, yield)
	}
	if l.releases > 0 && !sys.lean {
		next := *s
		c := &next.columns[n]
		c.links[a].releases--
		c.node.Release(0, scriptmodel.Release{Name: sys.attempts[a], Owner: owner(a), Tombstone: 1})
		sys.yieldChange(s, &next, n, search.Step{Kind: stepRelease, A: a, B: n}, yield)
	}
}

func owner(a uint8) scriptmodel.Owner { return scriptmodel.Owner(a + 1) }

func (sys *tokenSystem) stripeOf(a uint8) uint8 { return sys.stripe[sys.attempts[a]] }

// yieldChange yields next, unless the message did no more than arrive.
func (sys *tokenSystem) yieldChange(s, next *tokenState, n uint8, st search.Step, yield yieldToken) {
	if sys.lean && next.columns[n].node == s.columns[n].node && st.Kind == stepReseed {
		return
	}
	sys.tidy(next)
	yield(st, *next)
}

// arriveAcquire yields a grant with every hint that makes a difference.
func (sys *tokenSystem) arriveAcquire(s *tokenState, a, n uint8, top scriptmodel.Number, yield yieldToken) {
	from := &s.columns[n]
	last := scriptmodel.Number(0) // what the hint before led to
	try := func(hint scriptmodel.Number, expired bool) {
		next := *s
		c := &next.columns[n]
		l := &c.links[a]
		l.acquires--
		if expired {
			c.node.Drop(sys.attempts[a])
		}
		reply := c.node.Acquire(0, scriptmodel.Acquire{
			Name: sys.attempts[a], Owner: owner(a), Life: 1, Hint: hint, Stripe: sys.stripeOf(a), Epoch: epoch,
		}, sys.flaw)
		if reply > 0 && scriptmodel.Number(reply) == last {
			return
		}
		last = scriptmodel.Number(max(reply, 0))
		learned := sys.learn(&next, a, l, reply)
		if sys.lean && !learned && (c.node == from.node || sys.bare()) {
			return
		}
		sys.tidy(&next)
		yield(search.Step{Kind: stepAcquire, A: a, B: n, C: uint8(hint)}, next)
	}
	if from.node.Keys[sys.attempts[a]].Owner != scriptmodel.Nobody {
		try(0, false) // a replay, or refused: the hint does not matter
		if !sys.bare() {
			return
		}
	}
	last = 0
	for _, hint := range sys.hints {
		try(hint, false)
	}
	if sys.hints == nil {
		for hint := from.node.Number(sys.stripeOf(a)) + 1; hint <= top+1; hint++ {
			try(hint, sys.bare())
		}
	}
}

// learn is what the reply to an acquire can still mean to its client.
func (sys *tokenSystem) learn(s *tokenState, a uint8, l *link, reply int) bool {
	before := *l
	switch c := &s.attempts[a]; {
	case c.phase == acquiring && reply > 0:
		grant := scriptmodel.Number(reply)
		if l.grants[0] == 0 || l.grants[0] == grant {
			l.grants[0] = grant
		} else {
			l.grants[1] = grant
		}
	case c.phase == acquiring:
		l.taken = !sys.lean
	case c.phase == raising && reply > 0:
		sys.granted(l, scriptmodel.Number(reply), c.target)
	}
	return before != *l
}

// arriveRaise yields a raise that the node accepts, or, unless lean, refuses.
func (sys *tokenSystem) arriveRaise(s *tokenState, a, n uint8, yield yieldToken) {
	next := *s
	c := &next.columns[n]
	l := &c.links[a]
	l.raises--
	reply := c.node.Raise(scriptmodel.Raise{
		Name: sys.attempts[a], Owner: owner(a), Stripe: sys.stripeOf(a), Token: s.attempts[a].target, Epoch: epoch,
	}, sys.flaw)
	if reply == scriptmodel.Done && s.attempts[a].phase == raising {
		l.raised, l.raises = true, l.raises*boolean(!sys.bare())
	}
	if sys.lean && c.node == s.columns[n].node && l.raised == s.columns[n].links[a].raised {
		return
	}
	sys.tidy(&next)
	yield(search.Step{Kind: stepRaise, A: a, B: n}, next)
}

// arriveExtend yields an extension that the node confirms, or, unless lean, not.
func (sys *tokenSystem) arriveExtend(s *tokenState, a, n uint8, yield yieldToken) {
	next := *s
	c := &next.columns[n]
	l := &c.links[a]
	l.extends--
	reply := c.node.Extend(0, scriptmodel.Extend{
		Name: sys.attempts[a], Owner: owner(a), Life: scriptmodel.Tick(s.attempts[a].rounds + 1), Epoch: epoch,
	})
	if reply != scriptmodel.Done && sys.lean {
		return
	}
	if reply == scriptmodel.Done && s.attempts[a].phase == held && s.attempts[a].until <= s.attempts[a].rounds {
		l.confirmed = true
	}
	sys.tidy(&next)
	yield(search.Step{Kind: stepExtend, A: a, B: n}, next)
}

// expire yields the ends of keys, tombstones, and, by mistake, counters.
func (sys *tokenSystem) expire(s *tokenState, n uint8, yield yieldToken) {
	node := &s.columns[n].node
	for name, k := range node.Keys {
		if k.Owner == scriptmodel.Nobody || sys.bare() {
			continue
		}
		if holder := &s.attempts[k.Owner-1]; sys.leases && holder.phase != over && uint8(k.Until) > holder.passed {
			continue
		}
		next := *s
		next.columns[n].node.Drop(uint8(name))
		sys.tidy(&next)
		yield(search.Step{Kind: stepDrop, A: uint8(name), B: n}, next)
	}
	for a := range sys.attempts {
		if node.Dead[a] == 0 {
			continue
		}
		next := *s
		next.columns[n].node.DropDead(owner(uint8(a)))
		yield(search.Step{Kind: stepDropDead, A: uint8(a), B: n}, next)
	}
	for stripe, number := range node.Stripes {
		if !sys.counterExpires || number == 0 {
			continue
		}
		next := *s
		next.columns[n].node.Stripes[stripe] = 0
		yield(search.Step{Kind: stepCounter, A: uint8(stripe), B: n}, next)
	}
}

// bare: the least that the search needs where any hint may come at any node and
// any key may expire at any moment. What is left out, and what stands for it:
//   - Attempts begin with the first grant: one that begins earlier knows no more
//     completed tokens, so less is asked of it.
//   - A key expires when an acquire finds it. Before, it only lets its owner do
//     what a message under way need not do.
//   - A grant that is worth nothing to its client, and everything that arrives
//     for one that is done: it can take a key, as expiry can, and lift a stripe, as
//     the next hint can.
func (sys *tokenSystem) bare() bool {
	return sys.lean && sys.hints == nil && !sys.leases && sys.flaw == 0 && !sys.counterExpires
}

// forget leaves nothing of an attempt that is done but its token.
func (sys *tokenSystem) forget(s *tokenState, a uint8) {
	c := &s.attempts[a]
	c.target = 0
	if c.token > c.floor {
		c.floor = 0
	}
	for i := range sys.nodes {
		col := &s.columns[i]
		col.links[a] = link{}
		if name := sys.attempts[a]; col.node.Holds(name, owner(a)) {
			col.node.Drop(name)
		}
	}
}

// tidy forgets what can no longer matter, so that fewer states differ: raises
// that will be refused whenever they arrive, because stripes only rise or
// because the key is gone for good, and then their target.
func (sys *tokenSystem) tidy(s *tokenState) {
	if !sys.lean || sys.flaw != 0 || sys.counterExpires {
		return
	}
	for a := range uint8(len(sys.attempts)) {
		c, left := &s.attempts[a], false
		for i := range sys.nodes {
			col := &s.columns[i]
			l := &col.links[a]
			if l.raises == 0 {
				continue
			}
			gone := !col.node.Holds(sys.attempts[a], owner(a)) && l.acquires == 0 && !sys.leases
			if gone || col.node.Number(sys.stripeOf(a)) > c.target {
				l.raises = 0
				continue
			}
			left = true
		}
		if !left && c.phase != raising {
			c.target = 0
		}
	}
}

func boolean(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}
