package quorum

import (
	"slices"
	"time"
)

// The queue's times, each with its reason. What a node keeps for how long is in
// lua/ask.lua and lua/look.lua.
const (
	// beatEvery is how often a process that waits says that it lives. A call shortens
	// its sign of life to 700 ms (lua/release.lua), so that one who died holds up the
	// next for a second at most. Whoever lives says so in time, though the call was lost.
	beatEvery = 400 * time.Millisecond
	// gatherAfter is when, after the first hint, the nodes are asked that gave none:
	// a release reaches all nodes within less, and each is asked by its own hint.
	gatherAfter = 2 * time.Millisecond
	// splitMin and splitMax bound the pause after an attempt that some nodes
	// granted. It doubles while that goes on: a holder on a bare quorum leaves
	// nodes that grant every time.
	splitMin, splitMax = 5 * time.Millisecond, 25 * time.Millisecond
	// headLook and otherLook are the longest that a waiter goes without a look. The
	// head is told by whoever releases, and looks less often; behind it, a look
	// finds a head that died when it was called.
	headLook, otherLook = 8 * time.Second, time.Second
	// freeMin and freeMax are between two looks at a name that is free, and kept
	// for another: its head has been told, and this is about a hint that was lost.
	freeMin, freeMax = 200 * time.Millisecond, 300 * time.Millisecond
	// DefaultTurns is how many holds in a row the goroutines of one Locker have
	// before other processes have their turn: one round trip for each but the
	// last. More gains little, and delays the others.
	DefaultTurns = 8
)

// noTicket is the position of an ask that wants a ticket, and barging that of one
// that looks at no queue.
const (
	noTicket int64 = 0
	barging  int64 = -1
)

// hearing is what a node's refusal of an ask says besides.
type hearing struct {
	ticket  int64         // without a position: the place behind all who wait there
	left    time.Duration // of the holder's lease; negative: it has no end
	free    bool          // nobody holds it: it is kept for the head
	head    bool          // that is us
	foreign bool          // the holder's value is not one of ours: it wakes nobody
}

// bid is which nodes an attempt has asked, one bit each. Attempts that wait begin
// with the nodes whose hint has come: to ask the others as well, before the
// release has reached them, would only bring refusals.
type bid struct {
	asked  uint64 // since the attempt began
	out    uint64 // of these, without a reply
	hinted uint64 // a hint came, and was not answered by an ask yet
}

// due are the nodes to ask now: those that hinted, unless they have granted or an
// ask is out (the hint is remembered until its reply is there: it may be older),
// and, with all, those that were not asked yet.
func (b *bid) due(all bool, nodes int, granted uint64) uint64 {
	want := b.hinted
	if all {
		want |= b.unasked(nodes)
	}
	return want &^ (b.out | granted)
}

// unasked are the nodes that the attempt has not asked.
func (b *bid) unasked(nodes int) uint64 { return (1<<nodes - 1) &^ b.asked }

// ask notes that these nodes are asked.
func (b *bid) ask(nodes uint64) {
	b.asked |= nodes
	b.out |= nodes
	b.hinted &^= nodes
}

// again tells whether the reply of node i is to be followed by another ask.
func (b *bid) again(i int) bool { return b.hinted&(1<<i) != 0 }

// answered notes node i's reply.
func (b *bid) answered(i int) { b.out &^= 1 << i }

// positionOf is a process's place in the queue, the same on all nodes: the largest
// ticket of a quorum, where a grant counts as one behind its token. Whoever is on
// a quorum already has a lower one, since two quorums share a node. It is false
// when fewer than a quorum answered.
func positionOf(votes []vote, heard []hearing) (int64, bool) {
	answers, position := 0, int64(0)
	for i, v := range votes {
		switch v.outcome {
		case Granted:
			answers++
			position = max(position, int64(v.token)+1) //nolint:gosec // below 2^53
		case Taken:
			if heard[i].ticket > 0 {
				answers++
				position = max(position, heard[i].ticket)
			}
		case Pending, Abstained, Unknown, Failed:
		}
	}
	return position, answers >= quorumOf(len(votes))
}

// rest is how a waiter rests until it looks by itself.
type rest struct {
	after time.Duration
	look  bool          // one node's word on the lease is enough; else all are asked
	ends  time.Duration // with look: until a quorum is free, as far as it was said
}

// restAfter is what an attempt that failed, with a position, is followed by where
// no hint comes. splits is how many in a row, this one included, some nodes
// granted; roll is random, in [0, 1); retryMin and retryMax bound the pause where
// there is nothing to go by; subscribed is how many nodes' hints can reach us.
func restAfter(votes []vote, heard []hearing, splits, subscribed int, roll float64, retryMin, retryMax time.Duration) rest {
	t, q := count(votes), quorumOf(len(votes))
	between := func(least, most time.Duration) time.Duration { return drawn(roll, least, most) }
	usual := usualRest(votes, heard, between, retryMin, retryMax)
	if t.granted+t.taken < q || subscribed < q {
		usual = rest{after: min(usual.after, between(retryMin, retryMax))}
	}
	if t.granted > 0 && splits > 0 {
		pause := between(splitMin, splitMax) << min(splits-1, 10)
		if pause < usual.after {
			return rest{after: pause}
		}
	}
	return usual
}

// drawn is the pause from least to most that a roll in [0, 1) gives.
func drawn(roll float64, least, most time.Duration) time.Duration {
	return least + min(time.Duration(roll*float64(most-least)), most-least) // a float may be rounded up beyond it
}

// usualRest is restAfter where a quorum answered.
func usualRest(votes []vote, heard []hearing, between func(least, most time.Duration) time.Duration, retryMin, retryMax time.Duration) rest {
	var leases []time.Duration // by node that refused; the nodes that grant are free already
	t, q := count(votes), quorumOf(len(votes))
	head, foreign := false, false
	free, longest := t.granted, otherLook
	for i, v := range votes {
		if v.outcome != Taken {
			continue
		}
		h := heard[i]
		head, foreign = head || h.head, foreign || h.foreign
		switch {
		case h.free:
			free++
		case h.left < 0:
			leases = append(leases, headLook)
		default:
			leases = append(leases, h.left)
		}
	}
	if free > t.granted && free >= q {
		return rest{after: between(freeMin, freeMax)} // it is kept for another, who was called
	}
	if head {
		longest = headLook
	}
	if head && foreign {
		return rest{after: between(retryMin, retryMax)}
	}
	if len(leases) == 0 {
		return rest{after: between(retryMin, retryMax)}
	}
	// A quorum is free once the node is that has all but a minority before it. One
	// that has not replied yet may be the first: to look early costs little.
	slices.Sort(leases)
	at := min(max(q-free-t.pending, 1), len(leases)) - 1
	ends := leases[at] + time.Millisecond
	return rest{after: min(ends, longest), look: true, ends: ends}
}

// turnLeft tells whether a process that has had the lock this often in a row may
// hand it to another of its goroutines, or has to let other processes go first.
func turnLeft(held, turns int) bool { return held < turns }

// passing is what becomes of a handover at a node, when its writer comes to it.
type passing uint8

const (
	passGoes    passing = iota // it is sent
	passGone                   // nothing of the old claim is there: the new one is refused
	passDoubted                // what is there of it is not known: its release goes instead
	passOver                   // the new claim is over: a later handover begins here, or the release goes
)

// passingOf decides it: old is what the node has of the old claim, votes tells
// whether it votes, and over whether the new claim is over already. What may still
// come of the old claim is met by the tombstone of its release, never by a pass.
func passingOf(old mark, votes, over bool) passing {
	switch {
	case old == absent:
		return passGone
	case old.doubtful() || old&present == 0 || !votes:
		return passDoubted
	case over:
		return passOver
	default:
		return passGoes
	}
}

// tookOver tells whether a pass of this outcome leaves nothing of the old claim on
// the node. Where it does not, or where that is not known, the old claim's release
// follows, and then the new one's own: the pass may still come, in any order.
func tookOver(o Outcome) bool { return o == Granted || o == Taken }
