package queue

import (
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/quorum"
)

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
