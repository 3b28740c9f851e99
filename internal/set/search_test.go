package set_test

import (
	"errors"
	"testing"

	"github.com/quorumkit/redlock/internal/search"
	"github.com/quorumkit/redlock/internal/set"
	"github.com/quorumkit/redlock/internal/testkit"
)

// Every order of messages ends, and all have had their sets then: neither a deadlock nor
// a livelock.
func TestSearchSetClosed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		full bool // with REDLOCK_TEST=deep only
		sys  system
	}{
		{"two callers, the same two names", false, system{names: 2, wants: [][]int{{0, 1}, {1, 0}}, turns: 2}},
		{"two, three names, twice each, one may be lost", false, system{names: 3, wants: [][]int{{0, 1, 2}, {2, 1, 0}}, turns: 2, losses: 1}},
		{"two, four names, of which two are both's", false, system{names: 4, wants: [][]int{{0, 1, 2}, {3, 2, 1}}, turns: 2, losses: 1, leaves: 1}},
		{"three, in a circle", false, system{names: 3, wants: [][]int{{0, 1}, {1, 2}, {2, 0}}, turns: 1, losses: 1, leaves: 1}},
		{"three, and one of a single name", false, system{names: 2, wants: [][]int{{0, 1}, {1, 0}, {1}}, turns: 1, losses: 1, leaves: 1}},
		{"three, in a circle, twice each", true, system{names: 3, wants: [][]int{{0, 1}, {1, 2}, {2, 0}}, turns: 2}},
		{"three, all names", true, system{names: 3, wants: [][]int{{0, 1, 2}, {1, 2, 0}, {2, 0, 1}}, turns: 1, losses: 1, leaves: 1}},
		{"four, in a circle", true, system{names: 4, wants: [][]int{{0, 1}, {1, 2}, {2, 3}, {3, 0}}, turns: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if c.full {
				testkit.NeedDeep(t)
			}
			sys := c.sys
			sys.rule = set.Next
			r := search.Closed(&sys, search.Options{MaxStates: 20_000_000})
			t.Log(r)
			if err := r.Err(); err != nil {
				t.Error(err)
			}
			if found, states := circle(&sys); found {
				t.Errorf("%d states: %v", states, errLivelock)
			}
		})
	}
}

func TestSearchSetRandom(t *testing.T) {
	testkit.Full(t)
	t.Parallel()
	walks := 2_000
	if testkit.Deep() {
		walks = 200_000
	}
	for _, wants := range [][][]int{
		{{0, 1}, {1, 2}, {2, 3}, {3, 0}},
		{{0, 1, 2, 3}, {3, 2, 1, 0}, {1, 3}, {2, 0}},
		{{3, 1, 2}, {0, 3}, {2, 1, 0}, {3}},
	} {
		sys := system{names: 4, wants: wants, turns: 3, losses: 2, leaves: 1, rule: set.Next}
		r := search.Walk(&sys, search.WalkOptions{Seed: 1, Walks: walks, Steps: 2_000})
		t.Log(r)
		if err := r.Err(); err != nil {
			t.Error(err)
		}
	}
}

// Each rule that is broken must be found: else the search finds nothing.
func TestSearchSetCatches(t *testing.T) {
	t.Parallel()
	keepsAll := func(n int, held set.Names, asked bool) set.Step {
		s := set.Next(n, held, asked)
		s.Back = 0
		return s
	}
	keepsAfterLoss := func(n int, held set.Names, asked bool) set.Step {
		s := set.Next(n, held, asked)
		if !asked && s.Do == set.Ask && s.Back != 0 {
			return set.Step{Do: set.Wait, Name: s.Name}
		}
		return s
	}
	triesAgain := func(n int, held set.Names, asked bool) set.Step {
		s := set.Next(n, held, asked)
		if s.Do == set.Wait {
			return set.Step{Do: set.Ask, Back: held}
		}
		return s
	}
	waitsWithNothing := func(n int, held set.Names, asked bool) set.Step {
		s := set.Next(n, held, asked)
		if s.Do == set.Wait {
			s.Back = held
		}
		return s
	}
	halfIsEnough := func(n int, held set.Names, asked bool) set.Step {
		return set.Next(n-1, held, asked)
	}
	for _, c := range []struct {
		name string
		sys  system
		rule rule
		want error
	}{
		{"all that was won is kept", system{names: 2, wants: [][]int{{0, 1}, {0, 1}}, turns: 1}, keepsAll, errDeadlock},
		{"the callers' order", system{names: 2, wants: [][]int{{0, 1}, {1, 0}}, turns: 1, order: true}, set.Next, errDeadlock},
		{"what stands above is kept after a loss", system{names: 3, wants: [][]int{{0, 1, 2}, {0, 1, 2}, {2}}, turns: 1, losses: 1}, keepsAfterLoss, errDeadlock},
		{"all is given back, and tried again", system{names: 2, wants: [][]int{{0, 1}, {0, 1}}, turns: 1}, triesAgain, errLivelock},
		{"all is given back before the wait", system{names: 3, wants: [][]int{{0, 1}, {1, 2}, {0, 2}}, turns: 1}, waitsWithNothing, errLivelock},
		{"half a set", system{names: 2, wants: [][]int{{0, 1}, {0, 1}}, turns: 1}, halfIsEnough, errHalf},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			sys := c.sys
			sys.rule = c.rule
			if errors.Is(c.want, errLivelock) {
				if found, states := circle(&sys); !found {
					t.Errorf("%d states: got no circle; want one", states)
				}
				return
			}
			r := search.Closed(&sys, search.Options{MaxStates: 5_000_000})
			t.Log(r)
			if r.Trace == nil || !errors.Is(r.Trace.Err, c.want) {
				t.Errorf("got %v; want %v", r.Err(), c.want)
			}
		})
	}
}
