package election_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/quorumkit/redlock/internal/search"
	"github.com/quorumkit/redlock/internal/testkit"
)

// TestSearchElectionRandom walks through owners that come and go, looks that are slow or
// lost, and hints that are late, doubled or forged. No observer is told of a leader whose
// value no quorum has had within the last two seconds; and from each state, once nothing
// changes any more, it is told what is.
func TestSearchElectionRandom(t *testing.T) {
	testkit.Full(t)
	t.Parallel()
	walks := 1_000
	switch {
	case testkit.Deep():
		walks = 100_000
	case testkit.UnderRace:
		walks = 100
	}
	for _, c := range []struct {
		name string
		sys  system
	}{
		{"one owner", system{owners: 1, lost: true, forges: true}},
		{"two owners", system{owners: 2}},
		{"two owners, looks get lost", system{owners: 2, lost: true}},
		{"three owners, all at once", system{owners: 3, lost: true, forges: true}},
		{"three nodes grow, the observer has the list before", system{owners: 2, lost: true, rules: rules{change: grows, observes: 3}}},
		{"three nodes grow, the observer has the next list", system{owners: 2, lost: true, rules: rules{change: grows, observes: 4, strict: true}}},
		{"four nodes grow, the observer has the list before", system{owners: 2, lost: true, rules: rules{change: grows, short: 4, observes: 4, strict: true}}},
		{"four nodes grow, the observer has the next list", system{owners: 3, forges: true, rules: rules{change: grows, short: 4, observes: 5, strict: true}}},
		{"four nodes shrink, the observer has the list before", system{owners: 2, lost: true, rules: rules{change: shrinks, observes: 4, strict: true}}},
		{"four nodes shrink, the observer has the next list", system{owners: 3, lost: true, rules: rules{change: shrinks, observes: 3}}},
		{"five nodes shrink, the observer has the list before", system{owners: 2, lost: true, rules: rules{change: shrinks, short: 4, observes: 5, strict: true}}},
		{"five nodes shrink, the observer has the next list", system{owners: 2, lost: true, rules: rules{change: shrinks, short: 4, observes: 4, strict: true}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			walks := walks
			if c.sys.rules.change != stays {
				walks /= 8 // they are many
			}
			r := search.Walk(&c.sys, search.WalkOptions{Seed: 1, Walks: walks, Steps: 200})
			t.Log(r)
			if err := r.Err(); err != nil {
				t.Error(err)
			}
		})
	}
}

// little is one owner, and so many looks at each node, of which every reply may take long,
// within two moments.
func little(looks uint8, m mistake) system {
	return system{owners: 1, looks: looks, ticks: 1, blind: true, mistake: m}
}

// TestSearchElectionClosed goes through all that one owner and the observer can do with
// few looks and little time.
func TestSearchElectionClosed(t *testing.T) {
	testkit.Full(t)
	t.Parallel()
	looks := []uint8{1}
	if testkit.Deep() {
		looks = append(looks, 2)
	}
	for _, n := range looks {
		sys := little(n, none)
		r := search.Closed(&sys, search.Options{})
		t.Logf("%d looks at each node: %v", n, r)
		if r.Trace != nil || !r.Closed {
			t.Errorf("%d looks: got %v\n%v", n, r, r.Trace)
		}
	}
	for _, c := range []struct {
		name  string
		looks uint8
		mistake
	}{
		{"one node is believed", 1, believesOne},
		{"one look at each of a quorum is believed", 1, believesOneLook},
		{"a look speaks for the moment of its reply", 2, countsReplies},
		{"a reply counts for a look of the same moment", 2, sameMoment},
	} {
		if c.looks > 1 && testkit.UnderRace {
			continue // without it as well
		}
		sys := little(c.looks, c.mistake)
		r := search.Closed(&sys, search.Options{})
		t.Logf("%s: %v", c.name, r)
		if r.Trace == nil || !errors.Is(r.Trace.Err, errStale) {
			t.Errorf("%s: got %v; want %v", c.name, r, errStale)
		}
	}
}

// TestSearchElectionCatches has each rule broken, which must be found.
func TestSearchElectionCatches(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		sys  system
		want []error
		seed uint64 // where one is found soon
	}{
		{"a hint alone is believed", system{owners: 2, mistake: believesHints}, []error{errStale}, 1},
		{"one node is believed", system{owners: 2, mistake: believesOne}, []error{errStale}, 1},
		{"one look at each of a quorum is believed", system{owners: 2, mistake: believesOneLook}, []error{errStale}, 350},
		{"a look speaks for the moment of its reply", system{owners: 2, mistake: countsReplies}, []error{errStale, errVacancy}, 2880},
		{"a reply counts for a look of the same moment", system{owners: 2, mistake: sameMoment}, []error{errStale}, 1240},
		{"old looks are believed", system{owners: 2, lost: true, mistake: goesByOldLooks}, []error{errStale, errVacancy}, 570},
		{"a node that says nothing has nothing", system{owners: 2, lost: true, mistake: missingIsFree}, []error{errVacancy}, 1},
		{"one node that has nothing is believed", system{owners: 2, mistake: oneFreeIsVacant}, []error{errVacancy}, 350},
		{"one node's token is believed", system{owners: 2, forges: true, mistake: tokenOfOne}, []error{errToken}, 1},
		{"who split the nodes is waited for", system{owners: 3, mistake: neverVacant}, []error{errSettled}, 1},
		{"only the next list is gone by", system{owners: 2, mistake: goesByOneList, rules: rules{change: grows, observes: 4}}, []error{errVacancy}, 620},
		{"only the list before is gone by", system{owners: 2, mistake: goesByOneList, rules: rules{change: grows, short: 4, observes: 4}}, []error{errVacancy}, 6080},
		{"half of the longer list elect", system{owners: 2, rules: rules{change: grows, lax: true}}, []error{errTwo}, 1},
		// A limit that SAFETY.md states, and no mistake.
		{"of three nodes, two have what is on a quorum of four", system{owners: 2, rules: rules{change: grows, observes: 3, strict: true}}, []error{errStale}, 3320},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			sys := c.sys
			sys.blind = c.want[0] != errSettled //nolint:errorlint // it is the sentinel itself
			r := search.Walk(&sys, search.WalkOptions{Seed: c.seed, Walks: 20_000, Steps: 200})
			t.Log(r)
			var err error
			if r.Trace != nil {
				err = r.Trace.Err
			}
			if !slices.ContainsFunc(c.want, func(want error) bool { return errors.Is(err, want) }) {
				t.Errorf("got %v; want %v", err, c.want)
			}
		})
	}
}
