package slots_test

import (
	"errors"
	"testing"

	"github.com/quorumkit/redlock/internal/scriptmodel"
	"github.com/quorumkit/redlock/internal/search"
	"github.com/quorumkit/redlock/internal/testkit"
)

func TestSearchSlotsClosed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		full bool // with REDLOCK_TEST=deep only
		sys  system
	}{
		{"two callers, one slot", false, system{callers: 2, limit: 1, turns: 1}},
		{"two callers, two slots", false, system{callers: 2, limit: 2, turns: 1}},
		{"two callers, one slot, of whom one may give up", false, system{callers: 2, limit: 1, turns: 1, leaves: 1, early: true}},
		{"one caller, one slot, which its goroutines hand on", false, system{callers: 1, limit: 1, turns: 3, row: 3}},
		{"one caller, two slots, which its goroutines hand on", false, system{callers: 1, limit: 2, turns: 3, row: 3}},
		{"two callers, one slot, twice each", true, system{callers: 2, limit: 1, turns: 2}},
		{"two callers, two slots, twice each", true, system{callers: 2, limit: 2, turns: 2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if c.full {
				testkit.NeedDeep(t)
			}
			r := search.Closed(&c.sys, search.Options{MaxStates: 60_000_000})
			t.Log(r)
			if err := r.Err(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestSearchSlotsRandom(t *testing.T) {
	testkit.Full(t)
	t.Parallel()
	walks := 1_000
	if testkit.Deep() {
		walks = 100_000
	}
	for _, sys := range []system{
		{callers: 3, limit: 2, turns: 2},
		{callers: 4, limit: 2, turns: 2, leaves: 2},
		{callers: 4, limit: 3, turns: 2, early: true},
		{callers: 4, limit: 2, turns: 2, early: true, leaves: 1},
		{callers: 4, limit: 2, turns: 2, deaths: 2},
		{callers: 3, limit: 1, turns: 3, leaves: 2, doubles: 2},
		{callers: 2, limit: 1, turns: 4, row: 2},
		{callers: 3, limit: 2, turns: 3, row: 3, early: true},
		{callers: 3, limit: 2, turns: 3, row: 2, leaves: 2, doubles: 1},
		{callers: 3, limit: 2, turns: 3, row: 3, deaths: 2},
	} {
		r := search.Walk(&sys, search.WalkOptions{Seed: 1, Walks: walks, Steps: 400})
		t.Log(r)
		if err := r.Err(); err != nil {
			t.Error(err)
		}
	}
}

// Each rule that is broken must be found: else the search finds nothing.
func TestSearchSlotsCatches(t *testing.T) {
	testkit.Full(t)
	t.Parallel()
	for _, c := range []struct {
		name string
		sys  system
		want error
	}{
		{"the winner does not leave at once", system{callers: 3, limit: 2, turns: 1, stays: true}, errAsleep},
		{"leaving wakes nobody", system{callers: 3, limit: 2, turns: 1, flaw: scriptmodel.LeavesQuietly}, errAsleep},
		{"a call while asking is forgotten", system{callers: 2, limit: 1, turns: 1, forgets: true}, errAsleep},
		{"newcomers overtake", system{callers: 3, limit: 1, turns: 2, flaw: scriptmodel.NewcomersOvertake}, errOvertaken},
		{"not only the first takes a slot", system{callers: 3, limit: 1, turns: 2, flaw: scriptmodel.AnyoneTakes}, errOvertaken},
		{"a leave takes any place", system{callers: 3, limit: 1, turns: 2, leaves: 1, doubles: 2, flaw: scriptmodel.LeavesAnyPlace}, errTaken},
		{"who waits anew has the same place", system{callers: 3, limit: 1, turns: 3, leaves: 2, doubles: 2, samePlace: true}, errTaken},
		{"who gives back wakes itself", system{callers: 3, limit: 1, turns: 2, giveWake: true}, errHotLoop},
		{"a slot is handed on without an end", system{callers: 2, limit: 1, turns: 4, row: 2, unbound: true}, errTurns},
		{"what was handed on counts as if it had not been", system{callers: 2, limit: 1, turns: 4, row: 2, countsNew: true}, errTurns},
		{"who gets a slot forgets the one that it was handed", system{callers: 2, limit: 2, turns: 3, row: 3, keepsBoth: true}, errLitter},
		{"who was handed a slot stays in line", system{callers: 2, limit: 2, turns: 3, row: 3, stays: true}, errAsleep},
		{"a count on each node", system{callers: 3, limit: 2, turns: 1, anySlot: true}, errTooMany},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := search.Walk(&c.sys, search.WalkOptions{Seed: 1, Walks: 100_000, Steps: 300})
			t.Log(r)
			if r.Trace == nil || !errors.Is(r.Trace.Err, c.want) {
				t.Errorf("got %v; want %v", r.Err(), c.want)
			}
		})
	}
}
