package queue

import (
	"context"
	"time"

	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/quorum"
)

// Those who want to share a name stand in the same line as all others of their Locker.
// When the turn is theirs they are a group (quorum.Group says what is decided of it), and
// the line moves on when the attempts of all of them are decided.

// Share blocks until a goroutine that wants to share key may ask the nodes, for itself or
// (leads) for all of its group; or until ctx is done. It may have been given an attempt that is
// sent already. On failure it returns ctx's cause and leaves the queue as it was.
func (q *Queue) Share(ctx context.Context, key string, ttl time.Duration, label string) (name *Name, given *Transfer, leads bool, err error) {
	q.mu.Lock()
	if name = q.names[key]; name == nil {
		name = q.named(key)
		name.group.Undecided = 1
		q.mu.Unlock()
		return name, nil, false, nil
	}
	if name.admits() {
		name.group.Undecided++
		q.mu.Unlock()
		return name, nil, false, nil
	}
	w := &Waiter{TTL: ttl, Label: label, Shared: true, ready: make(chan struct{})}
	name.join(w)
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
	return name == nil || name.admits()
}

// Follow is for one of a group whom the nodes have refused: it leads from now on, or blocks
// as Share does until its turn to lead has come, or an attempt was sent for it. Where ctx
// ends first it is one of the group still.
func (q *Queue) Follow(ctx context.Context, name *Name, ttl time.Duration, label string) (given *Transfer, leads bool, err error) {
	q.mu.Lock()
	name.contended = true
	if name.group.Refused() {
		q.mu.Unlock()
		return nil, true, nil
	}
	w := &Waiter{TTL: ttl, Label: label, Shared: true, refused: true, ready: make(chan struct{})}
	name.follow(w)
	q.mu.Unlock()
	if err = q.turnOf(ctx, name, w); err != nil {
		return nil, false, err
	}
	return w.given, w.given == nil, nil
}

// Gather has those go with the group who want to share, and stand first in line. Its leader
// calls it before it asks for a place.
func (q *Queue) Gather(name *Name) {
	q.mu.Lock()
	defer q.mu.Unlock()
	name.gather()
}

// Going ends the leading of a group whose leader was granted. It takes out those who follow:
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
// none, or has given up; leads: it leads the group still. It has the next lead, or the line move on, as it is due. It calls leave
// where the place of the group is to be given up, before anybody here can ask for the
// name again.
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
		name.giveUp()
		q.moveOn(name, nil)
	}
}

// Stood tells whether nodes may have an entry of ours for key, of either kind.
func (q *Queue) Stood(key string) (alone, shared bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.waited.has(key), q.shared.has(key)
}

// EntryAt is what the release of a shared hold that was come by at this place does with the
// process's entry.
func (q *Queue) EntryAt(key string, place int64) quorum.Entry {
	q.mu.Lock()
	defer q.mu.Unlock()
	if name := q.names[key]; name != nil {
		return name.group.EntryAt(place)
	}
	return (&quorum.Group{}).EntryAt(place)
}

// beginGroup gives the turn to those who want to share, and stand first; mu is held.
func (n *Name) beginGroup() {
	leader := n.first()
	n.group = quorum.Group{Undecided: 1, Led: true}
	n.gather()
	close(leader.ready)
}

// gather is Gather with mu held.
func (n *Name) gather() {
	for n.queue.Len() > 0 && !n.goesOn() {
		n.group.Undecided++
		n.follow(n.first())
	}
}

// follow has one go when the leader was granted; mu is held.
func (n *Name) follow(w *Waiter) {
	w.follows, w.at = true, n.following.PushBack(w)
}

// admits tells whether the turn is that of a group which takes one more in; mu is held.
func (n *Name) admits() bool { return n.shares() && n.group.Admits(n.queue.Len()) }

// shares tells whether the turn is that of who wants to share; mu is held.
func (n *Name) shares() bool { return n.group.Undecided > 0 }

// signed is Position, with a minus sign where it is among those who wait to share.
func (q *Queue) signed(name *Name) int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	if name.shares() {
		return -name.position
	}
	return name.position
}

// freed takes in which slot a call says is free, and returns the name that is waited for
// where one is. Any other call's name stays as it is.
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

// Freed takes the slot that the last call said is free; -1: it said none.
func (q *Queue) Freed(name *Name) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	slot := name.slot - 1
	name.slot = 0
	return slot
}

// Depart gives up the process's place for the name, no matter who waits here, and returns it;
// NoTicket: it had none.
func (q *Queue) Depart(name *Name) (place int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if name.recorded {
		place = name.position
	}
	name.giveUp()
	return place
}

// Offer has who has the turn for a slot take one that another goroutine of its Locker ends
// the hold of, until Withdraw. w says what it asks for.
func (q *Queue) Offer(name *Name, w *Waiter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if name.given == nil { // one is enough
		name.rests = w
	}
}

// Collect returns what was given since Offer; nil: nothing. The offer stands until then.
func (q *Queue) Collect(name *Name) *Transfer {
	q.mu.Lock()
	defer q.mu.Unlock()
	given := name.given
	name.given = nil
	return given
}

// Withdraw ends Offer, and returns what was given; nil: nothing.
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

// HandSlot gives a slot that has been handed on so often in a row to who offered to take
// one of the name: send, which runs with the queue locked, makes what is given. It returns
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
	name.signal()
	return true
}
