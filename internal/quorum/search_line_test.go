package quorum_test

import (
	"errors"
	"testing"

	"github.com/quorumkit/redlock/internal/scriptmodel"
	"github.com/quorumkit/redlock/internal/search"
	"github.com/quorumkit/redlock/internal/testkit"
)

// lineSearches are the instances that hold. Three processes do not close where both kinds
// are among them.
var lineSearches = []struct {
	name string
	open bool // it does not close, and is searched with REDLOCK_TEST=deep only
	sys  lineSystem
}{
	{"one of each kind, by hints alone", false, lineSystem{shares: []bool{beside, alone}}},
	{"two who share, by hints alone", false, lineSystem{shares: []bool{beside, beside}}},
	{"one of each kind, each may leave", false, lineSystem{shares: []bool{beside, alone}, leavers: 3}},
	{"one of each kind, with looks, hints may be lost", false, lineSystem{shares: []bool{beside, alone}, looks: true, lost: 3}},
	{"one of each kind, with looks, the exclusive may die", false, lineSystem{shares: []bool{beside, alone}, looks: true, mortals: 2}},
	{"one of each kind, with looks, the sharer may die", false, lineSystem{shares: []bool{beside, alone}, looks: true, mortals: 1}},
	{"one of each kind, a key goes", false, lineSystem{shares: []bool{beside, alone}, drops: 1}},
	{"three who share", false, lineSystem{shares: []bool{beside, beside, beside}}},
	{"two who share and an exclusive, as far as it goes", true, lineSystem{shares: []bool{beside, alone, beside}}},
	{"a sharer and two exclusives, as far as it goes", true, lineSystem{shares: []bool{alone, beside, alone}}},
}

// mostLineStates is where the open ones end. Of two who share and an exclusive 8 million
// states were searched once, and nothing was found.
func mostLineStates() int {
	if testkit.UnderRace {
		return 5_000
	}
	return 1_500_000
}

func TestSearchLineClosed(t *testing.T) {
	t.Parallel()
	for _, c := range lineSearches {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if c.open {
				testkit.NeedDeep(t)
			}
			sys := c.sys
			sys.nodes, sys.lean = 3, true
			r := search.Closed(&sys, search.Options{MaxStates: mostLineStates()})
			t.Log(r)
			if r.Trace != nil || !r.Closed && !c.open && !testkit.UnderRace {
				t.Error(r.Err())
			}
		})
	}
}

// lineControls break one rule each; walks must find it.
var lineControls = []struct {
	name string
	sys  lineSystem
	want error
}{
	{"sharers that ignore waiting exclusives", lineSystem{shares: []bool{beside, alone, beside}, flaw: scriptmodel.SharersBarge}, errStarved},
	{"exclusives that ignore waiting sharers", lineSystem{shares: []bool{alone, beside, alone}, flaw: scriptmodel.SharersUnseen}, errStarved},
	{"only the first sharer is woken", lineSystem{shares: []bool{alone, beside, beside}, flaw: scriptmodel.WakesOneSharer}, errAsleep},
	{"an exclusive that leaves, and wakes no sharers behind it", lineSystem{shares: []bool{beside, alone, beside}, leavers: 2, flaw: scriptmodel.LeavesSilently}, errAsleep},
	{"a sharer's rollback that wakes sharers", lineSystem{shares: []bool{alone, beside, beside}, drops: 1, counts: true, flaw: scriptmodel.RollbackWakes}, errLivelock},
	{"a look that never says: ask", lineSystem{shares: []bool{beside, alone, beside}, mortals: 2, looks: true, flaw: scriptmodel.LooksPast}, errAsleep},
	{"a later goroutine goes by an old place", lineSystem{shares: []bool{beside, beside, alone, alone}, twin: true, mistake: keepsPlace}, errStarved},
	{"a hint that is forgotten while asking", lineSystem{shares: []bool{beside, alone}, mistake: deafAsks}, errAsleep},
	{"lost hints and no look", lineSystem{shares: []bool{alone, beside, beside}, lost: 3}, errAsleep},
	{"releases that call nobody", lineSystem{shares: []bool{alone, beside}, flaw: scriptmodel.CallsNobody}, errAsleep},
}

func TestSearchLineCatches(t *testing.T) {
	testkit.Full(t)
	if testkit.UnderRace {
		t.Skip("too slow under the race detector, which finds nothing in a state machine")
	}
	for _, c := range lineControls {
		t.Run(c.name, func(t *testing.T) {
			sys := c.sys
			sys.nodes = 3
			r := search.Walk(&sys, search.WalkOptions{Seed: 1, Walks: 60_000, Steps: 500})
			t.Log(r)
			if r.Trace == nil || !errors.Is(r.Trace.Err, c.want) {
				t.Errorf("got %v; want %v", r.Err(), c.want)
			}
			sys.flaw, sys.mistake = 0, 0
			if sys.lost != 0 {
				return
			}
			if r := search.Walk(&sys, search.WalkOptions{Seed: 1, Walks: max(3*r.Walks, 1000), Steps: 500}); r.Trace != nil {
				t.Errorf("the rule itself: %v", r.Err())
			}
		})
	}
}

func TestSearchLineRandom(t *testing.T) {
	testkit.Full(t)
	t.Parallel()
	walks := 300
	switch {
	case testkit.UnderRace:
		walks = 20
	case testkit.Deep():
		walks = 4_000
	}
	for _, c := range []struct {
		name string
		sys  lineSystem
	}{
		{"three nodes, three", lineSystem{nodes: 3, shares: []bool{beside, alone, beside}}},
		{"three nodes, four", lineSystem{nodes: 3, shares: []bool{beside, alone, beside, alone}}},
		{"three nodes, two of a process", lineSystem{nodes: 3, shares: []bool{beside, beside, alone, beside}, twin: true, looks: true, lost: 2}},
		{"three nodes, all may leave", lineSystem{nodes: 3, shares: []bool{beside, alone, beside, alone}, leavers: 15}},
		{"three nodes, two may die, hints are lost", lineSystem{nodes: 3, shares: []bool{beside, alone, beside, alone}, mortals: 6, looks: true, lost: 2}},
		{"five nodes, hints are lost", lineSystem{nodes: 5, shares: []bool{alone, beside, beside, alone}, looks: true, lost: 3}},
		{"five nodes, one may leave, one may die", lineSystem{nodes: 5, shares: []bool{alone, beside, alone, beside}, leavers: 1, mortals: 4, looks: true}},
		{"three nodes, each comes three times", lineSystem{nodes: 3, shares: []bool{beside, alone, beside, alone}, more: 2}},
		{"three nodes, each comes three times, hints are lost, some leave", lineSystem{nodes: 3, shares: []bool{beside, alone, beside, alone}, more: 2, looks: true, lost: 3, leavers: 3}},
		{"three nodes, two of a process, each comes three times", lineSystem{nodes: 3, shares: []bool{beside, beside, alone, beside}, twin: true, more: 2}},
		{"three nodes, two of a process go together", lineSystem{nodes: 3, shares: []bool{beside, beside, alone, beside}, twin: true, together: true}},
		{"three nodes, two of a process go together, hints are lost, some leave", lineSystem{nodes: 3, shares: []bool{beside, beside, alone, beside}, twin: true, together: true, leavers: 7, looks: true, lost: 2}},
		{"three nodes, a minority free", lineSystem{nodes: 3, shares: []bool{alone, beside, beside, beside}, drops: 1, counts: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := search.Walk(&c.sys, search.WalkOptions{Seed: 1, Walks: walks, Steps: 600})
			t.Log(r)
			if err := r.Err(); err != nil {
				t.Error(err)
			}
		})
	}
}
