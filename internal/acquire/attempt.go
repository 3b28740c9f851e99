package acquire

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"time"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/fault"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/node"
	"github.com/quorumkit/redlock/internal/quorum"
	"github.com/quorumkit/redlock/internal/round"
	"github.com/quorumkit/redlock/internal/slots"
)

// raceError is an attempt to which the nodes gave different tokens, none of which
// could be settled. The next attempt starts above them all.
type raceError struct{ above quorum.Token }

func (e *raceError) Error() string { return "a quorum granted without a settled token" }

// attempt makes one round, and a second one where the token needs it. Where it fails
// it is rolled back.
//
// floor is the least hint: above the tokens of an attempt that could not settle
// its own. asks, if any, takes in what the refusals of a shared hold say besides.
func (a *attempter) attempt(ctx context.Context, key string, t *Terms, floor quorum.Token, asks *round.Asks) (Success, *Failure) {
	if !a.Enter() {
		return Success{}, a.ended(key, fault.ErrClosed)
	}
	start := a.Clock.Start()
	c := a.newClaim(key, t.TTL, t.Label, start, floor)
	if t.Shared {
		if c.Share(quorum.NoTicket); t.Barging {
			asks = round.NewSharedAsks(quorum.Barging, len(a.Nodes))
		}
	}
	w := a.Sleepers.Get()
	defer a.Sleepers.Put(w)
	r := round.New(c, len(a.Nodes), start, w)
	r.Asks = asks
	return a.acquireRound(ctx, r, t.TTL, w)
}

// slotClaim is a fresh attempt to hold a slot.
func (a *attempter) slotClaim(start clock.Instant, name string, t *Terms, slot int, floor quorum.Token) *round.Claim {
	c := a.newClaim(lua.SlotKey(name, slot), t.TTL, t.Label, start, floor)
	c.TakeSlot(&round.Slot{Name: name, Line: lua.SlotsKey(name), Number: slot, Limit: t.Limit})
	return c
}

// attemptSlot is attempt for a slot, without a place in line. It returns no round where it
// sent none.
func (a *attempter) attemptSlot(ctx context.Context, name string, t *Terms, slot int, floor quorum.Token) (Success, *round.Round, *Failure) {
	if !a.Enter() {
		return Success{}, nil, a.ended(name, fault.ErrClosed)
	}
	w := a.Sleepers.Get()
	defer a.Sleepers.Put(w)
	start := a.Clock.Start()
	r := round.New(a.slotClaim(start, name, t, slot, floor), len(a.Nodes), start, w)
	r.Asks = &round.Asks{Position: quorum.NoTicket, Heard: make([]quorum.Hearing, len(a.Nodes))}
	if t.Barging {
		r.Asks.Position = quorum.Barging
	}
	g, f := a.acquireRound(ctx, r, t.TTL, w)
	return g, r, f
}

// slotStage is AcquireStage for a slot. If the ask was refused, and the replies that are out
// decide whether another slot is free, they have as much time again.
func slotStage(r *round.Round) func([]quorum.Vote) round.Stage {
	return func(votes []quorum.Vote) round.Stage {
		s := round.AcquireStage(votes)
		if s == round.Finished && quorum.Count(votes).Verdict() == quorum.Contended && slots.Undecided(votes, r.Asks.Heard, r.Claim.Slot().Limit) {
			return round.Patient
		}
		return s
	}
}

// acquireRound sends the acquires of a round, and makes of its end what conclude does.
func (a *attempter) acquireRound(ctx context.Context, r *round.Round, ttl time.Duration, w *round.Sleeper) (Success, *Failure) {
	for i, n := range a.Nodes {
		if r.List.Has(i) {
			n.SubmitAcquire(r)
		}
	}
	judge := round.AcquireStage
	if r.Claim.Slot() != nil {
		judge = slotStage(r)
	}
	s, err := r.Await(ctx, a.Clock, a.Bound(ttl), judge, func() { a.releases.rollBackGranted(r, ttl) })
	return a.conclude(ctx, r, ttl, w, s, err)
}

// ended is the failure of an acquisition that the nodes did not decide.
func (a *attempter) ended(key string, cause error) *Failure {
	return &Failure{Cause: cause, Words: a.Door.Ended(key, cause)}
}

// conclude makes a grant of a round that has ended at stage s, or rolls it back. The
// attempt, which was entered, stays so where it brings a grant.
func (a *attempter) conclude(ctx context.Context, r *round.Round, ttl time.Duration, w *round.Sleeper, s round.Stage, err error) (Success, *Failure) {
	g, f := a.judge(ctx, r, ttl, w, s, err)
	if f != nil {
		f.List = r.List
		f.Words = a.Door.Refused(ctx, r.Claim.Key, r.Start, r.Claim.Rounds, f)
		a.Settled()
	}
	return g, f
}

// judge concludes without telling anybody of a failure.
func (a *attempter) judge(ctx context.Context, r *round.Round, ttl time.Duration, w *round.Sleeper, s round.Stage, err error) (Success, *Failure) {
	a.closeRound(r, s)
	if err != nil {
		a.releases.rollBack(r.Claim, ttl)
		return Success{}, &Failure{Cause: err}
	}
	token, raise, why := a.settle(r.Claim, r.Votes, w)
	if raise != nil {
		token, why = a.raised(ctx, raise, token, a.Bound(ttl))
	}
	return a.succeed(ctx, r, ttl, token, why)
}

// closeRound ends a round at stage s.
func (a *attempter) closeRound(r *round.Round, s round.Stage) {
	node.CloseRound(a.Nodes, r, s == round.Finished)
	a.Door.Polled(r.Votes)
}

// succeed makes a success of a closed round with this token, or rolls it back; why says that
// it has none.
func (a *attempter) succeed(ctx context.Context, r *round.Round, ttl time.Duration, token quorum.Token, why error) (Success, *Failure) {
	c := r.Claim
	g := Success{Claim: c, Start: r.Start, Asked: r.Start, Valid: clock.ValidFrom(r.Start, ttl, a.Drift)}
	if c.AcceptsPush() && why == nil {
		g.Start, g.Valid = r.Leases(token)
		g.Short = r.Asks.Pushed
	}
	var unclaimed error
	if why == nil && !a.Nodes[0].Cfg.Unprotected {
		unclaimed = a.Tracker.Claimed(ctx, a.Timeout, g.Start)
		why = unclaimed
	}
	if why == nil {
		why = a.vouched(r.Claim, g.Start)
	}
	if why == nil {
		c.Token = int64(token) //nolint:gosec // below 2^53
		if why = a.outlasted(g.Start, ttl, g.Valid); why == nil {
			return g, nil
		}
	}
	a.releases.rollBack(c, ttl)
	sentinel := fault.ErrNoQuorum
	switch answered := quorum.Count(r.Votes); {
	case unclaimed != nil:
	case answered.Granted+answered.Taken >= quorum.Needed(r.Votes):
		sentinel = fault.ErrNotAcquired
	default:
		why = nil
	}
	if errors.Is(why, errOutvoted) {
		why = nil
	}
	return Success{}, &Failure{Sentinel: sentinel, Cause: why, Votes: r.Votes, Causes: r.Causes}
}

// outlasted is why a round that was sent at start took too long for a lock of this TTL; nil if it
// did not.
func (a *attempter) outlasted(start clock.Instant, ttl time.Duration, valid clock.Validity) error {
	now := a.Clock.Recent()
	if valid.Holds(now) {
		return nil
	}
	return fmt.Errorf("the round took %v, which leaves a TTL of %v no validity: raise WithTTL", now.Sub(start), ttl)
}

var (
	errOutvoted  = errors.New("no quorum granted")
	errUncounted = errors.New("a quorum's grants no longer count")
)

// settle settles the token of a round that a quorum granted. Where the grants differ it
// sends a raise round, of which raised tells the end.
func (a *attempter) settle(c *round.Claim, votes []quorum.Vote, w *round.Sleeper) (quorum.Token, *round.Round, error) {
	for _, v := range votes {
		a.Hints.Seen(v.Token)
	}
	verdict, t := quorum.Settle(votes)
	switch verdict {
	case quorum.Settled:
		return t, nil, nil
	case quorum.Unsettled:
		return 0, nil, errOutvoted
	case quorum.Waiting, quorum.Uneven:
	}
	c.Rounds++
	r := round.New(c, len(a.Nodes), a.Clock.Early(), w.Ready())
	r.Raise = int64(t) //nolint:gosec // below 2^53
	for i, v := range votes {
		switch {
		case quorum.NeedsRaise(v, t):
		case v.Outcome == quorum.Granted:
			r.Votes[i] = v
		case v.Outcome == quorum.Unlisted:
		default:
			r.Votes[i].Outcome = quorum.Failed
		}
	}
	for i, n := range a.Nodes {
		if quorum.NeedsRaise(votes[i], t) {
			n.SubmitRaise(r)
		}
	}
	return t, r, nil
}

// raised waits for a raise round to t, and returns the token that a quorum has then.
func (a *attempter) raised(ctx context.Context, r *round.Round, t quorum.Token, bound time.Duration) (quorum.Token, error) {
	if r.Claim.Shared() {
		return a.raisedShared(ctx, r, t, bound)
	}
	_, err := r.Await(ctx, a.Clock, bound, round.RaiseStage(t), nil)
	r.Close()
	if err == nil && quorum.SameToken(r.Votes, t) >= quorum.Needed(r.Votes) {
		return t, nil
	}
	for _, v := range r.Votes { // also of a node whose counter was above it
		t = max(t, v.Token)
	}
	return 0, &raceError{above: t}
}

const (
	// mostRaises is how often the token of a shared hold is raised before the attempt is
	// given up. In a lab with four very busy names on one counter four did.
	mostRaises = 5
	// raiseLead is how far a repeated raise is ahead of the clock, in microseconds: other
	// names move the counter to the clock meanwhile.
	raiseLead = 2000
)

// raisedShared is raised for a shared hold. Each reply is the number that the name has on
// that node now, and one that a quorum shows is the token. While there is none it raises
// again: to the clock and a little more, as often as there is time for.
func (a *attempter) raisedShared(ctx context.Context, r *round.Round, t quorum.Token, bound time.Duration) (quorum.Token, error) {
	until := a.Clock.Early().Add(bound)
	for tries := 1; ; tries++ {
		w := r.Caller
		_, err := r.Await(ctx, a.Clock, max(until.Sub(a.Clock.Early()), 0), node.SharedRaiseStage, nil)
		r.Close()
		verdict, token := quorum.Settle(r.Votes)
		if err == nil && verdict == quorum.Settled {
			return token, nil
		}
		for _, v := range r.Votes {
			a.Hints.Seen(v.Token)
			t = max(t, v.Token)
		}
		next := max(t, quorum.Token(a.Hints.Hint())) + raiseLead //nolint:gosec // positive
		if err != nil || tries == mostRaises || next > quorum.MaxToken || a.Clock.Early() >= until {
			return 0, &raceError{above: t}
		}
		t = next
		if r = a.raiseAgain(r, t, w); r == nil {
			return 0, &raceError{above: t}
		}
	}
}

// raiseAgain sends a further raise round, to t, to the nodes that may share the name with
// the claim of the last one; nil if they are no quorum.
func (a *attempter) raiseAgain(last *round.Round, t quorum.Token, w *round.Sleeper) *round.Round {
	r := round.New(last.Claim, len(a.Nodes), a.Clock.Early(), w.Ready())
	r.Raise = int64(t) //nolint:gosec // below 2^53
	for i, v := range last.Votes {
		switch v.Outcome {
		case quorum.Granted, quorum.Pending, quorum.Unknown, quorum.Unlisted:
		case quorum.Taken, quorum.Abstained, quorum.Failed:
			r.Votes[i].Outcome = quorum.Failed
		}
	}
	if quorum.Count(r.Votes).Pending < quorum.Needed(r.Votes) {
		return nil
	}
	r.Claim.Rounds++
	for i, n := range a.Nodes {
		if r.Votes[i].Outcome == quorum.Pending {
			n.SubmitRaise(r)
		}
	}
	return r
}

// vouched is why the grants of the round are worth less than a quorum; nil if they are not. A
// grant counts if its node was not found to have stepped or forgotten since the round began.
func (a *attempter) vouched(c *round.Claim, start clock.Instant) error {
	set, cause := c.Set(), errUncounted // of its list
	for i, n := range a.Nodes {
		if why := n.DoubtedSince(start); why != nil {
			set, cause = set&^(1<<i), fmt.Errorf("%s: %w", n.Name, why)
		}
	}
	if bits.OnesCount64(set) < c.List().Quorum(len(a.Nodes)) {
		return cause
	}
	return nil
}
