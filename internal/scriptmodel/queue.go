package scriptmodel

// Waiters is how many processes can wait.
const Waiters = 4

// Waiter is a process that waits: 0 to Waiters-1. The ids that they stand for are
// in the same order.
type Waiter uint8

// NoWaiter is nobody.
const NoWaiter Waiter = 255

// What acquire and pass return besides.
const (
	Kept = -3 // free, and kept for the head of the queue
	Gone = -4 // pass only: the old owner's key is no longer there
)

// The modes in which a release leaves the queue.
const (
	EntryUnknown uint8 = iota // the process has none
	EntryGoes                 // it has had its turn, or waits no longer
	EntryStays                // it goes on waiting
)

// Waiting is a node with the queue of its name 0. The zero value is an empty one.
type Waiting struct {
	Node
	Places [Waiters]Number // by waiter; 0: no entry
	Live   uint8           // who has given a sign of life, one bit each
	Called uint8           // who was called since: that sign of life ends soon
	Deaf   uint8           // who hears no hint: its connection is closed
	Waited bool            // somebody has waited for something lately
}

// Entered tells whether the waiter has an entry.
func (n *Waiting) Entered(w Waiter) bool { return n.Places[w] != 0 }

// Lives tells whether the waiter's last sign of life stands.
func (n *Waiting) Lives(w Waiter) bool { return n.Live&(1<<w) != 0 }

// inLine is the entry that stands behind so many others.
func (n *Waiting) inLine(behind int) Waiter {
	for i, place := range n.Places {
		before := 0
		for j, other := range n.Places {
			before += int(boolean(other != 0 && (other < place || other == place && j < i)))
		}
		if place != 0 && before == behind {
			return Waiter(i)
		}
	}
	return NoWaiter
}

// living drops dead heads; me counts as living.
func (n *Waiting) living(me Waiter) Waiter {
	for {
		head := n.inLine(0)
		if head == NoWaiter || head == me || n.Lives(head) {
			return head
		}
		n.Places[head] = 0
	}
}

// AcquireKept is acquire.lua where somebody may wait: Node.Acquire, but that a
// free name may be kept for the head of the queue.
func (n *Waiting) AcquireKept(now Tick, a Acquire, flaw Flaw) int {
	if n.member(a.Epoch) && n.Keys[0].Owner == Nobody && n.Dead[a.Owner-1] == 0 && n.Waited && n.living(NoWaiter) != NoWaiter {
		return Kept
	}
	return n.Acquire(now, a, flaw)
}

// Ask is the arguments of ask.lua, for name 0. Place 0 asks for a ticket, and
// Barging looks at no queue.
type Ask struct {
	Acquire
	Waiter  Waiter
	Place   Number
	Barging bool
}

// Ask grants as Acquire does, if the waiter is first in line. It returns the
// reply, and of a refusal the ticket, or 1 where the waiter is the head.
func (n *Waiting) Ask(now Tick, a Ask) (reply, more int) {
	k := &n.Keys[0]
	before := n.Number(a.Stripe)
	switch {
	case !n.member(a.Epoch):
		return Abstained, 0
	case k.Owner == a.Owner:
		return int(before), 0
	case k.Owner != Nobody:
		reply = k.taken(now)
		if a.Place > 0 && !a.Barging && n.Dead[a.Owner-1] == 0 {
			n.record(a)
		}
	case n.Dead[a.Owner-1] != 0:
		return Dead, 0
	case !a.Barging:
		head := n.living(a.Waiter)
		if head != NoWaiter && head != a.Waiter && a.Place > 0 {
			n.record(a)
			head = n.living(a.Waiter)
		}
		if head != NoWaiter && head != a.Waiter {
			reply = Kept
		}
	}
	if reply == 0 {
		return n.Acquire(now, a.Acquire, 0), 0
	}
	if a.Place > 0 && !a.Barging {
		return reply, int(boolean(n.living(a.Waiter) == a.Waiter))
	}
	top := before
	for _, place := range n.Places {
		top = max(top, place)
	}
	return reply, int(top) + 1
}

func (n *Waiting) record(a Ask) {
	n.Look(a.Waiter)
	n.Places[a.Waiter] = a.Place
}

// Look is look.lua without names: a sign of life. It tells whether the last one
// was still there, and no call had shortened it since.
func (n *Waiting) Look(w Waiter) (known int) {
	known = int(boolean(n.Lives(w) && n.Called&(1<<w) == 0))
	n.Live |= 1 << w
	n.Called &^= 1 << w
	n.Waited = true
	return known
}

// LookAt is look.lua for name 0: the entry is stored again.
func (n *Waiting) LookAt(w Waiter, place Number) (known int) {
	n.Places[w] = place
	return n.Look(w)
}

// ReleaseFrom is release.lua (EntryUnknown, and nobody) and release_batch.lua for
// name 0. It returns what they do, and who was woken.
func (n *Waiting) ReleaseFrom(now Tick, r Release, w Waiter, entry uint8) (gone int, woken Waiter) {
	there := n.Keys[0].Owner != Nobody
	gone = n.Release(now, r)
	wake := gone == Done
	if entry == EntryGoes && n.Entered(w) {
		n.Places[w] = 0
		wake = wake || !there
	}
	for unheard := 0; wake && n.Waited; {
		next := n.inLine(unheard)
		switch {
		case next == NoWaiter || next == w:
			return gone, NoWaiter
		case !n.Lives(next):
			n.Places[next] = 0
			continue
		}
		n.Called |= 1 << next
		if n.Deaf&(1<<next) == 0 {
			return gone, next
		}
		unheard++
	}
	return gone, NoWaiter
}

// Pass is the arguments of pass.lua.
type Pass struct {
	Acquire
	Old Owner
}

// Pass hands the key from the old owner to the new one.
func (n *Waiting) Pass(now Tick, p Pass) int {
	k := &n.Keys[p.Name]
	switch {
	case !n.member(p.Epoch):
		return Abstained
	case k.Owner == p.Owner:
		return int(n.Number(p.Stripe))
	case k.Owner == Nobody || k.Owner == Shared || k.Owner == Alien: // GET shows no string
		return Gone
	case k.Owner != p.Old:
		return k.taken(now)
	case n.Dead[p.Owner-1] != 0:
		return Dead
	case max(int(n.Number(p.Stripe))+1, int(p.Hint)) >= int(Last):
		return AtTheEnd
	}
	n.Drop(p.Name)
	return n.Acquire(now, p.Acquire, 0)
}

func boolean(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}
