package membership_test

import (
	"math/rand/v2"
	"testing"

	"github.com/quorumkit/redlock/internal/membership"
	"github.com/quorumkit/redlock/internal/scriptmodel"
	"github.com/quorumkit/redlock/internal/search"
	"github.com/quorumkit/redlock/internal/testkit"
)

// changing is a system of so many nodes, of which the first are the cluster.
func changing(seats int, first list, change func(*changeSystem)) *changeSystem {
	sys := &changeSystem{
		seats: seats, lockers: 3, agents: 3, operators: 2, first: first, life: 6, faults: 8, changes: 60, keeps: true, extends: 2,
		memo: &changeMemo{known: map[changeQuestion]changeAnswer{}},
	}
	change(sys)
	return sys
}

// changeWalks are the sizes that are walked through at random. Each comes with how many
// walks there are in quick, full and deep.
var changeWalks = []struct {
	name              string
	quick, full, deep int
	sys               func() *changeSystem
}{
	{"five nodes", 3, 60, 1500, func() *changeSystem { return changing(5, 0b00111, func(*changeSystem) {}) }},
	{"four nodes, and long leases", 0, 40, 1000, func() *changeSystem { return changing(4, 0b0011, func(s *changeSystem) { s.life = 12 }) }},
	{"three nodes, from one", 3, 60, 1500, func() *changeSystem { return changing(3, 0b001, func(*changeSystem) {}) }},
	{"clocks at other rates", 0, 20, 1000, func() *changeSystem {
		return changing(5, 0b00011, func(s *changeSystem) { s.life, s.drift, s.rates = 64, 8, [3]uint8{17, 15, 16} })
	}},
	{"operators whose clocks run fast", 0, 15, 300, func() *changeSystem {
		return changing(5, 0b00111, func(s *changeSystem) { s.life, s.drift, s.rates = 64, 8, [3]uint8{16, 15, 17} })
	}},
	{"MaxTTL up and down, strict on and off", 3, 40, 600, func() *changeSystem {
		return changing(5, 0b00111, func(s *changeSystem) { s.long, s.turns = 8, true })
	}},
	{"locks go over", 3, 40, 400, func() *changeSystem {
		return changing(5, 0b00111, func(s *changeSystem) { s.goes, s.extends, s.life, s.long, s.turns = 1, 250, 8, 12, true })
	}},
	{"locks go over, from one node", 3, 40, 400, func() *changeSystem {
		return changing(3, 0b001, func(s *changeSystem) { s.goes, s.extends, s.lockers = 1, 250, 2 })
	}},
	{"founding beside changes", 0, 40, 1000, func() *changeSystem {
		return changing(3, 0b001, func(s *changeSystem) { s.founds = true })
	}},
	{"strict recovery beside changes", 0, 20, 300, func() *changeSystem {
		return changing(5, 0b00111, func(s *changeSystem) { s.founds, s.strict, s.faults = true, true, 4 })
	}},
}

func TestSearchChangesOfTheListHoldOnRandomWalks(t *testing.T) {
	testkit.NotRaced(t)
	for _, c := range changeWalks {
		t.Run(c.name, func(t *testing.T) {
			walks := testkit.Every(c.quick, c.full, c.deep)
			if walks == 0 {
				t.Skip("REDLOCK_TEST=full walks it")
			}
			sys := c.sys()
			r := search.Walk(sys, search.WalkOptions{Seed: 1, Walks: walks, Steps: 3000})
			t.Log(r)
			testkit.Must(t, r.Err())
			locks, lists, installs, over := sampleChanges(sys, 5)
			t.Logf("%d locks, %d lists put in force, %d installs and %d locks that went over in 5 walks of 3000 steps", locks, lists, installs, over)
			if locks < 10 || lists < 3 || installs < 1 || over < 2*sys.goes {
				t.Error("too few for these walks to show anything")
			}
		})
	}
}

// One master that grows to two, and shrinks, breadth first, up to so many states.
func TestSearchAChangeOfTheListInEveryOrder(t *testing.T) {
	testkit.NotRaced(t)
	sys := changing(2, 0b01, func(s *changeSystem) {
		s.lockers, s.agents, s.operators, s.life, s.faults, s.changes, s.extends, s.once = 2, 1, 1, 1, 0, 2, 1, true
	})
	r := search.Closed(sys, search.Options{MaxStates: testkit.Every(20_000, 300_000, 4_000_000)})
	t.Log(r)
	if r.Trace != nil {
		t.Fatal(r.Trace)
	}
}

// sampleChanges walks, and counts what happened.
func sampleChanges(sys *changeSystem, walks int) (locks, lists, installs, over int) {
	for seed := range walks {
		rnd, s := rand.New(rand.NewPCG(uint64(seed), 0)), sys.Init()
		for range 3000 {
			total, pick := 0, search.Step{}
			var next changeState
			sys.Next(s, func(st search.Step, n changeState) {
				total += sys.Weight(st)
				if rnd.IntN(total) < sys.Weight(st) {
					pick, next = st, n
				}
			})
			switch pick.Kind {
			case stepWin:
				locks++
			case stepConfirm:
				if next.lockers[pick.A].list != s.lockers[pick.A].list {
					over++
				}
			case stepRun:
				if o := s.agents[pick.A].sends[pick.B]; o.nonce != 0 && next.seats[pick.B].node.Epoch != s.seats[pick.B].node.Epoch {
					installs++
				}
			}
			s = next
		}
		for _, at := range s.lists[0][1:] {
			if at.names != 0 {
				lists++
			}
		}
	}
	return locks, lists, installs, over
}

// slips are the rules of changes, each left out.
var slips = []struct {
	name  string
	slip  slip
	walks int
	sys   func() *changeSystem
}{
	{"no ballots", slipBallots, 1500, eager},
	{"two nodes at once", slipByTwo, 1500, five},
	{"a blank node votes at once", slipAtOnce, 1500, five},
	{"settling keeps the epoch", slipEpoch, 10_000, begun(func(sys *changeSystem, s *changeState) {
		settledSecond(sys, s, 0)
		s.lockers[0] = lockerOf{list: 0b00111, phase: acquiring, left: sys.life}
		s.lockers[0].at[0].acquire, s.lockers[0].at[1].acquire = true, true
	})},
	{"putting in force keeps the epoch", slipForceEpoch, 10_000, begun(func(sys *changeSystem, s *changeState) {
		secondList(sys, s, 0b00111, 0b01111)
		for n := uint8(1); n < 4; n++ {
			sys.run(s, n, sys.forcing(&s.seats[n], 3, 0b01110, 0b01111))
		}
		s.lockers[0] = lockerOf{list: 0b00111, phase: acquiring, left: sys.life}
		s.lockers[0].at[0].acquire, s.lockers[0].at[2].acquire = true, true
	})},
	{"no pause", slipPause, 20_000, begun(heldByFirst)},
	{"a lock that its own list has is held on", slipKept, 20_000, begun(func(sys *changeSystem, s *changeState) {
		sys.goes, sys.extends, sys.lockers, sys.agents, s.faults, s.changes = 1, 250, 2, 1, 0, 0
		heldByFirst(sys, s)
	})},
	{"no base", slipBase, 20_000, countedByFirst},
	{"a joiner counts one list", slipOneList, 20_000, forgottenByOne},
	{"a joiner reads before its wait", slipReads, 10_000, begun(func(sys *changeSystem, s *changeState) {
		rejoining(sys, s, 1, 0b00111)
		for n := range uint8(3) {
			sys.look(&s.agents[2], &s.seats[n], n)
			s.agents[2].seen[n].age = sys.life
		}
		s.agents[2].waits[1].age = sys.life
		s.best, s.seats[0].node.Stripes[0] = 1, 1 // a lock that b had granted, before it forgot
	})},
	{"nothing is accepted", slipAccept, 10_000, begun(overtaken)},
	{"one fewer than a quorum accepts", slipFewAccept, 10_000, begun(overtaken)},
	{"the lowest ballot's proposal", slipLowest, 10_000, begun(decided)},
	{"a joiner copies no proposal", slipCopies, 10_000, func() *changeSystem {
		sys := begun(func(sys *changeSystem, s *changeState) {
			decided(sys, s)
			s.seats[0].proposedBy = 0
			rejoining(sys, s, 1, 0b00111)
			sys.look(&s.agents[2], &s.seats[0], 0)
			sys.look(&s.agents[2], &s.seats[2], 2)
			k := &s.agents[1] // the next operator has begun, and has not heard of c
			k.list, k.tags = 0b00111, 1
			k.op = attempt{on: true, id: 1, gen: 0, from: sys.of(0b00111), wanted: sys.of(0b00011), ballot: 3, began: 1, tag: 65}
			s.seats[0].settledBy(65, 3, 0, conf{})
			sys.look(k, &s.seats[0], 0)
		})()
		sys.life = 3
		return sys
	}},
	{"a joiner copies no settled mark", slipSettledJoins, 10_000, begun(func(sys *changeSystem, s *changeState) {
		secondList(sys, s, 0b00111, 0b01111)
		rejoining(sys, s, 1, 0b01111)
		sys.look(&s.agents[2], &s.seats[0], 0)
		for n := uint8(2); n < 4; n++ {
			v := &s.seats[n]
			v.settledBy(1, 1, 1, sys.of(0b01110))
			sys.look(&s.agents[2], v, n)
			sys.run(s, n, sys.forcing(v, 3, 0b01110, 0b01111)) // after the joiner has looked
		}
	})},
	{"the pause goes by the shortest MaxTTL", slipOwnPause, 20_000, begun(heldLonger(24, 0))},
	{"the pause ignores the MaxTTL before", slipBeforePause, 20_000, begun(heldLonger(8, 24))},
	{"a joiner ignores the MaxTTL before", slipBeforeJoin, 20_000, lowered},
	{"a joiner ignores the MaxTTL proposed", slipProposedJoin, 20_000, raisedByHalf},
	{"a lease above MaxTTL", slipLease, 20_000, func() *changeSystem {
		return changing(3, 0b111, func(s *changeSystem) { s.long, s.life, s.forgets, s.faults, s.changes = 24, 3, 1, 20, 0 })
	}},
	{"no drift in the pause", noSlip, 10_000, func() *changeSystem {
		sys := begun(heldByFirst)()
		sys.life, sys.rates = 64, [3]uint8{16, 15, 17}
		return sys
	}},
	{"one node in another's place at once", slipSwap, 1500, five},
	{"a founder goes by the numbers that are left", slipClock, 10_000, grownFromOne},
	{"a founder is not needed", slipOneList, 10_000, grownFromOne},
	{"a founder takes the id that it knew", slipKnownID, 20_000, founders},
	{"a joiner copies no strict recovery", slipStrict, 1500, func() *changeSystem {
		return changing(3, 0b011, func(s *changeSystem) { s.founds, s.strict, s.faults, s.forgets, s.life = true, true, 20, 1, 3 })
	}},
	{"late answers count", slipLate, 10_000, begun(func(sys *changeSystem, s *changeState) {
		begunBy(2+sys.life)(sys, s)
		s.agents[0].seen[1].age = 1 + sys.life // it had accepted then
		s.agents[0].seen[1].proposedBy, s.agents[0].seen[1].proposed = 1, sys.of(0b00011)
		v := &s.seats[1] // it has forgotten since, and is back
		v.process, v.run, v.settler, v.proposedBy, v.proposed = 2, 2, 0, 0, conf{}
		settledByNext(sys, s)
	})},
}

// of is a configuration with this list.
func (sys *changeSystem) of(l list) conf { return conf{l, sys.life, sys.strict} }

// eager is five with operators in each other's way, and nodes that forget more often.
func eager() *changeSystem {
	return changing(5, 0b00111, func(s *changeSystem) { s.eager, s.changes, s.faults, s.life = 1, 200, 12, 8 })
}

// secondList is where the second list is in force, on all its nodes.
func secondList(sys *changeSystem, s *changeState, first, next list) {
	s.lists[0][0], s.lists[0][1] = sys.of(first), sys.of(next)
	for n := range uint8(mostSeats) {
		if v := &s.seats[n]; (first | next).has(n) {
			v.page = page{id: 1, gen: 2, conf: sys.of(next), before: first, beforeMost: sys.life, run: 1}
			v.node.Epoch, v.epochs = 1, 1
		}
	}
}

// settledSecond is where an operator has settled the second list, and waits.
func settledSecond(sys *changeSystem, s *changeState, left uint8) {
	secondList(sys, s, 0b00111, 0b01111)
	k := &s.agents[0]
	k.list, k.op = 0b01111, attempt{on: true, id: 1, gen: 1, from: sys.of(0b01111), wanted: sys.of(0b01110), to: sys.of(0b01110), ballot: 1, began: 1, left: 1 + left, largest: 1, tag: 1}
	for n := range uint8(4) {
		if n > 0 {
			s.seats[n].settledBy(1, 1, 0, conf{})
		}
		sys.look(k, &s.seats[n], n)
	}
}

// heldByFirst is that where a client of the first list holds the lock on two nodes.
func heldByFirst(sys *changeSystem, s *changeState) {
	settledSecond(sys, s, sys.life)
	s.lockers[0] = lockerOf{list: 0b00111, phase: held, left: sys.life, token: 1}
	s.best = 1
	for n := range 2 {
		s.seats[n].node.Stripes[0], s.seats[n].node.Keys[0] = 1, scriptmodel.Key{Owner: ownerOf(0), Until: scriptmodel.Tick(sys.life)}
	}
}

// heldLonger is heldByFirst with a longer lease, by records with such MaxTTL; the pause has
// not begun.
func heldLonger(most, before uint8) func(*changeSystem, *changeState) {
	return func(sys *changeSystem, s *changeState) {
		sys.long, sys.eager = 24, 0
		heldByFirst(sys, s)
		k := &s.agents[0]
		k.op.from.most, k.op.wanted.most, s.lists[0][0].most, s.lists[0][1].most = most, most, max(most, before), most
		for n := range uint8(4) {
			s.seats[n].most, s.seats[n].beforeMost = most, before
			sys.look(k, &s.seats[n], n)
		}
		k.op.left, k.op.to, s.lockers[0].left = 0, conf{}, sys.long
		for n := range 2 {
			s.seats[n].node.Keys[0].Until = scriptmodel.Tick(sys.long)
		}
	}
}

// lowered is where MaxTTL has just come down, a lock with the longer lease is held, and one of its
// two nodes forgets.
func lowered() *changeSystem {
	return changing(3, 0b111, func(sys *changeSystem) {
		sys.long, sys.life, sys.changes, sys.faults = 24, 6, 0, 0
		sys.start = func(s *changeState) {
			s.lists[0][0], s.lists[0][1] = conf{names: 0b111, most: sys.long}, sys.of(0b111)
			s.lockers[0], s.best = lockerOf{list: 0b111, phase: held, left: sys.long, token: 1}, 1
			for n := range 3 {
				v := &s.seats[n]
				v.page = page{id: 1, gen: 2, conf: sys.of(0b111), before: 0b111, beforeMost: sys.long, run: 1}
				v.node.Stripes[0], v.node.Keys[0] = 1, scriptmodel.Key{Owner: ownerOf(0), Until: scriptmodel.Tick(sys.long)}
			}
			s.seats[2].node.Keys[0] = scriptmodel.Key{}
			s.seats[1] = seat{process: 2, epochs: 1}
		}
	})
}

// raisedByHalf is where a longer MaxTTL is accepted by a quorum and was in force on the first node,
// which granted a lock with the longer lease, and forgot; the second is being told.
func raisedByHalf() *changeSystem {
	return changing(3, 0b111, func(sys *changeSystem) {
		sys.long, sys.life, sys.changes, sys.faults = 24, 6, 0, 0
		sys.start = func(s *changeState) {
			next := conf{names: 0b111, most: sys.long}
			s.lists[0][1] = next
			for n := range 2 {
				s.seats[n].settledBy(1, 1, 1, next)
			}
			s.agents[0].sends[1] = send{kind: membership.DoForce, page: page{id: 1, gen: 2, conf: next, before: 0b111, beforeMost: sys.life}, epoch: uint8(s.seats[1].node.Epoch)}
			s.lockers[0] = lockerOf{list: 0b111, phase: acquiring, left: sys.long - sys.life}
			s.lockers[0].at[0].grant, s.lockers[0].at[1].acquire = 1, true
			rejoining(sys, s, 0, 0b111) // it has waited the shorter time
		}
	})
}

// grownFromOne is where the only node of the list before has forgotten its number.
func grownFromOne() *changeSystem {
	return changing(3, 0b001, func(sys *changeSystem) {
		sys.founds = true
		sys.start = func(s *changeState) {
			secondList(sys, s, 0b001, 0b011)
			s.best, s.seats[0] = 5, seat{process: 2, epochs: 1}
		}
	})
}

// founders are three nodes that forget often, and are founded anew.
func founders() *changeSystem {
	return changing(3, 0b111, func(s *changeSystem) { s.founds, s.faults, s.forgets, s.life, s.changes = true, 40, 1, 3, 4 })
}

// countedByFirst is where two nodes have numbers, of the first list's locks, that the
// others lack.
func countedByFirst() *changeSystem {
	sys := eager()
	sys.start = func(s *changeState) {
		secondList(sys, s, 0b00111, 0b01111)
		s.best, s.seats[0].node.Stripes[0], s.seats[1].node.Stripes[0] = 5, 5, 5
	}
	return sys
}

// forgottenByOne is where a node has forgotten a number of the list before, which a node outside
// the list has, and one inside.
func forgottenByOne() *changeSystem {
	sys := eager()
	sys.start = func(s *changeState) {
		secondList(sys, s, 0b11111, 0b01111)
		s.best, s.seats[0].node.Stripes[0], s.seats[4].node.Stripes[0] = 5, 5, 5
		s.seats[1] = seat{process: 2, epochs: 1}
	}
	return sys
}

// settledBy is a node that an operator has settled, with what it has accepted.
func (v *seat) settledBy(tag, ballot, proposedBy uint8, proposed conf) {
	v.settled, v.settler, v.ballot, v.proposedBy, v.proposed = true, tag, ballot, proposedBy, proposed
	v.epochs++
	v.node.Epoch = scriptmodel.Epoch(v.epochs)
}

// rejoining is a node that forgot, and whose wait is over for the last agent.
func rejoining(sys *changeSystem, s *changeState, n uint8, l list) {
	v, k := &s.seats[n], &s.agents[sys.agents-1]
	*v = seat{process: 2, epochs: v.epochs, nonces: 1, page: page{nonce: 1, onRun: 2}}
	k.list, k.waits[n] = l, patience{nonce: 1, run: 2, age: sys.life}
}

// forcing is an order to put the list in force on a node, which is under way.
func (sys *changeSystem) forcing(v *seat, gen uint8, names, before list) send {
	return send{kind: membership.DoForce, page: page{id: 1, gen: gen, conf: sys.of(names), before: before, beforeMost: sys.life}, epoch: uint8(v.node.Epoch)}
}

// begunBy is the first operator in the middle of shrinking a, b and c to a and b, settled there.
func begunBy(asked uint8) func(*changeSystem, *changeState) {
	return func(sys *changeSystem, s *changeState) {
		k := &s.agents[0]
		k.list = 0b00111
		k.op = attempt{on: true, id: 1, gen: 0, from: sys.of(0b00111), wanted: sys.of(0b00011), to: sys.of(0b00011), ballot: 1, began: 1 + sys.life, left: 1, asked: asked, tag: 1}
		for n := range uint8(2) {
			s.seats[n].settledBy(1, 1, 0, conf{})
			sys.look(k, &s.seats[n], n)
		}
	}
}

// overtaken is where the first operator's proposal is accepted by a alone, and another has
// settled b and c since.
func overtaken(sys *changeSystem, s *changeState) {
	begunBy(1)(sys, s)
	s.seats[0].proposedBy, s.seats[0].proposed = 1, sys.of(0b00011)
	sys.look(&s.agents[0], &s.seats[0], 0)
	settledByNext(sys, s)
}

// settledByNext is where the second operator has settled b and c, and waited.
func settledByNext(sys *changeSystem, s *changeState) {
	k := &s.agents[1]
	k.list, k.tags = 0b00111, 1
	k.op = attempt{on: true, id: 1, gen: 0, from: sys.of(0b00111), wanted: sys.of(0b00110), to: sys.of(0b00110), ballot: 2, began: 1 + sys.life, left: 1, tag: 65}
	for n := uint8(1); n < 3; n++ {
		s.seats[n].settledBy(65, 2, 0, conf{})
		sys.look(k, &s.seats[n], n)
	}
}

// decided is where b and c have accepted the list of both by the second ballot, and c is being
// told so; a has another, by the first.
func decided(sys *changeSystem, s *changeState) {
	s.seats[0].settledBy(1, 1, 1, sys.of(0b00011))
	for n := 1; n < 3; n++ {
		s.seats[n].settledBy(2, 2, 2, sys.of(0b00110))
	}
	s.agents[0].sends[2] = sys.forcing(&s.seats[2], 2, 0b00110, 0b00111)
}

// begun is eager, in the middle of something.
func begun(start func(*changeSystem, *changeState)) func() *changeSystem {
	return func() *changeSystem {
		sys := eager()
		sys.start = func(s *changeState) {
			s.agents[0].tags = 8 // those below are of operators who died
			start(sys, s)
		}
		return sys
	}
}

func five() *changeSystem { return changing(5, 0b00111, func(*changeSystem) {}) }

func TestSearchChangesOfTheListCheckerCatches(t *testing.T) {
	testkit.Unraced(t)
	for _, c := range slips {
		t.Run(c.name, func(t *testing.T) {
			sys := c.sys()
			sys.slip = c.slip
			r := search.Walk(sys, search.WalkOptions{Seed: 1, Walks: c.walks, Steps: 12_000_000 / c.walks})
			t.Log(r)
			if r.Trace == nil {
				t.Fatal("not caught")
			}
			t.Log(r.Trace)
		})
	}
}
