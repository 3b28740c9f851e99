package queue

import (
	"github.com/quorumkit/redlock/internal/lua"
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

// Depart gives up the process's place for the name, whoever waits here, and returns it;
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
