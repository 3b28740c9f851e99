package queue

import (
	"maps"
	"slices"
	"sync"

	"github.com/quorumkit/redlock/internal/grant"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/node"
	"github.com/quorumkit/redlock/internal/quorum"
	"github.com/quorumkit/redlock/internal/round"
)

// This file passes on what the nodes tell a process of the names that it waits for: calls,
// looks that found a change, and grants by releases.

// Attach makes hints and looks wake w.
func (q *Queue) Attach(name *Name, w *round.Sleeper) {
	q.mu.Lock()
	defer q.mu.Unlock()
	name.sleeper, name.due, name.contended = w, false, true
}

// Detach ends Attach, unless another goroutine has attached itself already.
func (q *Queue) Detach(name *Name, w *round.Sleeper) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if name.sleeper == w {
		name.sleeper, name.hints = nil, 0
	}
}

// Called takes the hints that have come, and whether a look found a change.
func (q *Queue) Called(name *Name) (hints uint64, due bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	hints, due = name.hints, name.due
	name.hints, name.due = 0, false
	return hints, due
}

// Open lets releases grant the attempt of this round, which the name's first goroutine
// makes.
func (q *Queue) Open(name *Name, r *round.Round) {
	q.mu.Lock()
	defer q.mu.Unlock()
	name.open, name.next = r, nil
}

// Shut ends Open. If a release still grants that attempt, its node is asked again, unless
// the attempt has brought the lock (won).
func (q *Queue) Shut(name *Name, won bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if won && name.open != nil {
		name.won = name.open.Claim.Owner
	}
	name.open = nil
}

// GoOn keeps the claim that has the place on the nodes for the goroutine that leads next.
func (q *Queue) GoOn(key string, c *round.Claim) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if name := q.names[key]; name != nil {
		name.next, name.won = c, ""
	}
}

// Standing is the claim that GoOn kept.
func (q *Queue) Standing(key string) *round.Claim {
	q.mu.Lock()
	defer q.mu.Unlock()
	if name := q.names[key]; name != nil {
		return name.next
	}
	return nil
}

// standing is the claim that releases may grant; nil if none.
func (q *Queue) standing(name *Name) *round.Claim {
	q.mu.Lock()
	defer q.mu.Unlock()
	if name.open != nil {
		return name.open.Claim
	}
	return name.next
}

// push takes in that a node granted a name to the attempt that is open, or to the one that
// has brought the lock. It returns false for any other attempt: such a push says no more
// than a call does. The node's mu is taken under the queue's, never the other way round.
func (q *Queue) push(n *node.Node, p grant.Push) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	name := q.names[p.Name]
	switch {
	case name == nil:
		return false
	case name.open != nil && name.open.Claim.Owner == p.Owner:
		n.SubmitPush(p, name.open)
		return true
	default:
		return name.won == p.Owner
	}
}

// hint takes in that node i called us for key. It calls leave when the entry that
// the node called is of no use to anybody here any more, as Pass does: in either line
// where one of ours may be. A name that this process never stood in line for has no
// entry of ours: the call is stray or forged, and nothing is sent for it.
func (q *Queue) hint(key string, i int, leave func(shared bool)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	name := q.names[key]
	if name != nil && name.recorded {
		name.callLocked(i)
		return
	}
	if q.waited.has(key) {
		leave(false)
	}
	if q.shared.has(key) {
		leave(true)
	}
}

// recall makes up for calls of node i that may have been lost: a goroutine that is asking
// for a name, or is about to, asks there again. A goroutine that rests until a look
// (resting) learns it by that look.
func (q *Queue) recall(i int, resting []*Name) {
	looked := make(map[*Name]bool, len(resting))
	for _, name := range resting {
		looked[name] = true
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, name := range q.names {
		if name.recorded && name.sleeper != nil && !looked[name] {
			name.callLocked(i)
		}
	}
}

// granted takes in that a look found a name ours on node i.
func (q *Queue) granted(name *Name, i int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	name.callLocked(i)
}

// changed takes in that a look found the name free.
func (q *Queue) changed(name *Name) {
	q.mu.Lock()
	defer q.mu.Unlock()
	name.due = true
	name.signalLocked()
}

// Relisted wakes all who wait for the nodes: the list that they asked by is another now.
func (q *Queue) Relisted() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(q.names)) { // in one order, so that a run can be repeated
		name := q.names[key]
		name.due = true
		name.signalLocked()
	}
}

// callLocked notes that node i says it is our turn.
func (n *Name) callLocked(i int) {
	n.hints |= 1 << i
	n.signalLocked()
}

// signalLocked wakes the goroutine that waits for the nodes, if one does.
func (n *Name) signalLocked() {
	if n.sleeper == nil {
		return
	}
	select {
	case n.sleeper.Wake <- struct{}{}:
	default:
	}
}

// mostEnded is how many attempts that are over a process remembers: of a process that ends
// thousands a second, those of a moment.
const mostEnded = 256

// endedOwners are the owner values of the latest attempts of ours that stood in line and
// are over, also by the end of their hold. A node that was away may have an entry of one
// still, and then a release grants the name to nobody. What a push says may be forged, and
// an owner value does not say whose it is: so only what is here is given back.
//
// A push of the grant that brought the hold may come after its end: the release follows it to
// that node. Its token is seldom greater than the hold's, and then it is given back for
// nothing. That of each later grant is greater.
type endedOwners struct {
	mu     sync.Mutex // guards the rest; taken under the queue's mu, under which a leave is sent
	owners []endedOwner
	next   int
}

type endedOwner struct {
	owner string
	token quorum.Token // of the hold; 0 if there was none
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
// this token; 0 if it brought none.
func (q *Queue) Ended(owner string, token quorum.Token) { q.ended.add(endedOwner{owner, token}) }

// filterBits is how many bits a process remembers the names by that it stood in line
// for: 8 KiB, from the first such name on.
const filterBits = 1 << 16

// nameFilter is which names a process has ever stood in line for: a Bloom filter of one hash. A node
// may have an entry of ours for any of them, as long as we live: a leave that an
// outage swallowed, or a look that came late, leaves one, and nobody knows when it
// is met. So none is forgotten, and the memory has a bound all the same: a set of names
// would have none. It may take a name for another, after 1,000 names one in 65: the
// leave that is sent for it then does nothing on the node.
//
// It is for forged calls. A client that may publish can call for any name, and each call
// would make us send a leave.
type nameFilter struct{ bits *[filterBits / 64]uint64 }

func (f *nameFilter) add(key string) {
	if f.bits == nil {
		f.bits = new([filterBits / 64]uint64)
	}
	h := lua.HashOf(key) % filterBits
	f.bits[h/64] |= 1 << (h % 64)
}

func (f *nameFilter) has(key string) bool {
	if f.bits == nil {
		return false
	}
	h := lua.HashOf(key) % filterBits
	return f.bits[h/64]&(1<<(h%64)) != 0
}
