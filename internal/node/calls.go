package node

import (
	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/round"
)

// addCalls lays out all that is taken, in the order in which it goes: rollbacks first,
// and handovers before what is asked of the claims that they bring. Samples and looks
// come behind it.
//
// A node runs the commands of a pipeline in their order. So an acquire meets no key of ours
// that a release of the same batch takes away, and the clock is read behind each grant: a
// grant counts only with a reading that is later than it (ADR 13).
func (b *batch) addCalls() {
	b.addReleases()
	b.addSlotReleases()
	b.addSharedReleases()
	b.addHands()
	b.addPasses()
	for _, g := range b.groups {
		b.add(call{cmd: b.groupCall(g), group: g})
	}
	for _, r := range b.raises {
		b.add(call{cmd: b.raiseCall(r), raise: r})
	}
	// While some acquires go one by one, all asks do: one of them may be the forbidden one.
	size := lua.AskBatchSize
	if b.singly > 0 {
		size = 1
	}
	b.addAcquires()
	b.addBids(size)
	b.addShares(min(size, lua.ShareBatchSize))
	b.addSlots()
}

// add appends a call: the calls go out in the order in which they are added.
func (b *batch) add(c call) { b.calls = append(b.calls, c) }

// addReleases makes one plain call of a single rollback, and batches of more, as far
// as none of them goes alone. The plain call (release.lua) leaves no tombstone and touches
// no line: it is what an uncontended lock costs.
func (b *batch) addReleases() {
	rest := b.releases[len(b.slotters)+len(b.sharers) : len(b.releases)-len(b.hands)]
	if len(rest) == 1 && rest[0].Entry == round.LeaveNothing && !rest[0].mark.Doubtful() {
		b.add(call{cmd: b.one.releaseCall(rest[0].Claim), releases: rest})
		return
	}
	for len(rest) > 0 {
		next := together(rest, lua.ReleaseBatchSize)
		rest = rest[len(next):]
		b.add(call{cmd: b.releaseBatch(next), releases: next})
	}
}

// addSlotReleases makes a call of each release of a slot, and of each leave of a line. The
// script calls the first in line with the key of the freed slot, to ask for that one.
func (b *batch) addSlotReleases() {
	for i := range b.slotters {
		b.add(call{cmd: b.releaseSlot(&b.slotters[i]), releases: b.slotters[i : i+1 : i+1]})
	}
}

// addSharedReleases makes one plain call of a single release of a shared hold, and batches
// of more, as far as none of them goes alone. ShareBatchSize bounds them too: a release
// changes a sorted set, where one of an exclusive hold deletes a key.
func (b *batch) addSharedReleases() {
	if one := b.sharers; len(one) == 1 && one[0].Entry == round.LeaveNothing && !one[0].mark.Doubtful() {
		b.add(call{cmd: b.one.partCall(one[0].Claim), releases: one})
		return
	}
	for rest := b.sharers; len(rest) > 0; {
		next := together(rest, lua.ShareBatchSize)
		rest = rest[len(next):]
		b.add(call{cmd: b.releaseShared(next), releases: next})
	}
}

// addHands makes one plain call of a single hand, and batches of more. A hand is a release
// that grants the name to the first in line (ADR 21).
func (b *batch) addHands() {
	rest := b.hands
	switch {
	case len(rest) == 1 && rest[0].Entry == round.LeaveNothing && rest[0].Next == nil:
		b.add(call{cmd: b.one.handCall(&rest[0], &b.epoch), releases: rest})
		return
	case len(rest) == 1:
		b.add(call{cmd: b.handOne(&rest[0]), releases: rest})
		return
	}
	for len(rest) > 0 {
		next := rest[:min(len(rest), lua.HandBatchSize)]
		rest = rest[len(next):]
		b.add(call{cmd: b.handBatch(next), releases: next})
	}
}

// addPasses makes calls of the handovers: nearly always there is one, which goes by the
// reusable call.
func (b *batch) addPasses() {
	if len(b.passes) == 1 {
		b.add(call{cmd: b.one.passCall(b.passes[0], &b.epoch), pass: b.passes[0]})
		return
	}
	for _, h := range b.passes {
		b.add(call{cmd: (&reusable{}).passCall(h, &b.epoch), pass: h})
	}
}

// addAcquires makes one plain call of a single acquire, and batches of more. Those at the head
// that were refused in a batch for want of a right go one by one (pending.apart).
func (b *batch) addAcquires() {
	rest := b.acquires
	for ; b.singly > 0 && len(rest) > 0; b.singly-- {
		b.add(call{cmd: b.acquireCall(rest[0].Claim), acquires: rest[:1]})
		rest = rest[1:]
	}
	if len(rest) == 1 {
		b.add(call{cmd: b.one.acquireCall(rest[0].Claim, &b.epoch), acquires: rest})
		return
	}
	for len(rest) > 0 {
		next := rest[:min(len(rest), lua.AcquireBatchSize)]
		rest = rest[len(next):]
		b.add(call{cmd: b.acquireBatch(next), acquires: next})
	}
}

// addBids makes batches of the asks by a place in line, size in each: 1 while some go one by
// one, since nothing tells which of the acquires at the head were bids.
func (b *batch) addBids(size int) {
	for rest := b.bids; len(rest) > 0; {
		next := rest[:min(len(rest), size)]
		rest = rest[len(next):]
		b.add(call{cmd: b.askCall(next), acquires: next, bids: true})
	}
}

// addShares makes one plain call of a single acquire of a shared hold, and batches of
// more, size in each.
func (b *batch) addShares(size int) {
	if len(b.shares) == 1 {
		b.add(call{cmd: b.one.shareCall(b.shares[0], b), acquires: b.shares, shares: true})
		return
	}
	for rest := b.shares; len(rest) > 0; {
		next := rest[:min(len(rest), size)]
		rest = rest[len(next):]
		b.add(call{cmd: b.shareCall(next), acquires: next, shares: true})
	}
}

// addSlots makes a call of each ask for a slot: the script's reply is five integers for one.
func (b *batch) addSlots() {
	for i := range b.slots {
		b.add(call{cmd: b.slotCall(b.slots[i]), acquires: b.slots[i : i+1 : i+1], slot: true})
	}
}

// addSample makes the batch read the node's clock, behind all that it may grant. settleTime
// takes in the reply.
func (b *batch) addSample(now clock.Instant) {
	b.sent = now
	b.add(call{cmd: b.one.timeCall()})
}

// addIdentity makes the batch look at the node's identity, at the end: what it says of the
// history goes for every command before it on the connection.
func (b *batch) addIdentity() { b.add(call{cmd: b.one.identityCall(), identity: true}) }

// addPolls makes a call of each poll.
func (b *batch) addPolls() {
	for _, k := range b.polls {
		cmd, claims := b.pollCall(k)
		b.add(call{cmd: cmd, poll: k, claims: claims})
	}
}

// commands are what goes out on the connection.
func (b *batch) commands() []redis.Cmder {
	for _, c := range b.calls {
		b.cmds = append(b.cmds, c.cmd)
	}
	return b.cmds
}
