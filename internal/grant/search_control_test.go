package grant_test

import (
	"errors"
	"testing"

	"github.com/quorumkit/redlock/internal/scriptmodel"
	"github.com/quorumkit/redlock/internal/search"
	"github.com/quorumkit/redlock/internal/testkit"
)

// Each rule that is broken must be found: else the search finds nothing.
func TestSearchGrantCatches(t *testing.T) {
	testkit.Full(t)
	t.Parallel()
	for _, c := range []struct {
		name string
		sys  system
		want error
		seed uint64 // where one is found soon
	}{
		{"a lease that counts from the push's arrival", system{processes: 3, turns: 2, time: 12, polls: 9, mistake: countsFromArrival}, errTwoHold, 2400},
		{"a lease that counts from the latest sign", system{processes: 3, turns: 2, time: 12, polls: 9, mistake: countsFromLastSign}, errTwoHold, 11390},
		{"a push of an older attempt that counts", system{processes: 3, turns: 3, mistake: anyOwnerCounts}, errToken, 36},
		{"a fresh owner while grants are open", system{processes: 3, turns: 2, mistake: freshWhileOpen}, errKeyLeft, 1},
		{"a next place without a look at the queue", system{processes: 3, turns: 3, flaw: scriptmodel.BlindPlace}, errOvertaken, 1},
		{"places that are left unequal", system{processes: 3, turns: 3, mistake: leavesPlacesUnequal}, errOvertaken, 183},
		{"a counter below the place", system{processes: 3, turns: 3, flaw: scriptmodel.BelowPlace}, errOvertaken, 147},
		{"no sign of life in a hand", system{processes: 3, turns: 3, quiet: true, polls: 9, flaw: scriptmodel.SignlessHand}, errOvertaken, 1},
		{"a released owner's entry that stays", system{processes: 3, turns: 2, flaw: scriptmodel.EntryStaysBehind}, errKeyLeft, 1},
		{"no tombstone left", system{processes: 2, turns: 3, unknown: 2, mistake: noTombstones}, errKeyLeft, 1},
		{"tombstones not looked at", system{processes: 2, turns: 3, unknown: 2, flaw: scriptmodel.EnterDead | scriptmodel.AcquireDead}, errKeyLeft, 23},
		{"a refusal that undoes a push", system{processes: 3, turns: 2, mistake: refusalUndoes}, errStuck, 1500},
		{"others never asked", system{processes: 3, turns: 2, mistake: othersNeverAsked}, errStuck, 1},
		{"a push of an attempt that was given back, ignored", system{processes: 3, turns: 1, still: true, mistake: endedPushIgnored}, errStuck, 25},
		{"a leaver that calls nobody", system{processes: 3, turns: 2, leaver: 1, mistake: leavesInPeace}, errStuck, 1},
		{"what is given back calls nobody", system{processes: 3, turns: 2, mistake: givesBackInPeace}, errStuck, 499},
		{"who does not hear is passed over at once", system{processes: 3, turns: 2, breaks: 3, polls: 9, mistake: passesOverDeaf}, errOvertaken, 2590},
		{"a pass that swaps any key", system{processes: 3, turns: 4, row: 2, time: 12, mistake: passesAnyKey}, errTwoHold, 922},
		{"a pass without a reply that counts", system{processes: 3, turns: 4, row: 3, unknown: 2, polls: 9, mistake: trustsSilence}, errToken, 55},
		{"what a pass left behind is forgotten", system{processes: 2, turns: 4, row: 3, unknown: 1, mistake: forgetsTheOld}, errKeyLeft, 25},
		{"a pass that goes out late", system{processes: 2, turns: 4, row: 4, unknown: 2, mistake: passesLate}, errKeyLeft, 4},
		{"a turn without an end", system{processes: 3, turns: 4, row: 2, mistake: endlessTurn}, errOvertaken, 1},
		{"an extension that counts from its reply", system{processes: 3, turns: 2, time: 12, polls: 9, extends: true, mistake: extendsFromReply}, errTwoHold, 5741},
		{"an extension that one node confirms", system{processes: 3, turns: 2, time: 12, polls: 9, extends: true, mistake: extendsByOne}, errTwoHold, 298},
		{"unequal numbers that are not raised", system{processes: 3, turns: 3, row: 2, bumps: 3, mistake: raisesNothing}, errToken, 58},
		{"a raise before all nodes know the place", system{processes: 3, turns: 3, row: 2, bumps: 3, mistake: raisesUntold}, errOvertaken, 5702},
		{"a hand of one who stands in line by its id alone", system{processes: 3, turns: 3, plain: 2, polls: 20, mistake: handsByID}, errOvertaken, 320},
		{"a hand that calls nobody", system{processes: 3, turns: 2, plain: 1, mistake: handsInPeace}, errStuck, 1},
		{"a newcomer that looks at no queue", system{processes: 3, turns: 2, strangers: 1, polls: 20, mistake: ignoresQueue}, errOvertaken, 98},
		{"a node that forgot and votes at once", system{processes: 3, turns: 2, time: 14, forgets: 2, polls: 20, mistake: rejoinsAtOnce}, errTwoHold, 167},
		{"one that votes before it knows who waits", system{processes: 3, turns: 2, forgets: 2, polls: 20, mistake: rejoinsBlank}, errOvertaken, 393},
		{"one that counts from the start", system{processes: 3, turns: 2, forgets: 2, polls: 20, mistake: rejoinsAtZero}, errToken, 40},
		{"a push from before the node forgot", system{processes: 3, turns: 3, forgets: 2, polls: 20, mistake: anyEpochCounts}, errToken, 8883},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			sys := c.sys
			sys.nodes = 3
			r := search.Walk(&sys, search.WalkOptions{Seed: c.seed, Walks: 20_000, Steps: 500})
			t.Log(r)
			if r.Trace == nil || !errors.Is(r.Trace.Err, c.want) {
				var err error
				if r.Trace != nil {
					err = r.Trace.Err
				}
				t.Errorf("got %v; want %v", err, c.want)
			}
		})
	}
}
