// Package scriptmodel is one node as the scripts of lua/ see and change it: a
// small value that copies and compares, for searches through the protocol. A
// differential test holds it and the scripts together.
//
// Owners, names, stripes and numbers are small integers, and time is counted in
// ticks. Nothing expires by itself: a search decides when, with Expire (a clock
// runs) or Drop (expiry at any moment, no matter what any clock says).
//
// Replies are the scripts' own integers, with ticks for milliseconds.
package scriptmodel

// How many of each there can be. Searches use fewer; what is unused stays zero.
const (
	Names   = 3
	Stripes = 2
	Owners  = 12
)

type (
	// Number is a counter's value or a token.
	Number uint8
	// Owner is an owner value, 1 to Owners; each is used for one attempt only.
	Owner uint8
	// Epoch is the random value of one install; 0 is none.
	Epoch uint8
	// Tick is a point in time, or a length of it.
	Tick uint8
)

const (
	// Nobody owns a key that is not there.
	Nobody Owner = 0
	// Alien is a key of another type: somebody's data, under a name that is locked.
	Alien Owner = 255
	// Forever is the end of a key that has none.
	Forever Tick = 255
	// Last is where the scripts stop counting (2^53-1 on a real node).
	Last Number = 255
)

// Key is what a resource's name holds on a node.
type Key struct {
	Owner Owner
	Until Tick
}

// Node is one master. The zero value is an empty one, without a record.
type Node struct {
	Epoch   Epoch
	Base    Number
	Stripes [Stripes]Number
	Keys    [Names]Key
	Dead    [Owners]Tick // until when a tombstone lies on an owner; 0 if none
}

// Flaw is something that the scripts do right, left out: for positive controls.
type Flaw uint32

const (
	// RaiseForAnyone is a raise that does not look at the key.
	RaiseForAnyone Flaw = 1 << iota
	// RaiseDown is a raise that does not look at the stripe.
	RaiseDown
	// AcquireDead is an acquire that does not look for a tombstone.
	AcquireDead
	// ReseedDead is a reseed that does not look for a tombstone.
	ReseedDead
	// BelowPlace is a grant whose number may be below the place in line.
	BelowPlace
	// AnyEntryIsMine is an ask that takes an entry of an older attempt for its own.
	AnyEntryIsMine
	// BlindPlace is a hand whose next owner gets a place without a look at the queue.
	BlindPlace
	// SignlessHand is a hand that enters the next owner without a sign of life.
	SignlessHand
	// EntryStaysBehind is a hand that leaves the released owner's entry.
	EntryStaysBehind
	// EnterDead is a hand, an ask or a release that enters an owner under a tombstone.
	EnterDead
	// CallsNobody is a release that calls nobody.
	CallsNobody
	// EndsWithFirst is a shared name whose key ends when the first of its sharers does.
	EndsWithFirst
	// EndsWithNewest is one whose key ends with who came last.
	EndsWithNewest
	// NeverLowers is a release of a shared hold that leaves the key's end as it is.
	NeverLowers
	// FirstCountsNot is a first sharer that takes the number that the stripe has.
	FirstCountsNot
	// HintedShare is a first sharer whose number is at least its clock's hint.
	HintedShare
	// ReseedsOldToken is a re-seed that begins a generation with its own token always.
	ReseedsOldToken
	// DeletesAtRelease is a release of a shared hold that deletes the key.
	DeletesAtRelease
	// SharersBarge is an ask to share that looks for no exclusive that waits.
	SharersBarge
	// SharersUnseen is an exclusive's ask, or a release's grant to one, that looks for nobody who waits to share.
	SharersUnseen
	// WakesOneSharer is a release that wakes the first sharer only.
	WakesOneSharer
	// LeavesSilently is a leave of the line that wakes nobody where the name is shared.
	LeavesSilently
	// RollbackWakes is a sharer's rollback that wakes sharers.
	RollbackWakes
	// LooksPast is a look that never says: ask, others share it.
	LooksPast
	// LeavesQuietly is a leave of the slots' line that wakes nobody.
	LeavesQuietly
	// NewcomersOvertake is an ask for a slot without a place that looks at no line.
	NewcomersOvertake
	// AnyoneTakes is one that looks at no line at all.
	AnyoneTakes
	// LeavesAnyPlace is a leave of the slots' line that takes any entry of its process.
	LeavesAnyPlace
	// OneEnd is a shared name whose members all end when the one does that came or was renewed last.
	OneEnd
	// Unmarked is an ask to share that takes any sorted set under the name for its own.
	Unmarked
)

func (f Flaw) has(g Flaw) bool { return f&g != 0 }

// Number is the stripe's, or base where that is more.
func (n *Node) Number(stripe uint8) Number { return max(n.Base, n.Stripes[stripe]) }

// Holds tells whether the owner's key is there.
func (n *Node) Holds(name uint8, o Owner) bool { return n.Keys[name].Owner == o }

// Drop ends a key, as its expiry, an eviction or an operator would.
func (n *Node) Drop(name uint8) { n.Keys[name] = Key{} }

// DropDead ends a tombstone.
func (n *Node) DropDead(o Owner) { n.Dead[o-1] = 0 }

// Expire ends every key and tombstone whose time has come.
func (n *Node) Expire(now Tick) {
	for i, k := range n.Keys {
		if k.Owner != Nobody && k.Until != Forever && k.Until <= now {
			n.Keys[i] = Key{}
		}
	}
	for i, until := range n.Dead {
		if until <= now {
			n.Dead[i] = 0
		}
	}
}

// member tells whether a voting script runs: its epoch is the record's.
func (n *Node) member(e Epoch) bool { return n.Epoch != 0 && n.Epoch == e }

// What acquire returns besides a token; another's key is TakenFor less what
// remains of its lease.
const (
	Abstained    = 0
	Dead         = -1
	AtTheEnd     = -2
	TakenForever = -9
	TakenFor     = -10
)

// What raise, extend, release and reseed return.
const (
	Done     = 1
	Refused  = 0
	Another  = 2  // extend only
	NoMember = -1 // its epoch is not the record's
)

// Acquire is the arguments of acquire.lua.
type Acquire struct {
	Name   uint8
	Owner  Owner
	Life   Tick
	Hint   Number
	Stripe uint8
	Epoch  Epoch
}

// Acquire grants the key and counts, as acquire.lua does.
func (n *Node) Acquire(now Tick, a Acquire, flaw Flaw) int {
	k, c := &n.Keys[a.Name], n.Number(a.Stripe)
	switch {
	case !n.member(a.Epoch):
		return Abstained
	case k.Owner == a.Owner:
		return int(c)
	case k.Owner != Nobody && k.Owner != Alien:
		return k.taken(now)
	case n.Dead[a.Owner-1] != 0 && !flaw.has(AcquireDead):
		return Dead
	case max(int(c)+1, int(a.Hint)) >= int(Last):
		return AtTheEnd
	}
	c = max(c+1, a.Hint)
	n.Stripes[a.Stripe] = c
	if k.Owner == Alien { // MGET does not see another type, SET NX does
		return k.taken(now)
	}
	*k = Key{a.Owner, end(now, a.Life)}
	return int(c)
}

// taken is the reply that another's key gives.
func (k Key) taken(now Tick) int {
	if k.Until == Forever {
		return TakenForever
	}
	return TakenFor - int(k.Until-now)
}

// end is the end of a life that begins now.
func end(now, life Tick) Tick { return now + min(life, Forever-1-now) }

// Raise is the arguments of raise.lua.
type Raise struct {
	Name   uint8
	Owner  Owner
	Stripe uint8
	Token  Number
	Epoch  Epoch
}

// Raise lifts the stripe to the token, as raise.lua does. It returns the stripe's number
// where that is above the token.
func (n *Node) Raise(r Raise, flaw Flaw) int {
	switch {
	case !n.member(r.Epoch):
		return NoMember
	case !n.Holds(r.Name, r.Owner) && !flaw.has(RaiseForAnyone):
		return Refused
	case n.Number(r.Stripe) > r.Token && !flaw.has(RaiseDown):
		return int(n.Number(r.Stripe))
	}
	n.Stripes[r.Stripe] = r.Token
	return Done
}

// Extend is the arguments of extend.lua, for one lock.
type Extend struct {
	Name  uint8
	Owner Owner
	Life  Tick
	Epoch Epoch
}

// Extend lengthens the lease, never shortens it, as extend.lua does.
func (n *Node) Extend(now Tick, e Extend) int {
	k := &n.Keys[e.Name]
	switch {
	case !n.member(e.Epoch):
		return NoMember
	case k.Owner == Nobody:
		return Refused
	case k.Owner != e.Owner:
		return Another
	}
	k.Until = max(k.Until, end(now, e.Life))
	return Done
}

// Release is the arguments of release.lua; a Tombstone of 0 is none.
type Release struct {
	Name      uint8
	Owner     Owner
	Tombstone Tick
}

// Release deletes the key if it is ours, as release.lua does.
func (n *Node) Release(now Tick, r Release) int {
	gone := Refused
	if n.Holds(r.Name, r.Owner) {
		n.Drop(r.Name)
		gone = Done
	}
	if r.Tombstone != 0 {
		n.Dead[r.Owner-1] = max(n.Dead[r.Owner-1], end(now, r.Tombstone))
	}
	return gone
}

// Reseed is the arguments of reseed.lua, for one lock.
type Reseed struct {
	Name   uint8
	Owner  Owner
	Life   Tick
	Stripe uint8
	Token  Number
	Epoch  Epoch
}

// Reseed puts a lock back, as reseed.lua does.
func (n *Node) Reseed(now Tick, r Reseed, flaw Flaw) int {
	switch {
	case !n.member(r.Epoch):
		return NoMember
	case n.Holds(r.Name, r.Owner):
		return Done
	case !n.Holds(r.Name, Nobody), n.Dead[r.Owner-1] != 0 && !flaw.has(ReseedDead):
		return Refused
	}
	if n.Number(r.Stripe) < r.Token {
		n.Stripes[r.Stripe] = r.Token
	}
	n.Keys[r.Name] = Key{r.Owner, end(now, r.Life)}
	return Done
}
