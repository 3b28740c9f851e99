package simnode

import "time"

// The names of what lua/ask.lua and lua/share.lua keep of those who wait.
const (
	queueOf   = "redlock:queue:"
	sharersOf = "redlock:sharers:"
	signOf    = "redlock:live:"
)

// Line calls each with every process that stands in line for a name, in the line of those
// who wait to share it or in the other: since when
// it has been at that place, and since when its sign of life has been there without
// a break; zero: there is none.
func (n *Node) Line(name string, shared bool, each func(id string, joined, alive time.Time)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := n.clock.at(time.Now()).UnixMilli()
	line := queueOf
	if shared {
		line = sharersOf
	}
	queue := n.data.keys[line+name]
	if queue == nil || queue.expired(now) {
		return
	}
	for id := range queue.scores {
		var alive time.Time
		if sign := n.data.keys[signOf+id]; sign != nil && !sign.expired(now) {
			alive = sign.since
		}
		each(id, queue.joined[id], alive)
	}
}

// renew has everything be there since now.
func (d Data) renew(now time.Time) {
	for _, e := range d.keys {
		e.since = now
		for member := range e.joined {
			e.joined[member] = now
		}
	}
}
