// Package hold keeps the locks that are held: it renews each in time, and ends it once, for
// one cause.
package hold

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/fault"
	"github.com/quorumkit/redlock/internal/node"
	"github.com/quorumkit/redlock/internal/quorum"
	"github.com/quorumkit/redlock/internal/round"
	"github.com/quorumkit/redlock/internal/tokenctx"
)

// End is why a hold ended.
type End uint8

// The ends, and what a Locker calls them in public: Lost has words for each case.
const (
	Released End = iota // by its holder
	MaxHeld             // it was held for its maximum
	Closed              // its Locker was closed
	Lapsed              // its validity ended
	Lost                // too few nodes are left that have it
)

// Causes are the public errors of the ends that need no further words.
type Causes [Lost]error

// Hold is one hold of one resource. It is safe for use by many goroutines at once.
type Hold struct {
	Resource string
	Claim    *round.Claim
	Values   context.Context //nolint:containedctx // Context keeps the acquisition's values, never its cancellation
	Fixed    bool            // its lease is not lengthened by renewals
	Leads    bool            // observers are told its token
	Revoked  chan struct{}   // closed once it was asked for; nil: it can't be
	Since    clock.Instant   // when it was known to be held
	Working  atomic.Int32    // functions that run under it: Close waits for them
	keeper   *Keeper

	mu       sync.Mutex // guards the fields below
	ttl      time.Duration
	asked    time.Duration // the longest lease that a node may keep: one that was asked for may have come, and none is lowered
	valid    clock.Validity
	renewAt  clock.Instant   // when it is next confirmed
	maxUntil clock.Instant   // when it ends at the latest; 0: no bound
	cause    error           // why it ended; nil: it has not
	refused  error           // why the latest extension was refused, where waiting does not mend that
	ctx      context.Context //nolint:containedctx // what Context returns, made when it is first asked for
	cancel   context.CancelCauseFunc
	turn     chan struct{} // an extension or renewal is under way until it closes; nil if none
	set      Set           // that ends with it; nil if it is in none
	tries    int           // to go over to the list of now

	due   clock.Instant // guarded by the keeper's mu
	place int           // in the keeper's heap, guarded by its mu; -1: not in it
}

// Set is what ends with a hold: to be asked why makes it look.
type Set interface{ Err() error }

// Remaining returns how long the hold may still be trusted.
func (h *Hold) Remaining(now clock.Instant) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.valid.Remaining(now)
}

// Err returns nil while the lock is held, and then why it ended. It ends what is over by
// now.
func (h *Hold) Err(now clock.Instant) error {
	h.mu.Lock()
	cause, lapsed, overheld := h.cause, !h.valid.Holds(now), h.overheldLocked(now)
	h.mu.Unlock()
	switch {
	case cause != nil:
		return cause
	case lapsed:
		h.end(Lapsed)
	case overheld:
		h.end(MaxHeld)
	default:
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.cause
}

// err is Err, as of now.
func (h *Hold) err() error { return h.Err(h.keeper.clock.Now()) }

// overheldLocked tells whether the lock was held for its maximum.
func (h *Hold) overheldLocked(now clock.Instant) bool { return h.maxUntil != 0 && now >= h.maxUntil }

// Context is done when the lock is no longer held, with the cause of its end.
func (h *Hold) Context() context.Context {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ctx == nil {
		h.ctx, h.cancel = context.WithCancelCause(h.Carry(context.WithoutCancel(h.Values)))
		if h.cause != nil {
			h.cancel(h.cause)
		}
	}
	return h.ctx
}

// Carry puts the token into a context. A slot's is not under the name alone, where a guard
// would compare it with those of other slots.
func (h *Hold) Carry(ctx context.Context) context.Context {
	token := uint64(h.Claim.Token) //nolint:gosec // positive
	switch {
	case h.Claim.Slot() != nil:
		return tokenctx.With(ctx, fmt.Sprintf("%s/%d", h.Resource, h.Claim.Slot().Number), token)
	case h.Claim.Shared():
		return tokenctx.WithShared(ctx, h.Resource, token)
	default:
		return tokenctx.With(ctx, h.Resource, token)
	}
}

// EndAt bounds how long the lock is held.
func (h *Hold) EndAt(at clock.Instant) {
	h.mu.Lock()
	h.maxUntil = at
	h.mu.Unlock()
	h.keeper.reschedule(h)
}

// Attach ends the set when the hold ends.
func (h *Hold) Attach(s Set) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.set = s; h.cause != nil {
		go func() { _ = s.Err() }()
	}
}

// Detach lets the hold end without its set.
func (h *Hold) Detach() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.set = nil
}

// bound is how long a round for the hold waits for the nodes.
func (h *Hold) bound() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.keeper.Acquirer.Bound(h.ttl)
}

// renewalLocked is when a lease that was sent at start is renewed.
func (h *Hold) renewalLocked(start clock.Instant) clock.Instant {
	if h.Fixed {
		return clock.Never
	}
	return renewalAfter(start, h.ttl, h.keeper.Acquirer.Share(h.Claim.Key))
}

// doubt takes the nodes that were found to have stepped or forgotten since start out of
// what the hold stands on, which may end it.
func (h *Hold) doubt(start clock.Instant) {
	for i, n := range h.keeper.nodes {
		if why := n.DoubtedSince(start); why != nil {
			h.discount(i, 0, why)
		}
	}
}

// discount takes one node out of what the hold stands on, if that is a round since then,
// and ends the hold where that leaves no quorum.
func (h *Hold) discount(node int, since clock.Instant, cause error) {
	vouched, left, list := h.Claim.Discount(node, since)
	if !vouched || left >= list.Quorum(len(h.keeper.nodes)) {
		return
	}
	h.endFor(Lost, h.keeper.Door.Doubted(left, cause), nil)
}

// extended draws the conclusions of an extension for this hold, the i-th in it.
func (h *Hold) extended(e *node.Extension, i int, ttl time.Duration) error {
	door, verdict := h.keeper.Door, e.Verdict(i)
	if verdict == quorum.Won {
		if err := h.confirm(e, ttl); err != nil {
			return err
		}
		h.doubt(e.Start)
		cause := h.err()
		if cause != nil {
			return cause
		}
		err := door.Extended(h, e.Start, h.Remaining(h.keeper.clock.Early()), e.Renewal, nil)
		if h.missed(e.Start) {
			h.hasten()
		}
		return err
	}
	if cause := h.err(); cause != nil { // our own release, perhaps, was there first
		return door.NotHeld(h, cause)
	}
	said := &Refusal{}
	said.Votes, said.Causes = e.Result(i)
	if verdict == quorum.Lost {
		failure := door.Gone(h, said)
		h.endFor(Lost, failure, nil)
		return failure
	}
	err := door.Extended(h, e.Start, h.Remaining(h.keeper.clock.Early()), e.Renewal, said)
	if errors.Is(err, fault.ErrMisconfigured) {
		h.mu.Lock()
		h.refused = err
		h.mu.Unlock()
	}
	return err
}

// confirm takes in a lease that a quorum confirmed. A lapse is final. A fixed lease that
// the Locker itself confirmed stays as long as it was.
func (h *Hold) confirm(e *node.Extension, ttl time.Duration) error {
	k, now := h.keeper, h.keeper.clock.Now()
	h.mu.Lock()
	if h.cause != nil {
		defer h.mu.Unlock()
		return k.Door.NotHeld(h, h.cause)
	}
	valid, ok := h.valid.Confirm(clock.ValidFrom(e.Start, ttl, k.Acquirer.Drift), now)
	if ok && (!h.Fixed || !e.Renewal) {
		h.valid, h.ttl = valid, ttl
	}
	h.renewAt, h.refused = h.renewalLocked(e.Start), nil
	h.mu.Unlock()
	if !ok {
		h.end(Lapsed)
		return k.Door.NotHeld(h, k.Causes[Lapsed])
	}
	return nil
}

// takeTurn waits until no extension or renewal of this hold is under way, or it has ended,
// which ended tells with the cause.
func (h *Hold) takeTurn(ctx context.Context) (ended bool, err error) {
	for {
		h.mu.Lock()
		busy := h.turn
		if busy == nil {
			h.turn = make(chan struct{})
			h.mu.Unlock()
			return false, nil
		}
		h.mu.Unlock()
		select {
		case <-busy:
		case <-h.Context().Done():
			return true, h.err()
		case <-ctx.Done():
			return false, fault.OfContext(ctx)
		}
	}
}

// passTurn ends the turn, and sets the date of what comes next.
func (h *Hold) passTurn() {
	h.mu.Lock()
	close(h.turn)
	h.turn = nil
	h.mu.Unlock()
	h.keeper.reschedule(h)
}

// Leave ends the hold, and sends its release, which the caller confirms where confirmed
// says so. It returns false if the hold had already ended.
func (h *Hold) Leave(why End, confirmed bool) (r Release, left bool) {
	if !confirmed {
		return r, h.end(why)
	}
	k := h.keeper
	w := k.Acquirer.Sleepers.Get()
	r = Release{h, round.New(h.Claim, len(k.nodes), k.clock.Early(), w)}
	if !h.endFor(why, k.Causes[why], r.round) {
		k.Acquirer.Sleepers.Put(w)
		return Release{}, false
	}
	return r, true
}

// Release is the release of a hold, which waits for its confirmation. The zero one is none.
type Release struct {
	hold  *Hold
	round *round.Round
}

// Sent tells whether there is one to confirm.
func (r Release) Sent() bool { return r.hold != nil }

// Confirm waits for a quorum, for two node timeouts at most, less what was spent before.
func (r Release) Confirm(spent time.Duration) error {
	return r.ConfirmWithin(max(r.hold.bound()-spent, 0))
}

// ConfirmWithin waits for a quorum.
func (r Release) ConfirmWithin(bound time.Duration) error {
	k, w := r.hold.keeper, r.round.Caller
	defer k.Acquirer.Sleepers.Put(w)
	s, _ := r.round.Await(context.Background(), k.clock, bound, round.ReleaseStage, nil)
	node.CloseRound(k.nodes, r.round, s == round.Finished)
	took := k.clock.Early().Sub(r.round.Start)
	if s == round.Finished {
		return k.Door.Released(r.hold, took, nil)
	}
	return k.Door.Released(r.hold, took, &Refusal{r.round.Votes, r.round.Causes})
}

// end ends the hold, and tells whether it had not ended before.
func (h *Hold) end(why End) bool { return h.endFor(why, h.keeper.Causes[why], nil) }

// endFor ends the hold for cause, once: its release is on the way (to r, if any) and
// the name is free before anybody can see that it ended. It is told before the name
// is free: the next holder's event must not come first.
func (h *Hold) endFor(why End, cause error, r *round.Round) bool {
	k := h.keeper
	now := k.clock.Early()
	h.mu.Lock()
	if h.cause != nil {
		h.mu.Unlock()
		return false
	}
	if why == Lapsed && h.refused != nil {
		cause = fmt.Errorf("%w; %w", cause, fault.Within(h.refused))
	}
	h.cause = cause
	k.Door.Ended(h, cause, now.Sub(h.Since), h.valid.Remaining(now))
	k.remove(h)
	h.unregister()
	k.Acquirer.Releases.HandOn(h.Claim, h.asked, why == Released || why == MaxHeld, r)
	cancel, set := h.cancel, h.set
	h.mu.Unlock()
	if set != nil {
		go func() { _ = set.Err() }()
	}
	if cancel != nil {
		cancel(cause)
	}
	return true
}

// unregister ends the requests to give the lock up.
func (h *Hold) unregister() {
	if h.Revoked != nil {
		h.keeper.Requests.end(h.Claim.Owner)
	}
}

// lease is the TTL of the next renewal. A fixed lease is confirmed for what is left of it.
func (h *Hold) lease(now clock.Instant) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.Fixed {
		return h.valid.Lease(now, h.keeper.Acquirer.Drift)
	}
	return h.ttl
}

// nextDue is the next date of a hold: its renewal, unless one is under way, and at the
// latest the end of its validity or of its longest hold.
func (h *Hold) nextDue() clock.Instant {
	h.mu.Lock()
	defer h.mu.Unlock()
	due := h.valid.Until
	if h.maxUntil != 0 {
		due = min(due, h.maxUntil)
	}
	if h.turn == nil {
		due = min(due, h.renewAt)
	}
	return due
}

// holds tells whether the hold is valid, and whether it was held for its maximum.
func (h *Hold) holds(now clock.Instant) (valid, overheld bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.valid.Holds(now), h.overheldLocked(now)
}

// beginRenewal takes the turn if a renewal is due and no extension is under way.
func (h *Hold) beginRenewal(now clock.Instant) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.turn != nil || h.cause != nil || now < h.renewAt {
		return false
	}
	h.turn = make(chan struct{})
	return true
}

// hasten confirms the hold soon, if that is sooner than it would be renewed.
func (h *Hold) hasten() {
	at := confirmationAfter(h.keeper.clock.Early(), h.keeper.Acquirer.Share(h.Claim.Key))
	h.mu.Lock()
	h.renewAt = min(h.renewAt, at)
	h.mu.Unlock()
	h.keeper.reschedule(h)
}

// mostHastened bounds how often a lock is confirmed soon, to go over to another list. If a node that the
// list adds takes no lock, its renewals try it again.
const mostHastened = 4

// missed reports whether a node has voted again since t and does not vouch for the hold, or its list
// has not confirmed it: the round that was sent at about t came too early for it.
func (h *Hold) missed(t clock.Instant) bool {
	if h.Claim.List() != h.keeper.list() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.tries++
		return h.tries <= mostHastened
	}
	for i, n := range h.keeper.nodes {
		if clock.Instant(n.Returned.Load()) > t && !h.Claim.VouchedBy(i) {
			return true
		}
	}
	return false
}

// retryRenewal sets the next try: soon, but often enough before the end.
func (h *Hold) retryRenewal() {
	now := h.keeper.clock.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	pause := min(retryRenewal, h.valid.Remaining(now)/4)
	h.renewAt = now.Add(max(pause, time.Millisecond))
}
