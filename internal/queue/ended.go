package queue

import (
	"slices"
	"sync"

	"github.com/quorumkit/redlock/internal/clock"
)

// mostEnded is how many attempts that are over a process remembers: of a process that ends
// thousands a second, those of a moment.
const mostEnded = 256

// endedOwners are the owner values of the latest attempts of ours that stood in line and
// are over, be it by the end of their hold. A node that was away may have an entry of one
// still, and then a release grants the name to nobody. What a push says may be forged, and
// an owner value does not say whose it is: so only what is here is given back.
//
// A push that was on its way as the attempt ended is another matter: the release of the
// attempt follows it to that node.
type endedOwners struct {
	mu     sync.Mutex // guards the rest: a leave is sent with the queue's held
	owners []endedOwner
	next   int
}

type endedOwner struct {
	owner string
	at    clock.Instant
}

func (e *endedOwners) add(o endedOwner) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.owners) < mostEnded {
		e.owners = append(e.owners, o)
		return
	}
	e.owners[e.next] = o
	e.next = (e.next + 1) % mostEnded
}

// had tells whether the attempt of this owner was over by then.
func (e *endedOwners) had(owner string, then clock.Instant) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.ContainsFunc(e.owners, func(o endedOwner) bool { return o.owner == owner && o.at <= then })
}

// Ended notes that an attempt which stood in line is over from now on.
func (q *Queue) Ended(owner string, now clock.Instant) { q.ended.add(endedOwner{owner, now}) }
