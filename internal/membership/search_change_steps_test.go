package membership_test

import (
	"slices"
	"sync"
	"time"

	"github.com/quorumkit/redlock/internal/membership"
	"github.com/quorumkit/redlock/internal/quorum"
	"github.com/quorumkit/redlock/internal/scriptmodel"
	"github.com/quorumkit/redlock/internal/search"
)

type yieldChange = func(search.Step, changeState)

func (sys *changeSystem) Next(s changeState, yield yieldChange) {
	if n := sys.tick(s); n != s {
		yield(search.Step{Kind: stepTick}, n)
	}
	begun := false
	for c := range uint8(sys.lockers) {
		switch {
		case s.lockers[c].phase != idle:
			sys.act(&s, c, yield)
			for n := range uint8(sys.seats) {
				sys.vote(&s, c, n, yield)
			}
		case !begun || sys.long != 0:
			begun = true
			s.each(3, func(l list) { // earlier ones get no vote
				next := s
				k := &next.lockers[c]
				k.list, k.phase, k.left, k.floor = l, acquiring, sys.lease(c)-sys.drift, s.best
				for n := range uint8(sys.seats) {
					k.at[n].acquire = l.has(n)
				}
				yield(search.Step{Kind: stepBegin, A: c, C: uint8(l)}, next)
			})
		}
	}
	for n := range uint8(sys.seats) {
		sys.suffer(&s, n, yield)
	}
	for j := range uint8(sys.agents) {
		sys.agent(&s, j, yield)
	}
}

// each calls f once with each list that was in force, but those of so many generations ago.
func (s *changeState) each(ago int, f func(list)) {
	seen := [1 << mostSeats]bool{}
	for id := range s.lists {
		for g, at := range s.lists[id] {
			if at.names != 0 && !seen[at.names] && (g+ago >= mostGens || s.lists[id][g+ago].names == 0) {
				seen[at.names] = true
				f(at.names)
			}
		}
	}
}

// latest is the latest configuration of a cluster.
func (s *changeState) latest(id uint8) (c conf) {
	for _, at := range s.lists[id-1] {
		if at.names != 0 {
			c = at
		}
	}
	return c
}

// lease is the locker's.
func (sys *changeSystem) lease(c uint8) uint8 {
	if c == 0 && sys.long != 0 {
		return sys.long
	}
	return sys.life
}

func (sys *changeSystem) rate(of int) uint8 { return max(1, sys.rates[of]) }

func (sys *changeSystem) tick(s changeState) changeState {
	for i := range sys.seats {
		runData(&s.seats[i].node, sys.rate(0))
	}
	for i := range sys.lockers {
		down(&s.lockers[i].left, sys.rate(1))
		down(&s.lockers[i].more, sys.rate(1))
	}
	r := sys.rate(2)
	older := func(v *uint8) {
		if *v != 0 {
			*v = uint8(min(int(*v)+int(r), 4*int(sys.life), 255))
		}
	}
	for i := range sys.agents {
		k := &s.agents[i]
		for n := range sys.seats {
			if g := &k.seen[n]; g.answered {
				g.age = uint8(min(int(g.age)+int(r), 4*int(sys.life), 255))
			}
			if w := &k.waits[n]; w.nonce != 0 {
				w.age = uint8(min(int(w.age)+int(r), 4*int(sys.life), 255))
			}
		}
		older(&k.op.began)
		older(&k.op.asked)
		if k.op.left > 0 {
			k.op.left -= min(k.op.left-1, r)
		}
	}
	return s
}

// act yields what a locker may do by itself.
func (sys *changeSystem) act(s *changeState, c uint8, yield yieldChange) {
	k := &s.lockers[c]
	do := func(kind uint8, change func(*lockerOf, *changeState)) {
		next := *s
		change(&next.lockers[c], &next)
		yield(search.Step{Kind: kind, A: c}, next)
	}
	win := func(t scriptmodel.Number) {
		do(stepWin, func(k *lockerOf, s *changeState) {
			k.phase, k.token, k.target, k.wrong = held, t, 0, t <= k.floor
			for i := range sys.lockers {
				k.wrong = k.wrong || i != int(c) && s.lockers[i].token == t
			}
			s.best = max(s.best, t)
			for n := range k.at {
				k.at[n] = ballotBox{acquire: k.at[n].acquire}
			}
		})
	}
	switch k.phase {
	case acquiring:
		votes := make([]quorum.Vote, 0, sys.seats)
		for n := range uint8(sys.seats) {
			if k.list.has(n) && k.at[n].grant != 0 {
				votes = append(votes, quorum.Vote{Outcome: quorum.Granted, Token: quorum.Token(k.at[n].grant)})
			} else if k.list.has(n) {
				votes = append(votes, quorum.Vote{})
			}
		}
		if k.left == 0 || quorum.Count(votes).Verdict() != quorum.Won {
			break
		}
		switch verdict, t := quorum.Settle(votes); verdict {
		case quorum.Settled:
			win(scriptmodel.Number(t))
		case quorum.Uneven, quorum.Waiting:
			do(stepRaise, func(k *lockerOf, _ *changeState) {
				k.phase, k.target = raising, scriptmodel.Number(t)
				for n := range k.at {
					b := &k.at[n]
					b.known = b.grant != 0
					b.raise = b.known && b.grant < k.target
				}
			})
		case quorum.Unsettled:
		}
	case raising:
		exact := 0
		for n := range k.at {
			if b := k.at[n]; b.known && b.grant == k.target || b.raised {
				exact++
			}
		}
		if k.left > 0 && exact >= quorum.Size(k.list.size()) {
			win(k.target)
		}
	case held:
		if k.rounds < sys.extends && k.more == 0 && k.left > 0 {
			for _, newer := range sys.newer(s, k.list) {
				next := *s
				k := &next.lockers[c]
				k.newer = newer
				k.rounds++
				k.more = sys.lease(c) - sys.drift
				for n := range uint8(sys.seats) {
					b := &k.at[n]
					b.extend, b.confirmed, b.gone = (k.list | newer).has(n), false, false
				}
				yield(search.Step{Kind: stepExtend, A: c, C: uint8(newer)}, next)
			}
		}
		own, newer, kept := k.confirmed()
		if over := newer && k.list != k.newer; k.left > 0 && (k.more > 0 && (own || newer || kept && sys.slip == slipKept) || over) {
			do(stepConfirm, func(k *lockerOf, _ *changeState) { // later answers may still have it go over
				if k.left, k.more = max(k.left, k.more), 0; over {
					k.list = k.newer
				}
			})
		}
		for n := range uint8(sys.seats) {
			if k.at[n].gone && (own || newer || kept && sys.slip != slipKept) {
				next := *s
				b := &next.lockers[c].at[n]
				b.gone, b.reseed = false, true
				yield(search.Step{Kind: stepReseed, A: c, B: n}, next)
			}
		}
	case over:
		if !sys.once && sys.spent(s, c) {
			do(stepFresh, func(k *lockerOf, _ *changeState) { *k = lockerOf{} })
		}
		return
	}
	do(stepEnd, func(k *lockerOf, s *changeState) {
		k.phase, k.left, k.more, k.target = over, 0, 0, 0
		for n := range k.at {
			k.at[n] = ballotBox{acquire: k.at[n].acquire, reseed: k.at[n].reseed, until: s.seats[n].epochs + 1}
		}
	})
}

// newer returns the lists that a lock may go over to: 0, and each later than its own that was in
// force.
func (sys *changeSystem) newer(s *changeState, own list) (out []list) {
	out = []list{0}
	for _, at := range s.lists[0] {
		if at.names == own {
			out = out[:1] // what came before is older
		} else if sys.goes > 0 && at.names != 0 && !slices.Contains(out, at.names) {
			out = append(out, at.names)
		}
	}
	return out
}

// confirmed reports whether a quorum of the lock's own list confirmed it, one of the newer list, and
// one of its own though these nodes vote by another.
func (k *lockerOf) confirmed() (own, newer, kept bool) {
	byOwn, byNewer, on := 0, 0, 0
	for n := range uint8(mostSeats) {
		switch b := &k.at[n]; {
		case !b.confirmed:
			continue
		case k.list.has(n):
			on++
			if b.own {
				byOwn++
			}
			fallthrough
		case k.newer.has(n):
			if b.newer && k.newer.has(n) {
				byNewer++
			}
		}
	}
	q := quorum.Size(k.list.size())
	return byOwn >= q, k.newer != 0 && byNewer >= quorum.Size(k.newer.size()), k.newer != 0 && on >= q
}

// spent tells whether nothing of a locker that is over matters any more.
func (sys *changeSystem) spent(s *changeState, c uint8) bool {
	for n := range sys.seats {
		if b := s.lockers[c].at[n]; s.seats[n].node.Holds(0, ownerOf(c)) || b.reseed && uint8(s.seats[n].node.Epoch) < b.until {
			return false
		}
	}
	for i := range sys.lockers {
		if o := &s.lockers[i]; i != int(c) && o.phase != idle && o.phase != over && o.floor < s.lockers[c].token {
			return false
		}
	}
	return s.best < 100
}

// vote yields what the node may run of the locker's messages. It has read the record under
// the epoch that votes, unless that was left out.
func (sys *changeSystem) vote(s *changeState, c, n uint8, yield yieldChange) {
	k, v := &s.lockers[c], &s.seats[n]
	b := &k.at[n]
	if v.node.Epoch == 0 || v.run != v.process || b.until != 0 && uint8(v.node.Epoch) >= b.until {
		return
	}
	own := sys.accepts(v.page, k.list, sys.lease(c)) ||
		sys.slip == slipForceEpoch && !v.settled && v.gen > 2 && s.lists[v.id-1][v.gen-3].names == k.list // who was accepted before still is
	newer := k.newer != 0 && sys.accepts(v.page, k.newer, sys.lease(c))
	owner, life, epoch := ownerOf(c), scriptmodel.Tick(sys.lease(c)), v.node.Epoch
	at := func(kind uint8, ok bool, run func(*ballotBox, *scriptmodel.Node)) {
		if ok {
			next := *s
			run(&next.lockers[c].at[n], &next.seats[n].node)
			yield(search.Step{Kind: kind, A: c, B: n}, next)
		}
	}
	at(stepAcquire, own && b.acquire, func(b *ballotBox, node *scriptmodel.Node) {
		b.acquire = false
		if g := node.Acquire(0, scriptmodel.Acquire{Owner: owner, Life: life, Epoch: epoch}, 0); g > 0 && k.phase == acquiring {
			b.grant = scriptmodel.Number(g)
		}
	})
	at(stepTakeRaise, own && b.raise, func(b *ballotBox, node *scriptmodel.Node) {
		b.raise = false
		b.raised = node.Raise(scriptmodel.Raise{Owner: owner, Token: k.target, Epoch: epoch}, 0) == scriptmodel.Done && k.phase == raising
	})
	at(stepTakeExtend, (own || newer) && b.extend, func(b *ballotBox, node *scriptmodel.Node) {
		said, counts := node.Extend(0, scriptmodel.Extend{Owner: owner, Life: life, Epoch: epoch}), k.phase == held && (k.more > 0 || k.newer != 0)
		*b = ballotBox{acquire: b.acquire, reseed: b.reseed, confirmed: said == scriptmodel.Done && counts, own: own, newer: newer, gone: sys.goes > 0 && said == scriptmodel.Refused && counts}
	})
	at(stepTakeReseed, (own || newer) && b.reseed, func(b *ballotBox, node *scriptmodel.Node) {
		b.reseed = false
		node.Reseed(0, scriptmodel.Reseed{Owner: owner, Life: life, Token: k.token, Epoch: epoch}, 0)
	})
}

// accepts asks the library whether a node with this record votes for a client of the list
// with such leases.
func (sys *changeSystem) accepts(p page, l list, lease uint8) (voter bool) {
	if sys.slip == slipEpoch {
		p.settled = false // who was accepted before still is
	}
	key := acceptance{p.gen, p.names, p.before, l, p.settled, p.most, lease, sys.slip == slipLease}
	if known, ok := acceptances.Load(key); ok {
		return known.(bool)
	}
	o := sys.observation(sight{page: p, answered: true, process: p.run, epoch: 1}, l)
	v := membership.NewView(membership.NewConfig(l.names(), sys.maxTTL(), false), slices.Repeat([]membership.Observation{o}, l.size()), make([]membership.Wait, l.size()))
	for i := range l.size() {
		if st, _ := v.Voter(i); st != (membership.Voter{}) && (st.MaxTTL >= time.Duration(lease)*unit || sys.slip == slipLease) {
			voter = true
		}
	}
	acceptances.Store(key, voter)
	return voter
}

type acceptance struct {
	gen              uint8
	names, before, l list
	settled          bool
	most, lease      uint8
	slips            bool
}

var acceptances sync.Map

// suffer yields what befalls a node.
func (sys *changeSystem) suffer(s *changeState, n uint8, yield yieldChange) {
	if v := &s.seats[n]; v.blank() && (v.nonce == 0 || v.onRun != v.process) {
		next := *s
		w := &next.seats[n]
		w.nonces++
		w.nonce, w.onRun = w.nonces, w.process
		yield(search.Step{Kind: stepNotice, A: n}, next)
	}
	if s.faults == 0 || s.seats[n].process > 200 || !sys.spared(s, n) {
		return
	}
	next := *s
	next.faults--
	next.seats[n].process++
	if sys.keeps {
		yield(search.Step{Kind: stepRestart, A: n}, next)
	}
	next.seats[n].page, next.seats[n].node = page{}, scriptmodel.Node{}
	yield(search.Step{Kind: stepForget, A: n}, next)
}

// blank tells whether the node is no member.
func (v *seat) blank() bool { return v.node.Epoch == 0 || v.run != v.process }

// spared tells whether the node may forget: enough others are left to take it in, or where
// founders may, one that has the latest list.
func (sys *changeSystem) spared(s *changeState, n uint8) bool {
	blank := func(i uint8) bool { return s.seats[i].blank() }
	if blank(n) {
		return false
	}
	if sys.founds {
		gen := mostGens
		for id := s.seats[n].id - 1; s.lists[id][gen-1].names == 0; {
			gen--
		}
		for i := range uint8(sys.seats) {
			if v := &s.seats[i]; i != n && !blank(i) && v.id == s.seats[n].id && int(v.gen) == gen {
				return true
			}
		}
		return false
	}
	for g, at := range s.lists[0] {
		l := at.names
		if l == 0 || !l.has(n) || g+2 < mostGens && s.lists[0][g+2].names != 0 {
			continue
		}
		left := 0
		for i := range uint8(sys.seats) {
			if l.has(i) && i != n && !blank(i) {
				left++
			}
		}
		if left < l.size()-quorum.Size(l.size())+1 {
			return false
		}
	}
	return true
}
