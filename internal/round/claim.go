package round

import (
	"sync/atomic"

	"github.com/quorumkit/redlock/internal/quorum"
)

// Claim is one attempt to hold one resource: what every node is told. It is
// fresh for every attempt, so that a late command of an old one can't be taken
// for a newer one's.
type Claim struct {
	Key    string // on the nodes, prefix included
	Owner  string
	Dead   string // the key of its tombstone
	Stripe int64
	TTL    int64 // of the first lease, in ms
	Hint   int64
	Token  int64 // once settled
	Rounds int   // round trips so far, of the one goroutine that makes the attempt

	kind        Kind   // nil: Exclusive
	queueOwner  string // see QueueOwner
	place       int64  // see Place
	Replacement *Claim // its entry comes for this one's, which accepts pushes, when this is rolled back; nil if none

	Marks       []quorum.Mark         // marks[i] is guarded by node i's mu
	inlineMarks [FewNodes]quorum.Mark // of up to so many nodes
	entry       entry                 // with Abandoned in the padding behind the marks
	Abandoned   atomic.Bool           // nobody wants it any more: it is not put back anywhere

	vouchers
}

// FewNodes is for how many nodes marks and votes need no memory of their own.
const FewNodes = 9

// MarkNodes gives the claim a mark for each of so many nodes.
func (c *Claim) MarkNodes(nodes int) {
	if c.Marks = c.inlineMarks[:min(nodes, FewNodes)]; nodes > FewNodes {
		c.Marks = make([]quorum.Mark, nodes)
	}
}

// Kind is the kind of hold that a claim is of: Exclusive, Shared or *Slot.
type Kind interface {
	line(key string) string // the key of the queue in which the claim's process waits
}

type (
	// Exclusive is a hold of a name that nobody holds besides.
	Exclusive struct{}
	// Shared is a hold beside others that share the name.
	Shared struct{}
)

// Slot is a hold of one of a name's slots, or the leave of their queue. Slots are locks of
// their own, except that they have one line: a node grants a free slot to the first in it.
// They have their own scripts (lua/ask_slot.lua), and each ask or release of a slot is a
// call of its own.
type Slot struct {
	Name   string // the name with the slots, prefix included
	Line   string // the name under which waiters for a slot stand in line
	Number int
	Limit  int         // how many slots there are
	Passed int         // how often it was handed on in a row, within the process
	Place  int64       // of a leave: the place that goes
	Left   atomic.Bool // the process has left the line: what it asks now puts it there no more
}

func (Exclusive) line(key string) string { return key }

func (Shared) line(key string) string { return key }

func (s *Slot) line(string) string { return s.Line }

// Kind is the claim's kind: Exclusive, unless Share or TakeSlot made it another.
func (c *Claim) Kind() Kind {
	if c.kind == nil {
		return Exclusive{}
	}
	return c.kind
}

// Line is the name that the claim's process stands in line for.
func (c *Claim) Line() string { return c.Kind().line(c.Key) }

// Shared tells whether the claim is of a shared hold.
func (c *Claim) Shared() bool { return c.kind == Shared{} }

// Slot is the slot that the claim is of; nil if none.
func (c *Claim) Slot() *Slot {
	s, _ := c.kind.(*Slot)
	return s
}

// Share makes the claim one that shares its name, asked for by that place in line. Its
// rollback wakes no other sharer: it kept no sharer out, and they would wake each other
// for ever.
func (c *Claim) Share(position int64) {
	c.kind, c.entry, c.place = Shared{}, keepsPlace, max(position, quorum.NoTicket)
}

// TakeSlot makes the claim one of this slot.
func (c *Claim) TakeSlot(s *Slot) { c.kind = s }

// entry is what a claim has to do with its process's entry in the queue: each also the one before.
type entry uint8

const (
	noEntry     entry = iota // there is none, or none that the claim's end concerns
	keepsPlace               // a rollback keeps it
	acceptsPush              // it is under the claim's owner value, and a release may grant it
)

// KeepPlace makes a rollback keep the process's place in the queue.
func (c *Claim) KeepPlace() { c.entry = keepsPlace }

// AcceptPush lets releases grant the claim, whose entry is at that place; NoTicket: it is
// not known yet.
func (c *Claim) AcceptPush(place int64) {
	c.entry, c.place, c.queueOwner = acceptsPush, place, c.Owner
}

// Inherit makes the claim one that old's hold is handed on to. The process's entry stays
// what it was, and with kept it has a place there.
func (c *Claim) Inherit(old *Claim, kept bool) {
	if c.queueOwner = old.queueOwner; kept {
		c.entry = keepsPlace
	}
}

// KeepsPlace tells whether the claim's process has a place in the queue, which a rollback
// keeps.
func (c *Claim) KeepsPlace() bool { return c.entry >= keepsPlace }

// AcceptsPush tells whether a release may grant the claim: its grant may come at any moment.
func (c *Claim) AcceptsPush() bool { return c.entry == acceptsPush }

// QueueOwner is the owner value with which the claim's process stood in line; empty: it
// stood in none, or with its id alone. A command carries the pointer without a copy.
func (c *Claim) QueueOwner() *string { return &c.queueOwner }

// Place is the place in line of a claim that accepts pushes, or of a shared hold; NoTicket
// of others, and while it is not known. A command carries the pointer without a copy.
func (c *Claim) Place() *int64 { return &c.place }

// Leaving is what a release does with the process's entry in the name's queue: the
// modes of release_batch.lua.
type Leaving uint8

// What becomes of the entry.
const (
	LeaveNothing Leaving = iota // there is none
	LeaveQueue                  // it goes, and the next in line is woken
	LeaveEntry                  // it stays: the process goes on waiting
)

// Rollback is how the claim's process leaves the nodes when the claim fails.
func (c *Claim) Rollback() Leaving {
	if c.KeepsPlace() {
		return LeaveEntry
	}
	return LeaveNothing
}
