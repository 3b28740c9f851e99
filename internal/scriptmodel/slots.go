package scriptmodel

// NoSlot is none.
const NoSlot uint8 = 255

// AskSlot is the arguments of ask_slot.lua. The node's names are the slots of one name, and
// its line is theirs.
type AskSlot struct {
	Ask   // Name is the slot
	Limit uint8
}

// SlotReply is what ask_slot.lua returns.
type SlotReply struct {
	Vote   int // Acquire's, or Kept
	Ticket int
	First  bool
	Free   uint8 // one bit for each slot
	Ends   int   // until the first of them ends; -1: none does
}

// AskSlot grants a slot that is free, if nobody living is before the waiter.
func (n *Waiting) AskSlot(now Tick, a AskSlot, flaw Flaw) SlotReply {
	k, dead := &n.Keys[a.Name], n.Dead[a.Owner-1] != 0
	before := n.Number(a.Stripe)
	switch {
	case !n.member(a.Epoch):
		return SlotReply{Vote: Abstained}
	case k.Owner == a.Owner:
		return SlotReply{Vote: int(before)}
	case dead && k.Owner == Nobody:
		return SlotReply{Vote: Dead}
	}
	placed := a.Place > 0 && !a.Barging
	if placed && !dead {
		n.record(a.Ask)
	}
	r := SlotReply{Vote: Kept, First: a.Barging || flaw.has(AnyoneTakes) || flaw.has(NewcomersOvertake) && !placed || n.firstOf(a.Ask, placed)}
	switch {
	case k.Owner != Nobody:
		r.Vote = k.taken(now)
	case r.First:
		return SlotReply{Vote: n.Acquire(now, a.Acquire, 0)}
	}
	r.Ends = -1
	for i, k := range n.Keys[:a.Limit] {
		switch {
		case k.Owner == Nobody:
			r.Free |= 1 << i
		case k.Until != Forever && (r.Ends < 0 || int(k.Until-now) < r.Ends):
			r.Ends = int(k.Until - now)
		}
	}
	if !placed {
		top := before
		for _, place := range n.Places {
			top = max(top, place)
		}
		r.Ticket = int(top) + 1
	}
	return r
}

// firstOf tells whether nobody living is before who asks; without a place its process's
// own entry is.
func (n *Waiting) firstOf(a Ask, placed bool) bool {
	if placed {
		return n.living(a.Waiter) == a.Waiter
	}
	return n.living(NoWaiter) == NoWaiter
}

// EndSlot is the arguments of release_slot.lua, of a slot, and with EntryGoes also of a
// leave of the line, for which Name is NoSlot. Place is of the entry that goes.
type EndSlot struct {
	Release
	Waiter Waiter
	Entry  uint8
	Place  Number
	Limit  uint8
	Flaw   Flaw
}

// ReleaseSlot is release_slot.lua. It returns what that does, who was woken, and the slot
// that it was told.
func (n *Waiting) ReleaseSlot(now Tick, e EndSlot) (gone int, woken Waiter, free uint8) {
	r, w := e.Release, e.Waiter
	free = NoSlot
	if r.Name == NoSlot {
		if r.Tombstone != 0 {
			n.Dead[r.Owner-1] = max(n.Dead[r.Owner-1], end(now, r.Tombstone))
		}
	} else if gone = n.Release(now, r); gone == Done {
		free = r.Name
	}
	if e.Entry == EntryGoes && n.Entered(w) {
		if n.Places[w] <= e.Place || e.Flaw.has(LeavesAnyPlace) {
			n.Places[w] = 0
		}
		for i := uint8(0); i < e.Limit && free == NoSlot && !e.Flaw.has(LeavesQuietly); i++ {
			if n.Keys[i].Owner == Nobody {
				free = i
			}
		}
	}
	for unheard := 0; free != NoSlot && n.Waited; {
		next := n.inLine(unheard)
		switch {
		case next == NoWaiter || next == w && e.Entry == EntryStays:
			return gone, NoWaiter, NoSlot
		case !n.Lives(next):
			n.Places[next] = 0
			continue
		}
		n.Called |= 1 << next
		if n.Deaf&(1<<next) == 0 {
			return gone, next, free
		}
		unheard++
	}
	return gone, NoWaiter, NoSlot
}
