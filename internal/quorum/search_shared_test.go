package quorum_test

import (
	"testing"
	"time"

	"github.com/quorumkit/redlock/internal/scriptmodel"
	"github.com/quorumkit/redlock/internal/search"
	"github.com/quorumkit/redlock/internal/testkit"
)

const (
	beside = true  // a shared hold
	alone  = false // an exclusive one
)

// sharedControls break one rule each; the search must find it.
var sharedControls = []struct {
	name string
	sys  sharedSystem
	want []error // any of
}{
	{"the first sharer does not count up", sharedSystem{holds: []bool{alone, beside}, most: 3, flaw: scriptmodel.FirstCountsNot}, []error{errAlike, errNotAbove}},
	{"the largest of different numbers is the token", sharedSystem{holds: []bool{beside, alone}, most: 3, hinted: true, mistake: takesLargest}, []error{errAlike, errNotAbove}},
	{"the smallest of different numbers is the token", sharedSystem{holds: []bool{alone, beside}, most: 3, hinted: true, mistake: takesSmallest}, []error{errAlike, errNotAbove}},
	{"the largest of different numbers is the token, among sharers", sharedSystem{holds: []bool{beside, beside}, most: 3, moves: 1, mistake: takesLargest}, []error{errFell}},
	{"a raise by one who does not share", sharedSystem{holds: []bool{beside, alone, beside}, most: 3, hinted: true, raises: 2, flaw: scriptmodel.RaiseForAnyone}, []error{errAlike, errNotAbove, errFell}},
	{"a raise without stripe <= t", sharedSystem{holds: []bool{beside, alone, beside}, most: 3, hinted: true, raises: 1, flaw: scriptmodel.RaiseDown}, []error{errAlike, errNotAbove, errFell}},
	{"a re-seed that begins a generation with its own token", sharedSystem{holds: []bool{beside, alone, beside}, most: 3, reseeds: true, flaw: scriptmodel.ReseedsOldToken}, []error{errNotAbove}},
	{"the key ends with the first", sharedSystem{holds: []bool{beside, beside, alone}, time: true, lean: true, blind: true, flaw: scriptmodel.EndsWithFirst}, []error{errBeside}},
	{"the key ends with the newest", sharedSystem{holds: []bool{beside, beside, alone}, time: true, lean: true, lives: []scriptmodel.Tick{2, 1, 1}, blind: true, flaw: scriptmodel.EndsWithNewest}, []error{errBeside}},
	{"the key ends with the first, at a node", sharedSystem{holds: []bool{beside, beside}, time: true, lean: true, flaw: scriptmodel.EndsWithFirst}, []error{errKeyEnd}},
	{"the end is never lowered", sharedSystem{holds: []bool{beside, beside}, time: true, lean: true, flaw: scriptmodel.NeverLowers}, []error{errKeyEnd}},
	{"one end for all members", sharedSystem{holds: []bool{beside, beside}, time: true, lean: true, flaw: scriptmodel.OneEnd}, []error{errOwnEnd}},
	{"a release deletes the key", sharedSystem{holds: []bool{beside, beside, alone}, time: true, lean: true, blind: true, flaw: scriptmodel.DeletesAtRelease}, []error{errBeside}},
	{"a re-seed without a look for the tombstone", sharedSystem{holds: []bool{beside}, time: true, lean: true, extends: 1, flaw: scriptmodel.ReseedDead}, []error{errLitter}},
	{"an ask without a look for the tombstone", sharedSystem{holds: []bool{beside}, time: true, lean: true, flaw: scriptmodel.AcquireDead}, []error{errLitter}},
	{"an ask that takes any set for ours", sharedSystem{holds: []bool{beside}, time: true, lean: true, foreign: true, flaw: scriptmodel.Unmarked}, []error{errTheirs}},
	{"a clock's hint for sharers", sharedSystem{holds: []bool{beside, beside, beside}, most: 3, hinted: true, alike: true, flaw: scriptmodel.HintedShare}, []error{errUneven}},
	{"one raise only", sharedSystem{holds: []bool{beside}, most: 12, moves: 6, raises: 1, ahead: true}, []error{errNoToken}},
	{"raises to numbers that were shown only", sharedSystem{holds: []bool{beside}, most: 12, moves: 6, raises: 3, ahead: true, mistake: raisesToGrants}, []error{errNoToken}},
	{"a node that forgot votes at once", sharedSystem{holds: []bool{beside, alone}, time: true, lean: true, forgets: 1, mistake: rejoinsEarly}, []error{errBeside}},
}

func TestSearchSharedCatches(t *testing.T) {
	testkit.Full(t)
	for _, c := range sharedControls {
		t.Run(c.name, func(t *testing.T) {
			c.sys.nodes, c.sys.copies = 3, 1
			r := closedShared(t, &c.sys)
			if r.Trace == nil && testkit.UnderRace {
				t.Skip("the race detector leaves time for a first part only")
			}
			if r.Trace == nil {
				t.Fatalf("not caught; want any of %v", c.want)
			}
			if !isAny(r.Trace.Err, c.want) {
				t.Errorf("got %v; want any of %v", r.Trace.Err, c.want)
			}
			t.Logf("caught:\n%s", r.Trace)
		})
	}
}

// mostSharedStates are as many as any instance has, or a first part.
func mostSharedStates() int {
	if testkit.UnderRace {
		return 20_000
	}
	return 8_000_000
}

// closedShared runs one closed search and prints its figures.
func closedShared(t *testing.T, sys *sharedSystem) search.Result[sharedState] {
	t.Helper()
	start := time.Now()
	r := search.Closed(sys, search.Options{MaxStates: mostSharedStates()})
	t.Logf("%v, %.1f s", r, time.Since(start).Seconds())
	return r
}

// sharedSearches are the instances that hold.
var sharedSearches = []struct {
	name string
	cut  bool // also without REDLOCK_TEST=deep
	sys  sharedSystem
}{
	{"tokens: one of each kind, every message twice", true, sharedSystem{holds: []bool{beside, alone}, copies: 2, most: 3, hinted: true, raises: 2, reseeds: true}},
	{"tokens: one of each kind, a counter that others move", true, sharedSystem{holds: []bool{beside, alone}, most: 4, hinted: true, raises: 3, moves: 1, reseeds: true}},
	{"tokens: two sharers, a counter that others move", true, sharedSystem{holds: []bool{beside, beside}, most: 3, raises: 2, moves: 2, reseeds: true}},
	{"tokens: a sharer and two exclusives", true, sharedSystem{holds: []bool{beside, alone, alone}, most: 3, hinted: true, raises: 1, reseeds: true}},
	{"tokens: a sharer and two exclusives, up to 4", false, sharedSystem{holds: []bool{beside, alone, alone}, most: 4, hinted: true, raises: 2, reseeds: true}},
	{"tokens: one of each kind, every message twice, three raises", false, sharedSystem{holds: []bool{beside, alone}, copies: 2, most: 4, hinted: true, raises: 3, reseeds: true}},
	{"tokens: two sharers, every message twice", false, sharedSystem{holds: []bool{beside, beside}, copies: 2, most: 3, raises: 2, reseeds: true}},
	{"tokens: two sharers and an exclusive", false, sharedSystem{holds: []bool{beside, alone, beside}, most: 3, hinted: true, raises: 2, reseeds: true}},
	{"tokens: three sharers that come together", true, sharedSystem{holds: []bool{beside, beside, beside}, most: 3, alike: true}},
	{"tokens: a sharer, a counter that others move often", true, sharedSystem{holds: []bool{beside}, most: 12, moves: 6, raises: 3, ahead: true}},
	{"ends: two sharers, extended", true, sharedSystem{holds: []bool{beside, beside}, time: true, lean: true, extends: 1}},
	{"ends: one of each kind, extended twice", true, sharedSystem{holds: []bool{beside, alone}, time: true, lean: true, extends: 2}},
	{"ends: one of each kind, a node forgets", true, sharedSystem{holds: []bool{beside, alone}, time: true, lean: true, extends: 1, forgets: 1}},
	{"ends: one of each kind, another's set on a node", true, sharedSystem{holds: []bool{beside, alone}, time: true, lean: true, extends: 1, foreign: true}},
	{"ends: leases of one and two ticks", false, sharedSystem{holds: []bool{beside, beside}, lives: []scriptmodel.Tick{2, 1}, time: true, lean: true, extends: 1}},
	{"ends: a sharer and two exclusives", false, sharedSystem{holds: []bool{beside, alone, alone}, time: true, lean: true}},
	{"ends: two sharers and an exclusive", false, sharedSystem{holds: []bool{beside, alone, beside}, time: true, lean: true}},
}

func TestSearchSharedClosed(t *testing.T) {
	testkit.Full(t)
	for _, c := range sharedSearches {
		t.Run(c.name, func(t *testing.T) {
			if !c.cut {
				testkit.NeedDeep(t)
			}
			c.sys.nodes, c.sys.copies = 3, max(c.sys.copies, 1)
			if r := closedShared(t, &c.sys); r.Trace != nil || !r.Closed && !testkit.UnderRace {
				t.Error(r.Err())
			}
		})
	}
}

// sharedWalks have all in one: times, numbers, and what befalls the nodes.
var sharedWalks = []sharedSystem{
	{nodes: 3, holds: []bool{beside, alone, beside}, lives: []scriptmodel.Tick{2, 1, 1}},
	{nodes: 3, holds: []bool{beside, alone, beside, alone, beside}},
	{nodes: 4, holds: []bool{beside, beside, alone, alone}},
	{nodes: 5, holds: []bool{beside, alone, beside, beside, alone}},
}

func TestSearchSharedRandom(t *testing.T) {
	walks := 500
	switch {
	case testkit.UnderRace:
		walks = 30
	case testkit.Deep():
		walks = 20_000
	}
	for _, sys := range sharedWalks {
		for _, timed := range []bool{true, false} {
			sys := walked(sys)
			if !timed { // what a node has may go at any moment
				sys.time, sys.reseeds = false, true
			}
			start := time.Now()
			r := search.Walk(&sys, search.WalkOptions{Seed: 1, Walks: walks, Steps: 400})
			t.Logf("%d nodes, %d attempts, leases %v: %v, %.1f s", sys.nodes, len(sys.holds), timed, r, time.Since(start).Seconds())
			if err := r.Err(); err != nil {
				t.Error(err)
			}
		}
	}
}

// Walks that find nothing prove little unless they find what is there. They do not find a
// raise by one who does not share, nor a re-seed with its own token, in 40,000 walks: those
// need histories that the closed search finds.
func TestSearchSharedRandomCatches(t *testing.T) {
	testkit.Full(t)
	for _, c := range []struct {
		name string
		full bool // with REDLOCK_TEST=deep only: thousands of walks
		edit func(*sharedSystem)
	}{
		{"the first sharer does not count up", false, func(s *sharedSystem) { s.flaw = scriptmodel.FirstCountsNot }},
		{"the largest of different numbers is the token", false, func(s *sharedSystem) { s.mistake = takesLargest }},
		{"a raise without stripe <= t", true, func(s *sharedSystem) { s.flaw = scriptmodel.RaiseDown }},
		{"the key ends with the first", false, func(s *sharedSystem) { s.flaw, s.blind = scriptmodel.EndsWithFirst, true }},
		{"a release deletes the key", false, func(s *sharedSystem) { s.flaw, s.blind = scriptmodel.DeletesAtRelease, true }},
		{"a re-seed without a look for the tombstone", false, func(s *sharedSystem) { s.flaw = scriptmodel.ReseedDead }},
		{"a lapsed hold that may extend", true, func(s *sharedSystem) { s.mistake = lapseExtends }},
		{"a node that forgot votes at once", false, func(s *sharedSystem) { s.mistake = rejoinsEarly }},
	} {
		t.Run(c.name, func(t *testing.T) {
			if testkit.UnderRace || c.full && !testkit.Deep() {
				t.Skip("the deep tier has it, without the race detector")
			}
			sys := walked(sharedWalks[1])
			c.edit(&sys)
			r := search.Walk(&sys, search.WalkOptions{Seed: 1, Walks: 40_000, Steps: 400})
			t.Log(r)
			if r.Trace == nil {
				t.Fatal("not caught")
			}
			t.Logf("caught:\n%s", r.Trace)
		})
	}
}

// walked is the system with all that can befall it.
func walked(sys sharedSystem) sharedSystem {
	sys.copies, sys.most, sys.hinted, sys.raises, sys.moves = 2, 9, true, 3, 3
	sys.time, sys.extends, sys.forgets = true, 3, 2
	return sys
}
