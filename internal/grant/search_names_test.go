package grant_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/quorumkit/redlock/internal/search"
	"github.com/quorumkit/redlock/internal/testkit"
)

// twoNames are two names of one stripe on the same nodes: what is kept of the one is at
// names[0], of the other at names[1]. Nodes have the counter and the signs of life of both.
type twoNames struct{ names [2]state }

// namesSystem is system for two names. Where the next command of a process to a node is a
// hand for either, one call of hand.lua may carry both.
type namesSystem struct {
	system
	mixesReplies bool // mistake: of a call for both, what it says of next owners is taken for the other name's
}

// stepBoth is a call for both names that arrives; A is the process, B the node.
const stepBoth uint8 = 255

func (sys *namesSystem) Init() (s twoNames) {
	for i := range s.names {
		s.names[i] = sys.system.Init()
	}
	return s
}

// Next: what may befall either name by itself, and calls for both.
func (sys *namesSystem) Next(s twoNames, yield func(search.Step, twoNames)) {
	for i := range s.names {
		sys.system.Next(s.names[i], func(st search.Step, of state) {
			next := s
			next.names[i] = of
			sys.share(&next, i)
			st.D = uint8(i)
			yield(st, next)
		})
	}
	for p := range sys.processes {
		for n := range uint8(sys.nodes) {
			if sys.carriesBoth(&s, p, n) {
				next := s
				sys.handBoth(&next, p, n)
				yield(search.Step{Kind: stepBoth, A: p, B: n}, next)
			}
		}
	}
}

// share copies, on each node, the state kept once for both names to the other name.
func (sys *namesSystem) share(s *twoNames, from int) {
	for n := range sys.nodes {
		has, other := &s.names[from].columns[n].node, &s.names[1-from].columns[n].node
		other.Stripes, other.Live, other.Called, other.Waited, other.Readings = has.Stripes, has.Live, has.Called, has.Waited, has.Readings
	}
}

// carriesBoth tells whether a hand for either name is next on a process's line to a node.
func (sys *namesSystem) carriesBoth(s *twoNames, p, n uint8) bool {
	for i := range s.names {
		l := &s.names[i].columns[n].links[p]
		if l.sent[0].kind != sendHand || l.replies[replyRoom-1].kind != noMessage {
			return false
		}
	}
	return true
}

// handBoth makes a node do both hands, in one call.
func (sys *namesSystem) handBoth(s *twoNames, p, n uint8) {
	var replies [2]answer
	for i := range s.names {
		of := &s.names[i]
		replies[i] = sys.execute(of, p, n, of.columns[n].links[p].take(), true)
		sys.share(s, i)
	}
	if sys.mixesReplies {
		first, second := &replies[0], &replies[1]
		first.ticket, first.token, second.ticket, second.token = second.ticket, second.token, first.ticket, first.token
	}
	for i := range s.names {
		s.names[i].columns[n].links[p].reply(replies[i])
	}
}

func (sys *namesSystem) Check(s twoNames) error {
	return errors.Join(sys.system.Check(s.names[0]), sys.system.Check(s.names[1]))
}

func (sys *namesSystem) Describe(st search.Step) string {
	if st.Kind == stepBoth {
		return fmt.Sprintf("%c's call for both names arrives at node %d", 'A'+rune(st.A), st.B+1)
	}
	return fmt.Sprintf("name %d: %s", st.D+1, sys.system.Describe(st))
}

// Weight prefers calls for both.
func (sys *namesSystem) Weight(st search.Step) int {
	if st.Kind == stepBoth {
		return 40
	}
	return sys.system.Weight(st)
}

// TestSearchGrantNames has two names, which hands carry in one call.
func TestSearchGrantNames(t *testing.T) {
	t.Parallel()
	walks := 20
	if testkit.Deep() {
		walks = 2_000
	}
	for _, c := range []struct {
		name string
		sys  system
	}{
		{"two processes", system{nodes: 3, processes: 2, turns: 3}},
		{"three processes", system{nodes: 3, processes: 3, turns: 2}},
		{"five nodes", system{nodes: 5, processes: 3, turns: 2}},
		{"passes, releases call now and then", system{nodes: 3, processes: 3, turns: 3, row: 2, calls: true, polls: 20}},
		{"commands late, one may leave, pushes are lost", system{nodes: 3, processes: 3, turns: 2, unknown: 2, leaver: 1, lost: 2, polls: 20}},
		{"one takes no push", system{nodes: 3, processes: 3, turns: 2, plain: 1, calls: true, polls: 20}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := search.Walk(&namesSystem{system: c.sys}, search.WalkOptions{Seed: 1, Walks: walks, Steps: 1_000})
			t.Log(r)
			if err := r.Err(); err != nil {
				t.Error(err)
			}
		})
	}
}

// Of the integers that a call brings, each name has its own two.
func TestSearchGrantNamesCatches(t *testing.T) {
	testkit.Full(t)
	t.Parallel()
	sys := &namesSystem{system: system{nodes: 3, processes: 3, turns: 3}, mixesReplies: true}
	r := search.Walk(sys, search.WalkOptions{Seed: 140, Walks: 1_000, Steps: 1_000})
	t.Log(r)
	if r.Trace == nil {
		t.Error("replies that are taken for the other name's were not found")
	}
}
