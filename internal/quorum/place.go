package quorum

import (
	"slices"
	"time"
)

// The queue's times, each with its reason. What a node keeps for how long is in
// internal/lua/ask.lua and look.lua.
const (
	// BeatEvery is how often a process that waits says that it lives. A call shortens
	// its sign of life to 700 ms (lua/release.lua), so that one who died holds up the
	// next for a second at most. Anyone who lives says so in time, though the call was lost.
	BeatEvery = 400 * time.Millisecond
	// GatherAfter is when, after the first hint, the nodes are asked that gave none:
	// a release reaches all nodes within less, and each is asked by its own hint.
	GatherAfter = 2 * time.Millisecond
	// splitMin and splitMax bound the pause after an attempt that some nodes
	// granted. It doubles while that goes on: a holder on a bare quorum leaves
	// nodes that grant every time.
	splitMin, splitMax = 5 * time.Millisecond, 25 * time.Millisecond
	// HeadLook and OtherLook are the longest that a waiter goes without a look. The
	// head is told by the one who releases, and looks less often; behind it, a look
	// finds a head that died when it was called.
	HeadLook  = 8 * time.Second
	OtherLook = time.Second
	// freeMin and freeMax are between two looks at a name that is free, and kept
	// for another: its head has been told, and this is about a hint that was lost.
	freeMin, freeMax = 200 * time.Millisecond, 300 * time.Millisecond
)

// NoTicket is the position of an ask that wants a ticket, and Barging that of one
// that looks at no queue.
const (
	NoTicket int64 = 0
	Barging  int64 = -1
)

// Hearing is what a node's refusal of an ask says besides.
type Hearing struct {
	Ticket  int64         // without a position: the place behind all who wait there
	Left    time.Duration // of the holder's lease; negative: it has no end
	Free    bool          // nobody holds it: it is kept for the head
	Head    bool          // that is us
	Foreign bool          // the holder's value is not one of ours: it wakes nobody
	Slots   uint64        // of a name that has slots, those that are free, one bit each; Left is then of that which ends first
}

// Asked is which nodes an attempt has asked, one bit each. Attempts that wait begin
// with the nodes whose hint has come: to ask the others as well, before the
// release has reached them, would only bring refusals.
type Asked struct {
	Sent   uint64 // since the attempt began
	Out    uint64 // of these, without a reply
	Hinted uint64 // a hint came, and was not answered by an ask yet
}

// Due are the nodes to ask now: those that hinted, unless they have granted or an
// ask is out (the hint is remembered until its reply is there: it may be older),
// and, with all, those that were not asked yet.
func (b *Asked) Due(all bool, nodes int, granted uint64) uint64 {
	want := b.Hinted
	if all {
		want |= b.Unasked(nodes)
	}
	return want &^ (b.Out | granted)
}

// Unasked are the nodes that the attempt has not asked.
func (b *Asked) Unasked(nodes int) uint64 { return (1<<nodes - 1) &^ b.Sent }

// Ask notes that these nodes are asked.
func (b *Asked) Ask(nodes uint64) {
	b.Sent |= nodes
	b.Out |= nodes
	b.Hinted &^= nodes
}

// Again tells whether the reply of node i is to be followed by another ask.
func (b *Asked) Again(i int) bool { return b.Hinted&(1<<i) != 0 }

// Answered notes node i's reply.
func (b *Asked) Answered(i int) { b.Out &^= 1 << i }

// PositionOf is a process's place in the queue, the same on all nodes: the largest
// ticket of a quorum, where a grant counts as one behind its token. Anyone who is on
// a quorum already has a lower one, since two quorums share a node. It is false
// when fewer than a quorum answered.
func PositionOf(votes []Vote, heard []Hearing) (int64, bool) {
	answers, position := 0, int64(0)
	for i, v := range votes {
		switch v.Outcome {
		case Granted:
			answers++
			position = max(position, int64(v.Token)+1) //nolint:gosec // below 2^53
		case Taken:
			if heard[i].Ticket > 0 {
				answers++
				position = max(position, heard[i].Ticket)
			}
		case Pending, Abstained, Unknown, Failed, Unlisted:
		}
	}
	return position, answers >= Needed(votes)
}

// Rest is how a waiter rests until it looks by itself.
type Rest struct {
	After time.Duration
	Look  bool          // one node's word on the lease is enough; else all are asked
	Ends  time.Duration // with look: until a quorum is free, as far as it was said
	Most  time.Duration // with look: the longest until each later look
}

// RestAfter is what an attempt that failed, with a position, is followed by where
// no hint comes. splits is how many in a row, this one included, some nodes
// granted; roll is random, in [0, 1); retryMin and retryMax bound the pause where
// there is nothing to go by; subscribed is how many nodes' hints can reach us.
func RestAfter(votes []Vote, heard []Hearing, splits, subscribed int, roll float64, retryMin, retryMax time.Duration) Rest {
	t, q := Count(votes), Needed(votes)
	between := func(least, most time.Duration) time.Duration { return Drawn(roll, least, most) }
	usual := usualRest(votes, heard, between, retryMin, retryMax)
	if t.Granted+t.Taken < q || subscribed < q {
		usual = Rest{After: min(usual.After, between(retryMin, retryMax))}
	}
	if t.Granted > 0 && splits > 0 {
		pause := between(splitMin, splitMax) << min(splits-1, 10)
		if pause < usual.After {
			return Rest{After: pause}
		}
	}
	return usual
}

// Drawn is the pause from least to most that a roll in [0, 1) gives.
func Drawn(roll float64, least, most time.Duration) time.Duration {
	return least + min(time.Duration(roll*float64(most-least)), most-least) // a float may be rounded up beyond it
}

// usualRest is RestAfter where a quorum answered.
func usualRest(votes []Vote, heard []Hearing, between func(least, most time.Duration) time.Duration, retryMin, retryMax time.Duration) Rest {
	var leases []time.Duration // by node that refused; the nodes that grant are free already
	t, q := Count(votes), Needed(votes)
	head, foreign := isHead(votes, heard), false
	free, longest := t.Granted, OtherLook
	for i, v := range votes {
		if v.Outcome != Taken {
			continue
		}
		h := heard[i]
		foreign = foreign || h.Foreign
		switch {
		case h.Free:
			free++
		case h.Left < 0:
			leases = append(leases, HeadLook)
		default:
			leases = append(leases, h.Left)
		}
	}
	if free > t.Granted && free >= q {
		return Rest{After: between(freeMin, freeMax)} // it is kept for another, who was called
	}
	if head {
		longest = HeadLook
	}
	if head && foreign {
		return Rest{After: between(retryMin, retryMax)}
	}
	if len(leases) == 0 {
		return Rest{After: between(retryMin, retryMax)}
	}
	// A quorum is free once the node is that has all but a minority before it. One
	// that has not replied yet may be the first: to look early costs little.
	slices.Sort(leases)
	at := min(max(q-free-t.Pending, 1), len(leases)) - 1
	ends := leases[at] + time.Millisecond
	return Rest{After: min(ends, longest), Look: true, Ends: ends, Most: longest}
}

// isHead tells whether a quorum said that the name is taken and our turn is next. Fewer may
// all lack the entry of a process that stands before us.
func isHead(votes []Vote, heard []Hearing) bool {
	heads := 0
	for i, v := range votes {
		if v.Outcome == Taken && heard[i].Head {
			heads++
		}
	}
	return heads >= Needed(votes)
}

// TurnLeft tells whether a process that has had the lock this often in a row may
// hand it to another of its goroutines, or has to let other processes go first.
func TurnLeft(held, turns int) bool { return held < turns }

// Passing is what becomes of a handover at a node, when its writer comes to it.
type Passing uint8

// What can become of it.
const (
	PassGoes    Passing = iota // it is sent
	PassGone                   // nothing of the old claim is there: the new one is refused
	PassDoubted                // what is there of it is not known: its release goes instead
	PassOver                   // the new claim is over: a later handover begins here, or the release goes
)

// PassingOf decides it: old is what the node has of the old claim, votes tells
// whether it votes, and over whether the new claim is over already. What may still
// come of the old claim is met by the tombstone of its release, never by a pass.
func PassingOf(old Mark, votes, over bool) Passing {
	switch {
	case old == Absent:
		return PassGone
	case old.Doubtful() || old&Present == 0 || !votes:
		return PassDoubted
	case over:
		return PassOver
	default:
		return PassGoes
	}
}

// TookOver tells whether a pass of this outcome leaves nothing of the old claim on
// the node. Where it does not, or where that is not known, the old claim's release
// follows, and then the new one's own: the pass may still come, in any order.
func TookOver(o Outcome) bool { return o == Granted || o == Taken }
