package scriptmodel

// The second line of name 0: who waits to share it (share.lua). There is one order of both
// lines: place, then exclusive first, then the waiter.

// free is for wake: nobody has the name.
const free = -1

// Woken is who was called: the exclusive, if any, and those who wait to share, one bit each.
type Woken struct {
	Alone  Waiter
	Beside uint8
}

var nobodyWoken = Woken{Alone: NoWaiter}

// woke notes who was called.
func (h *Handed) woke(w Woken) { h.Woken, h.Beside = w.Alone, w.Beside }

// beside is the waiter that stands behind so many others in the second line.
func (n *Granting) beside(behind int) Waiter {
	for i, place := range n.Beside {
		before := 0
		for j, other := range n.Beside {
			before += int(boolean(other != 0 && (other < place || other == place && j < i)))
		}
		if place != 0 && before == behind {
			return Waiter(i)
		}
	}
	return NoWaiter
}

// lastBeside is the highest place of the second line.
func (n *Granting) lastBeside() (last Number) {
	for _, place := range n.Beside {
		last = max(last, place)
	}
	return last
}

// sharer is the place of the first that lives of the second line; 0: there is none.
func (n *Granting) sharer() Number {
	for n.Sharing {
		head := n.beside(0)
		switch {
		case head == NoWaiter:
			return 0
		case n.Lives(head):
			return n.Beside[head]
		}
		n.Beside[head] = 0
	}
	return 0
}

// sharerBefore tells whether one that lives stands in the second line before the place, or,
// with none, at all.
func (n *Granting) sharerBefore(place Number) bool {
	for n.Sharing {
		head := n.beside(0)
		switch {
		case head == NoWaiter || place > 0 && n.Beside[head] >= place:
			return false
		case n.Lives(head):
			return true
		}
		n.Beside[head] = 0
	}
	return false
}

// wake wakes the waiters whose turn it is, in order: the first that hears it, or, if that
// one wants to share, all sharers before the next exclusive waiter. from: others share the
// name, so only sharers are woken, from that place on; free if nobody has it.
func (n *Granting) wake(me Waiter, from int, flaw Flaw) Woken {
	woken, at, behind := nobodyWoken, 0, 0
	for {
		m, ok := n.at(at)
		if ok && m.owner != Nobody {
			at++
			continue
		}
		if other := n.nextBeside(behind); other != NoWaiter && (!ok || n.Beside[other] < m.place) {
			switch {
			case from != free && int(n.Beside[other]) < from:
				behind++
			case !n.Lives(other):
				n.Beside[other] = 0
			case flaw.has(WakesOneSharer) && woken.Beside != 0:
				return woken
			default:
				n.callBeside(other, &woken)
				behind++
			}
			continue
		}
		switch alone := woken.Beside != 0 || from != free; {
		case !ok || m.waiter == me:
			return woken
		case !n.Lives(m.waiter):
			n.remove(m.waiter, Nobody)
		case alone:
			return woken
		case n.call(m.waiter):
			woken.Alone = m.waiter
			return woken
		default:
			at++
		}
	}
}

// nextBeside is beside, where there may be such a line.
func (n *Granting) nextBeside(behind int) Waiter {
	if !n.Sharing {
		return NoWaiter
	}
	return n.beside(behind)
}

// call calls a waiter, and tells whether it hears that.
func (n *Granting) call(w Waiter) bool {
	n.Called |= 1 << w
	return n.Deaf&(1<<w) == 0
}

func (n *Granting) callBeside(w Waiter, woken *Woken) {
	if n.call(w) {
		woken.Beside |= 1 << w
	}
}

// Sharing is a node whose name 0 is shared and waited for. The zero value is an empty one.
type Sharing struct {
	Granting
	Set Sharers
}

// ShareIn is the arguments of share.lua for name 0. Place 0 asks for a ticket, and Barging
// looks at no line.
type ShareIn struct {
	Acquire
	Waiter  Waiter
	Place   Number
	Barging bool
	Reading Tick
	Flaw    Flaw
}

// ShareIn is share.lua: the reply, and what it says besides.
func (n *Sharing) ShareIn(now Tick, a ShareIn) (reply, more int) {
	if n.Keys[0].Owner == Alien {
		more = foreign
	}
	reply, met := n.meet(now, &n.Set, a.Acquire, a.Flaw)
	if !met {
		before := Number(0)
		if !a.Barging && !a.Flaw.has(SharersBarge) {
			before = n.alone()
		}
		shared := n.Keys[0].Owner == Shared
		switch {
		case before == 0 || a.Place != 0 && before > a.Place:
			reply = n.join(now, &n.Set, a.Acquire, a.Flaw)
		case shared:
			reply = n.Keys[0].taken(now)
		default:
			reply = Kept
		}
	}
	switch {
	case reply > Kept:
		return reply, 0
	case a.Place == 0 || a.Barging:
		return reply, int(max(n.Number(a.Stripe), n.top(), n.lastBeside())) + 1
	case n.Dead[a.Owner-1] != 0:
		return reply, more
	}
	n.enterBeside(a.Waiter, a.Place, a.Reading)
	if before := n.alone(); (before == 0 || before > a.Place) && n.firstBeside(a.Waiter) {
		more++
	}
	return reply, more
}

// enterBeside puts a waiter into the second line, with a sign of life.
func (n *Sharing) enterBeside(w Waiter, place Number, reading Tick) {
	n.sign(w, reading)
	n.Beside[w], n.Sharing = place, true
}

// alone is the place of the first that lives of those who wait to be alone; 0: there is none.
func (n *Sharing) alone() Number {
	for n.Waited {
		head, ok := n.at(0)
		switch {
		case !ok:
			return 0
		case head.owner == Nobody && n.Lives(head.waiter):
			return head.place
		}
		n.remove(head.waiter, head.owner)
	}
	return 0
}

// firstBeside tells whether the waiter stands before all that live in the second line.
func (n *Sharing) firstBeside(w Waiter) bool {
	for {
		head := n.beside(0)
		if head == NoWaiter || head == w {
			return head == w
		}
		if n.Lives(head) {
			return false
		}
		n.Beside[head] = 0
	}
}

// LookBeside is look.lua for name 0 of one who waits to share it, with an owner or without:
// what it knew of the last sign, and whether it may ask, though others share the name.
func (n *Sharing) LookBeside(w Waiter, place Number, o Owner, reading Tick, flaw Flaw) (known int, ask bool) {
	known = n.Look(w)
	n.Readings[w] = reading
	if o != Nobody && n.Dead[o-1] != 0 {
		return known, false
	}
	n.Beside[w], n.Sharing = place, true
	if n.Keys[0].Owner != Shared || flaw.has(LooksPast) {
		return known, false
	}
	for {
		head, ok := n.at(0)
		switch {
		case !ok || head.place > place:
			return known, true
		case head.owner == Nobody && n.Lives(head.waiter):
			return known, false
		}
		n.remove(head.waiter, head.owner)
	}
}

// EndBeside is the arguments of release_shared.lua for name 0. Place is of the entry that
// goes (EntryGoes).
type EndBeside struct {
	Release
	Waiter Waiter
	Named  bool // the process names itself
	Entry  uint8
	Place  Number
	Flaw   Flaw
}

// EndIn is release_shared.lua: whether a hold was ended, and who was woken.
func (n *Sharing) EndIn(now Tick, r EndBeside) (gone int, woken Woken) {
	gone, wake := n.EndShared(now, &n.Set, r.Release, r.Flaw)
	if !n.Waited {
		return gone, nobodyWoken
	}
	if at := n.Beside[r.Waiter]; r.Named && r.Entry == EntryGoes && at != 0 && at <= r.Place {
		n.Beside[r.Waiter] = 0
		wake = wake || n.Keys[0].Owner == Nobody
	}
	if !wake || r.Flaw.has(CallsNobody) {
		return gone, nobodyWoken
	}
	me := NoWaiter
	if r.Named {
		me = r.Waiter
	}
	return gone, n.wakeShared(me, r.Named && r.Entry == EntryStays && !r.Flaw.has(RollbackWakes), r.Flaw)
}

// wakeShared is release_shared.lua's wake. rollback: no sharer is woken.
func (n *Sharing) wakeShared(me Waiter, rollback bool, flaw Flaw) Woken {
	woken, at, behind := nobodyWoken, 0, 0
	for {
		m, ok := n.at(at)
		if ok && m.owner != Nobody {
			at++
			continue
		}
		if other := n.beside(behind); other != NoWaiter && (!ok || n.Beside[other] < m.place) {
			switch {
			case rollback && other == me:
				return woken
			case !n.Lives(other):
				n.Beside[other] = 0
			case rollback || flaw.has(WakesOneSharer) && woken.Beside != 0:
				return woken
			default:
				n.callBeside(other, &woken)
				behind++
			}
			continue
		}
		switch {
		case !ok:
			return woken
		case !n.Lives(m.waiter):
			n.remove(m.waiter, Nobody)
		case woken.Beside != 0:
			return woken
		case n.call(m.waiter):
			woken.Alone = m.waiter
			return woken
		default:
			at++
		}
	}
}
