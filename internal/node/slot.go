package node

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/quorum"
)

// Slots of a name are locks of their own, but for who gets one and who is told that one is
// free: they are asked for, and released, by scripts of their own (lua/ask_slot.lua), each
// in a call of its own.

// Slot is what a claim is of that is no name's, but a slot's of a name; or, of a leave of
// the slots' line, none.
type Slot struct {
	Name   string // that has the slots, prefix included
	Line   string // what is waited for where a slot is
	Number int
	Limit  int         // how many slots there are
	Passed int         // how often it was handed on in a row, within the process
	Left   atomic.Bool // the process has left the line: what it asks now puts it there no more
}

// slotReplies is how many integers ask_slot.lua returns.
const slotReplies = 5

// line is the name that the claim's process stands in line for.
func (c *Claim) line() string {
	if c.Slot != nil {
		return c.Slot.Line
	}
	return c.Key
}

// LineOf is the name that the round's process stands in line for.
func (r *Round) LineOf() string { return r.Claim.line() }

// slotPosition is by which place a slot is asked for.
func (r *Round) slotPosition() int64 {
	if r.Claim.Slot.Left.Load() {
		return quorum.Barging
	}
	return r.Asks.Position
}

// addSlots makes a call of each ask for a slot.
func (b *batch) addSlots() {
	for i := range b.slots {
		b.add(call{cmd: b.slotCall(b.slots[i]), acquires: b.slots[i : i+1 : i+1], slot: true})
	}
}

// slotCall is ask_slot.lua.
func (b *batch) slotCall(r *Round) redis.Cmder {
	c, start := r.Claim, b.begin(lua.AskSlotScript, 3)
	b.arena = append(b.arena, lua.NodeKey, &c.Key, &c.Dead, &b.epoch, &b.process, &b.reading, &c.Stripe, &c.Owner, &c.TTL, &c.Hint,
		r.slotPosition(), &c.Slot.Name, c.Slot.Limit)
	return intsCall{redis.NewIntSliceCmd(context.Background(), b.args(start)...)}
}

// addSlotReleases makes a call of each release of a slot, and of each leave of a line.
func (b *batch) addSlotReleases() {
	for i := range b.slotters {
		b.add(call{cmd: b.releaseSlot(&b.slotters[i]), releases: b.slotters[i : i+1 : i+1]})
	}
}

// releaseSlot is release_slot.lua.
func (b *batch) releaseSlot(r *Release) redis.Cmder {
	c, start := r.Claim, b.begin(lua.ReleaseSlotScript, 1+flag(r.doubtful))
	b.arena = append(b.arena, &c.Key)
	if r.doubtful {
		b.arena = append(b.arena, &c.Dead)
	}
	b.arena = append(b.arena, &c.Owner, &c.Slot.Name, c.Slot.Limit, int(r.Entry), &b.process, &c.Place)
	if r.doubtful {
		b.arena = append(b.arena, &r.Life)
	}
	return intCall{redis.NewIntCmd(context.Background(), b.args(start)...)}.again()
}

// hearSlot notes what node i's refusal of a slot says besides, before its vote is delivered.
func (r *Round) hearSlot(i int, cmd redis.Cmder) {
	said := func(k int) int64 { return replyAt(cmd, k, slotReplies) }
	if said(0) > -3 || said(0) == noReply { // no refusal
		return
	}
	h := quorum.Hearing{
		Ticket: said(1), Head: said(2) == 1, Slots: uint64(said(3)), //nolint:gosec // 48 bits
		Free: said(3) != 0, Left: time.Duration(said(4)) * time.Millisecond,
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.Caller != nil && r.Votes[i].Outcome == quorum.Pending {
		r.Asks.Heard[i] = h
	}
}
