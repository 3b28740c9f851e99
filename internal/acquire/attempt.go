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
)

// raceError is an attempt to which the nodes gave different tokens, none of which
// could be settled. The next attempt starts above them all.
type raceError struct{ above quorum.Token }

func (e *raceError) Error() string { return "a quorum granted without a settled token" }

// newClaim is a fresh attempt: its owner value was never used before. label is the
// hold's own.
func (a *base) newClaim(key string, ttl time.Duration, label string, start clock.Instant, floor quorum.Token) *round.Claim {
	var room [len(lua.TombstoneKey) + 100]byte // so that nothing but the result is allocated
	dead := string(a.Chance.AppendName(append(append(append(room[:0], lua.TombstoneKey...), a.Holder...), label...)))
	c := &round.Claim{
		Key: key, Owner: dead[len(lua.TombstoneKey):], Dead: dead, Stripe: lua.StripeOf(key),
		TTL: clock.Milliseconds(ttl), Hint: max(a.Hints.Hint(), int64(floor)), //nolint:gosec // below 2^53
	}
	c.Rounds = 1
	c.Stand(start, 0)
	c.MarkNodes(len(a.Nodes))
	return c
}

// labelOf is the label that newClaim was given for a claim.
func (a *base) labelOf(c *round.Claim) string {
	return c.Owner[len(a.Holder) : len(c.Owner)-lua.RandomLength]
}

// attempt makes one round, and a second one where the token needs it. Where it fails
// it is rolled back.
//
// floor is the least hint: above the tokens of an attempt that could not settle
// its own.
func (a *attempter) attempt(ctx context.Context, key string, t *Terms, floor quorum.Token) (Grant, *Failure) {
	if !a.Enter() {
		return Grant{}, a.ended(key, fault.ErrClosed)
	}
	start, ttl := a.Clock.Start(), t.TTL
	c := a.newClaim(key, ttl, t.Label, start, floor)
	w := a.Sleepers.Get()
	defer a.Sleepers.Put(w)
	return a.acquireRound(ctx, round.New(c, len(a.Nodes), start, w), ttl, w)
}

// acquireRound sends the acquires of a round, and makes of its end what conclude does.
func (a *attempter) acquireRound(ctx context.Context, r *round.Round, ttl time.Duration, w *round.Sleeper) (Grant, *Failure) {
	for _, n := range a.Nodes {
		n.SubmitAcquire(r)
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
func (a *attempter) conclude(ctx context.Context, r *round.Round, ttl time.Duration, w *round.Sleeper, s round.Stage, err error) (Grant, *Failure) {
	g, f := a.judge(ctx, r, ttl, w, s, err)
	if f != nil {
		f.Words = a.Door.Refused(ctx, r.Claim.Key, r.Start, r.Claim.Rounds, f)
		a.Settled()
	}
	return g, f
}

// judge concludes without telling anybody of a failure.
func (a *attempter) judge(ctx context.Context, r *round.Round, ttl time.Duration, w *round.Sleeper, s round.Stage, err error) (Grant, *Failure) {
	a.closeRound(r, s)
	if err != nil {
		a.releases.rollBack(r.Claim, ttl)
		return Grant{}, &Failure{Cause: err}
	}
	token, raise, why := a.settle(r.Claim, r.Votes, w)
	if raise != nil {
		token, why = a.raised(ctx, raise, token, a.Bound(ttl))
	}
	return a.grant(r, ttl, token, why)
}

// closeRound ends a round at stage s.
func (a *attempter) closeRound(r *round.Round, s round.Stage) {
	node.CloseRound(a.Nodes, r, s == round.Finished)
	a.Door.Polled(r.Votes)
}

// grant makes a grant of a closed round with this token, or rolls it back; why says that
// it has none.
func (a *attempter) grant(r *round.Round, ttl time.Duration, token quorum.Token, why error) (Grant, *Failure) {
	c := r.Claim
	g := Grant{Claim: c, Start: r.Start, Asked: r.Start, Valid: clock.ValidFrom(r.Start, ttl, a.Drift)}
	if c.AcceptsPush() && why == nil {
		g.Start, g.Valid = r.Leases(token)
		g.Short = r.Asks.Pushed
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
	if answered := quorum.Count(r.Votes); answered.Granted+answered.Taken >= a.quorum {
		sentinel = fault.ErrNotAcquired
	} else {
		why = nil
	}
	if errors.Is(why, errOutvoted) {
		why = nil
	}
	return Grant{}, &Failure{Sentinel: sentinel, Cause: why, Votes: r.Votes, Causes: r.Causes}
}

// outlasted is why a round that was sent at start took too long for a lock of this
// TTL; nil if it did not. A node that voted in it, forgot, and came back before the others'
// records had the longer MaxTTL that this client raises has waited the shorter one.
func (a *attempter) outlasted(start clock.Instant, ttl time.Duration, valid clock.Validity) error {
	now := a.Clock.Now()
	took, before := now.Sub(start), a.Tracker.RaisedFrom()
	switch {
	case !valid.Holds(now):
		return fmt.Errorf("the round took %v, which leaves a TTL of %v no validity: raise WithTTL", took, ttl)
	case before > 0 && ttl > before && took >= before-clock.Drift(before, a.Drift):
		return fmt.Errorf("the round took %v, and nodes had a MaxTTL of %v before this client raised it: one that forgot may be back", took, before)
	}
	return nil
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
	if err == nil && quorum.SameToken(r.Votes, t) >= a.quorum {
		return t, nil
	}
	for _, v := range r.Votes { // also of a node whose counter was above it
		t = max(t, v.Token)
	}
	return 0, &raceError{above: t}
}

// vouched is why the grants of the round are worth less than a quorum; nil if they are not.
// A grant counts if its node was not found to have stepped or forgotten since the round
// began.
func (a *attempter) vouched(c *round.Claim, start clock.Instant) error {
	set, cause := c.Set(), errUncounted
	for i, n := range a.Nodes {
		if why := n.DoubtedSince(start); why != nil {
			set, cause = set&^(1<<i), fmt.Errorf("%s: %w", n.Name, why)
		}
	}
	if bits.OnesCount64(set) < a.quorum {
		return cause
	}
	return nil
}

// rollBack cleans every node that may hold the claim, in the background. The process of a claim
// that takes pushes keeps its place by a next claim: the owner value of this one is dead.
func (a *Releases) rollBack(c *round.Claim, lease time.Duration) {
	if c.AcceptsPush() && c.Replacement() == nil && *c.Place() != quorum.NoTicket {
		next := a.newClaim(c.Key, lease, a.labelOf(c), a.Clock.Early(), 0)
		next.AcceptPush(*c.Place())
		c.ReplaceBy(next)
	}
	a.discard(c, lease, c.Rollback(), nil)
}

// rollBackGranted frees the nodes that granted a round which is lost already,
// while its reason is still open.
func (a *Releases) rollBackGranted(r *round.Round, lease time.Duration) {
	for i, v := range r.SoFar() {
		if v.Outcome == quorum.Granted {
			a.Nodes[i].Release(a.releaseOf(r.Claim, lease, r.Claim.Rollback(), nil))
		}
	}
}

// discard sends the release of a claim that nobody wants any more to every node
// that may hold it. r, if any, collects the confirmations.
func (a *Releases) discard(c *round.Claim, lease time.Duration, entry round.Leaving, r *round.Round) {
	a.free(c, lease, entry, false, r)
}

// free is discard; with hand, nodes may grant the name to a waiter there.
func (a *Releases) free(c *round.Claim, lease time.Duration, entry round.Leaving, hand bool, r *round.Round) {
	a.ends(c)
	release := a.releaseOf(c, lease, entry, r)
	if hand {
		release.Hint = max(a.Hints.Hint(), c.Token+1)
	}
	for _, n := range a.Nodes {
		n.Release(release)
	}
}

// ends notes that a claim is over, and with it the attempt by which its process stood in line
// for it. A node may still have that one's entry: the queue remembers it (Queue.Ended).
func (a *Releases) ends(c *round.Claim) {
	c.Abandoned.Store(true)
	if owner := *c.QueueOwner(); owner != "" {
		a.Queue.Ended(owner, quorum.Token(c.Token)) //nolint:gosec // below 2^53
	}
}

// releaseOf makes the release of a claim. Each node repeats it for one lease from now on.
func (a *Releases) releaseOf(c *round.Claim, lease time.Duration, entry round.Leaving, r *round.Round) node.Release {
	return node.Release{Claim: c, Life: clock.Milliseconds(lease), Until: a.Clock.Early().Add(lease), Entry: entry, Round: r}
}
