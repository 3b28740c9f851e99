package membership_test

import (
	"math/rand/v2"
	"testing"

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
	{"no pause", slipPause, 1500, five},
	{"no base", slipBase, 1500, five},
	{"a joiner counts one list", slipOneList, 1500, five},
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
	return changing(5, 0b00111, func(s *changeSystem) { s.eager, s.changes, s.faults = 1, 200, 30 })
}

func five() *changeSystem { return changing(5, 0b00111, func(*changeSystem) {}) }

func TestSearchChangesOfTheListCheckerCatches(t *testing.T) {
	testkit.Unraced(t)
	for _, c := range slips {
		t.Run(c.name, func(t *testing.T) {
			sys := c.sys()
			sys.slip = c.slip
			r := search.Walk(sys, search.WalkOptions{Seed: 1, Walks: c.walks, Steps: 3000})
			t.Log(r)
			if r.Trace == nil {
				t.Fatal("not caught")
			}
			t.Log(r.Trace)
		})
	}
}
