package grant_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/quorumkit/redlock/internal/quorum"
	"github.com/quorumkit/redlock/internal/scriptmodel"
)

// isStranger tells whether a process stands in no line.
func (sys *system) isStranger(p uint8) bool { return p < sys.strangers }

// isCalled tells whether a process stands in line and takes no push: its lease is short
// or fixed, or it is an older client.
func (sys *system) isCalled(p uint8) bool { return p >= sys.processes-sys.plain }

// isOlder tells whether a process has the scripts of before there were grants.
func (sys *system) isOlder(p uint8) bool { return sys.older && sys.isCalled(p) }

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

// older is the living head as the scripts of before see it: of "id owner" they know
// nothing, and it has no sign of life.
func older(n *scriptmodel.Granting, me scriptmodel.Waiter) scriptmodel.Waiter {
	for {
		head := scriptmodel.NoWaiter
		for w, place := range n.Places {
			if place != 0 && (head == scriptmodel.NoWaiter || place < n.Places[head]) {
				head = scriptmodel.Waiter(w)
			}
		}
		for o, e := range n.Entries { // what stands before the head goes
			before := head == scriptmodel.NoWaiter || e.Place < n.Places[head] || e.Place == n.Places[head] && e.Waiter < head
			if e.Place != 0 && before {
				n.Entries[o] = scriptmodel.Entry{}
			}
		}
		if head == scriptmodel.NoWaiter || head == me || n.Lives(head) {
			return head
		}
		n.Places[head] = 0
	}
}

// askOlder is ask.lua as it was.
func askOlder(n *scriptmodel.Granting, now tick, a scriptmodel.Ask) (reply, more int) {
	k := &n.Keys[0]
	record := func() {
		n.Look(a.Waiter)
		n.Places[a.Waiter] = a.Place
	}
	switch {
	case n.Epoch == 0 || n.Epoch != a.Epoch:
		return scriptmodel.Abstained, 0
	case k.Owner == a.Owner:
		return int(n.Number(0)), 0
	case k.Owner != scriptmodel.Nobody:
		reply = scriptmodel.TakenFor - int(k.Until-now)
		if a.Place > 0 && n.Dead[a.Owner-1] == 0 {
			record()
		}
	case n.Dead[a.Owner-1] != 0:
		return scriptmodel.Dead, 0
	default:
		head := older(n, a.Waiter)
		if head != scriptmodel.NoWaiter && head != a.Waiter && a.Place > 0 {
			record()
			head = older(n, a.Waiter)
		}
		if head == scriptmodel.NoWaiter || head == a.Waiter {
			return n.Acquire(now, a.Acquire, 0), 0
		}
		reply = scriptmodel.Kept
	}
	if a.Place > 0 {
		older(n, a.Waiter)
		return reply, 0
	}
	top := n.Number(0)
	for _, place := range n.Places {
		top = max(top, place)
	}
	for _, e := range n.Entries {
		top = max(top, e.Place)
	}
	return reply, int(top) + 1
}

// releaseOlder is release_batch.lua as it was.
func releaseOlder(n *scriptmodel.Granting, now tick, r scriptmodel.LineRelease) (woken scriptmodel.Waiter) {
	there := n.Keys[0].Owner != scriptmodel.Nobody
	wake := n.Release(now, r.Release) == scriptmodel.Done
	if r.Entry == scriptmodel.EntryGoes && n.Places[r.Waiter] != 0 {
		n.Places[r.Waiter] = 0
		wake = wake || !there
	}
	if !wake || !n.Waited {
		return scriptmodel.NoWaiter
	}
	rest := *n // those that did not hear are passed over
	for {
		head := older(&rest, r.Waiter)
		for w := range n.Places { // the dead go on the node as well
			if n.Places[w] != 0 && rest.Places[w] == 0 && !n.Lives(scriptmodel.Waiter(w)) {
				n.Places[w] = 0
			}
		}
		for o := range n.Entries {
			if rest.Entries[o].Place == 0 {
				n.Entries[o] = scriptmodel.Entry{}
			}
		}
		if head == scriptmodel.NoWaiter || head == r.Waiter {
			return scriptmodel.NoWaiter
		}
		n.Called |= 1 << head
		if n.Deaf&(1<<head) == 0 {
			return head
		}
		rest.Places[head] = 0
	}
}

// Where nobody takes pushes, the older scripts are those that have a model of their own.
func TestTheOlderScriptsAreTheirModel(t *testing.T) {
	t.Parallel()
	for seed := range uint64(2000) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		var has scriptmodel.Granting
		has.Epoch, has.Deaf = epoch, uint8(rnd.IntN(16))
		want := has.Waiting
		for step := range 40 {
			w := scriptmodel.Waiter(rnd.IntN(scriptmodel.Waiters))
			o := owner(1 + int(w) + scriptmodel.Waiters*rnd.IntN(2))
			what := fmt.Sprintf("seed %d, step %d", seed, step)
			switch rnd.IntN(5) {
			case 0:
				r := scriptmodel.LineRelease{Release: scriptmodel.Release{Owner: o, Tombstone: tick(rnd.IntN(2))}, Waiter: w, Entry: scriptmodel.EntryGoes + uint8(rnd.IntN(2))}
				woken := releaseOlder(&has, 0, r)
				if _, other := want.ReleaseFrom(0, r.Release, w, r.Entry); woken != other {
					t.Fatalf("%s: %+v woke %d; want %d", what, r, woken, other)
				}
			case 1:
				has.Silence(w)
				want.Live, want.Called = has.Live, has.Called
			default:
				a := scriptmodel.Ask{Acquire: scriptmodel.Acquire{Owner: o, Life: 1, Epoch: epoch}, Waiter: w, Place: number(rnd.IntN(9))}
				reply, more := askOlder(&has, 0, a)
				same, head := want.Ask(0, a)
				if a.Place > 0 {
					more = head // whether it is the head is of no use here
				}
				if reply != same || more != head {
					t.Fatalf("%s: %+v brought %d, %d; want %d, %d", what, a, reply, more, same, head)
				}
			}
			if has.Waiting != want {
				t.Fatalf("%s: the node has %+v; want %+v", what, has.Waiting, want)
			}
		}
	}
}
