// Package slots decides which slot a caller asks for that wants one of a name's, and what
// follows what the nodes said of it. Nothing here reads a clock or waits.
//
// A name that n hold at most has n slots, each a lock of its own: so never more than n hold
// it. A count on each node would not do: with n = 2, A on nodes 1 and 2, B on 2 and 3, and
// C on 1 and 3 are three on quorums, and no node has counted more than two.
//
// One line is before all slots. Only the first in it takes one, and who comes newly only
// where nobody waits. It asks all nodes for one slot at a time: the one that it was called
// for, or had last, or else any; and where that was refused, the slot that most nodes say
// is free, if a quorum does. Else it waits. Who has a slot leaves the line at once: so the
// next is called if another slot is free.
package slots

import (
	"math/bits"

	"github.com/quorumkit/redlock/internal/quorum"
)

// None is no slot.
const None = -1

// Step is what a caller does next.
type Step uint8

// The steps.
const (
	Rest  Step = iota // it waits until it is called, or looks
	Again             // it asks for another slot, at once
	Take              // the slot is taken: leave the line
)

// Caller is one who wants a slot.
type Caller struct {
	limit  int
	next   int  // what is asked for next; None: any
	called bool // since it asked last
	freed  int  // what it was called for; None: it was not told
	tries  int  // asks in a row, each for a slot that a quorum had said was free
}

// New makes the caller of one of so many slots that had this one last, or None.
func New(limit, last int) Caller {
	c := Caller{limit: limit, next: last, freed: None}
	if last >= limit {
		c.next = None
	}
	return c
}

// Hear takes in a call: a slot was freed, or None if it was not told which.
func (c *Caller) Hear(slot int) {
	c.called = true
	if slot < c.limit {
		c.freed = slot
	}
}

// Pick is the slot to ask for now; roll is random, in [0, 1). What was called for is
// behind what the last refusals showed: the call stands then.
func (c *Caller) Pick(roll float64) int {
	slot := c.next
	if c.tries == 0 && c.called {
		if c.freed != None {
			slot = c.freed
		}
		c.called, c.freed = false, None
	}
	if slot == None {
		slot = min(int(roll*float64(c.limit)), c.limit-1)
	}
	c.next = None
	return slot
}

// Ended is what follows an ask for a slot. A call that came while it was out is not
// forgotten: the replies may be older.
func (c *Caller) Ended(votes []quorum.Vote, heard []quorum.Hearing, roll float64) Step {
	if quorum.Count(votes).Verdict() == quorum.Won {
		return Take
	}
	if slot := free(votes, heard, roll); slot != None && slot < c.limit && c.tries < c.limit {
		c.next = slot
		c.tries++
		return Again
	}
	c.tries = 0
	if c.called {
		return Again
	}
	return Rest
}

// Undecided tells whether a slot may yet turn out to be free on a quorum, once the nodes
// have answered that have not: those that did tell of one, but too few do. So it is for a
// moment after a release, which a quorum of nodes has taken and the others have not.
func Undecided(votes []quorum.Vote, heard []quorum.Hearing, limit int) bool {
	need := quorum.Needed(votes)
	pending := quorum.Count(votes).Pending
	undecided := false
	for slot := range limit {
		switch nodes := freeOn(slot, votes, heard); {
		case nodes >= need:
			return false
		case nodes > 0 && nodes+pending >= need:
			undecided = true
		}
	}
	return undecided
}

// freeOn is how many nodes say that a slot is free, and that nobody is before.
func freeOn(slot int, votes []quorum.Vote, heard []quorum.Hearing) (nodes int) {
	for i, v := range votes {
		if v.Outcome == quorum.Taken && heard[i].Head && heard[i].Slots>>slot&1 != 0 {
			nodes++
		}
	}
	return nodes
}

// free is a slot that as many nodes as for any other say is free, and that nobody is
// before; None: no slot is so on a quorum. Of several that are alike it is one at random:
// callers who go past the line part so.
func free(votes []quorum.Vote, heard []quorum.Hearing, roll float64) int {
	var most uint64 // the slots that are free on so many nodes as any is
	at := quorum.Needed(votes)
	for slot := range 64 {
		switch nodes := freeOn(slot, votes, heard); {
		case nodes > at:
			at, most = nodes, 1<<slot
		case nodes == at:
			most |= 1 << slot
		}
	}
	if most == 0 {
		return None
	}
	for skip := int(roll * float64(bits.OnesCount64(most))); skip > 0; skip-- {
		most &= most - 1
	}
	return bits.TrailingZeros64(most)
}
