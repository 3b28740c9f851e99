package node

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/quorum"
)

// leaving is what a release does with the process's entry in the name's queue: the
// modes of release_batch.lua.
type leaving uint8

const (
	leaveNothing leaving = iota // there is none
	leaveQueue                  // it goes, and the next in line is woken
	leaveEntry                  // it stays: the process goes on waiting
)

// rollback is how the claim's process leaves the nodes when the claim fails.
func (c *claim) rollback() leaving {
	if c.stays {
		return leaveEntry
	}
	return leaveNothing
}

// asks is what a round needs besides when it asks by a place in line. The round's
// mu guards bid and heard.
type asks struct {
	position int64
	bid      quorum.Asked
	heard    []quorum.Hearing
}

// hear notes what node i's refusal says besides, before its vote is delivered.
func (r *round) hear(i int, reply, more int64) {
	h := quorum.Hearing{Free: reply == -3}
	switch {
	case reply == -9:
		h.Left = -1
	case reply <= -10:
		h.Left = time.Duration(-10-reply) * time.Millisecond
	}
	if r.asks.position == quorum.NoTicket {
		h.Ticket = more
	} else {
		h.Head, h.Foreign = more&1 != 0, more&2 != 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.caller != nil && r.votes[i].Outcome == quorum.Pending {
		r.asks.heard[i] = h
	}
}

// due takes in the hints that have come, and returns the nodes to ask now.
func (r *round) due(hints uint64, all bool) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	b, granted := &r.asks.bid, uint64(0)
	for i, v := range r.votes {
		if v.Outcome == quorum.Granted {
			granted |= 1 << i
		}
	}
	b.Hinted |= hints
	now := b.Due(all, len(r.votes), granted)
	for i := range r.votes {
		if now&(1<<i) != 0 {
			r.votes[i] = quorum.Vote{Outcome: quorum.Pending}
		}
	}
	b.Ask(now)
	return now
}

// unanswered are the nodes that called us while our ask to them was out, in a round
// that ended before their reply: it may be older than the call. They begin the next.
func (r *round) unanswered() (hints uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, v := range r.votes {
		if v.Outcome != quorum.Granted {
			hints |= r.asks.bid.Hinted & (1 << i)
		}
	}
	return hints
}

// others are the nodes that a round has won without asking them: the name is free
// there too, or will be, and a lock that rests on a bare quorum is lost with the
// first node of it that fails. Nobody waits for their replies.
func (r *round) others() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if quorum.Count(r.votes).Verdict() != quorum.Won {
		return 0
	}
	b := &r.asks.bid
	nodes := b.Unasked(len(r.votes))
	b.Ask(nodes)
	return nodes
}

// addBids makes batches of the asks by a place in line.
func (n *node) addBids(one bool) {
	size := lua.AskBatchSize
	if one {
		size = 1
	}
	for rest := n.flight.bids; len(rest) > 0; {
		batch := rest[:min(len(rest), size)]
		rest = rest[len(batch):]
		n.addPart(part{cmd: n.askCall(batch), acquires: batch, bids: true})
	}
}

// askCall is ask.lua.
func (n *node) askCall(rounds []*round) redis.Cmder {
	f := &n.flight
	b := f.call(lua.AskScript, 1+2*len(rounds))
	f.arena = append(f.arena, lua.NodeKey)
	f.column(rounds, func(r *round) any { return &r.claim.key })
	f.column(rounds, func(r *round) any { return &r.claim.dead })
	f.arena = append(f.arena, &n.epoch, n.cfg.process)
	f.column(rounds, func(r *round) any { return &r.claim.stripe })
	f.column(rounds, func(r *round) any { return &r.claim.owner })
	f.column(rounds, func(r *round) any { return &r.claim.ttl })
	f.column(rounds, func(r *round) any { return &r.claim.hint })
	f.column(rounds, func(r *round) any { return &r.asks.position })
	return intsCall{redis.NewIntSliceCmd(context.Background(), b.args()...)}
}
