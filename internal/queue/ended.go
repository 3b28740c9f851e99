package queue

import (
	"slices"
	"sync"

	"github.com/quorumkit/redlock/internal/quorum"
)

// mostEnded is how many attempts that are over a process remembers: of a process that ends
// thousands a second, those of a moment.
const mostEnded = 256

// endedOwners are the owner values of the latest attempts of ours that stood in line and
// are over, be it by the end of their hold. A node that was away may have an entry of one
// still, and then a release grants the name to nobody. What a push says may be forged, and
// an owner value does not say whose it is: so only what is here is given back.
//
// A push of the grant that brought the hold may come after its end: the release follows it to
// that node. Its token is seldom greater than the hold's, and then it is given back for
// nothing. That of each later grant is greater.
type endedOwners struct {
	mu     sync.Mutex // guards the rest: a leave is sent with the queue's held
	owners []endedOwner
	next   int
}

type endedOwner struct {
	owner string
	token quorum.Token // of the hold; 0: there was none
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

// before tells whether the attempt of this owner was over when this token was granted.
func (e *endedOwners) before(owner string, token quorum.Token) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.ContainsFunc(e.owners, func(o endedOwner) bool { return o.owner == owner && o.token < token })
}

// Ended notes that an attempt which stood in line is over, and a hold that it brought, with
// this token; 0: it brought none.
func (q *Queue) Ended(owner string, token quorum.Token) { q.ended.add(endedOwner{owner, token}) }
