package grant_test

import (
	"github.com/quorumkit/redlock/internal/quorum"
	"github.com/quorumkit/redlock/internal/scriptmodel"
)

// isStranger tells whether a process stands in no line.
func (sys *system) isStranger(p uint8) bool { return p < sys.strangers }

// isCalled tells whether a process stands in line and takes no push: its lease is short
// or fixed.
func (sys *system) isCalled(p uint8) bool { return p >= sys.processes-sys.plain }

// takesPushes tells whether releases may grant to a process.
func (sys *system) takesPushes(p uint8) bool { return !sys.isCalled(p) && !sys.isStranger(p) }

// bid goes on with the attempt of a process that is called: it asks the nodes that have
// called, and soon all. What some nodes granted goes back when no quorum can.
func (sys *system) bid(s *state, p uint8) {
	me := &s.processes[p]
	if me.phase != inLine || me.place == 0 || s.pruned {
		return
	}
	a := sys.attemptOf(s, p)
	switch quorum.Count(a.Votes).Verdict() {
	case quorum.Won:
		if v, t := quorum.Settle(a.Votes); v == quorum.Settled {
			sys.won(s, p, number(t))
			return
		} else if v == quorum.Uneven {
			sys.raise(s, p, a)
			return
		}
	case quorum.Contended, quorum.NoQuorum:
		if a.Sent != 0 {
			sys.bidOver(s, p)
			return
		}
	case quorum.Undecided, quorum.Lost:
	}
	nodes := a.Due(a.All && a.Sent != 0, sys.nodes, grantedBy(a))
	if nodes == 0 {
		return
	}
	a.Ask(nodes)
	for n := range a.Votes {
		if nodes&(1<<n) != 0 {
			a.Votes[n] = quorum.Vote{}
		}
	}
	sys.keep(s, p, a)
	sys.ask(s, p, nodes)
}

// bidOver rolls an attempt back that brought nothing. Who called since it asked there is
// asked at once.
func (sys *system) bidOver(s *state, p uint8) {
	me := &s.processes[p]
	a := sys.attemptOf(s, p)
	granted := grantedBy(a)
	hinted := a.Hinted &^ granted
	for n := range uint8(sys.nodes) {
		if granted&(1<<n) != 0 || sys.doubts(&s.columns[n].links[p], me.owner) {
			sys.free(s, p, n, message{kind: sendRelease, mode: scriptmodel.EntryStays, owner: me.owner})
		}
	}
	sys.forgetAttempt(s, p)
	if me.owner = sys.fresh(s, p); me.owner == scriptmodel.Nobody {
		return
	}
	me.split, me.token = granted != 0, 0
	a = sys.attemptOf(s, p)
	a.Hinted = hinted
	sys.keep(s, p, a)
	sys.bid(s, p)
}

// restsCalled yields what a process that is called does by its timers.
func (sys *system) restsCalled(s *state, p uint8, do func(uint8, func(*state))) {
	me := &s.processes[p]
	a := sys.attemptOf(s, p)
	switch {
	case a.Sent != 0:
		if !me.all {
			do(stepGather, func(s *state) {
				s.processes[p].all = true
				sys.bid(s, p)
			})
		} else if quorum.Count(a.Votes).Granted >= quorum.Size(sys.nodes) {
			do(stepLate, func(s *state) { sys.raise(s, p, a) })
		}
	case !sys.room(s, p):
	case me.split && !sys.still:
		do(stepAgain, func(s *state) { sys.look(s, p) })
	case s.polled < sys.polls:
		do(stepPoll, func(s *state) {
			s.polled++
			sys.look(s, p)
		})
	}
}

// try is the acquire of a process that stands in no line.
func (sys *system) try(s *state, n uint8, m message) int {
	node := &s.columns[n].node
	a := scriptmodel.Acquire{Owner: m.owner, Life: sys.life(askLife), Epoch: m.epoch()}
	switch {
	case sys.foreign && node.Epoch == 0: // it has forgotten, and is given no time here
		return scriptmodel.Abstained
	case sys.foreign:
		if k := &node.Keys[0]; k.Owner == scriptmodel.Nobody {
			*k = scriptmodel.Key{Owner: m.owner, Until: s.now + sys.life(askLife)}
			return 1 // the same everywhere: it has no number
		}
		return scriptmodel.TakenFor
	case sys.barges, sys.makes(ignoresQueue):
		reply, _ := node.AskIn(s.now, scriptmodel.AskIn{Ask: scriptmodel.Ask{Acquire: a, Barging: true}})
		return reply
	default:
		return node.AcquireKept(s.now, a, sys.flaw)
	}
}

// triesAgain ends a stranger's attempt that brought nothing.
func (sys *system) triesAgain(s *state, p uint8) {
	me := &s.processes[p]
	for n := range uint8(sys.nodes) {
		if l := &s.columns[n].links[p]; l.outcome == quorum.Granted || sys.doubts(l, me.owner) {
			sys.free(s, p, n, message{kind: sendRelease, owner: me.owner})
		}
	}
	sys.forgetAttempt(s, p)
	sys.forgetPlace(s, p)
	me.phase, me.owner, me.ahead = done, scriptmodel.Nobody, 0
	if me.more > 0 {
		me.more--
		me.phase = idle
	}
}
