package membership_test

import (
	"errors"
	"testing"

	"github.com/quorumkit/redlock/internal/search"
	"github.com/quorumkit/redlock/internal/testkit"
)

// Strict recovery in the search of membership: nobody founds a cluster again that was
// founded strict while a record of it is left, marked or not. The first joiner has not the
// option, the second has it.

var (
	errFoundedAgain = errors.New("a strict cluster is founded again without an operator, and a record of it is left")
	errMarkLost     = errors.New("an operator took all nodes in, and one is not strict")
)

// option tells whether a joiner has the option.
func (sys *memberSystem) option(j uint8) bool { return sys.strict && j == 1 }

// marking notes in each state that it passes on whether no record was left then:
// from there on nothing can tell that the cluster was strict.
func (sys *memberSystem) marking(yield yieldMember) yieldMember {
	return func(st search.Step, s memberState) {
		s.gone = s.gone || !sys.left(&s)
		yield(st, s)
	}
}

// left tells whether a node shows a record of the strict cluster.
func (sys *memberSystem) left(s *memberState) bool {
	for i := range sys.nodes {
		if s.servers[i].cluster == 1 {
			return true
		}
	}
	return false
}

// forbids tells whether the joiner must not found the cluster now.
func (sys *memberSystem) forbids(s *memberState, j uint8) bool {
	return sys.option(j) || sys.strict && (!s.gone || sys.mistake == mistakeNoneLeft)
}

// unmarked is the joiner as if it had seen no mark.
func (k *joiner) unmarked() *joiner {
	out := *k
	for i := range out.seen {
		out.seen[i].strict = false
	}
	return &out
}

// forgetful is nodes that may forget, so often in all, and joiners that look at
// every node of a strict cluster. It has no client.
func forgetful(faults uint8, change func(*memberSystem)) func(*memberSystem) {
	return func(s *memberSystem) {
		s.strict, s.racing, s.flush, s.faults, s.faulty, s.clients = true, true, true, faults, s.nodes, 0
		change(s)
	}
}

// Those of whole are only for the whole search. One with a bound of states does not close.
var strictSearches = []struct {
	name   string
	whole  bool
	most   int
	change func(*memberSystem)
}{
	{"all nodes are flushed", false, 0, forgetful(3, func(*memberSystem) {})},
	{"all nodes are flushed or restart empty", true, 0, forgetful(3, func(s *memberSystem) { s.blank = true })},
	{"nodes are flushed or restart with an old AOF", true, 0, forgetful(2, func(s *memberSystem) { s.old = true })},
	{"joiners with and without the option", true, 3_000_000, forgetful(3, func(s *memberSystem) { s.joiners = 2 })},
}

func TestSearchMembershipFoundsNoStrictClusterAgain(t *testing.T) {
	testkit.Full(t)
	for _, c := range strictSearches {
		t.Run(c.name, func(t *testing.T) {
			if c.whole {
				testkit.NeedDeep(t)
			}
			most := c.most
			if testkit.UnderRace {
				most = firstStates
			}
			sys := closedSystem(c.change)
			sys.back = 64
			r := search.Closed(sys, search.Options{MaxStates: most})
			t.Log(r)
			if err := r.Err(); err != nil && (r.Trace != nil || most == 0) {
				t.Fatal(err)
			}
		})
	}
}

// Five nodes of a strict cluster, joiners with and without the option, clients, and
// all faults of the other walks.
func TestSearchMembershipFoundsNoStrictClusterAgainOnRandomWalks(t *testing.T) {
	testkit.Unraced(t)
	walks := 15
	switch {
	case testkit.UnderRace:
		walks = 2
	case testkit.Deep():
		walks = 600
	}
	sys := walkedSystem(func(s *memberSystem) { s.strict = true })
	r := search.Walk(sys, search.WalkOptions{Seed: 1, Walks: walks, Steps: 1000})
	t.Log(r)
	testkit.Must(t, r.Err())
}

// breakingStrict are the rules of strict recovery, each broken. The last breaks the
// property, and shows that founding is reached at all.
var breakingStrict = []struct {
	name    string
	mistake mistake
	want    error
	change  func(*memberSystem)
}{
	{"a founder ignores the mark", mistakeMarkIgnored, errFoundedAgain, forgetful(2, func(*memberSystem) {})},
	{"an install without the mark", mistakeMarkLost, errFoundedAgain, forgetful(3, func(*memberSystem) {})},
	{"a founder believes reads of before its waits", mistakeOldReads, errFoundedAgain, forgetful(3, func(*memberSystem) {})},
	{"an operator's install without the mark", mistakeMarkLost, errMarkLost, forgetful(2, func(s *memberSystem) { s.back = 1 })},
	{"founding where no record is left", mistakeNoneLeft, errFoundedAgain, forgetful(3, func(*memberSystem) {})},
}

func TestSearchMembershipCheckerCatchesStrictRecoveryUndone(t *testing.T) {
	testkit.Full(t)
	for _, c := range breakingStrict {
		t.Run(c.name, func(t *testing.T) {
			sys := closedSystem(c.change)
			sys.mistake = c.mistake
			wantCaught(t, sys, 500_000, c.want)
		})
	}
}
