package redlock

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
)

// raceError is an attempt to which the nodes gave different tokens, none of which
// could be settled. The next attempt starts above them all.
type raceError struct{ above quorum.Token }

func (e *raceError) Error() string { return "a quorum granted without a settled token" }

// enter counts an attempt, so that Close waits for what it may have to roll back.
// It returns false once the Locker is closed.
func (l *Locker) enter() bool {
	l.gate.RLock()
	defer l.gate.RUnlock()
	if l.closed.Load() {
		return false
	}
	l.attempts.Add(1)
	return true
}

// newClaim is a fresh attempt: its owner value was never used before.
func (l *Locker) newClaim(key string, ttl time.Duration, start clock.Instant, floor quorum.Token) *node.Claim {
	var room [len(lua.TombstoneKey) + 100]byte // so that nothing but the result is allocated
	dead := string(l.cfg.chance.AppendName(append(append(room[:0], lua.TombstoneKey...), l.cfg.holder...)))
	c := &node.Claim{
		Key: key, Owner: dead[len(lua.TombstoneKey):], Dead: dead, Stripe: lua.StripeOf(key),
		TTL: clock.Milliseconds(ttl), Hint: max(l.peers.Hint(), int64(floor)), //nolint:gosec // below 2^53
	}
	c.Rounds = 1
	c.Stand(start, 0)
	if c.Marks = c.Room[:min(len(l.nodes), node.FewNodes)]; len(l.nodes) > node.FewNodes {
		c.Marks = make([]quorum.Mark, len(l.nodes))
	}
	return c
}

// attempt makes one round, and a second one where the token needs it. It returns
// a lock; a *QuorumError, the attempt rolled back; or ctx's cause, the same.
//
// floor is the least hint: above the tokens of an attempt that could not settle
// its own.
func (l *Locker) attempt(ctx context.Context, resource, key string, t terms, floor quorum.Token) (*Lock, error) {
	if !l.enter() {
		return nil, fault.Errorf("redlock: acquire %s: %w", fault.Printable(resource), fault.ErrClosed)
	}
	defer l.attempts.Done()
	start := l.clock.Start()
	c := l.newClaim(key, t.ttl, start, floor)
	w := l.sleepers.Get().(*node.Sleeper).Ready()
	defer l.sleepers.Put(w)
	r := node.NewRound(c, len(l.nodes), start, w)
	for _, n := range l.nodes {
		n.SubmitAcquire(r)
	}
	s, err := r.Await(ctx, l.clock, l.cfg.bound(t.ttl), node.AcquireStage, func() { l.rollBackGranted(r, t.ttl) })
	return l.conclude(ctx, resource, r, t, w, s, err)
}

// conclude makes a lock of a round that has ended at stage s, or rolls it back.
func (l *Locker) conclude(ctx context.Context, resource string, r *node.Round, t terms, w *node.Sleeper, s node.Stage, err error) (*Lock, error) {
	lock, err := l.judge(ctx, resource, r, t, w, s, err)
	if err != nil {
		l.tellAttempt(ctx, resource, r, err)
	}
	return lock, err
}

// judge is conclude, but that nothing is told of a failure.
func (l *Locker) judge(ctx context.Context, resource string, r *node.Round, t terms, w *node.Sleeper, s node.Stage, err error) (*Lock, error) {
	c := r.Claim
	r.Close(l.nodes, s == node.Finished)
	l.cfg.recorder.counters.poll(r.Votes)
	if err != nil {
		l.rollBack(c, t.ttl)
		return nil, fault.Errorf("redlock: acquire %s: %w", fault.Printable(resource), err)
	}
	token, why := l.token(ctx, c, r.Votes, w, l.cfg.bound(t.ttl))
	if why == nil {
		why = l.vouched(r)
	}
	if why == nil {
		c.Token = int64(token) //nolint:gosec // below 2^53
		valid := clock.ValidFrom(r.Start, t.ttl, l.cfg.drift)
		if why = l.outlasted(r.Start, t.ttl, valid); why == nil {
			return l.hold(ctx, resource, c, t, r.Start, valid)
		}
	}
	l.rollBack(c, t.ttl)
	sentinel := fault.ErrNoQuorum
	if answered := quorum.Count(r.Votes); answered.Granted+answered.Taken >= l.quorum {
		sentinel = fault.ErrNotAcquired
	} else {
		why = nil
	}
	if errors.Is(why, errOutvoted) {
		why = nil
	}
	return nil, quorumError("acquire", resource, sentinel, why, l.names, r.Votes, r.Causes)
}

// outlasted is why a round that was sent at start took too long for a lock of this
// TTL; nil: it did not. A node that voted in it, forgot, and came back before the others'
// records had the longer MaxTTL that this client raises has waited the shorter one.
func (l *Locker) outlasted(start clock.Instant, ttl time.Duration, valid clock.Validity) error {
	now := l.clock.Now()
	took, before := now.Sub(start), l.tracker.RaisedFrom()
	switch {
	case !valid.Holds(now):
		return fmt.Errorf("the round took %v, which leaves a TTL of %v no validity: raise WithTTL", took, ttl)
	case before > 0 && ttl > before && took >= before-clock.Drift(before, l.cfg.drift):
		return fmt.Errorf("the round took %v, and nodes had a MaxTTL of %v before this client raised it: one that forgot may be back", took, before)
	}
	return nil
}

var (
	errOutvoted  = errors.New("no quorum granted")
	errUncounted = errors.New("a quorum's grants no longer count")
)

// token settles the token of a round that a quorum granted, with a raise round
// where the grants differ.
func (l *Locker) token(ctx context.Context, c *node.Claim, votes []quorum.Vote, w *node.Sleeper, bound time.Duration) (quorum.Token, error) {
	for _, v := range votes {
		l.peers.Seen(v.Token)
	}
	verdict, t := quorum.Settle(votes)
	switch verdict {
	case quorum.Settled:
		return t, nil
	case quorum.Unsettled:
		return 0, errOutvoted
	case quorum.Waiting, quorum.Uneven:
	}
	c.Rounds++
	r := node.NewRound(c, len(l.nodes), l.clock.Early(), w.Ready())
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
	for i, n := range l.nodes {
		if quorum.NeedsRaise(votes[i], t) {
			n.SubmitRaise(r)
		}
	}
	_, err := r.Await(ctx, l.clock, bound, node.RaiseStage(t), nil)
	r.Close(l.nodes, true)
	if err == nil && quorum.SameToken(r.Votes, t) >= l.quorum {
		return t, nil
	}
	return 0, &raceError{above: t}
}

// vouched is why the grants of the round are worth less than a quorum; nil: they are
// not. Those count of nodes that were not found to have stepped or forgotten since it
// began.
func (l *Locker) vouched(r *node.Round) error {
	set, cause := r.Claim.Set(), errUncounted
	for i, n := range l.nodes {
		if why := n.DoubtedSince(r.Start); why != nil {
			set, cause = set&^(1<<i), fmt.Errorf("%s: %w", n.Name, why)
		}
	}
	if bits.OnesCount64(set) < l.quorum {
		return cause
	}
	return nil
}

// rollBack cleans every node that may hold the claim, in the background.
func (l *Locker) rollBack(c *node.Claim, lease time.Duration) { l.discard(c, lease, c.Rollback(), nil) }

// rollBackGranted frees the nodes that granted a round which is lost already,
// while its reason is still open.
func (l *Locker) rollBackGranted(r *node.Round, lease time.Duration) {
	for i, v := range r.SoFar() {
		if v.Outcome == quorum.Granted {
			l.nodes[i].Release(l.releaseOf(r.Claim, lease, r.Claim.Rollback(), nil))
		}
	}
}

// discard sends the release of a claim that nobody wants any more to every node
// that may hold it. r, if any, collects the confirmations.
func (l *Locker) discard(c *node.Claim, lease time.Duration, entry node.Leaving, r *node.Round) {
	c.Over.Store(true)
	for _, n := range l.nodes {
		n.Release(l.releaseOf(c, lease, entry, r))
	}
}

func (l *Locker) releaseOf(c *node.Claim, lease time.Duration, entry node.Leaving, r *node.Round) node.Release {
	return node.Release{Claim: c, Life: clock.Milliseconds(lease), Until: l.clock.Early().Add(lease), Entry: entry, Round: r}
}
