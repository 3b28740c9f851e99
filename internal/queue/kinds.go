package queue

import (
	"context"
	"time"

	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/quorum"
)

// Goroutines that want to share a name stand in the same line as all others of their Locker.
// When the turn is theirs they are a group (quorum.Group says what is decided of it), and
// the line moves on when the attempts of all of them are decided.

// Share blocks until a goroutine that wants to share key may ask the nodes, for itself or
// (leads) for all of its group; or until ctx is done. It may have been given an attempt that is
// sent already. On failure it returns ctx's cause and leaves the queue as it was.
func (q *Queue) Share(ctx context.Context, key string, ttl time.Duration, label string) (name *Name, given *Transfer, leads bool, err error) {
	q.mu.Lock()
	if name = q.names[key]; name == nil {
		name = q.namedLocked(key)
		name.group.Undecided = 1
		q.mu.Unlock()
		return name, nil, false, nil
	}
	if name.admitsLocked() {
		name.group.Undecided++
		q.mu.Unlock()
		return name, nil, false, nil
	}
	w := &Waiter{TTL: ttl, Label: label, Shared: true, ready: make(chan struct{})}
	name.joinLocked(w)
	q.mu.Unlock()
	if err = q.turnOf(ctx, name, w); err != nil {
		return nil, nil, false, err
	}
	return name, w.given, w.given == nil, nil
}

// Apart is a name that nobody else has, for a goroutine that asks the nodes in no turn.
func Apart(key string) *Name { return &Name{Key: key, polls: pollSchedule{place: -1}} }

// MayShare tells whether nobody of this Locker has key for itself, or stands in line.
func (q *Queue) MayShare(key string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	name := q.names[key]
	return name == nil || name.admitsLocked()
}

// Follow is for a member of a group that the nodes have refused: it leads from now on, or
// blocks as Share does until its turn to lead has come, or an attempt was sent for it. If ctx
// ends first, it is still a member: Decided takes it out.
func (q *Queue) Follow(ctx context.Context, name *Name, ttl time.Duration, label string) (given *Transfer, leads bool, err error) {
	q.mu.Lock()
	name.contended = true
	if name.group.Refused() {
		q.mu.Unlock()
		return nil, true, nil
	}
	w := &Waiter{TTL: ttl, Label: label, Shared: true, refused: true, ready: make(chan struct{})}
	name.followLocked(w)
	q.mu.Unlock()
	if err = q.turnOf(ctx, name, w); err != nil {
		return nil, false, err
	}
	return w.given, w.given == nil, nil
}

// Gather takes the waiters that want to share, and stand first in line, into the group. Its
// leader calls it before it asks for a place, so that they all go by that one place.
func (q *Queue) Gather(name *Name) {
	q.mu.Lock()
	defer q.mu.Unlock()
	name.gatherLocked()
}

// Going ends the leading of a group whose leader was granted. It takes out the followers:
// the caller gives each its attempt, by the group's place.
func (q *Queue) Going(name *Name) (place int64, follow []*Waiter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	name.group.Granted()
	for name.following.Len() > 0 {
		follow = append(follow, take(&name.following))
	}
	return name.group.Place, follow
}

// Decided takes in that one of a group has been granted, by the group's place (byPlace) or by
// none, or has given up; leads: it leads the group still. The next member leads then, or
// the line moves on. Decided calls leave where the group's place is to be given up, before
// anybody here can ask for the name again.
func (q *Queue) Decided(name *Name, leads, byPlace bool, leave func(key string, place int64)) {
	if q.Freeing != nil {
		q.Freeing()
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	d := name.group.Decided(leads, byPlace, name.following.Len())
	if d.Leads {
		close(take(&name.following).ready)
	}
	if d.Leave != quorum.NoTicket {
		leave(name.Key, d.Leave)
	}
	if d.Over {
		name.giveUpLocked()
		q.moveOnLocked(name, nil)
	}
}

// Stood tells whether nodes may have an entry of ours for key, of either kind.
func (q *Queue) Stood(key string) (alone, shared bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.waited.has(key), q.shared.has(key)
}

// EntryAt is what the release of a shared hold that this place brought does with the
// process's entry.
func (q *Queue) EntryAt(key string, place int64) quorum.Entry {
	q.mu.Lock()
	defer q.mu.Unlock()
	if name := q.names[key]; name != nil {
		return name.group.EntryAt(place)
	}
	return (&quorum.Group{}).EntryAt(place)
}

// beginGroupLocked gives the turn to the waiters that want to share, and stand first.
func (n *Name) beginGroupLocked() {
	leader := n.firstLocked()
	n.group = quorum.Group{Undecided: 1, Led: true}
	n.gatherLocked()
	close(leader.ready)
}

// gatherLocked is Gather for a caller that holds mu.
func (n *Name) gatherLocked() {
	for n.queue.Len() > 0 && !n.goesOnLocked() {
		n.group.Undecided++
		n.followLocked(n.firstLocked())
	}
}

// followLocked makes a waiter go when the leader was granted.
func (n *Name) followLocked(w *Waiter) {
	w.follows, w.at = true, n.following.PushBack(w)
}

// admitsLocked tells whether a group has the turn, and takes one more in.
func (n *Name) admitsLocked() bool { return n.sharesLocked() && n.group.Admits(n.queue.Len()) }

// sharesLocked tells whether a group that shares has the turn.
func (n *Name) sharesLocked() bool { return n.group.Undecided > 0 }

// signed is Position, with a minus sign if the place is in the line of sharers.
func (q *Queue) signed(name *Name) int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	if name.sharesLocked() {
		return -name.position
	}
	return name.position
}

// freed takes in which slot a call says is free, and returns the name under which waiters
// of slots stand in line. It returns the name of any other call as it is.
func (q *Queue) freed(key string) string {
	name, slot, ok := lua.SlotOf(key)
	if !ok {
		return key
	}
	key = lua.SlotsKey(name)
	q.mu.Lock()
	defer q.mu.Unlock()
	if n := q.names[key]; n != nil {
		n.slot = slot + 1
	}
	return key
}

// Freed takes the slot that the last call said is free; -1 if it said none.
func (q *Queue) Freed(name *Name) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	slot := name.slot - 1
	name.slot = 0
	return slot
}

// Depart gives up the process's place for the name, even if others wait here, and returns it;
// NoTicket if it had none.
func (q *Queue) Depart(name *Name) (place int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if name.recorded {
		place = name.position
	}
	name.giveUpLocked()
	return place
}

// Offer lets the goroutine whose turn it is take over a slot that another goroutine of its
// Locker releases, until Withdraw. w says how it wants to hold the slot.
func (q *Queue) Offer(name *Name, w *Waiter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if name.given == nil { // one is enough
		name.rests = w
	}
}

// Collect returns what was given since Offer; nil if nothing. The offer stands until then.
func (q *Queue) Collect(name *Name) *Transfer {
	q.mu.Lock()
	defer q.mu.Unlock()
	given := name.given
	name.given = nil
	return given
}

// Withdraw ends Offer, and returns what was given; nil if nothing.
func (q *Queue) Withdraw(name *Name) *Transfer {
	q.mu.Lock()
	defer q.mu.Unlock()
	given := name.given
	name.rests, name.given = nil, nil
	return given
}

// Given tells whether Withdraw would return anything.
func (q *Queue) Given(name *Name) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return name.given != nil
}

// HandSlot gives a slot that has been handed on so often in a row to the goroutine that offered
// to take one of the name. send makes the Transfer, with the queue's mu held. HandSlot returns
// false where nobody did, where that one knows of fewer slots, or once other processes have
// their turn.
func (q *Queue) HandSlot(key string, slot, passed int, send func(to *Waiter) *Transfer) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	name := q.names[key]
	if name == nil || name.rests == nil || slot >= name.rests.Slots || !quorum.TurnLeft(passed+1, q.turns) {
		return false
	}
	name.given = send(name.rests)
	name.rests, name.due = nil, true
	name.signalLocked()
	return true
}
