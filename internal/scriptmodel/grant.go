package scriptmodel

// Granted is what Hand replies where the lock went to the first in line.
const Granted = 2

// Yours is what LookIn says of a name that its owner has: it was granted.
const Yours = -3

// Entry is what an owner stands in line with, beside its waiter's place: a release may
// grant to it. Place 0 is none.
type Entry struct {
	Place  Number
	Waiter Waiter
}

// Granting is a node whose name 0 is waited for by processes that take grants by push,
// and by others. The zero value is an empty one.
type Granting struct {
	Waiting
	Entries  [Owners]Entry   // by owner
	Readings [Waiters]Tick   // of each one's clock, with its last sign of life
	Beside   [Waiters]Number // the second line, of those who wait to share: places, by waiter
	Sharing  bool            // there may be such a line
}

// Push is a grant as its heir hears it. To nobody: there is none.
type Push struct {
	To      Waiter
	Epoch   Epoch
	Token   Number
	Reading Tick
	Owner   Owner
}

// noPush is none.
var noPush = Push{To: NoWaiter}

// member is one of the queue's: a waiter's id, or with an owner what it waits with.
type member struct {
	place  Number
	waiter Waiter
	owner  Owner
}

func (m member) before(o member) bool {
	switch {
	case m.place != o.place:
		return m.place < o.place
	case m.waiter != o.waiter:
		return m.waiter < o.waiter
	default:
		return m.owner < o.owner
	}
}

// follows tells whether m says what the waiter of head waits with.
func (m member) follows(head member) bool {
	return m.waiter == head.waiter && m.place == head.place && head.owner == Nobody
}

// line is all members, in their order, and how many they are.
func (n *Granting) line() (line [int(Waiters) + Owners]member, size int) {
	put := func(m member) {
		i := size
		for ; i > 0 && m.before(line[i-1]); i-- {
			line[i] = line[i-1]
		}
		line[i] = m
		size++
	}
	for w, place := range n.Places {
		if place != 0 {
			put(member{place, Waiter(w), Nobody})
		}
	}
	for o, e := range n.Entries {
		if e.Place != 0 {
			put(member{e.Place, e.Waiter, Owner(o + 1)})
		}
	}
	return line, size
}

// at is the member that stands behind so many others.
func (n *Granting) at(behind int) (member, bool) {
	line, size := n.line()
	if behind >= size {
		return member{}, false
	}
	return line[behind], true
}

// top is the highest place.
func (n *Granting) top() Number {
	line, size := n.line()
	if size == 0 {
		return 0
	}
	return line[size-1].place
}

// remove takes a member out, wherever it stands.
func (n *Granting) remove(w Waiter, o Owner) (removed bool) {
	if o == Nobody {
		removed = n.Places[w] != 0
		n.Places[w] = 0
		return removed
	}
	if e := &n.Entries[o-1]; e.Place != 0 && e.Waiter == w {
		removed = true
		*e = Entry{}
	}
	return removed
}

// leave takes out what an owner waits with, and its waiter where that stands with it, but
// not where with does as well.
func (n *Granting) leave(w Waiter, o, with Owner) (left bool) {
	e := n.Entries[o-1]
	if e.Place == 0 || e.Waiter != w {
		return false
	}
	if n.Places[w] == e.Place && (with == Nobody || n.Entries[with-1] != e) {
		n.Places[w] = 0
	}
	n.remove(w, o)
	return true
}

// drop takes out a head, and what it waits with.
func (n *Granting) drop(head member) {
	with, ok := n.at(1)
	n.remove(head.waiter, head.owner)
	if ok && with.follows(head) {
		n.remove(with.waiter, with.owner)
	}
}

// enter puts a waiter in line; Nobody: it takes no push.
func (n *Granting) enter(w Waiter, place Number, o Owner) {
	n.Places[w] = place
	if o != Nobody {
		n.Entries[o-1] = Entry{place, w}
	}
}

// sign is a sign of life.
func (n *Granting) sign(w Waiter, reading Tick) {
	n.Look(w)
	n.Readings[w] = reading
}

// Silence ends a waiter's sign of life.
func (n *Granting) Silence(w Waiter) {
	n.Live &^= 1 << w
	n.Called &^= 1 << w
	n.Readings[w] = 0
}

// keptFor is the living head, as acquire.lua sees it.
func (n *Granting) keptFor() Waiter {
	for {
		head, ok := n.at(0)
		switch {
		case !ok:
			return NoWaiter
		case head.owner == Nobody && n.Lives(head.waiter):
			return head.waiter
		}
		n.remove(head.waiter, head.owner)
	}
}

// AcquireKept is acquire.lua where somebody may wait.
func (n *Granting) AcquireKept(now Tick, a Acquire, flaw Flaw) int {
	free := n.Keys[0].Owner == Nobody || n.Keys[0].Owner == Alien
	if n.member(a.Epoch) && free && n.Dead[a.Owner-1] == 0 && n.Waited && (n.keptFor() != NoWaiter || n.sharer() != 0) {
		return Kept
	}
	return n.Acquire(now, a, flaw)
}

// AskIn is the arguments of ask.lua, for name 0, of a process that says its reading.
// Push: it takes grants by push.
type AskIn struct {
	Ask
	Push    bool
	Reading Tick
	Flaw    Flaw
}

// mine is what the asker has to wait with to be itself; Nobody: only its id counts.
func (a AskIn) mine() Owner {
	if a.Push {
		return a.Owner
	}
	return Nobody
}

// me tells whether the asker is the living head; other: somebody else is.
func (n *Granting) me(a AskIn) (me, other bool) {
	for {
		head, ok := n.at(0)
		if !ok {
			return false, false
		}
		with, behind := n.at(1)
		if head.owner == Nobody && head.waiter == a.Waiter {
			if !a.Push || behind && with.follows(head) && (with.owner == a.Owner || a.Flaw.has(AnyEntryIsMine)) {
				return true, false
			}
		} else if head.owner == Nobody && n.Lives(head.waiter) {
			return false, true
		}
		n.drop(head)
	}
}

// AskIn is Ask, with what a process that takes pushes has besides.
func (n *Granting) AskIn(now Tick, a AskIn) (reply, more int) {
	k := &n.Keys[0]
	before := n.Number(a.Stripe)
	recorded := a.Place > 0 && !a.Barging
	me := false
	switch {
	case !n.member(a.Epoch):
		return Abstained, 0
	case k.Owner == a.Owner:
		if a.Push {
			if before < a.Place && !a.Barging && a.Place < Last && !a.Flaw.has(BelowPlace) {
				n.Stripes[a.Stripe] = a.Place
				before = a.Place
			}
			k.lengthen(end(now, a.Life))
		}
		return int(before), 0
	case k.Owner != Nobody && k.Owner != Alien:
		reply = k.taken(now)
		if recorded && (n.Dead[a.Owner-1] == 0 || a.Flaw.has(EnterDead)) {
			n.record(a)
		}
	case n.Dead[a.Owner-1] != 0:
		return Dead, 0
	case !a.Barging:
		var other bool
		if me, other = n.me(a); other && recorded {
			n.record(a)
			me, other = n.me(a)
		}
		if other {
			reply = Kept
		} else if !a.Flaw.has(SharersUnseen) && n.sharerBefore(a.Place) {
			reply = Kept
			if recorded {
				n.record(a)
			}
		}
	}
	if reply == 0 {
		if reply = n.granted(now, a, me); reply > Kept {
			return reply, 0
		}
		more = foreign
	}
	if recorded && a.Push && n.Dead[a.Owner-1] != 0 {
		return reply, more
	}
	if recorded {
		head, _ := n.me(a)
		if head && (a.Flaw.has(SharersUnseen) || !n.sharerBefore(a.Place)) {
			more++
		}
		return reply, more
	}
	return reply, int(n.ticket(a.Stripe))
}

// foreign is what a refusal says besides where the name is none of ours.
const foreign = 2

// ticket is the place behind all who wait, in either line.
func (n *Granting) ticket(stripe uint8) Number {
	top := max(n.Number(stripe), n.top())
	if n.Sharing {
		top = max(top, n.lastBeside())
	}
	return top + 1
}

// granted is the end of an ask that nothing is in the way of.
func (n *Granting) granted(now Tick, a AskIn, me bool) int {
	b := a.Acquire
	if a.Push && !a.Barging && !a.Flaw.has(BelowPlace) {
		b.Hint = max(b.Hint, a.Place)
	}
	reply := n.Acquire(now, b, a.Flaw)
	if reply > 0 && a.Push && me {
		n.remove(a.Waiter, Nobody)
		n.remove(a.Waiter, a.Owner)
	}
	return reply
}

func (n *Granting) record(a AskIn) {
	n.sign(a.Waiter, a.Reading)
	n.enter(a.Waiter, a.Place, a.mine())
}

// lengthen moves an end, never forward to us.
func (k *Key) lengthen(until Tick) { k.Until = max(k.Until, until) }

// LookIn is look.lua for name 0, with an owner or without: what it knew of the last
// sign, and whether the name is that owner's.
func (n *Granting) LookIn(w Waiter, place Number, o Owner, reading Tick) (known int, yours bool) {
	known = n.Look(w)
	n.Readings[w] = reading
	switch {
	case o == Nobody:
		n.enter(w, place, Nobody)
	case n.Holds(0, o):
		return known, true
	case n.Dead[o-1] == 0:
		n.enter(w, place, o)
	}
	return known, false
}

// LineRelease is the arguments of release_batch.lua for name 0, and of release.lua
// (EntryUnknown, and nobody). Push: it says with which owner it goes on.
type LineRelease struct {
	Release
	Waiter  Waiter
	Entry   uint8
	Push    bool
	Reading Tick
	Place   Number
	Next    Owner // Nobody if none
	Flaw    Flaw
}

// ReleaseIn is ReleaseFrom, where nobody waits to share: what was deleted, and who was woken.
func (n *Granting) ReleaseIn(now Tick, r LineRelease) (gone int, woken Waiter) {
	gone, all := n.ReleaseBoth(now, r)
	return gone, all.Alone
}

// ReleaseBoth is what these do: what was deleted, and who was woken of both lines.
func (n *Granting) ReleaseBoth(now Tick, r LineRelease) (gone int, woken Woken) {
	gone = n.Release(now, r.Release)
	wake, from := gone == Done, free
	unheld, shared := n.Keys[0].Owner == Nobody, n.Keys[0].Owner == Shared
	waited := n.Waited
	switch {
	case r.Entry == EntryGoes:
		at, out := n.leaveLine(r)
		wake = wake || out && unheld
		if out && !wake && shared && !r.Flaw.has(LeavesSilently) {
			wake, from = true, int(at)
		}
	case r.Entry == EntryStays && r.Push:
		n.leave(r.Waiter, r.Owner, Nobody)
		if r.Next != Nobody && !n.Holds(0, r.Next) && (n.Dead[r.Next-1] == 0 || r.Flaw.has(EnterDead)) {
			n.enter(r.Waiter, r.Place, r.Next)
			n.sign(r.Waiter, r.Reading)
			waited = true
		}
	}
	if !wake || !waited || r.Flaw.has(CallsNobody) {
		return gone, nobodyWoken
	}
	return gone, n.wake(r.Waiter, from, r.Flaw)
}

// leaveLine takes out the entry of one that leaves, and says where it stood.
func (n *Granting) leaveLine(r LineRelease) (at Number, out bool) {
	if r.Push {
		at = n.Entries[r.Owner-1].Place
		return at, n.leave(r.Waiter, r.Owner, Nobody)
	}
	at = n.Places[r.Waiter]
	out = n.remove(r.Waiter, Nobody)
	return at, n.remove(r.Waiter, r.Owner) || out
}

// Hand is the arguments of hand.lua, for name 0. Goes says that the process names
// itself, Next with which owner it goes on, and Stood with which it stood in line (Nobody:
// with none). Life is the lease of what it grants. Calls: it grants nothing.
type Hand struct {
	Owner   Owner
	Stripe  uint8
	Hint    Number
	Epoch   Epoch
	Goes    bool
	Waiter  Waiter
	Reading Tick
	Next    Owner
	Stood   Owner
	Life    Tick
	Calls   bool
	Flaw    Flaw
}

// Handed is what it does: the replies, who was told that it has the lock, and who was
// called.
type Handed struct {
	Reply, More int
	Push        Push
	Woken       Waiter
	Beside      uint8 // who was called of those who wait to share, one bit each
}

// Hand releases the lock, and grants it to the first in line.
func (n *Granting) Hand(now Tick, h Hand) Handed {
	out := Handed{Push: noPush, Woken: NoWaiter}
	k := &n.Keys[0]
	mine := k.Owner == h.Owner
	if !n.Waited && !h.Goes {
		if mine {
			n.Drop(0)
			out.Reply = Done
		}
		return out
	}
	votes := n.member(h.Epoch)
	next := Nobody
	if votes && h.Goes {
		next = h.Next
	}
	enters := next != Nobody && (n.Dead[next-1] == 0 || h.Flaw.has(EnterDead))
	me := NoWaiter
	if h.Goes {
		me = h.Waiter
	}
	switch {
	case mine:
		if votes {
			n.grantHead(now, h, me, next, enters, &out)
		}
		if out.Reply == 0 {
			n.Drop(0)
			out.Reply = Done
			out.woke(n.wake(me, free, h.Flaw))
		}
	case next != Nobody && k.Owner == next:
		out.More = -int(n.Number(h.Stripe))
		return out
	case h.Goes && !h.Flaw.has(EntryStaysBehind):
		if next != Nobody && n.Entries[next-1].Waiter == me {
			out.More = int(n.Entries[next-1].Place)
		}
		n.leaveBehind(h, me, next, &out)
	}
	if enters && out.More == 0 {
		n.enterNext(h, me, next, &out)
	}
	return out
}

// leaveBehind takes out what the process stood with, and calls who may go then.
func (n *Granting) leaveBehind(h Hand, me Waiter, next Owner, out *Handed) {
	with := Nobody
	if out.More != 0 {
		with = next
	}
	if h.Stood == Nobody {
		return
	}
	at := n.Entries[h.Stood-1].Place
	if !n.leave(me, h.Stood, with) {
		return
	}
	switch n.Keys[0].Owner {
	case Nobody, Alien:
		out.woke(n.wake(me, free, h.Flaw))
	case Shared:
		if !h.Flaw.has(LeavesSilently) {
			out.woke(n.wake(me, int(at), h.Flaw))
		}
	}
}

// enterNext puts the process in line with the owner with which it goes on.
func (n *Granting) enterNext(h Hand, me Waiter, next Owner, out *Handed) {
	top := n.top()
	if n.sharer() != 0 {
		top = max(top, n.lastBeside())
	}
	frees := h.Calls && out.Reply == Done && top == 0
	if h.Flaw.has(BlindPlace) {
		top = 0
	}
	place := int(max(top, n.Number(h.Stripe))) + 1
	if place >= int(Last) || frees {
		return
	}
	n.enter(me, Number(place), next)
	if !h.Flaw.has(SignlessHand) {
		n.sign(me, h.Reading)
	}
	out.More = place
}

// heir is the living head but for ended attempts of the process's own, and what it waits
// with; Nobody: it takes no push.
func (n *Granting) heir(me Waiter, next Owner) (head member, with Owner, ok bool) {
	for {
		head, ok = n.at(0)
		if !ok {
			return head, Nobody, false
		}
		with = Nobody
		if m, behind := n.at(1); behind && m.follows(head) {
			with = m.owner
		}
		switch {
		case head.owner != Nobody:
		case head.waiter == me:
			if next != Nobody && with == next {
				return head, with, true
			}
		case n.Lives(head.waiter):
			return head, with, true
		}
		n.drop(head)
	}
}

// grantHead grants the lock to the first in line, if it can.
func (n *Granting) grantHead(now Tick, h Hand, me Waiter, next Owner, enters bool, out *Handed) {
	head, with, ok := n.heir(me, next)
	beside := Number(0)
	if !h.Flaw.has(SharersUnseen) {
		beside = n.sharer()
	}
	switch {
	case beside != 0 && (!ok || head.place > beside):
		return
	case !ok && !enters:
		return
	case !ok:
		head, with = member{0, me, Nobody}, next
	}
	to := max(int(n.Number(h.Stripe))+1, int(h.Hint), int(head.place))
	if h.Flaw.has(BelowPlace) {
		to = max(int(n.Number(h.Stripe))+1, int(h.Hint))
	}
	if with == Nobody || h.Calls || to >= int(Last) {
		return
	}
	n.Stripes[h.Stripe] = Number(to)
	if head.waiter != me && n.Deaf&(1<<head.waiter) != 0 {
		return
	}
	n.Keys[0] = Key{with, end(now, h.Life)}
	out.Reply = Granted
	if head.place != 0 {
		n.drop(head)
	}
	if head.waiter == me {
		out.More = -to
		return
	}
	n.Called |= 1 << head.waiter
	out.Push = Push{To: head.waiter, Epoch: h.Epoch, Token: Number(to), Reading: n.Readings[head.waiter], Owner: with}
}
