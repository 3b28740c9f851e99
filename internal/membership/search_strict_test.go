package membership_test

import (
	"errors"
	"testing"

	"github.com/quorumkit/redlock/internal/search"
	"github.com/quorumkit/redlock/internal/testkit"
)

// Strict recovery in the search of membership: nobody founds a cluster again that
// is strict while a record of it is left. The first joiner has not the option, the
// second has it.

// strictness is how strict recovery comes into a system.
type strictness uint8

const (
	notStrict strictness = iota
	// strictAll: the cluster was founded strict. It is bound from the beginning, and
	// left as long as any node shows a record of it, no matter what that record's mark.
	strictAll
	// strictFirst: the first client has the option, and writes the mark on nodes that
	// vote for it. The cluster is bound when that client has had a lock, and left as
	// long as any node shows the mark.
	strictFirst
)

var (
	errFoundedAgain = errors.New("a strict cluster is founded again without an operator, and a record of it is left")
	errMarkLost     = errors.New("an operator took all nodes in, and one is not strict")
)

// option tells whether a joiner has the option.
func (sys *memberSystem) option(j uint8) bool { return sys.strict != notStrict && j == 1 }

// marking notes in each state that it passes on whether no record was left then:
// from there on nothing can tell that the cluster was strict.
func (sys *memberSystem) marking(yield yieldMember) yieldMember {
	return func(st search.Step, s memberState) {
		s.gone = s.gone || s.bound && !sys.left(&s)
		yield(st, s)
	}
}

// left tells whether a node shows a record of the strict cluster.
func (sys *memberSystem) left(s *memberState) bool {
	for i := range sys.nodes {
		v := &s.servers[i]
		if sys.strict == strictAll && v.cluster == 1 || sys.strict == strictFirst && (v.strict || v.granted) {
			return true
		}
	}
	return false
}

// forbids tells whether the joiner must not found the cluster now.
func (sys *memberSystem) forbids(s *memberState, j uint8) bool {
	return sys.option(j) || s.bound && (!s.gone || sys.mistake == mistakeNoneLeft)
}

// bindable tells whether the client counts the vote of the server: with the option
// it does when it has read the mark, under the epoch that votes.
func (sys *memberSystem) bindable(v *server, c uint8) bool {
	return sys.strict != strictFirst || c != 0 || v.strict || sys.mistake == mistakeMarkLater
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
// every node. It has no client.
func forgetful(strict strictness, faults uint8, change func(*memberSystem)) func(*memberSystem) {
	return func(s *memberSystem) {
		s.strict, s.racing, s.flush, s.faults, s.faulty, s.clients = strict, true, true, faults, s.nodes, 0
		change(s)
	}
}

// newcomer is a client with the option that comes when one node has forgotten.
func newcomer(s *memberSystem) {
	s.clients = 1
	s.start = func(sys *memberSystem, s *memberState) {
		s.servers[2] = server{data: data{nonce: 1, onRun: 1}, process: 1, nonces: 1, epochs: 1, loaded: true}
		*s = sys.begin(*s, 0)
	}
}

// Those with a bound of states are not closed: the first is of every day, the
// second of the whole search; 0: it closes, or is searched as a whole only.
var strictSearches = []struct {
	name       string
	cut, whole int
	change     func(*memberSystem)
}{
	{"all nodes are flushed", 0, 0, forgetful(strictAll, 3, func(*memberSystem) {})},
	{"a client with the option comes", 200_000, 0, forgetful(strictFirst, 1, newcomer)},
	{"all nodes are flushed or restart empty", wholeOnly, 0, forgetful(strictAll, 3, func(s *memberSystem) { s.blank = true })},
	{"nodes are flushed or restart with an old AOF", wholeOnly, 0, forgetful(strictAll, 2, func(s *memberSystem) { s.old = true })},
	{"joiners with and without the option", wholeOnly, 3_000_000, forgetful(strictAll, 3, func(s *memberSystem) { s.joiners = 2 })},
}

// wholeOnly is the cut of a search that is not of every day.
const wholeOnly = -1

func TestSearchMembershipFoundsNoStrictClusterAgain(t *testing.T) {
	testkit.Full(t)
	for _, c := range strictSearches {
		t.Run(c.name, func(t *testing.T) {
			most := c.cut
			switch {
			case testkit.Deep():
				most = c.whole
			case most == wholeOnly:
				t.Skip("REDLOCK_TEST=deep searches it")
			case testkit.UnderRace:
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
	sys := walkedSystem(func(s *memberSystem) { s.strict = strictAll })
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
	{"a founder ignores the mark", mistakeMarkIgnored, errFoundedAgain, forgetful(strictAll, 2, func(*memberSystem) {})},
	{"an install without the mark", mistakeMarkLost, errFoundedAgain, forgetful(strictAll, 3, func(*memberSystem) {})},
	{"a founder believes reads of before its waits", mistakeOldReads, errFoundedAgain, forgetful(strictAll, 3, func(*memberSystem) {})},
	{"a client with the option counts votes before the mark stands", mistakeMarkLater, errFoundedAgain, forgetful(strictFirst, 1, newcomer)},
	{"an operator's install without the mark", mistakeMarkLost, errMarkLost, forgetful(strictAll, 2, func(s *memberSystem) { s.back = 1 })},
	{"founding where no record is left", mistakeNoneLeft, errFoundedAgain, forgetful(strictAll, 3, func(*memberSystem) {})},
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
