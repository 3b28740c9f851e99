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
		return quorum.Vote{Outcome: quorum.Taken}, errGone
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
	if e.shared {
		return fmt.Sprintf("held by another, or shared while one waits to hold it alone, %v left", e.left)
	}
	return fmt.Sprintf("held by another, %v left", e.left)
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
		return quorum.Vote{Outcome: quorum.Taken, Token: quorum.Token(reply)}, errors.New("the stripe is above the token")
	case reply == 0:
		return quorum.Vote{Outcome: quorum.Taken}, errors.New("the key is not ours any more")
	case reply == -1:
		return quorum.Vote{Outcome: quorum.Abstained}, errEpoch
	default:
		return quorum.Vote{Outcome: quorum.Unknown}, ErrNoReply
	}
}

// replyAt reads the i-th of the n integers that a command was to bring; what is
// missing reads as noReply. A list of another length is no reply at all: nothing says which
// lock each integer would be about.
func replyAt(cmd redis.Cmder, i, n int) int64 {
	switch c := cmd.(type) {
	case intCall:
		return c.Val()
	case intsCall:
		if got := c.Val(); len(got) == n {
			return got[i]
		}
	}
	return noReply
}

// answered tells whether a reply was read into the command. For a handCall, whose
// reply may be an integer or a list, it takes the client's word.
func answered(cmd redis.Cmder) bool {
	switch c := cmd.(type) {
	case intCall:
		return c.Val() != noReply
	case intsCall:
		return len(c.Val()) > 0
	case TimeCall:
		return !c.Val().IsZero()
	case infoCall:
		return c.Val() != ""
	}
	return true
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
