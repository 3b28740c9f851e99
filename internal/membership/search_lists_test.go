package membership_test

import (
	"math/rand/v2"
	"testing"

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
	{"five nodes", 20, 60, 4000, func() *changeSystem { return changing(5, 0b00111, func(*changeSystem) {}) }},
	{"four nodes, and long leases", 0, 40, 2000, func() *changeSystem { return changing(4, 0b0011, func(s *changeSystem) { s.life = 12 }) }},
	{"three nodes, from one", 20, 60, 3000, func() *changeSystem { return changing(3, 0b001, func(*changeSystem) {}) }},
	{"clocks at other rates", 0, 20, 3000, func() *changeSystem {
		return changing(5, 0b00011, func(s *changeSystem) { s.life, s.drift, s.rates = 64, 8, [3]uint8{17, 15, 16} })
	}},
}

func TestSearchChangesOfTheListHoldOnRandomWalks(t *testing.T) {
	testkit.Unraced(t)
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
			locks, lists, installs := sampleChanges(sys, 3, t)
			t.Logf("%d locks, %d lists put in force and %d installs in 3 walks of 3000 steps", locks, lists, installs)
			if locks < 10 || lists < 3 || installs < 1 {
				t.Error("too few for these walks to show anything")
			}
		})
	}
}

// One master that grows to two, and shrinks, breadth first: not closed but in the deep tier.
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
func sampleChanges(sys *changeSystem, walks int, t *testing.T) (locks, lists, installs int) {
	kinds := map[uint8]int{}
	defer func() { t.Log(kinds) }()
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
			kinds[pick.Kind]++
			switch pick.Kind {
			case stepWin:
				locks++
			case stepRun:
				if o := s.agents[pick.A].sends[pick.B]; o.nonce != 0 && next.seats[pick.B].node.Epoch != s.seats[pick.B].node.Epoch {
					installs++
				}
			}
			s = next
		}
		for _, l := range s.lists[1:] {
			if l != 0 {
				lists++
			}
		}
	}
	return locks, lists, installs
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
	{"settling keeps the epoch", slipEpoch, 1500, five},
	{"putting in force keeps the epoch", slipForceEpoch, 1500, five},
	{"no pause", slipPause, 20_000, heldByFirst},
	{"no base", slipBase, 20_000, countedByFirst},
	{"a joiner counts one list", slipOneList, 20_000, forgottenByOne},
	{"a joiner reads before its wait", slipReads, 1500, five},
	{"nothing is accepted", slipAccept, 1500, eager},
	{"one fewer than a quorum accepts", slipFewAccept, 1500, eager},
	{"one fewer than a quorum is settled", slipFewSettle, 1500, eager},
	{"the lowest ballot's proposal", slipLowest, 1500, eager},
	{"a joiner copies no proposal", slipCopies, 1500, eager},
	{"a joiner copies no settled mark", slipSettledJoins, 1500, eager},
	{"late answers count", slipLate, 1500, eager},
}

// eager is five with operators in each other's way, and nodes that forget more often.
func eager() *changeSystem {
	return changing(5, 0b00111, func(s *changeSystem) { s.eager, s.changes, s.faults, s.life = 1, 200, 12, 8 })
}

// secondList is where the second list is in force, on all its nodes.
func secondList(s *changeState, first, next list) {
	s.lists[0], s.lists[1] = first, next
	for n := range uint8(mostSeats) {
		if v := &s.seats[n]; (first | next).has(n) {
			v.page = page{gen: 2, names: next, before: first, run: 1}
			v.node.Epoch, v.epochs = 1, 1
		}
	}
}

// heldByFirst is where a client of the first of two lists holds the lock on two nodes.
func heldByFirst() *changeSystem {
	sys := eager()
	sys.start = func(s *changeState) {
		secondList(s, 0b00111, 0b01111)
		s.lockers[0] = lockerOf{list: 0b00111, phase: held, left: sys.life, token: 1}
		s.best = 1
		for n := range 2 {
			s.seats[n].node.Stripes[0], s.seats[n].node.Keys[0] = 1, scriptmodel.Key{Owner: ownerOf(0), Until: scriptmodel.Tick(sys.life)}
		}
	}
	return sys
}

// countedByFirst is where two nodes have numbers, of the first list's locks, that the
// others lack.
func countedByFirst() *changeSystem {
	sys := eager()
	sys.start = func(s *changeState) {
		secondList(s, 0b00111, 0b01111)
		s.best, s.seats[0].node.Stripes[0], s.seats[1].node.Stripes[0] = 5, 5, 5
	}
	return sys
}

// forgottenByOne is where a node has forgotten a number of the list before, which a node outside
// the list has, and one inside.
func forgottenByOne() *changeSystem {
	sys := eager()
	sys.start = func(s *changeState) {
		secondList(s, 0b11111, 0b01111)
		s.best, s.seats[0].node.Stripes[0], s.seats[4].node.Stripes[0] = 5, 5, 5
		s.seats[1] = seat{process: 2, epochs: 1}
	}
	return sys
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
