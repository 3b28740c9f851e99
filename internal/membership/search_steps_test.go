package membership_test

import (
	"github.com/quorumkit/redlock/internal/quorum"
	"github.com/quorumkit/redlock/internal/scriptmodel"
	"github.com/quorumkit/redlock/internal/search"
)

type yieldMember = func(search.Step, memberState)

// Next: what clients and joiners decide, what arrives, what goes wrong, and time.
func (sys *memberSystem) Next(s memberState, yield yieldMember) {
	if sys.strict {
		yield = sys.marking(yield)
	}
	if n, changed := sys.tick(s); changed {
		yield(search.Step{Kind: tickAll}, n)
	}
	begun := false
	for c := range uint8(sys.clients) {
		if s.clients[c].phase != idle {
			sys.act(&s, c, yield)
			for n := range uint8(sys.nodes) {
				sys.arrive(&s, c, n, yield)
			}
		} else if !begun { // clients are alike until they begin
			begun = true
			yield(search.Step{Kind: beginClient, A: c}, sys.begin(s, c))
		}
	}
	for n := range uint8(sys.nodes) {
		sys.serve(&s, n, yield)
	}
	for j := range uint8(sys.joiners) {
		for n := range uint8(sys.nodes) {
			sys.join(&s, j, n, yield)
		}
	}
}

// rate is the clock's: nodes, then clients, then joiners.
func (sys *memberSystem) rate(clock int) uint8 {
	if sys.rates == nil {
		return 1
	}
	return sys.rates[clock]
}

// tick lets every clock run, each at its own rate.
func (sys *memberSystem) tick(s memberState) (memberState, bool) {
	was := s
	for i := range sys.nodes {
		v, r := &s.servers[i], sys.rate(i)
		runData(&v.node, r)
		if v.isSaved {
			runData(&v.saved.node, r)
		}
	}
	for i := range sys.clients {
		c, r := &s.clients[i], sys.rate(sys.nodes+i)
		down(&c.left, r)
		down(&c.more, r)
		for n := range sys.nodes {
			down(&c.visits[n].clean, sys.rate(n))
		}
		sys.lapse(&s, uint8(i))
	}
	for i := range sys.joiners {
		for n := range sys.nodes {
			r := sys.rate(sys.nodes + sys.clients + i)
			if g := &s.joiners[i].seen[n]; g.answered && !sys.ageless() {
				sys.up(&g.age, r)
			}
			if w := &s.joiners[i].waits[n]; w.nonce != 0 {
				sys.up(&w.age, r)
			}
		}
	}
	return s, s != was
}

// ageless: where one node at most is blank, a joiner keeps only what it read
// after that node's wait, and so need not know when that was.
func (sys *memberSystem) ageless() bool {
	return sys.lean && sys.faulty == 1 && !sys.racing
}

// lapse: where nothing is released or extended, a client whose validity is over
// does nothing more, and needs no reply.
func (sys *memberSystem) lapse(s *memberState, c uint8) {
	k := &s.clients[c]
	if !sys.lean || sys.releases || sys.extends > 0 || k.left > 0 || k.phase == idle || k.phase == over {
		return
	}
	target := k.target
	*s = sys.end(*s, c)
	for n := range sys.nodes {
		if s.clients[c].visits[n].raise {
			s.clients[c].target = target
		}
	}
}

func down(v *uint8, r uint8) { *v -= min(*v, r) }

// up counts an age, up to where it makes no difference any more: what is older
// than three leases is as good as not seen.
func (sys *memberSystem) up(v *uint8, r uint8) {
	most := 3 * int(sys.life)
	if sys.ageless() {
		most = int(sys.life)
	}
	*v = uint8(min(int(*v)+int(r), 255, most))
}

// runData takes r units from every life on a node's disk.
func runData(n *scriptmodel.Node, r uint8) {
	for i := range n.Keys {
		if k := &n.Keys[i]; k.Owner != scriptmodel.Nobody {
			k.Until -= min(k.Until, scriptmodel.Tick(r))
		}
	}
	for i := range n.Dead {
		n.Dead[i] -= min(n.Dead[i], scriptmodel.Tick(r))
	}
	n.Expire(0)
}

// lease is what a client takes, and validity what it trusts of it.
func (sys *memberSystem) lease() scriptmodel.Tick {
	if sys.mistake == mistakeLongLease {
		return scriptmodel.Tick(2 * sys.life)
	}
	return scriptmodel.Tick(sys.life)
}

func (sys *memberSystem) validity() uint8 {
	if sys.mistake == mistakeNoDrift {
		return uint8(sys.lease())
	}
	return uint8(sys.lease()) - sys.drift
}

// begin sends an acquire to every node.
func (sys *memberSystem) begin(s memberState, c uint8) memberState {
	k := &s.clients[c]
	k.phase, k.left, k.floor = acquiring, sys.validity(), s.best
	for n := range sys.nodes {
		k.visits[n].acquire = true
	}
	return s
}

// act yields what a client may do by itself.
func (sys *memberSystem) act(s *memberState, c uint8, yield yieldMember) {
	k := &s.clients[c]
	switch k.phase {
	case acquiring:
		if k.left > 0 {
			sys.settle(s, c, yield)
		}
	case raising:
		if k.left > 0 {
			sys.settleRaised(s, c, yield)
		}
	case held:
		if k.rounds < sys.extends && k.more == 0 && (k.left > 0 || sys.mistake == mistakeLapsedExtends) {
			yield(search.Step{Kind: extendClient, A: c}, sys.extend(*s, c))
		}
		sys.confirm(s, c, yield)
	case over:
		if sys.reuse && sys.spent(s, c) {
			n := *s
			n.clients[c] = client{}
			yield(search.Step{Kind: freshClient, A: c}, n)
		}
		return
	}
	if sys.releases || k.phase != held && sys.reuse {
		yield(search.Step{Kind: endClient, A: c}, sys.end(*s, c))
	}
}

// settle yields what the client makes of the grants that are there, or of any part of them.
func (sys *memberSystem) settle(s *memberState, c uint8, yield yieldMember) {
	k, votes := &s.clients[c], make([]quorum.Vote, sys.nodes)
	sys.parts(func(n int) bool { return k.visits[n].grant != 0 }, func(in func(int) bool) {
		for n := range votes {
			votes[n] = quorum.Vote{}
			if in(n) {
				votes[n] = quorum.Vote{Outcome: quorum.Granted, Token: quorum.Token(k.visits[n].grant)}
			}
		}
		if quorum.Count(votes).Verdict() != quorum.Won {
			return
		}
		switch verdict, t := quorum.Settle(votes); verdict {
		case quorum.Settled:
			yield(search.Step{Kind: winClient, A: c, B: uint8(t)}, sys.win(*s, c, scriptmodel.Number(t)))
		case quorum.Uneven, quorum.Waiting: // how long it waits is a matter of speed
			next := *s
			n := &next.clients[c]
			n.phase, n.target = raising, scriptmodel.Number(t)
			which := uint8(0)
			for i := range sys.nodes {
				n.visits[i].known = in(i)
				n.visits[i].raise = in(i) && quorum.NeedsRaise(votes[i], t)
				if in(i) {
					which |= 1 << i
				}
			}
			yield(search.Step{Kind: raiseClient, A: c, B: which}, next)
		case quorum.Unsettled:
		}
	})
}

// parts calls f with every part of the nodes that fit.
func (sys *memberSystem) parts(fits func(int) bool, f func(in func(int) bool)) {
	all := 0
	for n := range sys.nodes {
		if fits(n) {
			all |= 1 << n
		}
	}
	for part := all; part > 0; part = (part - 1) & all {
		f(func(n int) bool { return part&(1<<n) != 0 })
	}
}

// settleRaised yields the lock, once a quorum holds exactly the target.
func (sys *memberSystem) settleRaised(s *memberState, c uint8, yield yieldMember) {
	k, exact := &s.clients[c], 0
	for n := range sys.nodes {
		if v := &k.visits[n]; v.known && v.grant == k.target || v.raised {
			exact++
		}
	}
	if exact >= quorum.Size(sys.nodes) {
		yield(search.Step{Kind: winClient, A: c, B: uint8(k.target)}, sys.win(*s, c, k.target))
	}
}

// win completes an acquisition, and judges its token.
func (sys *memberSystem) win(s memberState, c uint8, t scriptmodel.Number) memberState {
	k := &s.clients[c]
	k.phase, k.token, k.target = held, t, 0
	k.wrong = t <= k.floor
	for i := range sys.clients {
		if i != int(c) && s.clients[i].token == t {
			k.wrong = true
		}
	}
	s.best = max(s.best, t)
	for n := range sys.nodes { // what no decision asks for any more
		v := &k.visits[n]
		v.grant, v.known, v.raised, v.raise = 0, false, false, false
	}
	return s
}

// extend sends an extension to every node.
func (sys *memberSystem) extend(s memberState, c uint8) memberState {
	k := &s.clients[c]
	k.rounds++
	k.more = sys.validity()
	for n := range sys.nodes {
		v := &k.visits[n]
		v.extend, v.confirmed, v.gone = true, false, false
	}
	return s
}

// confirm yields the longer validity that a quorum confirmed; nodes that
// answered "gone" get the lock put back.
func (sys *memberSystem) confirm(s *memberState, c uint8, yield yieldMember) {
	k, confirmed := &s.clients[c], 0
	for n := range sys.nodes {
		if k.visits[n].confirmed {
			confirmed++
		}
	}
	if confirmed < quorum.Size(sys.nodes) || k.more == 0 || k.left == 0 && sys.mistake != mistakeLapsedExtends {
		return
	}
	next := *s
	n := &next.clients[c]
	n.left, n.more = max(n.left, n.more), 0
	for i := range sys.nodes {
		v := &n.visits[i]
		v.reseed = v.gone
		v.confirmed, v.gone = false, false
	}
	yield(search.Step{Kind: confirmClient, A: c}, next)
}

// end releases a lock or rolls an attempt back: nothing new is sent after it.
func (sys *memberSystem) end(s memberState, c uint8) memberState {
	k := &s.clients[c]
	k.phase, k.left, k.more, k.target = over, 0, 0, 0
	for n := range sys.nodes {
		v := &k.visits[n]
		v.until, v.release = s.servers[n].epochs+1, sys.releases
		v.grant, v.known, v.raised, v.confirmed, v.gone = 0, false, false, false, false
	}
	return s
}

// spent tells whether nothing of a client that is over can still matter: no
// node shows its owner value, and nobody began before its token was completed.
// What is under way is lost.
func (sys *memberSystem) spent(s *memberState, c uint8) bool {
	k := &s.clients[c]
	for n := range sys.nodes {
		v := &s.servers[n]
		if v.node.Holds(0, ownerOf(c)) || v.isSaved && v.saved.node.Holds(0, ownerOf(c)) ||
			v.node.Dead[c] != 0 || v.isSaved && v.saved.node.Dead[c] != 0 || k.visits[n].clean > 0 {
			return false
		}
	}
	for i := range sys.clients {
		if o := &s.clients[i]; i != int(c) && o.phase != idle && o.phase != over && o.floor < k.token {
			return false
		}
	}
	return s.best < 100 // numbers are bytes here
}

// arrive yields what the node may run of the client's messages.
func (sys *memberSystem) arrive(s *memberState, c, n uint8, yield yieldMember) {
	k := &s.clients[c]
	link := &k.visits[n]
	votes, epoch := sys.votes(&s.servers[n], link)
	owner, life := ownerOf(c), sys.lease()
	counts := !sys.follows || s.servers[n].run == s.servers[n].process // by the look behind the command
	at := func(kind uint8, ok bool, run func(*visit, *scriptmodel.Node)) {
		if !ok {
			return
		}
		next := *s
		node := &next.servers[n].node
		node.Epoch = epoch
		run(&next.clients[c].visits[n], node)
		node.Epoch = s.servers[n].node.Epoch
		if sys.swaps && kind != takeRelease {
			next.vote(n, uint8(epoch))
		}
		if next != *s {
			yield(search.Step{Kind: kind, A: c, B: n}, next)
		}
	}
	at(takeAcquire, votes && link.acquire, func(l *visit, node *scriptmodel.Node) {
		l.acquire = false
		if g := node.Acquire(0, scriptmodel.Acquire{Owner: owner, Life: life, Epoch: epoch}, sys.flaw); g > 0 && counts && k.phase == acquiring {
			l.grant = scriptmodel.Number(g)
		}
	})
	at(takeRaise, votes && link.raise, func(l *visit, node *scriptmodel.Node) {
		l.raise = false
		if node.Raise(scriptmodel.Raise{Owner: owner, Token: k.target, Epoch: epoch}, sys.flaw) == scriptmodel.Done {
			l.raised = counts && k.phase == raising
		}
	})
	at(takeExtend, votes && link.extend, func(l *visit, node *scriptmodel.Node) {
		l.extend = false
		got := node.Extend(0, scriptmodel.Extend{Owner: owner, Life: life, Epoch: epoch})
		if counts && k.phase == held && k.more > 0 {
			l.confirmed, l.gone = got == scriptmodel.Done, got == scriptmodel.Refused
		}
	})
	at(takeReseed, votes && link.reseed, func(l *visit, node *scriptmodel.Node) {
		l.reseed = false
		node.Reseed(0, scriptmodel.Reseed{Owner: owner, Life: life, Token: k.token, Epoch: epoch}, sys.flaw)
	})
	at(takeRelease, link.release, func(l *visit, node *scriptmodel.Node) {
		l.release = false
		r := scriptmodel.Release{Owner: owner}
		if sys.mistake != mistakeNoTombstone {
			r.Tombstone = scriptmodel.Tick(sys.life)
		}
		node.Release(0, r)
		l.clean = sys.life
	})
}

// vote notes under which epoch the server votes. With another than before, all that
// is under way to it was sent before anybody saw that one.
func (s *memberState) vote(n, epoch uint8) {
	v := &s.servers[n]
	if v.voted != 0 && v.voted != epoch {
		for c := range s.clients {
			l := &s.clients[c].visits[n]
			l.late = l.acquire || l.raise || l.extend || l.reseed
		}
	}
	v.voted = epoch
}

// votes tells whether a voting script of the client would run on the server at
// all, and with which epoch: with the server's, if the client can know it.
func (sys *memberSystem) votes(v *server, link *visit) (bool, scriptmodel.Epoch) {
	if !v.loaded {
		return false, 0
	}
	if sys.mistake == mistakeNoEpoch && v.node.Epoch == 0 {
		return true, 1
	}
	if sys.mistake != mistakeEpochReturns && v.returned() && !link.late {
		return false, 0
	}
	return v.node.Epoch != 0 && (link.until == 0 || uint8(v.node.Epoch) < link.until), v.node.Epoch
}
