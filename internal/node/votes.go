package node

import (
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/quorum"
	"github.com/quorumkit/redlock/internal/round"
)

// acquireVote reads a reply of acquire.lua, whose header lists them; longest is the longest
// lease that anyone may take. A reply that no script returns is Unknown, not Failed: the
// command may have happened.
func acquireVote(reply int64, longest func() time.Duration) (quorum.Vote, error) {
	if left, held := leaseLeft(reply); held {
		return quorum.Vote{Outcome: quorum.Taken}, &takenError{left: left, most: longest()}
	}
	// Taken says that another has the name, or comes before us: enough of these and the attempt
	// is contended. Abstained and Failed say nothing of the name: enough of these and there is
	// no quorum. A dead owner value is our own rollback, which this command came behind.
	switch {
	case reply > 0:
		return quorum.Vote{Outcome: quorum.Granted, Token: quorum.Token(reply)}, nil
	case reply == 0:
		return quorum.Vote{Outcome: quorum.Abstained}, errEpoch
	case reply == -1:
		return quorum.Vote{Outcome: quorum.Failed}, errDead
	case reply == -2:
		return quorum.Vote{Outcome: quorum.Abstained}, errTokens
	case reply == -3:
		return quorum.Vote{Outcome: quorum.Taken}, errKept
	case reply == -4:
		return quorum.Vote{Outcome: quorum.Taken}, ErrGone
	default:
		return quorum.Vote{Outcome: quorum.Unknown}, ErrNoReply
	}
}

// leaseLeft is for how long the key is another's, by a reply of acquire.lua; negative if
// without an end. It returns false where the reply says nothing of that kind. The scripts
// put the lease into the same integer as the other replies, below -10, so that the reply to
// a plain acquire stays one integer.
func leaseLeft(reply int64) (left time.Duration, held bool) {
	switch {
	case reply == -9:
		return -1, true
	case reply <= -10 && reply != noReply:
		return time.Duration(-10-reply) * time.Millisecond, true
	}
	return 0, false
}

// takenError says that another client holds the name, and for how long.
type takenError struct {
	left, most time.Duration // the remaining lease, and the longest that anyone may take
	shared     bool          // the refused claim wants to share: its holders may share the name too
}

// ofKind is a cause in the words of the kind of hold that was asked for. It changes the
// takenError in place, which is this reply's own.
func ofKind(c *round.Claim, cause error) error {
	if taken, ok := cause.(*takenError); ok && c.Shared() { //nolint:errorlint // as it was made
		taken.shared = true
	}
	if cause == errKept && c.Slot() != nil { //nolint:errorlint // the same
		return errSlotKept
	}
	return cause
}

// Error names the holder's remaining lease, and what to do where that is too long to be true.
func (e *takenError) Error() string {
	if e.left < 0 {
		return "held by another, without an end"
	}
	if e.beyond() {
		return fmt.Sprintf("held by another for %v, which is beyond MaxTTL (%v): the node's clock stepped back while the lock was held, or a client takes longer leases. "+
			"Nobody can tell which, so it stays taken until then; once the holder is known to be gone, delete the key there", e.left, e.most)
	}
	const tenth = 100 * time.Millisecond // nodes that differ by less say the same, once
	left := (e.left + tenth - 1).Truncate(tenth)
	if e.shared {
		return fmt.Sprintf("held by another, or shared while one waits to hold it alone, %v left", left)
	}
	return fmt.Sprintf("held by another, whose lease has %v left", left)
}

// beyond tells whether the lease is longer than anyone may take. Two clocks may run apart by
// the largest drift factor in that time, and that is no reason to call a lease too long
// (ADR 7).
func (e *takenError) beyond() bool { return e.left > e.most+clock.Drift(e.most, clock.MaxDriftFactor) }

// raiseVote reads a reply of raise.lua, which was asked to raise the token to t. A stripe above
// t has counted on meanwhile, so t may be below a token that was given out since: the vote
// is lost, and the next attempt starts above the stripe.
func raiseVote(reply, t int64) (quorum.Vote, error) {
	switch {
	case reply == 1:
		return quorum.Vote{Outcome: quorum.Granted, Token: quorum.Token(t)}, nil //nolint:gosec // positive
	case reply > 1: // the least that another raise may go to
		return quorum.Vote{Outcome: quorum.Taken, Token: quorum.Token(reply)}, errors.New("a later token was given out meanwhile")
	case reply == 0:
		return quorum.Vote{Outcome: quorum.Taken}, ErrGone
	case reply == -1:
		return quorum.Vote{Outcome: quorum.Abstained}, errEpoch
	default:
		return quorum.Vote{Outcome: quorum.Unknown}, ErrNoReply
	}
}

// errNotSharing refuses a raise of a hold that has ended there.
var errNotSharing = errors.New("this client no longer shares it")

// raiseSharedVote reads a reply of raise_shared.lua: the number that the generation has
// now, even if another raise set a different one.
func raiseSharedVote(reply int64) (quorum.Vote, error) {
	switch {
	case reply > 0:
		return quorum.Vote{Outcome: quorum.Granted, Token: quorum.Token(reply)}, nil
	case reply == 0:
		return quorum.Vote{Outcome: quorum.Taken}, errNotSharing
	case reply == -1:
		return quorum.Vote{Outcome: quorum.Abstained}, errEpoch
	default:
		return quorum.Vote{Outcome: quorum.Unknown}, ErrNoReply
	}
}

// SharedRaiseStage judges a raise of a shared hold's token: it is finished once a quorum
// shows one number, or the replies that are out can't bring that about. Unlike a raise of an
// exclusive hold it is not bound to the number that was asked for.
func SharedRaiseStage(votes []quorum.Vote) round.Stage {
	verdict, _ := quorum.Settle(votes)
	tally := quorum.Count(votes)
	if verdict == quorum.Waiting || verdict == quorum.Unsettled && tally.Granted+tally.Pending >= quorum.Needed(votes) && tally.Pending > 0 {
		return round.Open
	}
	return round.Finished
}

// hearingOf is what a refusal of a round's ask says of the line. more is the second integer of
// ask.lua and share.lua: a ticket where the round had no place, else two bits.
func hearingOf(r *round.Round, reply, more int64) quorum.Hearing {
	h := quorum.Hearing{Free: reply == -3}
	h.Left, _ = leaseLeft(reply)
	if r.Asks.Position == quorum.NoTicket {
		h.Ticket = more
	} else {
		h.Head, h.Foreign = more&1 != 0, more&2 != 0
	}
	return h
}

// handReply is what a hand of so many locks replied of lock i: what became of it, and the
// standing of its next owner. A reply of another shape reads as no standing (0): the attempt
// then asks for its place.
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

// slotReplies is how many integers ask_slot.lua returns.
const slotReplies = 5

// slotHearingOf is what a refusal of a slot says of the line and of the other slots. It returns
// false where the reply is no refusal.
func slotHearingOf(cmd redis.Cmder) (h quorum.Hearing, refused bool) {
	said := func(k int) int64 { return replyAt(cmd, k, slotReplies) }
	if said(0) > -3 || said(0) == noReply {
		return h, false
	}
	return quorum.Hearing{
		Ticket: said(1), Head: said(2) == 1, Slots: uint64(said(3)), //nolint:gosec // 48 bits
		Free: said(3) != 0, Left: time.Duration(said(4)) * time.Millisecond,
	}, true
}

// silence is why the node does not vote; nil if it does. A step's wait ends here: MaxTTL after
// the step was seen, no lease that it touched runs any more (ADR 7). Should another step come
// at that moment, the swap keeps the newer one.
func (n *writer) silence() error {
	switch {
	case n.epoch == "":
		return n.abstains
	case n.timeless != nil:
		return n.timeless
	}
	if d := n.distrust.Load(); d != nil {
		if n.Clock.Early() < d.Until() {
			return d
		}
		n.distrust.CompareAndSwap(d, nil)
	}
	return nil
}

// doubt is why what the node answers in this batch does not count, though it was
// asked; nil if it does. silence is decided before a batch is sent, doubt by what came back
// with it: an exchanged server, another history, a clock that stepped or can't be read.
func (n *writer) doubt() error {
	switch {
	case n.met != n.turn():
		return errExchanged
	case n.batch.doubt != nil:
		return n.batch.doubt
	case n.timeless != nil:
		return n.timeless
	}
	if d := n.distrust.Load(); d != nil {
		return d
	}
	return nil
}

// ungranted is why what the node granted in this batch does not count; nil if it does. A grant
// needs a reading of the clock behind it besides. An extension needs none: a key that is
// still there was there all the time (ADR 13).
func (n *writer) ungranted() error {
	if doubt := n.doubt(); doubt != nil {
		return doubt
	}
	return n.batch.unread
}

// vouch notes that the node vouched for something in the round that was sent at
// start. Without a look behind it in the same batch (proven), it counts until a later look
// says that the node was another: forgot then revokes all since the earliest such round.
func (n *writer) vouch(start clock.Instant) {
	if !n.batch.proven && (n.unproven == 0 || start < n.unproven) {
		n.unproven = start
	}
}

// markAfter notes what the outcome of an acquire, or of a re-seed, says of the
// claim on this node. What is there stays there until it is released: a later refusal does
// not undo a grant.
func (n *Node) markAfter(c *round.Claim, o quorum.Outcome) {
	n.mu.Lock()
	defer n.mu.Unlock()
	c.Marks[n.Index] = c.Marks[n.Index].After(o)
}
