package scriptmodel

// Shared is the owner of a key that is a shared name's: who shares it is in its Sharers.
const Shared Owner = 254

// Sharers is the sorted set of a name that is shared: its generation's number, and until
// when each owner shares it (0: it is no member). That the set is there, and its own end,
// is the name's Key.
type Sharers struct {
	Number Number
	Ends   [Owners]Tick
}

// Has tells whether the owner shares the name, and has not ended.
func (s *Sharers) Has(now Tick, o Owner) bool { return s.Ends[o-1] != 0 && s.Ends[o-1] >= now }

// Latest is the last of the members' ends; 0: there is no member.
func (s *Sharers) Latest() (latest Tick) {
	for _, end := range s.Ends {
		latest = max(latest, end)
	}
	return latest
}

// DropSharers ends a shared name's key.
func (n *Node) DropSharers(s *Sharers, name uint8) {
	*s = Sharers{}
	n.Drop(name)
}

// ExpireSharers ends a shared name's key where its time has come. Who has ended stays in
// the set until somebody joins.
func (n *Node) ExpireSharers(now Tick, s *Sharers, name uint8) {
	if k := n.Keys[name]; k.Owner == Shared && k.Until < now {
		n.DropSharers(s, name)
	}
}

// Share is share.lua where nobody waits. Acquire's hint is not used.
func (n *Node) Share(now Tick, s *Sharers, a Acquire, flaw Flaw) int {
	if reply, met := n.meet(now, s, a, flaw); met {
		return reply
	}
	return n.join(now, s, a, flaw)
}

// meet is what an ask to share meets that decides it, no matter who waits.
func (n *Node) meet(now Tick, s *Sharers, a Acquire, flaw Flaw) (reply int, met bool) {
	k := &n.Keys[a.Name]
	ours := k.Owner == Shared || k.Owner == Alien && flaw.has(Unmarked)
	switch {
	case !n.member(a.Epoch):
		return Abstained, true
	case k.Owner != Nobody && !ours:
		return k.taken(now), true
	}
	if ours {
		n.prune(now, s, a.Name)
	}
	switch mine := s.Ends[a.Owner-1]; {
	case mine != 0:
		n.lengthen(s, a.Name, a.Owner, max(mine, end(now, a.Life)), flaw)
		return int(s.Number), true
	case n.Dead[a.Owner-1] != 0 && !flaw.has(AcquireDead):
		return Dead, true
	}
	return 0, false
}

// prune removes who has ended, and the key where all have.
func (n *Node) prune(now Tick, s *Sharers, name uint8) {
	for i, end := range s.Ends {
		if end < now {
			s.Ends[i] = 0
		}
	}
	if s.Latest() == 0 {
		n.DropSharers(s, name)
	}
}

// lengthen makes a member end at until, and the key no earlier.
func (n *Node) lengthen(s *Sharers, name uint8, o Owner, until Tick, flaw Flaw) {
	latest := max(s.Latest(), until)
	s.Ends[o-1] = until
	if flaw.has(OneEnd) {
		for i, end := range s.Ends {
			if end != 0 {
				s.Ends[i] = until
			}
		}
	}
	switch {
	case flaw.has(EndsWithFirst):
	case flaw.has(EndsWithNewest):
		n.Keys[name].Until = until
	default:
		n.Keys[name].Until = latest
	}
}

// join is an ask to share that nothing is in the way of.
func (n *Node) join(now Tick, s *Sharers, a Acquire, flaw Flaw) int {
	if n.Keys[a.Name].Owner == Shared {
		n.lengthen(s, a.Name, a.Owner, end(now, a.Life), flaw)
		return int(s.Number)
	}
	c := n.Number(a.Stripe)
	switch {
	case int(c)+1 >= int(Last):
		return AtTheEnd
	case flaw.has(HintedShare):
		c = max(c+1, a.Hint)
	case !flaw.has(FirstCountsNot) || c == 0:
		c++
	}
	n.beginSharing(s, a.Name, a.Stripe, a.Owner, c, end(now, a.Life))
	return int(c)
}

// beginSharing begins a generation.
func (n *Node) beginSharing(s *Sharers, name, stripe uint8, o Owner, c Number, until Tick) {
	n.Stripes[stripe] = c
	n.Keys[name] = Key{Shared, until}
	*s = Sharers{Number: c}
	s.Ends[o-1] = until
}

// ExtendShared is extend_shared.lua for one hold.
func (n *Node) ExtendShared(now Tick, s *Sharers, e Extend, flaw Flaw) int {
	k := &n.Keys[e.Name]
	switch {
	case !n.member(e.Epoch):
		return NoMember
	case k.Owner == Nobody:
		return Refused
	case k.Owner != Shared:
		return Another
	case !s.Has(now, e.Owner):
		return Refused
	}
	n.lengthen(s, e.Name, e.Owner, max(s.Ends[e.Owner-1], end(now, e.Life)), flaw)
	return Done
}

// ReseedShared is reseed_shared.lua for one hold.
func (n *Node) ReseedShared(now Tick, s *Sharers, r Reseed, flaw Flaw) int {
	k, until := &n.Keys[r.Name], end(now, r.Life)
	ours := k.Owner == Shared
	switch {
	case !n.member(r.Epoch):
		return NoMember
	case ours && s.Has(now, r.Owner):
		return Done
	case !ours && k.Owner != Nobody, n.Dead[r.Owner-1] != 0 && !flaw.has(ReseedDead):
		return Refused
	case ours && s.Latest() >= now:
		n.lengthen(s, r.Name, r.Owner, until, flaw)
		return Done
	}
	c := int(n.Number(r.Stripe))
	if c < int(r.Token) || flaw.has(ReseedsOldToken) {
		c = max(int(r.Token), 1)
	} else {
		c++
	}
	if c >= int(Last) {
		return Refused
	}
	stripe := max(n.Stripes[r.Stripe], Number(c))
	n.beginSharing(s, r.Name, r.Stripe, r.Owner, Number(c), until)
	n.Stripes[r.Stripe] = stripe
	return Done
}

// RaiseShared is raise_shared.lua.
func (n *Node) RaiseShared(now Tick, s *Sharers, r Raise, flaw Flaw) int {
	ours := n.Keys[r.Name].Owner == Shared
	switch {
	case !n.member(r.Epoch):
		return NoMember
	case (!ours || !s.Has(now, r.Owner)) && !flaw.has(RaiseForAnyone):
		return Refused
	case n.Number(r.Stripe) > r.Token && !flaw.has(RaiseDown):
		return int(s.Number)
	}
	n.Stripes[r.Stripe] = r.Token
	if ours {
		s.Number = r.Token
	}
	return int(r.Token)
}

// EndShared is release_shared.lua for one hold, but that nobody is woken: whether it was
// ended that had not ended by itself, and whether the name went free by it.
func (n *Node) EndShared(now Tick, s *Sharers, r Release, flaw Flaw) (gone int, freed bool) {
	if k := &n.Keys[r.Name]; k.Owner == Shared && s.Ends[r.Owner-1] != 0 {
		gone = int(boolean(s.Has(now, r.Owner)))
		s.Ends[r.Owner-1] = 0
		if latest := s.Latest(); latest < now || latest == 0 || flaw.has(DeletesAtRelease) {
			n.DropSharers(s, r.Name)
			freed = true
		} else if !flaw.has(NeverLowers) {
			k.Until = latest
		}
	}
	if r.Tombstone != 0 {
		n.Dead[r.Owner-1] = max(n.Dead[r.Owner-1], end(now, r.Tombstone))
	}
	return gone, freed
}

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
	Ends   int   // until the first of them ends; -1 if none does
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
