package node

import (
	"errors"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/grant"
	"github.com/quorumkit/redlock/internal/quorum"
)

// What a release says of the attempt with which its process goes on: the place in line
// that each node gave it, or that it was granted at once.

var errNotPlaced = errors.New("not in line: the release before did not put it there")

// next is the owner that a hand puts in line; empty: none.
func (r *Release) next() any {
	if r.Next == nil {
		return ""
	}
	return &r.Next.Claim.Owner
}

// place notes that the hands which were taken put their next attempts in line, and tells
// those that no hand carries.
func (q *pending) place(b *batch) {
	for i := range b.releases {
		r := &b.releases[i]
		switch {
		case r.Next == nil:
		case !b.mayHand(r):
			q.unplaced(r)
		case r.Next.Claim.Over.Load():
			r.Next = nil
		default:
			m := &r.Next.Claim.Marks[q.node]
			*m = m.Again()
		}
	}
}

// unplaced tells the next attempt that this node does not put it in line.
func (q *pending) unplaced(r *Release) {
	if r.Next != nil {
		r.Next.stand(q.node, grant.Standing{}, quorum.Hearing{}, lease{}, errNotPlaced)
		r.Next = nil
	}
}

// settleNext tells the next attempts what the reply to their hands said.
func (n *Node) settleNext(c *call, err error) {
	for i := range c.releases {
		r := &c.releases[i]
		if r.Next == nil {
			continue
		}
		if err != nil {
			n.markAfter(r.Next.Claim, Classify(err))
			r.Next.stand(n.Index, grant.Standing{}, quorum.Hearing{}, lease{}, Explain(err))
		} else {
			reply, more := handReply(c.cmd, i, len(c.releases))
			n.standing(r.Next, reply, more)
		}
		r.Next = nil
	}
}

// standing is settleNext for one. What a hand grants to its own process needs no reading
// of the clock behind it: it takes the place of a key that was there.
func (n *Node) standing(next *Round, reply, more int64) {
	s, h := grant.StandingOf(more), quorum.Hearing{Left: grant.Lease, Free: reply == 1}
	outcome := quorum.Taken
	if s.Token > 0 {
		outcome = quorum.Granted
	}
	n.markAfter(next.Claim, outcome)
	switch doubt := n.doubt(); {
	case doubt != nil:
		next.stand(n.Index, grant.Standing{}, h, lease{}, doubt)
	case more == 0:
		next.stand(n.Index, grant.Standing{}, h, lease{}, errNotPlaced)
	default:
		at := n.batch.at
		n.vouch(at)
		next.stand(n.Index, s, h, lease{at, clock.ValidFrom(at, grant.Lease, n.Cfg.Drift).Until}, nil)
	}
}

// handReply is what a hand of so many locks replied of lock i: what became of it, and the
// standing of its next owner.
func handReply(cmd any, i, locks int) (reply, more int64) {
	hand, ok := cmd.(handCall)
	if !ok {
		return 0, 0
	}
	list, ok := hand.Val().([]any)
	if !ok || len(list) < 2*locks {
		return 0, 0
	}
	reply, _ = list[i].(int64)
	more, _ = list[locks+i].(int64)
	return reply, more
}

// GoOn has the round's claim put in line by the releases of the one before it: no node is
// asked for a place.
func (r *Round) GoOn() {
	r.TakePushes()
	a, all := r.Asks, uint64(1)<<len(r.Votes)-1
	a.said, a.unsaid, a.Handed = make([]grant.Standing, len(r.Votes)), all, true
	a.attempt.Out, a.attempt.Unplaced = all, true
}

// stand takes in what node i's reply to that release said.
func (r *Round) stand(i int, s grant.Standing, h quorum.Hearing, l lease, cause error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.Caller == nil {
		return
	}
	a := r.Asks
	a.said[i], a.Heard[i] = s, h
	a.unsaid &^= 1 << i
	switch {
	case s.Token > 0:
		r.granted(i, s.Token, l)
		a.attempt.Answered(i)
		a.Pushed = true
		r.wake()
	case s.Known:
		r.refuse(i, quorum.Taken, nil)
	default:
		r.refuse(i, quorum.Failed, cause)
	}
}

// Unplaced tells whether its place is not known yet.
func (r *Round) Unplaced() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.Asks.Position == quorum.NoTicket
}

// Placed takes in the places that the nodes have said so far. place is the one that is the
// same on all; 0: it is not known yet. The nodes that said another are noted as asked:
// they are to be told of it, unless the lock is there already. lost says that too few
// nodes say one.
func (r *Round) Placed() (place int64, tell uint64, lost bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := r.Asks
	if a.said == nil {
		return a.Position, 0, false
	}
	if a.Position == quorum.NoTicket {
		found, _, ok := grant.PlaceOf(a.said)
		if !ok {
			return quorum.NoTicket, 0, a.unsaid == 0
		}
		a.Position, r.Claim.Place, a.attempt.Unplaced = found, found, false
	}
	if step, _, _ := a.attempt.Next(); step == grant.Hold {
		return a.Position, 0, false
	}
	for i, s := range a.said {
		if (a.unsaid|a.attempt.Told|a.attempt.Out)&(1<<i) == 0 && s.Place != a.Position && int64(s.Token) < a.Position { //nolint:gosec // below 2^53
			tell |= 1 << i
		}
	}
	a.attempt.Told |= tell
	a.attempt.Ask(tell)
	return a.Position, tell, false
}
