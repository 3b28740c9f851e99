package redlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorumkit/redlock/internal/acquire"
	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/fault"
	"github.com/quorumkit/redlock/internal/hold"
)

// Lock is one hold of one resource. It ends once, for one cause: its validity
// ended or the nodes lost it (ErrLost), it was released (ErrReleased), it was
// held for its maximum (ErrMaxHold), or its Locker was closed (ErrClosed). It is
// safe for use by many goroutines at once.
type Lock struct {
	locker *core
	hold   *hold.Hold // what it stands on
	grip   grip
}

// grip is what a Lock has of its hold: all of it (*hold.Hold), or one handle of several
// (*hold.Handle).
type grip interface {
	Err(now clock.Instant) error
	Context() context.Context
	Carry(ctx context.Context) context.Context
	Attach(s hold.Set)
	Detach()
	Leave(why hold.End, confirmed bool) (r hold.Release, left bool)
}

// hold makes a lock of what a quorum granted.
func (l *core) hold(ctx context.Context, resource string, g acquire.Success, t *terms) (*Lock, error) {
	defer l.acquirer.Settled()
	one := &struct { // a Lock and its hold, in one piece of memory
		lock Lock
		hold hold.Hold
	}{}
	of := hold.Terms{
		Resource: resource, Began: t.call.began, TTL: t.ttl, MaxHold: t.maxHold,
		Fixed: t.fixed, Barging: t.barging, Leads: t.leads, Revocable: t.revocable,
	}
	if !l.keeper.Begin(ctx, &one.hold, &of, &g) {
		t.call.failed++
		err := fault.Errorf("redlock: acquire %s: %w", fault.Printable(resource), ErrClosed)
		l.tellAttempt(ctx, resource, g.Start, g.Claim.Rounds, err)
		return nil, err
	}
	one.lock = Lock{locker: l, hold: &one.hold, grip: &one.hold}
	if t.reentry {
		one.lock.grip = hold.NewHandle(ctx, &one.hold)
	}
	return &one.lock, nil
}

// errOutside: the context carries no hold that could be entered.
var errOutside = errors.New("not inside a hold")

// reenter returns a handle on the hold of key that ctx carries; errOutside if
// there is none that could be entered; or why it has ended, or can't be entered.
func (l *core) reenter(ctx context.Context, key string, shared bool) (*Lock, error) {
	on := l.keeper.Within(ctx, key)
	if on == nil {
		return nil, errOutside
	}
	resource := on.Hold.Resource
	if cause := on.Hold.Err(l.clock.Now()); cause != nil && !errors.Is(cause, ErrReleased) {
		return nil, ended("acquire", resource, cause)
	}
	if on.Hold.Claim.Shared() && !shared && on.Open() {
		return nil, fault.Errorf("redlock: acquire %s: %w: this context is inside a shared hold of the name: release that first, acquire, and read again what it guards",
			fault.Printable(resource), ErrUpgrade)
	}
	handle := on.Enter(ctx)
	if handle == nil {
		return nil, errOutside
	}
	return &Lock{locker: l, hold: on.Hold, grip: handle}, nil
}

// Resource returns the name that was locked, without the prefix.
func (l *Lock) Resource() string { return l.hold.Resource }

// Token returns the fencing token: greater than every token issued before for
// this resource. It does not change while the lock is held.
func (l *Lock) Token() Token { return Token(l.hold.Claim.Token) } //nolint:gosec // positive

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
	return l.hold.Remaining(l.locker.clock.Now())
}

// Err returns nil while the lock is held, and the cause of its end afterwards
// (ErrLost, ErrReleased, ErrMaxHold or ErrClosed, for errors.Is). It consults the
// clock, and may therefore be set before Done closes.
func (l *Lock) Err() error {
	return l.grip.Err(l.locker.clock.Now())
}

// Context returns a context that is done when the lock is no longer held, with
// the cause of its end as context.Cause. It carries the values of the context
// that Acquire was given, and the fencing token; it is not cancelled with it.
// The local deadline behind it counts from the sending of the command that
// granted or renewed the lock. So it ends before any node can give the name away,
// with any delays and losses of the network, as long as the process is scheduled
// and clock rates differ by less than the drift factor.
func (l *Lock) Context() context.Context { return l.grip.Context() }

// carry puts the token into a context, and the hold if several handles stand on it.
func (l *Lock) carry(ctx context.Context) context.Context { return l.grip.Carry(ctx) }

// work counts the functions that run under the lock.
func (l *Lock) work(by int32) { l.hold.Working.Add(by) }

// Done is Context().Done(): it closes when the lock is no longer held, and after
// a suspend of the machine within a second of its end. Err may know before.
func (l *Lock) Done() <-chan struct{} { return l.Context().Done() }

// Extend confirms the lock with a quorum and lengthens its lease to ttl from
// now; renewals use ttl from then on. It blocks for at most two node timeouts, and
// as long as another extension of this lock is under way.
//
// It returns ErrInvalidTTL if ttl is not positive, above WithMaxTTL, too short for
// the node timeout or below what remains; ErrNotHeld joined with the cause if the
// lock has ended. When nodes that answered "not ours" leave no quorum possible,
// the lock ends at once and the *QuorumError is ErrLost. After any other failure,
// a *QuorumError with ErrNoQuorum or ctx's cause, the old validity stands. Under a ctx
// that is done it sends nothing.
func (l *Lock) Extend(ctx context.Context, ttl time.Duration) error {
	return l.locker.extend(ctx, l.hold.Resource, l.Err, []*hold.Hold{l.hold}, ttl)
}

// extend lengthens the leases of holds, which are all that a lock or a set has; held tells
// whether it is still held.
func (l *core) extend(ctx context.Context, label string, held func() error, holds []*hold.Hold, ttl time.Duration) error {
	refused := func(err error) error { return fault.Errorf("redlock: extend %s: %w", fault.Printable(label), err) }
	t := terms{ttl: ttl}
	if err := t.validate(&l.cfg); err != nil {
		return refused(err)
	}
	if cause := held(); cause != nil {
		return ended("extend", label, cause)
	}
	if err := fault.OfContext(ctx); err != nil {
		return refused(err)
	}
	switch over, err := hold.TakeTurns(ctx, holds); {
	case over:
		return ended("extend", label, err)
	case err != nil:
		return refused(err)
	}
	cause, left := held(), l.keeper.Longest(holds)
	switch {
	case cause != nil:
		hold.PassTurns(holds)
		return ended("extend", label, cause)
	case ttl < left:
		hold.PassTurns(holds)
		return refused(fmt.Errorf("%w: %v is less than the %v that remain", ErrInvalidTTL, ttl, left))
	}
	err := l.keeper.Extend(ctx, holds, ttl)
	if err != nil && ctx.Err() != nil && errors.Is(err, ErrNoQuorum) {
		err = errors.Join(fault.OfContext(ctx), err)
	}
	return err
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
	if cause := l.Err(); cause != nil { // a lapse comes first
		return ended("release", l.hold.Resource, cause)
	}
	r, left := l.grip.Leave(hold.Released, true)
	switch {
	case !left:
		return ended("release", l.hold.Resource, l.Err())
	case r.Sent():
		return r.Confirm(0)
	}
	return nil
}
