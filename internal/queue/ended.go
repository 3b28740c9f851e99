package queue

import (
	"slices"
	"sync"
)

// mostEnded is how many attempts that are over a process remembers.
const mostEnded = 256

// endedOwners are the owner values of the latest attempts of ours that stood in line and
// are over, be it by the end of their hold. A node that was away may have an entry of one
// still, and then a release grants the name to nobody. What a push says may be forged, and
// an owner value does not say whose it is: so only what is here is given back.
type endedOwners struct {
	mu     sync.Mutex // guards the rest: a leave is sent with the queue's held
	owners []string
	next   int
}

func (e *endedOwners) add(owner string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.owners) < mostEnded {
		e.owners = append(e.owners, owner)
		return
	}
	e.owners[e.next] = owner
	e.next = (e.next + 1) % mostEnded
}

func (e *endedOwners) has(owner string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Contains(e.owners, owner)
}

// Ended notes that an attempt which stood in line is over.
func (q *Queue) Ended(owner string) { q.ended.add(owner) }
