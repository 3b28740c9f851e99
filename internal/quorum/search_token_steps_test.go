package quorum_test

import (
	"math/bits"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/quorum"
	"github.com/quorumkit/redlock/internal/scriptmodel"
	"github.com/quorumkit/redlock/internal/search"
)

type yieldToken = func(search.Step, tokenState)

// Next: what clients decide, what arrives, and what expires.
func (sys *tokenSystem) Next(s tokenState, yield func(search.Step, tokenState)) {
	top, out := sys.most-1, yield
	if sys.hints == nil && sys.most == 0 {
		top = sys.renumber(&s, 2) // room between any two numbers
		out = func(st search.Step, n tokenState) {
			sys.renumber(&n, 1)
			yield(st, n)
		}
	}
	begun := [scriptmodel.Names]bool{}
	for i := range sys.attempts {
		a := uint8(i)
		sys.decide(&s, a, &begun, top, out)
		for n := range uint8(sys.nodes) {
			sys.arrive(&s, a, n, top, out)
		}
	}
	for n := range uint8(sys.nodes) {
		sys.expire(&s, n, out)
	}
}

// renumber keeps the order of all numbers, and makes them multiples of step.
func (sys *tokenSystem) renumber(s *tokenState, step scriptmodel.Number) (top scriptmodel.Number) {
	var used uint64
	sys.numbers(s, func(n *scriptmodel.Number) { used |= 1 << *n })
	used &^= 1
	sys.numbers(s, func(n *scriptmodel.Number) {
		if *n != 0 {
			*n = step * scriptmodel.Number(1+bits.OnesCount64(used&(1<<*n-1)))
		}
	})
	if top = step * scriptmodel.Number(bits.OnesCount64(used)); top > 62 {
		panic("more numbers than renumber can tell apart")
	}
	return top
}

// numbers visits every counter and token in the state.
func (sys *tokenSystem) numbers(s *tokenState, visit func(*scriptmodel.Number)) {
	for i := range sys.nodes {
		c := &s.columns[i]
		for j := range c.node.Stripes {
			visit(&c.node.Stripes[j])
		}
		for j := range sys.attempts {
			visit(&c.links[j].grants[0])
			visit(&c.links[j].grants[1])
		}
	}
	for i := range sys.attempts {
		a := &s.attempts[i]
		visit(&a.target)
		visit(&a.token)
		visit(&a.floor)
	}
}

// decide yields what the attempt's client may do by itself.
func (sys *tokenSystem) decide(s *tokenState, a uint8, begun *[scriptmodel.Names]bool, top scriptmodel.Number, yield yieldToken) {
	switch c := &s.attempts[a]; c.phase {
	case idle:
		// Attempts of a name are alike until they begin: the first one does.
		name := sys.attempts[a]
		switch {
		case begun[name]:
		case sys.bare():
			n := sys.begin(*s, a)
			for i := range uint8(sys.nodes) {
				sys.arriveAcquire(&n, a, i, top, yield)
			}
		default:
			yield(search.Step{Kind: stepBegin, A: a}, sys.begin(*s, a))
		}
		begun[name] = true
		return
	case acquiring:
		sys.settle(s, a, yield)
		sys.giveUp(s, a, yield)
	case raising:
		sys.settleRaised(s, a, yield)
		sys.giveUp(s, a, yield)
	case held:
		sys.keep(s, a, yield)
	}
	if c := &s.attempts[a]; sys.leases && c.phase != over && c.passed < c.rounds+1 {
		n := *s
		n.attempts[a].passed++
		if sys.lean && sys.final(&n.attempts[a]) {
			sys.lapse(&n, a)
		}
		yield(search.Step{Kind: stepLapse, A: a}, n)
	}
}

// final asks the library whether a lapse is: no confirmation counts any more.
func (sys *tokenSystem) final(c *attempt) bool {
	_, revived := c.validity().Confirm(validUntil(clock.Instant(c.until+1)), c.now())
	return !revived && !c.validity().Holds(c.now()) && sys.mistake != lapsedExtends
}

// lapse ends an attempt that can never again be valid: from then on its keys may
// expire at any moment, no matter what their leases, and nothing that it hears matters.
func (sys *tokenSystem) lapse(s *tokenState, a uint8) {
	c := &s.attempts[a]
	c.phase, c.until, c.passed, c.rounds = over, 1, 0, 0
	for i := range sys.nodes {
		col := &s.columns[i]
		l := &col.links[a]
		l.grants, l.raised, l.confirmed, l.extends = [2]scriptmodel.Number{}, false, false, 0
		if k := &col.node.Keys[sys.attempts[a]]; k.Owner == owner(a) {
			k.Until = 1
		}
	}
	sys.tidy(s)
}

// begin sends an acquire to every node.
func (sys *tokenSystem) begin(s tokenState, a uint8) tokenState {
	c := &s.attempts[a]
	c.phase, c.until = acquiring, 1
	for i, name := range sys.attempts {
		if name == sys.attempts[a] {
			c.floor = max(c.floor, s.attempts[i].token)
		}
	}
	for i := range sys.nodes {
		s.columns[i].links[a].acquires = sys.copies
	}
	return s
}

// settle yields what the client may make of the replies, whichever of them it
// has: a token, or a raise round, as the library's rules say. It never has to
// wait for more: how long it does is a matter of speed.
func (sys *tokenSystem) settle(s *tokenState, a uint8, yield yieldToken) {
	votes := make([]quorum.Vote, sys.nodes)
	var tried [2][256]bool // results that were yielded
	sys.replies(s, a, votes, 0, func() {
		token, raise, ok := sys.rule(votes)
		kind := stepSettle
		if raise {
			kind = stepRaiseRound
		}
		if !ok || tried[kind-stepSettle][token] {
			return
		}
		tried[kind-stepSettle][token] = true
		if sys.leases && !s.attempts[a].validity().Holds(s.attempts[a].now()) {
			return // no validity left: the acquisition failed
		}
		n := *s
		if raise {
			sys.raise(&n, a, token)
		} else {
			sys.complete(&n, a, token)
		}
		yield(search.Step{Kind: kind, A: a, C: uint8(token)}, n)
	})
}

// replies calls f with every selection of the replies that are there, from node
// number from on: none or one of each node.
func (sys *tokenSystem) replies(s *tokenState, a uint8, votes []quorum.Vote, from int, f func()) {
	if from == sys.nodes {
		f()
		return
	}
	votes[from] = quorum.Vote{Outcome: quorum.Pending}
	sys.replies(s, a, votes, from+1, f)
	l := &s.columns[from].links[a]
	for _, grant := range l.grants {
		if grant != 0 {
			votes[from] = quorum.Vote{Outcome: quorum.Granted, Token: quorum.Token(grant)}
			sys.replies(s, a, votes, from+1, f)
		}
	}
	if l.taken && !sys.lean {
		votes[from] = quorum.Vote{Outcome: quorum.Taken}
		sys.replies(s, a, votes, from+1, f)
	}
}

// rule applies the library's rules, or a mistaken client's.
func (sys *tokenSystem) rule(votes []quorum.Vote) (token scriptmodel.Number, raise, ok bool) {
	if sys.mistake == naive {
		for _, v := range votes {
			token = max(token, scriptmodel.Number(v.Token))
		}
		return token, false, quorum.Count(votes).Verdict() == quorum.Won
	}
	if sys.mistake == belowQuorum {
		for _, v := range votes {
			if v.Outcome == quorum.Granted && equalGrants(votes, v.Token) >= quorum.Size(sys.nodes)-1 {
				return scriptmodel.Number(v.Token), false, true
			}
		}
		return 0, false, false
	}
	verdict, t := quorum.Settle(votes)
	ok = quorum.Count(votes).Verdict() == quorum.Won && verdict != quorum.Unsettled
	return scriptmodel.Number(t), verdict != quorum.Settled, ok
}

// equalGrants counts the grants of exactly t, in the plainest way.
func equalGrants(votes []quorum.Vote, t quorum.Token) (n int) {
	for _, v := range votes {
		if v.Outcome == quorum.Granted && v.Token == t {
			n++
		}
	}
	return n
}

// raise sends the raise round: to every node whose smaller grant is known, or
// will be (a client may or may not raise stragglers: under way covers both).
func (sys *tokenSystem) raise(s *tokenState, a uint8, target scriptmodel.Number) {
	s.attempts[a].phase, s.attempts[a].target = raising, target
	for i := range sys.nodes {
		l := &s.columns[i].links[a]
		for _, grant := range l.grants {
			sys.granted(l, grant, target)
		}
		l.grants, l.taken = [2]scriptmodel.Number{}, false
	}
	sys.tidy(s)
}

// granted is what a grant is worth to a client that raises.
func (sys *tokenSystem) granted(l *link, grant, target scriptmodel.Number) {
	switch v := (quorum.Vote{Outcome: quorum.Granted, Token: quorum.Token(grant)}); {
	case grant == 0:
	case quorum.NeedsRaise(v, quorum.Token(target)):
		l.raises = max(l.raises, sys.copies)
	case grant == target:
		l.raised = true
	}
}

// settleRaised yields the end of a raise round that brought a quorum.
func (sys *tokenSystem) settleRaised(s *tokenState, a uint8, yield yieldToken) {
	votes := make([]quorum.Vote, sys.nodes)
	c := &s.attempts[a]
	for i := range votes {
		votes[i] = quorum.Vote{Outcome: quorum.Pending}
		if s.columns[i].links[a].raised {
			votes[i] = quorum.Vote{Outcome: quorum.Granted, Token: quorum.Token(c.target)}
		}
	}
	if verdict, t := quorum.Settle(votes); verdict == quorum.Settled {
		if sys.leases && !c.validity().Holds(c.now()) {
			return
		}
		n := *s
		sys.complete(&n, a, scriptmodel.Number(t))
		yield(search.Step{Kind: stepRaised, A: a}, n)
	}
}

// complete ends the acquisition with a token, and counts once more, in another
// way than the library, whether a quorum was assigned it.
func (sys *tokenSystem) complete(s *tokenState, a uint8, token scriptmodel.Number) {
	c, assigned := &s.attempts[a], 0
	for i := range sys.nodes {
		l := &s.columns[i].links[a]
		if l.grants[0] == token || l.grants[1] == token || l.raised && c.target == token {
			assigned++
		}
		l.grants, l.taken, l.raised = [2]scriptmodel.Number{}, false, false
	}
	c.phase, c.token, c.inexact = held, token, 2*assigned <= sys.nodes
	if sys.bare() {
		sys.forget(s, a)
	}
	sys.tidy(s)
}

// giveUp yields the end of an attempt: by its timers, its caller, or a lost round.
func (sys *tokenSystem) giveUp(s *tokenState, a uint8, yield yieldToken) {
	if !sys.lean {
		yield(search.Step{Kind: stepGiveUp, A: a}, sys.rollBack(*s, a))
	}
}

// rollBack sends releases to all nodes, and forgets.
func (sys *tokenSystem) rollBack(s tokenState, a uint8) tokenState {
	s.attempts[a].phase = over
	for i := range sys.nodes {
		l := &s.columns[i].links[a]
		l.grants, l.taken, l.raised, l.confirmed = [2]scriptmodel.Number{}, false, false, false
		l.releases = sys.copies
	}
	sys.tidy(&s)
	return s
}

// keep yields what the holder of a lock may do: extend it, or release it.
func (sys *tokenSystem) keep(s *tokenState, a uint8, yield yieldToken) {
	if !sys.lean {
		yield(search.Step{Kind: stepEnd, A: a}, sys.rollBack(*s, a))
	}
	if !sys.leases {
		return
	}
	c := s.attempts[a]
	if c.rounds == 0 && (c.valid() || sys.mistake == lapsedExtends) {
		n := *s
		n.attempts[a].rounds++
		for i := range sys.nodes {
			n.columns[i].links[a].extends = sys.copies
		}
		yield(search.Step{Kind: stepExtendRound, A: a}, n)
	}
	sys.confirm(s, a, yield)
}

// confirm yields the end of an extension that a quorum confirmed, with re-seeds
// to the nodes that did not.
func (sys *tokenSystem) confirm(s *tokenState, a uint8, yield yieldToken) {
	c := &s.attempts[a]
	votes := make([]quorum.Vote, sys.nodes)
	for i := range votes {
		votes[i] = quorum.Vote{Outcome: quorum.Pending}
		if s.columns[i].links[a].confirmed {
			votes[i] = quorum.Vote{Outcome: quorum.Granted}
		}
	}
	next := validUntil(clock.Instant(c.rounds + 1))
	if quorum.Count(votes).Verdict() != quorum.Won || c.until == c.rounds+1 {
		return
	}
	v, ok := c.validity().Confirm(next, c.now())
	if sys.mistake == lapsedExtends {
		v, ok = next, true
	}
	if !ok {
		return
	}
	n := *s
	n.attempts[a].until = uint8(v.Until)
	for i := range sys.nodes {
		l := &n.columns[i].links[a]
		if !l.confirmed {
			l.reseeds = sys.copies
		}
		l.confirmed = false
	}
	yield(search.Step{Kind: stepConfirm, A: a}, n)
}
