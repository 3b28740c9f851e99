package redlock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/quorumkit/redlock/internal/acquire"
	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/fault"
	"github.com/quorumkit/redlock/internal/grant"
	"github.com/quorumkit/redlock/internal/node"
	"github.com/quorumkit/redlock/internal/quorum"
	"github.com/quorumkit/redlock/internal/round"
	"github.com/quorumkit/redlock/internal/tokenctx"
)

// Lock is one hold of one resource. It ends once, for one cause: its validity
// ended or the nodes lost it (ErrLost), it was released (ErrReleased), it was
// held for its maximum (ErrMaxHold), or its Locker was closed (ErrClosed). It is
// safe for use by many goroutines at once.
type Lock struct {
	locker   *core
	resource string
	claim    *round.Claim
	values   context.Context //nolint:containedctx // Context keeps the acquisition's values, never its cancellation
	since    clock.Instant   // when it was known to be held
	fixed    bool            // its lease is not lengthened by renewals
	leads    bool            // observers are told its token
	revoked  chan struct{}   // closed once it was asked for; nil: it can't be

	mu       sync.Mutex // guards the fields below
	ttl      time.Duration
	asked    time.Duration // the longest lease that a node may keep: one that was asked for may have come, and none is lowered
	valid    clock.Validity
	renewAt  clock.Instant   // when it is next confirmed
	maxUntil clock.Instant   // of WithMaxHold; 0: no bound
	cause    error           // why it ended; nil: it has not
	ctx      context.Context //nolint:containedctx // what Context returns, made when it is first asked for
	cancel   context.CancelCauseFunc
	turn     chan struct{} // an extension or renewal is under way until it closes; nil if none
	set      ends          // the MultiLock that ends with it; nil if it is in none

	due   clock.Instant // guarded by the scheduler's mu
	place int           // in the scheduler's heap, guarded by its mu; -1: not in it

	shared *sharedHold // this is one of the handles on that hold, and the rest of it decides nothing; nil: it is a hold of its own
}

// hold makes a lock of what a quorum granted.
func (l *core) hold(ctx context.Context, resource string, g acquire.Grant, t *terms) (*Lock, error) {
	defer l.acquirer.Settled()
	start := g.Start
	lock := &Lock{
		locker: l, resource: resource, claim: g.Claim, values: ctx, fixed: t.fixed,
		since: l.clock.Early(), ttl: t.ttl, asked: t.ttl, valid: g.Valid, place: -1,
	}
	if t.maxHold > 0 {
		lock.maxUntil = g.Asked.Add(t.maxHold)
	}
	lock.leads = t.leads
	lock.renewAt = lock.renewal(start)
	if g.Short { // most are released before
		lock.renewAt = min(lock.renewAt, lock.since.Add(grant.ExtendAfter))
	}
	if !g.Claim.Shared() {
		l.queue.CountHold(g.Claim.Key, t.barging && t.call.turn != TurnHandedOver, t.leads)
	}
	if t.revocable {
		lock.revoked = l.revocable.begin(g.Claim.Owner)
		l.presence.Listen()
	}
	if !l.scheduler.add(lock, lock.begun(t, g.Asked)) {
		lock.unregister()
		l.acquirer.Releases.GiveBack(g.Claim, t.ttl)
		t.call.failed++
		err := fault.Errorf("redlock: acquire %s: %w", fault.Printable(resource), ErrClosed)
		l.tellAttempt(ctx, resource, start, g.Claim.Rounds, err)
		return nil, err
	}
	lock.doubt(start)
	if t.call.turn == TurnHandedOver { // its predecessor may still have been due
		start = start.Add(-node.ConfirmSpread)
	}
	if lock.missed(start) {
		lock.hasten()
	}
	if t.reentry {
		return lock.share(ctx), nil
	}
	return lock, nil
}

// renewal is when a lock whose lease was sent at start is renewed; mu is held, or
// nobody else has the lock.
func (l *Lock) renewal(start clock.Instant) clock.Instant {
	if l.fixed {
		return clock.Never
	}
	return renewalAfter(start, l.ttl, l.locker.share(l.claim.Key))
}

// doubt takes the nodes that were found to have stepped or forgotten since start out
// of what the lock stands on, which may end it.
func (l *Lock) doubt(start clock.Instant) {
	for i, n := range l.locker.nodes {
		if why := n.DoubtedSince(start); why != nil {
			l.discount(i, 0, why)
		}
	}
}

// distrust takes a node out of what every held lock stands on that it vouched for in
// a round since then.
func (l *core) distrust(node int, since clock.Instant, cause error) {
	for _, lock := range l.scheduler.held() {
		lock.discount(node, since, cause)
	}
}

// discount takes one node out of what the lock stands on, if that is a round since
// then, and ends the lock where that leaves no quorum.
func (l *Lock) discount(node int, since clock.Instant, cause error) {
	vouched, left := l.claim.Discount(node, since)
	if !vouched || left >= l.locker.quorum {
		return
	}
	l.end(fmt.Errorf("%w: %d nodes are left that vouch for it, quorum %d: %w", ErrLost, left, l.locker.quorum, cause), nil)
}

// Resource returns the name that was locked, without the prefix.
func (l *Lock) Resource() string { return l.resource }

// Token returns the fencing token: greater than every token issued before for
// this resource. It does not change while the lock is held.
func (l *Lock) Token() Token { return Token(l.claim.Token) } //nolint:gosec // positive

// Remaining returns how long the lock may still be trusted, as of now: 0 when it
// is not held. It consults the clock, so it is right at the first call after a
// pause too. It promises nothing about the next instruction: that gap is what
// the fencing token is for.
//
// A lock that a release granted ([TurnGranted]) has between two and three seconds at
// first. After 20 ms it is lengthened to its TTL: to plan by what remains, call
// [Lock.Extend] before.
func (l *Lock) Remaining() time.Duration {
	if l.Err() != nil {
		return 0
	}
	if l.shared != nil {
		return l.shared.lock.Remaining()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.valid.Remaining(l.locker.clock.Now())
}

// ValidUntil returns when the validity ends, on the wall clock: for logs, never
// for a decision. It is the zero time when the lock is not held.
func (l *Lock) ValidUntil() time.Time {
	left := l.Remaining()
	if left == 0 {
		return time.Time{}
	}
	return l.locker.clock.Wall().Add(left)
}

// Err returns nil while the lock is held, and the cause of its end afterwards
// (ErrLost, ErrReleased, ErrMaxHold or ErrClosed, for errors.Is). It consults the
// clock, and may therefore be set before Done closes.
func (l *Lock) Err() error {
	return l.errAt(l.locker.clock.Now())
}

// errAt is Err, as of now.
func (l *Lock) errAt(now clock.Instant) error {
	if l.shared != nil {
		return l.shared.err(l)
	}
	l.mu.Lock()
	cause, lapsed, overheld := l.cause, !l.valid.Holds(now), l.overheld(now)
	l.mu.Unlock()
	switch {
	case cause != nil:
		return cause
	case lapsed:
		l.end(errLapsed, nil)
	case overheld:
		l.end(ErrMaxHold, nil)
	default:
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cause
}

// overheld tells whether the lock was held for its maximum; mu is held.
func (l *Lock) overheld(now clock.Instant) bool { return l.maxUntil != 0 && now >= l.maxUntil }

var errLapsed = fmt.Errorf("%w: its validity ended", ErrLost)

// Context returns a context that is done when the lock is no longer held, with
// the cause of its end as context.Cause. It carries the values of the context
// that Acquire was given, and the fencing token; it is not cancelled with it.
// The local deadline behind it counts from the sending of the command that
// granted or renewed the lock. So it ends before any node can give the name away,
// with any delays and losses of the network, as long as the process is scheduled
// and clock rates differ by less than the drift factor.
func (l *Lock) Context() context.Context {
	if l.shared != nil {
		return l.shared.context(l)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx == nil {
		l.ctx, l.cancel = context.WithCancelCause(l.carry(context.WithoutCancel(l.values)))
		if l.cause != nil {
			l.cancel(l.cause)
		}
	}
	return l.ctx
}

// carry puts the token into a context, and the hold if it is shared. A slot's token is not
// under the name alone, where a guard would compare it with those of other slots.
func (l *Lock) carry(ctx context.Context) context.Context {
	switch l.claim.Kind().(type) {
	case *round.Slot:
		ctx = tokenctx.With(ctx, fmt.Sprintf("%s/%d", l.resource, l.Slot()), uint64(l.Token()))
	case round.Shared:
		ctx = tokenctx.WithShared(ctx, l.resource, uint64(l.Token()))
	default:
		ctx = tokenctx.With(ctx, l.resource, uint64(l.Token()))
	}
	if l.shared != nil {
		ctx = l.shared.carry(ctx)
	}
	return ctx
}

// Done is Context().Done(): it closes when the lock is no longer held, and after
// a suspend of the machine within a second of its end. Err may know before.
func (l *Lock) Done() <-chan struct{} { return l.Context().Done() }

// bound is how long the lock's calls wait for a node.
func (l *Lock) bound() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.locker.cfg.bound(l.ttl)
}

// Extend confirms the lock with a quorum and lengthens its lease to ttl from
// now; renewals use ttl from then on. It blocks for at most one node timeout, and
// as long as another extension of this lock is under way.
//
// It returns ErrInvalidTTL if ttl is not positive, above MaxTTL, too short for
// the node timeout or below what remains; ErrNotHeld joined with the cause if the
// lock has ended. When nodes that answered "not ours" leave no quorum possible,
// the lock ends at once and the *QuorumError is ErrLost. After any other failure,
// a *QuorumError with ErrNoQuorum or ctx's cause, the old validity stands. Under a ctx
// that is done it sends nothing.
func (l *Lock) Extend(ctx context.Context, ttl time.Duration) error {
	t := terms{ttl: ttl}
	if err := t.validate(&l.locker.cfg); err != nil {
		return fault.Errorf("redlock: extend %s: %w", fault.Printable(l.resource), err)
	}
	if cause := l.Err(); cause != nil {
		return ended("extend", l.resource, cause)
	}
	if err := fault.OfContext(ctx); err != nil {
		return fault.Errorf("redlock: extend %s: %w", fault.Printable(l.resource), err)
	}
	if l.shared != nil {
		return l.shared.lock.Extend(ctx, ttl)
	}
	if err := l.takeTurn(ctx); err != nil {
		return fault.Errorf("redlock: extend %s: %w", fault.Printable(l.resource), err)
	}
	defer l.passTurn()
	if cause := l.Err(); cause != nil {
		return ended("extend", l.resource, cause)
	}
	if left := l.Remaining(); ttl < left {
		return fault.Errorf("redlock: extend %s: %w: %v is less than the %v that remain", fault.Printable(l.resource), ErrInvalidTTL, ttl, left)
	}
	l.mu.Lock()
	l.asked = max(l.asked, ttl) // also where no reply comes
	l.mu.Unlock()
	e := l.locker.extend([]*Lock{l}, []time.Duration{ttl})
	var err error
	e.Wait(ctx, l.locker.clock, l.bound(), func(int) { err = l.extended(e, 0, ttl) })
	if err != nil && ctx.Err() != nil && errors.Is(err, ErrNoQuorum) {
		err = errors.Join(fault.OfContext(ctx), err)
	}
	return err
}

// extended draws the conclusions of an extension for this lock, the k-th in it.
func (l *Lock) extended(e *node.Extension, k int, ttl time.Duration) error {
	verdict := e.Verdict(k)
	if verdict == quorum.Won {
		if err := l.confirm(e, ttl); err != nil {
			return err
		}
		l.doubt(e.Start)
		cause := l.Err()
		if cause != nil {
			return cause
		}
		l.tellExtension(e, nil)
		if l.leads {
			l.locker.announce(l.values, l)
		}
		if l.missed(e.Start) {
			l.hasten()
		}
		return nil
	}
	if cause := l.Err(); cause != nil { // our own release, perhaps, was there first
		return ended("extend", l.resource, cause)
	}
	if verdict == quorum.Lost {
		failure := l.unconfirmed(e, k, ErrLost)
		l.end(failure, nil)
		return failure
	}
	failure := l.unconfirmed(e, k, ErrNoQuorum)
	l.tellExtension(e, failure)
	return failure
}

// unconfirmed puts into words why an extension did not confirm this lock, the k-th in it.
func (l *Lock) unconfirmed(e *node.Extension, k int, sentinel error) *QuorumError {
	votes, causes := e.Result(k)
	return quorumError("extend", l.resource, sentinel, nil, l.locker.names, votes, causes)
}

// confirm takes in a lease that a quorum confirmed. A lapse is final. A fixed lease
// that the Locker itself confirmed stays as long as it was.
func (l *Lock) confirm(e *node.Extension, ttl time.Duration) error {
	cfg, now := &l.locker.cfg, l.locker.clock.Now()
	l.mu.Lock()
	if l.cause != nil {
		defer l.mu.Unlock()
		return ended("extend", l.resource, l.cause)
	}
	valid, ok := l.valid.Confirm(clock.ValidFrom(e.Start, ttl, cfg.drift), now)
	if ok && (!l.fixed || !e.Renewal) {
		l.valid, l.ttl = valid, ttl
	}
	l.renewAt = l.renewal(e.Start)
	l.mu.Unlock()
	if !ok {
		l.end(errLapsed, nil)
		return ended("extend", l.resource, errLapsed)
	}
	return nil
}

// holdUntil bounds how long a lock is held that has no bound yet.
func (l *Lock) holdUntil(at clock.Instant) {
	hold := l
	if l.shared != nil {
		hold = l.shared.lock
	}
	hold.mu.Lock()
	hold.maxUntil = at
	hold.mu.Unlock()
	hold.locker.scheduler.reschedule(hold)
}

// takeTurn waits until no extension or renewal of this lock is under way, or the
// lock has ended.
func (l *Lock) takeTurn(ctx context.Context) error {
	for {
		l.mu.Lock()
		busy := l.turn
		if busy == nil {
			l.turn = make(chan struct{})
			l.mu.Unlock()
			return nil
		}
		l.mu.Unlock()
		select {
		case <-busy:
		case <-l.Done():
			return fmt.Errorf("%w: %w", ErrNotHeld, l.Err())
		case <-ctx.Done():
			return fault.OfContext(ctx)
		}
	}
}

// passTurn ends the turn, and sets the date of what comes next.
func (l *Lock) passTurn() {
	l.mu.Lock()
	close(l.turn)
	l.turn = nil
	l.mu.Unlock()
	l.locker.scheduler.reschedule(l)
}

// Release ends the hold at once and frees the nodes. It blocks until a quorum
// confirms that the key is gone, for at most two node timeouts; nobody needs to
// repeat it. It runs to that end whether ctx is cancelled or not.
//
// It returns nil when a quorum confirmed, and a *QuorumError with ErrNoQuorum when
// its bound passed. The hold is over all the same then, and the release goes on in
// the background until each node has answered or one lease has passed. If the lock had
// already ended, it returns ErrNotHeld joined with the cause, and touches nothing.
// In each case the name is free for this Locker's next acquire. Where several
// handles stand on one hold (WithReentry), all of this is the last one's; the others
// return nil at once.
func (l *Lock) Release(ctx context.Context) error {
	if l.shared != nil {
		return l.shared.release(ctx, l)
	}
	_ = l.Err() // a lapse comes first
	r := l.letGo(ErrReleased)
	if r == nil {
		return ended("release", l.resource, l.Err())
	}
	return l.confirmRelease(r, 2*l.bound())
}

// letGo ends the hold for cause and sends its release. It returns nil if the
// lock had already ended.
func (l *Lock) letGo(cause error) *round.Round {
	w := l.locker.sleepers.Get()
	r := round.New(l.claim, len(l.locker.nodes), l.locker.clock.Early(), w)
	if !l.end(cause, r) {
		l.locker.sleepers.Put(w)
		return nil
	}
	return r
}

// leave is letGo for a lock of a set: it ends the hold, or the part that this handle has
// in it. It returns the hold whose release was sent, and its round; nil if none was, or it
// is not to be confirmed.
func (l *Lock) leave(cause error, confirmed bool) (*Lock, *round.Round) {
	hold := l
	if l.shared != nil {
		if last, _ := l.shared.leave(l); !last {
			return nil, nil
		}
		defer l.shared.settle(l)
		hold = l.shared.lock
	}
	if !confirmed {
		hold.end(cause, nil)
		return nil, nil
	}
	return hold, hold.letGo(cause)
}

// confirmRelease waits for a quorum to confirm a release.
func (l *Lock) confirmRelease(r *round.Round, bound time.Duration) error {
	w := r.Caller
	defer l.locker.sleepers.Put(w)
	s, _ := r.Await(context.Background(), l.locker.clock, bound, round.ReleaseStage, nil)
	node.CloseRound(l.locker.nodes, r, s == round.Finished)
	took := l.locker.clock.Early().Sub(r.Start)
	if s == round.Finished {
		l.tell(Event{Kind: ReleaseConfirmed, Duration: took})
		return nil
	}
	err := quorumError("release", l.resource, ErrNoQuorum, nil, l.locker.names, r.Votes, r.Causes)
	l.tell(Event{Kind: ReleaseUnconfirmed, Duration: took, Err: err, Reason: ReasonNoQuorum})
	return err
}

// end ends the lock for cause, once: its release is on the way (to r, if any) and
// the name is free before anybody can see that it ended. It is told before the name
// is free: the next holder's event must not come first.
func (l *Lock) end(cause error, r *round.Round) bool {
	now := l.locker.clock.Early()
	l.mu.Lock()
	if l.cause != nil {
		l.mu.Unlock()
		return false
	}
	l.cause = cause
	l.tellEnd(now)
	l.locker.scheduler.remove(l)
	l.unregister()
	l.locker.acquirer.Releases.HandOn(l.claim, l.asked, errors.Is(cause, ErrReleased) || errors.Is(cause, ErrMaxHold), r)
	cancel, set := l.cancel, l.set
	l.mu.Unlock()
	if set != nil {
		go func() { _ = set.Err() }()
	}
	if cancel != nil {
		cancel(cause)
	}
	return true
}

// ends is what ends with a lock: to be asked why makes it look.
type ends interface{ Err() error }

// attach ends the set when the lock ends.
func (l *Lock) attach(set ends) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.set = set; l.cause != nil {
		go func() { _ = set.Err() }()
	}
}

// detach lets the lock end without its set.
func (l *Lock) detach() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.set = nil
}

// unregister ends the requests to give the lock up.
func (l *Lock) unregister() {
	if l.revoked != nil {
		l.locker.revocable.end(l.claim.Owner)
	}
}

// lease is the TTL of the next renewal. A fixed lease is confirmed for what is left
// of it.
func (l *Lock) lease(now clock.Instant) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fixed {
		return l.valid.Lease(now, l.locker.cfg.drift)
	}
	return l.ttl
}
