package node

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/quorum"
)

// Leaving is what a release does with the process's entry in the name's queue: the
// modes of release_batch.lua.
type Leaving uint8

// What becomes of the entry.
const (
	LeaveNothing Leaving = iota // there is none
	LeaveQueue                  // it goes, and the next in line is woken
	LeaveEntry                  // it stays: the process goes on waiting
)

// Rollback is how the claim's process leaves the nodes when the claim fails.
func (c *Claim) Rollback() Leaving {
	if c.Stays {
		return LeaveEntry
	}
	return LeaveNothing
}

// Asks is what a round needs besides when it asks by a place in line. The round's
// mu guards bid and heard.
type Asks struct {
	Position int64
	bid      quorum.Asked
	Heard    []quorum.Hearing
}

// hear notes what node i's refusal says besides, before its vote is delivered.
func (r *Round) hear(i int, reply, more int64) {
	h := quorum.Hearing{Free: reply == -3}
	switch {
	case reply == -9:
		h.Left = -1
	case reply <= -10:
		h.Left = time.Duration(-10-reply) * time.Millisecond
	}
	if r.Asks.Position == quorum.NoTicket {
		h.Ticket = more
	} else {
		h.Head, h.Foreign = more&1 != 0, more&2 != 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.Caller != nil && r.Votes[i].Outcome == quorum.Pending {
		r.Asks.Heard[i] = h
	}
}

// Due takes in the hints that have come, and returns the nodes to ask now.
func (r *Round) Due(hints uint64, all bool) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	b, granted := &r.Asks.bid, uint64(0)
	for i, v := range r.Votes {
		if v.Outcome == quorum.Granted {
			granted |= 1 << i
		}
	}
	b.Hinted |= hints
	now := b.Due(all, len(r.Votes), granted)
	for i := range r.Votes {
		if now&(1<<i) != 0 {
			r.Votes[i] = quorum.Vote{Outcome: quorum.Pending}
		}
	}
	b.Ask(now)
	return now
}

// Unanswered are the nodes that called us while our ask to them was out, in a round
// that ended before their reply: it may be older than the call. They begin the next.
func (r *Round) Unanswered() (hints uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, v := range r.Votes {
		if v.Outcome != quorum.Granted {
			hints |= r.Asks.bid.Hinted & (1 << i)
		}
	}
	return hints
}

// Others are the nodes that a round has won without asking them: the name is free
// there too, or will be, and a lock that rests on a bare quorum is lost with the
// first node of it that fails. Nobody waits for their replies.
func (r *Round) Others() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if quorum.Count(r.Votes).Verdict() != quorum.Won {
		return 0
	}
	b := &r.Asks.bid
	nodes := b.Unasked(len(r.Votes))
	b.Ask(nodes)
	return nodes
}

// addBids makes batches of the asks by a place in line.
func (n *Node) addBids(one bool) {
	size := lua.AskBatchSize
	if one {
		size = 1
	}
	for rest := n.batch.bids; len(rest) > 0; {
		batch := rest[:min(len(rest), size)]
		rest = rest[len(batch):]
		n.addCall(call{cmd: n.askCall(batch), acquires: batch, bids: true})
	}
}

// askCall is ask.lua.
func (n *Node) askCall(rounds []*Round) redis.Cmder {
	f := &n.batch
	b := f.call(lua.AskScript, 1+2*len(rounds))
	f.arena = append(f.arena, lua.NodeKey)
	f.column(rounds, func(r *Round) any { return &r.Claim.Key })
	f.column(rounds, func(r *Round) any { return &r.Claim.Dead })
	f.arena = append(f.arena, &n.epoch, n.Cfg.Process)
	f.column(rounds, func(r *Round) any { return &r.Claim.Stripe })
	f.column(rounds, func(r *Round) any { return &r.Claim.Owner })
	f.column(rounds, func(r *Round) any { return &r.Claim.TTL })
	f.column(rounds, func(r *Round) any { return &r.Claim.Hint })
	f.column(rounds, func(r *Round) any { return &r.Asks.Position })
	return intsCall{redis.NewIntSliceCmd(context.Background(), b.args()...)}
}
