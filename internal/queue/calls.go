package queue

import (
	"github.com/quorumkit/redlock/internal/grant"
	"github.com/quorumkit/redlock/internal/node"
)

// What the nodes tell a process of the names that it waits for, and whom it wakes: calls,
// looks that found a change, and grants by releases.

// Attach makes w what hints and looks wake.
func (q *Queue) Attach(name *Name, w *node.Sleeper) {
	q.mu.Lock()
	defer q.mu.Unlock()
	name.sleeper, name.due, name.contended = w, false, true
}

// Detach ends Attach, unless another goroutine has attached itself already.
func (q *Queue) Detach(name *Name, w *node.Sleeper) {
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

// Open has releases grant the attempt of this round, which the name's first goroutine
// makes.
func (q *Queue) Open(name *Name, r *node.Round) {
	q.mu.Lock()
	defer q.mu.Unlock()
	name.open, name.next = r, nil
}

// Shut ends Open. What a release still grants to that attempt has its node asked, unless
// it has brought the lock.
func (q *Queue) Shut(name *Name, won bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if won && name.open != nil {
		name.won = name.open.Claim.Owner
	}
	name.open = nil
}

// GoOn keeps the claim that has the place on the nodes for the one who leads next.
func (q *Queue) GoOn(key string, c *node.Claim) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if name := q.names[key]; name != nil {
		name.next, name.won = c, ""
	}
}

// Standing is the claim that GoOn kept.
func (q *Queue) Standing(key string) *node.Claim {
	q.mu.Lock()
	defer q.mu.Unlock()
	if name := q.names[key]; name != nil {
		return name.next
	}
	return nil
}

// standing is the claim that releases may grant; nil: none.
func (q *Queue) standing(name *Name) *node.Claim {
	q.mu.Lock()
	defer q.mu.Unlock()
	if name.open != nil {
		return name.open.Claim
	}
	return name.next
}

// push takes in that a node granted a name to the attempt that is open, or to the one that
// has brought the lock. It returns false of any other: that says no more than a call does.
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
// the node called is of no use to anybody here any more, as pass does: in either line
// where one of ours may be. A name that
// this process never stood in line for has no entry of ours: the call is stray or
// forged, and nothing is sent for it.
func (q *Queue) hint(key string, i int, leave func(shared bool)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	name := q.names[key]
	if name != nil && name.recorded {
		name.call(i)
		return
	}
	if q.waited.has(key) {
		leave(false)
	}
	if q.shared.has(key) {
		leave(true)
	}
}

// recall makes up for what node i may have said in vain: one who is asking for a
// name, or is about to, asks there again. Who rests until a look is told by that.
func (q *Queue) recall(i int, resting []*Name) {
	looked := make(map[*Name]bool, len(resting))
	for _, name := range resting {
		looked[name] = true
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, name := range q.names {
		if name.recorded && name.sleeper != nil && !looked[name] {
			name.call(i)
		}
	}
}

// granted says that a look found a name ours on node i.
func (q *Queue) granted(name *Name, i int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	name.call(i)
}

// changed says that a look found the name free.
func (q *Queue) changed(name *Name) {
	q.mu.Lock()
	defer q.mu.Unlock()
	name.due = true
	name.signal()
}

// call notes that node i says it is our turn; mu is held.
func (n *Name) call(i int) {
	n.hints |= 1 << i
	n.signal()
}

// signal wakes the goroutine that waits for the nodes, if one does; mu is held.
func (n *Name) signal() {
	if n.sleeper == nil {
		return
	}
	select {
	case n.sleeper.Wake <- struct{}{}:
	default:
	}
}
