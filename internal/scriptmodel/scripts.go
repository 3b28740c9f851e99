package scriptmodel

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
