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
func (l *Locker) newClaim(key string, ttl time.Duration, start clock.Instant, floor quorum.Token) *claim {
	var room [len(lua.TombstoneKey) + 100]byte // so that nothing but the result is allocated
	dead := string(l.cfg.chance.AppendName(append(append(room[:0], lua.TombstoneKey...), l.cfg.holder...)))
	c := &claim{
		key: key, owner: dead[len(lua.TombstoneKey):], dead: dead, stripe: lua.StripeOf(key),
		ttl: clock.Milliseconds(ttl), hint: max(l.peers.hint(), int64(floor)), //nolint:gosec // below 2^53
	}
	c.rounds = 1
	c.stand(start, 0)
	if c.marks = c.room[:min(len(l.nodes), fewNodes)]; len(l.nodes) > fewNodes {
		c.marks = make([]quorum.Mark, len(l.nodes))
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
	w := l.waiters.Get().(*waiter).ready()
	defer l.waiters.Put(w)
	r := newRound(c, len(l.nodes), start, w)
	for _, n := range l.nodes {
		n.submitAcquire(r)
	}
	s, err := r.await(ctx, l.clock, l.cfg.bound(t.ttl), acquireStage, func() { l.rollBackGranted(r, t.ttl) })
	return l.conclude(ctx, resource, r, t, w, s, err)
}

// conclude makes a lock of a round that has ended at stage s, or rolls it back.
func (l *Locker) conclude(ctx context.Context, resource string, r *round, t terms, w *waiter, s stage, err error) (*Lock, error) {
	lock, err := l.judge(ctx, resource, r, t, w, s, err)
	if err != nil {
		l.tellAttempt(ctx, resource, r, err)
	}
	return lock, err
}

// judge is conclude, but that nothing is told of a failure.
func (l *Locker) judge(ctx context.Context, resource string, r *round, t terms, w *waiter, s stage, err error) (*Lock, error) {
	c := r.claim
	r.close(l.nodes, s == finished)
	l.cfg.recorder.counters.poll(r.votes)
	if err != nil {
		l.rollBack(c, t.ttl)
		return nil, fault.Errorf("redlock: acquire %s: %w", fault.Printable(resource), err)
	}
	token, why := l.token(ctx, c, r.votes, w, l.cfg.bound(t.ttl))
	if why == nil {
		why = l.vouched(r)
	}
	if why == nil {
		c.token = int64(token) //nolint:gosec // below 2^53
		valid := clock.ValidFrom(r.start, t.ttl, l.cfg.drift)
		if why = l.outlasted(r.start, t.ttl, valid); why == nil {
			return l.hold(ctx, resource, c, t, r.start, valid)
		}
	}
	l.rollBack(c, t.ttl)
	sentinel := fault.ErrNoQuorum
	if answered := quorum.Count(r.votes); answered.Granted+answered.Taken >= l.quorum {
		sentinel = fault.ErrNotAcquired
	} else {
		why = nil
	}
	if errors.Is(why, errOutvoted) {
		why = nil
	}
	return nil, quorumError("acquire", resource, sentinel, why, l.names, r.votes, r.causes)
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
func (l *Locker) token(ctx context.Context, c *claim, votes []quorum.Vote, w *waiter, bound time.Duration) (quorum.Token, error) {
	for _, v := range votes {
		l.peers.seen(v.Token)
	}
	verdict, t := quorum.Settle(votes)
	switch verdict {
	case quorum.Settled:
		return t, nil
	case quorum.Unsettled:
		return 0, errOutvoted
	case quorum.Waiting, quorum.Uneven:
	}
	c.rounds++
	r := newRound(c, len(l.nodes), l.clock.Early(), w.ready())
	r.raise = int64(t) //nolint:gosec // below 2^53
	for i, v := range votes {
		switch {
		case quorum.NeedsRaise(v, t):
		case v.Outcome == quorum.Granted:
			r.votes[i] = v
		default:
			r.votes[i].Outcome = quorum.Failed
		}
	}
	for i, n := range l.nodes {
		if quorum.NeedsRaise(votes[i], t) {
			n.submitRaise(r)
		}
	}
	_, err := r.await(ctx, l.clock, bound, raiseStage(t), nil)
	r.close(l.nodes, true)
	if err == nil && quorum.SameToken(r.votes, t) >= l.quorum {
		return t, nil
	}
	return 0, &raceError{above: t}
}

// vouched is why the grants of the round are worth less than a quorum; nil: they are
// not. Those count of nodes that were not found to have stepped or forgotten since it
// began.
func (l *Locker) vouched(r *round) error {
	set, cause := r.claim.set(), errUncounted
	for i, n := range l.nodes {
		if why := n.doubtedSince(r.start); why != nil {
			set, cause = set&^(1<<i), fmt.Errorf("%s: %w", n.name, why)
		}
	}
	if bits.OnesCount64(set) < l.quorum {
		return cause
	}
	return nil
}

// rollBack cleans every node that may hold the claim, in the background.
func (l *Locker) rollBack(c *claim, lease time.Duration) { l.discard(c, lease, c.rollback(), nil) }

// rollBackGranted frees the nodes that granted a round which is lost already,
// while its reason is still open.
func (l *Locker) rollBackGranted(r *round, lease time.Duration) {
	for i, v := range r.soFar() {
		if v.Outcome == quorum.Granted {
			l.nodes[i].release(l.cleanup(r.claim, lease, r.claim.rollback(), nil))
		}
	}
}

// discard sends the release of a claim that nobody wants any more to every node
// that may hold it. r, if any, collects the confirmations.
func (l *Locker) discard(c *claim, lease time.Duration, entry leaving, r *round) {
	c.over.Store(true)
	for _, n := range l.nodes {
		n.release(l.cleanup(c, lease, entry, r))
	}
}

func (l *Locker) cleanup(c *claim, lease time.Duration, entry leaving, r *round) cleanup {
	return cleanup{claim: c, life: clock.Milliseconds(lease), until: l.clock.Early().Add(lease), entry: entry, round: r}
}
