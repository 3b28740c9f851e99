package revocation_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/quorumkit/redlock/internal/search"
	"github.com/quorumkit/redlock/internal/testkit"
)

// TestSearchRevocationClosed goes through all that a request and the holds of a name can
// do, with messages that are late, doubled, lost and forged. What is published reaches the
// hold that it names, or none; and from each state the request ends, once nothing is lost
// any more.
func TestSearchRevocationClosed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		sys  system
		full bool
	}{
		{"readings of one hold, a fault", system{owners: 1, faults: 1, blind: true, still: true}, false},
		{"readings of one hold, a fault, nodes not reached", system{owners: 1, faults: 1, mutes: true, blind: true, still: true}, false},
		{"messages for one hold", system{owners: 1, narrow: true}, false},
		{"readings of two holds", system{owners: 2, blind: true, still: true}, true},
		{"readings of two slots", system{owners: 2, blind: true, still: true, second: bit(2)}, true},
	} {
		if c.full && !testkit.Deep() {
			continue
		}
		if testkit.Quick() && c.sys.mutes {
			continue // more than half of the time
		}
		r := search.Closed(&c.sys, search.Options{MaxStates: 40_000_000})
		t.Logf("%s: %v", c.name, r)
		if r.Trace != nil || !r.Closed {
			t.Errorf("%s: got %v\n%v", c.name, r, r.Trace)
		}
	}
}

// TestSearchRevocationRandom walks through three holds, of which one can't be asked for,
// with faults: a key vanishes and is put back, or a node forgets. And through four, of which
// two can't be asked for, without.
func TestSearchRevocationRandom(t *testing.T) {
	testkit.Full(t)
	t.Parallel()
	walks := 1_500
	switch {
	case testkit.Deep():
		walks = 50_000
	case testkit.UnderRace:
		walks = 200
	}
	for _, sys := range []system{
		{owners: 3, faults: 1, mutes: true},
		{owners: 4, mutes: true},
		{owners: 2, faults: 1, mutes: true, second: bit(2)},
		{owners: 3, faults: 1, mutes: true, second: bit(3)},
		{owners: 4, mutes: true, second: bit(2) | bit(4)},
	} {
		r := search.Walk(&sys, search.WalkOptions{Seed: 1, Walks: walks, Steps: 150})
		t.Log(r)
		if err := r.Err(); err != nil {
			t.Errorf("%d holds, in the second slot %b: %v", sys.owners, sys.second>>1, err)
		}
	}
}

// TestSearchRevocationCatches has each rule broken, which must be found.
func TestSearchRevocationCatches(t *testing.T) {
	testkit.Full(t)
	t.Parallel()
	for _, c := range []struct {
		name string
		sys  system
		want []error
	}{
		{"a message names the resource", system{owners: 2, mistake: namesResource}, []error{errWrongHold}},
		{"a message names the Locker", system{owners: 2, mistake: namesLocker}, []error{errWrongHold}},
		{"the message is published once", system{owners: 1, mistake: asksOnce}, []error{errStuck}},
		{"the message is published on one node", system{owners: 1, mistake: asksOneNode}, []error{errStuck}},
		{"one node that does not show it is believed", system{owners: 1, faults: 1, mistake: oneIsGone}, []error{errGone}},
		{"one reading of each node is believed", system{owners: 1, faults: 1, mistake: oneReading}, []error{errGone, errVacancy}},
		{"a node that says nothing has nothing", system{owners: 1, mutes: true, mistake: muteIsFree}, []error{errGone, errVacancy}},
		{"a node that forgot has nothing", system{owners: 1, faults: 1, mistake: oldVotes}, []error{errGone, errVacancy}},
		{"one node that shows who can't be asked is believed", system{owners: 3, mistake: oneRefuses}, []error{errRefusal}},
		{"who has the first slot is all that a node shows", system{owners: 2, second: bit(2), mistake: oneSlot}, []error{errGone, errVacancy}},
		{"one of those who were asked is gone, and so all are", system{owners: 2, second: bit(2), mistake: oneOfThem}, []error{errGone}},
		{"those who hold by then are asked", system{owners: 2, mistake: asksWhoHolds}, []error{errNewcomer}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			sys := c.sys
			sys.blind = c.want[0] != errStuck //nolint:errorlint // it is the sentinel itself
			r := search.Walk(&sys, search.WalkOptions{Seed: 1, Walks: 50_000, Steps: 150})
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
