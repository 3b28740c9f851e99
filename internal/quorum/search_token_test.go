package quorum_test

import (
	"errors"
	"testing"
	"time"

	"github.com/quorumkit/redlock/internal/scriptmodel"
	"github.com/quorumkit/redlock/internal/search"
	"github.com/quorumkit/redlock/internal/testkit"
)

// closed runs one closed search and prints its figures.
func closed(t *testing.T, sys *tokenSystem) search.Result[tokenState] {
	t.Helper()
	start := time.Now()
	r := search.Closed(sys, search.Options{})
	t.Logf("%v, %.1f s", r, time.Since(start).Seconds())
	return r
}

// Attempts, by the name that each wants.
var (
	two    = []uint8{0, 0}
	three  = []uint8{0, 0, 0}
	shared = []uint8{0, 1}
	mixed  = []uint8{0, 0, 1}
	six    = []uint8{0, 0, 0, 0, 1, 1}

	numbers = func(n ...scriptmodel.Number) []scriptmodel.Number { return n }
)

// tokenSearches are the instances that hold. Names 0 and 1 share a stripe. Those
// without hints are bare: any hint up to most, or any at all.
var tokenSearches = []struct {
	name string
	cut  bool // also without REDLOCK_TEST=deep
	sys  tokenSystem
}{
	{"3 acquisitions of one name, any token to 3", true, tokenSystem{nodes: 3, attempts: three, most: 3, lean: true}},
	{"3 acquisitions of one name, any token to 6", false, tokenSystem{nodes: 3, attempts: three, most: 6, lean: true}},
	{"2 acquisitions of one name, any token", true, tokenSystem{nodes: 3, attempts: two, lean: true}},
	{"2 acquisitions of one name, every message twice, any token to 3", true, tokenSystem{nodes: 3, attempts: two, copies: 2, most: 3, lean: true}},
	{"2 acquisitions of one name, every message twice, any token to 6", false, tokenSystem{nodes: 3, attempts: two, copies: 2, most: 6, lean: true}},
	{"2 names on one stripe, any token", true, tokenSystem{nodes: 3, attempts: shared, lean: true}},
	{"2 names on one stripe, every message twice, any token to 5", false, tokenSystem{nodes: 3, attempts: shared, copies: 2, most: 5, lean: true}},
	{"2 names on one stripe, 2 acquisitions of one, any token to 5", false, tokenSystem{nodes: 3, attempts: mixed, most: 5, lean: true}},
	{"4 nodes, 2 acquisitions, any token to 4", false, tokenSystem{nodes: 4, attempts: two, most: 4, lean: true}},
	{"5 nodes, 2 acquisitions, any token to 5", false, tokenSystem{nodes: 5, attempts: two, most: 5, lean: true}},
	{"nothing left out, 2 nodes", true, tokenSystem{nodes: 2, attempts: two, hints: numbers(0, 2)}},
	{"nothing left out, 3 nodes", false, tokenSystem{nodes: 3, attempts: two, hints: numbers(0)}},
	{"leases, extensions and re-seeds", true, tokenSystem{nodes: 3, attempts: two, hints: numbers(0), leases: true, lean: true}},
	{"leases, hints", true, tokenSystem{nodes: 3, attempts: two, hints: numbers(0, 2, 3), leases: true, lean: true}},
	{"leases, every message twice", false, tokenSystem{nodes: 3, attempts: two, copies: 2, hints: numbers(0), leases: true, lean: true}},
	{"leases, 3 acquisitions", false, tokenSystem{nodes: 3, attempts: three, hints: numbers(0), leases: true, lean: true}},
	{"leases, nothing left out, 2 nodes", false, tokenSystem{nodes: 2, attempts: two, hints: numbers(0, 2), leases: true}},
}

func TestSearchTokenClosed(t *testing.T) {
	for _, c := range tokenSearches {
		t.Run(c.name, func(t *testing.T) {
			if !c.cut {
				testkit.NeedDeep(t)
			}
			c.sys.copies = max(c.sys.copies, 1)
			if err := closed(t, &c.sys).Err(); err != nil {
				t.Error(err)
			}
		})
	}
}

// tokenControls break one rule each; the same search must find it.
var tokenControls = []struct {
	name string
	sys  tokenSystem
	want []error // any of
}{
	{
		"the largest grant of a quorum is the token",
		tokenSystem{mistake: naive, attempts: two, hints: numbers(0, 2)},
		[]error{errTwice, errOrder},
	},
	{
		"the largest grant of a quorum is the token, bare",
		tokenSystem{mistake: naive, attempts: two, most: 3},
		[]error{errTwice, errOrder},
	},
	{
		"less than a quorum, bare",
		tokenSystem{mistake: belowQuorum, attempts: two, most: 3},
		[]error{errTwice, errOrder},
	},
	{
		"less than a quorum",
		tokenSystem{mistake: belowQuorum, attempts: two, hints: numbers(0, 2)},
		[]error{errTwice, errOrder},
	},
	{
		"a raise without owner check",
		tokenSystem{flaw: scriptmodel.RaiseForAnyone, attempts: two, hints: numbers(0, 2)},
		[]error{errTwice},
	},
	{
		"a raise without stripe <= t",
		tokenSystem{flaw: scriptmodel.RaiseDown, attempts: two, copies: 2, hints: numbers(0, 2)},
		[]error{errTwice, errOrder},
	},
	{
		"a counter that expires",
		tokenSystem{counterExpires: true, attempts: two, hints: numbers(0)},
		[]error{errTwice, errOrder},
	},
	{
		"a lapsed lock that may extend",
		tokenSystem{leases: true, mistake: lapsedExtends, attempts: two, hints: numbers(0)},
		[]error{errOutdated},
	},
}

func TestSearchTokenCatches(t *testing.T) {
	for _, c := range tokenControls {
		t.Run(c.name, func(t *testing.T) {
			c.sys.nodes, c.sys.copies, c.sys.lean = 3, max(c.sys.copies, 1), true
			r := closed(t, &c.sys)
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

func isAny(err error, want []error) bool {
	for _, w := range want {
		if errors.Is(err, w) {
			return true
		}
	}
	return false
}

// walks goes through an instance at random, with everything in it.
func walks(t *testing.T, sys *tokenSystem, n int) search.WalkResult[tokenState] {
	t.Helper()
	start := time.Now()
	r := search.Walk(sys, search.WalkOptions{Seed: 1, Walks: n, Steps: 300})
	t.Logf("%v, %.1f s", r, time.Since(start).Seconds())
	return r
}

func TestSearchTokenRandom(t *testing.T) {
	n := 100
	if testkit.Deep() {
		n = 20_000
	}
	for _, leases := range []bool{false, true} {
		for _, nodes := range []int{3, 4, 5} {
			sys := &tokenSystem{nodes: nodes, attempts: six, copies: 2, hints: numbers(0, 2, 3, 5, 8), leases: leases}
			if err := walks(t, sys, n).Err(); err != nil {
				t.Errorf("%d nodes, leases %v: %v", nodes, leases, err)
			}
		}
	}
}

// Walks that find nothing prove little unless they find what is there.
func TestSearchTokenRandomCatches(t *testing.T) {
	testkit.Full(t)
	for _, c := range tokenControls {
		if c.sys.most != 0 {
			continue // needs a Canon: hints of any size grow without bound
		}
		t.Run(c.name, func(t *testing.T) {
			// A lapse that leads to an extension is rare among attempts that may
			// also give up.
			c.sys.nodes, c.sys.copies, c.sys.lean = 3, max(c.sys.copies, 1), c.sys.leases
			r := walks(t, &c.sys, 40_000)
			if r.Trace == nil || !isAny(r.Trace.Err, append(c.want, errTwice, errOrder)) {
				t.Errorf("got %v; want any of %v", r.Err(), c.want)
			}
		})
	}
}
