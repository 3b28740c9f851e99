package quorum_test

import (
	"errors"
	"testing"

	"github.com/quorumkit/redlock/internal/search"
	"github.com/quorumkit/redlock/internal/testkit"
)

func TestSearchQueueClosed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		full bool // with REDLOCK_TEST=deep only
		sys  queueSystem
	}{
		{"two processes by hints alone", false, queueSystem{processes: 2}},
		{"two, of which one may leave", false, queueSystem{processes: 2, leaver: 1}},
		{"two, of which one may leave, and places are told at any time", false, queueSystem{processes: 2, leaver: 1, tells: true}},
		{"two, of which one hands the name on inside", false, queueSystem{processes: 2, more: 1, turns: 2}},
		{"the same, and a key may go", true, queueSystem{processes: 2, more: 1, turns: 2, drops: 1}},
		{"the same, and a pass may be of unknown outcome", true, queueSystem{processes: 2, more: 1, turns: 2, unknown: 1}},
		{"two with looks, a hint may be lost", true, queueSystem{processes: 2, polls: true, lost: 1}},
		{"two, a connection for hints may break, and is made anew", false, queueSystem{processes: 2, breaks: 1}},
		{"two with looks, three such connections may break", true, queueSystem{processes: 2, polls: true, breaks: 3}},
		{"two with looks, one may die", true, queueSystem{processes: 2, polls: true, mortal: 1}},
		{"two with looks, one may be cut off", true, queueSystem{processes: 2, polls: true, mortal: 1, silent: true}},
		{"two, of which one comes twice", true, queueSystem{processes: 2, more: 1}},
		{"three processes by hints alone, as far as it goes", true, queueSystem{processes: 3}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if c.full {
				testkit.NeedDeep(t)
			}
			sys, limit := c.sys, 30_000_000
			sys.nodes, sys.turns, sys.lean = 3, max(sys.turns, 1), true
			whole := sys.processes == 2
			if !whole {
				limit = 3_000_000 // in 12 million nothing was found either
			}
			r := search.Closed(&sys, search.Options{MaxStates: limit})
			t.Log(r)
			if r.Trace != nil || !r.Closed && whole {
				t.Error(r.Err())
			}
		})
	}
}

func TestSearchQueueRandom(t *testing.T) {
	t.Parallel()
	walks := 400
	if testkit.Deep() {
		walks = 200_000
	}
	for _, c := range []struct {
		name string
		sys  queueSystem
	}{
		{"three nodes", queueSystem{nodes: 3, processes: 3, more: 3, turns: 2, polls: true, lost: 1}},
		{"five nodes, one may leave, places are told at any time", queueSystem{nodes: 5, processes: 4, leaver: 1, more: 2, turns: 2, polls: true, tells: true, lost: 2}},
		{"three nodes, one may die, places are told at any time", queueSystem{nodes: 3, processes: 3, mortal: 1, more: 2, turns: 2, polls: true, tells: true, lost: 1, forgets: 2}},
		{"five nodes, one may leave", queueSystem{nodes: 5, processes: 4, leaver: 1, more: 4, turns: 2, polls: true, lost: 2}},
		{"five nodes, one may die", queueSystem{nodes: 5, processes: 4, mortal: 1, more: 2, turns: 3, polls: true, lost: 1}},
		{"three nodes, connections for hints break, and are made anew", queueSystem{nodes: 3, processes: 3, more: 1, turns: 2, polls: true, breaks: 4}},
		{"five nodes, the same, and one may die", queueSystem{nodes: 5, processes: 4, mortal: 1, turns: 1, polls: true, breaks: 5}},
		{"three nodes, each may forget once", queueSystem{nodes: 3, processes: 3, more: 1, turns: 2, polls: true, forgets: 3}},
		{"five nodes, some forget, hints are lost, one may leave", queueSystem{nodes: 5, processes: 4, leaver: 1, more: 2, turns: 2, polls: true, lost: 1, forgets: 4}},
		{"three nodes, passes of unknown outcome, keys that go", queueSystem{nodes: 3, processes: 3, more: 4, turns: 3, polls: true, unknown: 2, drops: 1}},
		{"five nodes, passes of unknown outcome, nodes forget", queueSystem{nodes: 5, processes: 3, more: 5, turns: 4, polls: true, unknown: 2, forgets: 2}},
		{"five nodes, one may be cut off", queueSystem{nodes: 5, processes: 4, mortal: 1, silent: true, turns: 1, polls: true}},
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

// Each rule that is broken must be found: else the search finds nothing.
func TestSearchQueueCatches(t *testing.T) {
	testkit.Full(t)
	t.Parallel()
	for _, c := range []struct {
		name string
		sys  queueSystem
		want error
	}{
		{"a newcomer that ignores the queue", queueSystem{processes: 3, mistake: ignoresQueue}, errOvertaken},
		{"the ticket of one node only", queueSystem{processes: 3, mistake: oneTicket}, errOvertaken},
		{"places by wall clock", queueSystem{processes: 3, mistake: wallClock}, errOvertaken},
		{"a turn without an end", queueSystem{processes: 3, more: 3, mistake: endlessTurn}, errOvertaken},
		{"a process that stays in front after its turn", queueSystem{processes: 3, more: 2, mistake: staysInFront}, errOvertaken},
		{"a hint that is ignored while asking", queueSystem{processes: 2, mistake: deafWhileAsks}, errStuck},
		{"only hinted nodes asked", queueSystem{processes: 3, mistake: onlyHinted}, errStuck},
		{"a leaver that wakes nobody", queueSystem{processes: 2, leaver: 1, mistake: leavesInPeace}, errStuck},
		{"lost hints and no look", queueSystem{processes: 2, lost: 3}, errStuck},
		{"one that lives and was not reached is dropped", queueSystem{processes: 3, polls: true, breaks: 3, mistake: dropsUnheard}, errOvertaken},
		{"one that can be called again while it asks, and does not ask again", queueSystem{processes: 2, breaks: 2, mistake: mendsAtRest}, errStuck},
		{"one that can be called again, and looks at nothing", queueSystem{processes: 2, breaks: 2, mistake: mendsInPeace}, errStuck},
		{"one that died, and no look", queueSystem{processes: 2, mortal: 1, silent: true}, errStuck},
		{"a rejoin without storing again", queueSystem{processes: 3, polls: true, forgets: 2, mistake: rejoinsBlank}, errOvertaken},
		{"no signs of life", queueSystem{processes: 3, mortal: 1, silent: true, polls: true, mistake: noSignOfLife}, errStuck},
		{"an order for each node", queueSystem{processes: 4, polls: true, mistake: ownPlaces}, errStuck},
		{"grants of a split kept", queueSystem{processes: 3, polls: true, mistake: splitForGood}, errStuck},
		{"a pass that swaps any key", queueSystem{processes: 3, more: 3, turns: 3, polls: true, unknown: 1, mistake: passesAnyKey}, errKeyLeft},
		{"a pass of unknown outcome that counts as a grant", queueSystem{processes: 3, more: 3, turns: 3, polls: true, unknown: 1, drops: 1, mistake: trustsSilence}, errTwoHold},
		{"a pass of unknown outcome, and only the new claim is released", queueSystem{processes: 2, more: 2, turns: 3, unknown: 1, mistake: forgetsTheOld}, errKeyLeft},
		{"releases after one that leave no tombstone", queueSystem{processes: 2, more: 2, turns: 3, unknown: 1, mistake: noTombstones}, errKeyLeft},
		{"a pass for a claim that is over", queueSystem{processes: 2, more: 2, turns: 3, mistake: passesLate}, errKeyLeft},
		{"a rollback that wakes itself", queueSystem{processes: 2, mistake: wakesItself}, errHotLoop},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			sys := c.sys
			sys.nodes, sys.turns = 3, max(sys.turns, 1)
			r := search.Walk(&sys, search.WalkOptions{Seed: 1, Walks: 60_000, Steps: 500})
			t.Log(r)
			if r.Trace == nil || !errors.Is(r.Trace.Err, c.want) {
				t.Errorf("got %v; want %v", r.Err(), c.want)
			}
			if sys.processes > 2 || sys.polls {
				return
			}
			sys.lean = true
			closed := search.Closed(&sys, search.Options{})
			t.Log(closed)
			if closed.Trace == nil || !errors.Is(closed.Trace.Err, c.want) {
				t.Errorf("up to symmetry: got %v; want %v", closed.Err(), c.want)
			}
		})
	}
}
