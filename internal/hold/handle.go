package hold

import (
	"context"
	"sync"

	"github.com/quorumkit/redlock/internal/clock"
)

// Reentrant is a hold that several handles stand on.
type Reentrant struct {
	Hold *Hold

	mu   sync.Mutex // guards open, and the cause of every handle that was released before the last
	open int        // handles that were not released; 0: for good
}

// chainKey is where a context has its chain of holds.
type chainKey struct{}

// chain is the holds that a context carries: the innermost, and those around it.
type chain struct {
	hold  *Reentrant
	outer *chain
}

// Within returns the hold of key that ctx carries, of those that this keeper has; nil if
// none. The innermost decides: one hold of a name follows another.
func (k *Keeper) Within(ctx context.Context, key string) *Reentrant {
	link, _ := ctx.Value(chainKey{}).(*chain)
	for ; link != nil; link = link.outer {
		if on := link.hold; on.Hold.keeper == k && on.Hold.Claim.Key == key {
			return on
		}
	}
	return nil
}

// NewHandle makes the first handle on a hold.
func NewHandle(ctx context.Context, h *Hold) *Handle {
	return &Handle{on: &Reentrant{Hold: h, open: 1}, values: ctx}
}

// Open tells whether any handle stands on the hold.
func (r *Reentrant) Open() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.open > 0
}

// Enter makes one more handle; nil, if none stands on the hold any more.
func (r *Reentrant) Enter(ctx context.Context) *Handle {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open == 0 {
		return nil
	}
	r.open++
	r.Hold.keeper.Door.Entered(ctx, r.Hold)
	return &Handle{on: r, values: ctx}
}

// Handle is one of several on a hold. The last that leaves ends the hold.
type Handle struct {
	on     *Reentrant
	values context.Context //nolint:containedctx // Context keeps the values of its own acquisition
	detach func() bool     // from its set; of Attach's caller

	mu     sync.Mutex      // guards the fields below
	cause  error           // why it ended before the hold; nil: it has not
	ctx    context.Context //nolint:containedctx // what Context returns, made when it is first asked for
	cancel context.CancelCauseFunc
}

// Err returns nil while the lock is held, and then why it ended: the handle was released,
// or the hold has ended.
func (a *Handle) Err(now clock.Instant) error {
	a.mu.Lock()
	cause := a.cause
	a.mu.Unlock()
	if cause != nil {
		return cause
	}
	return a.on.Hold.Err(now)
}

// Carry puts the token into a context, and the hold.
func (a *Handle) Carry(ctx context.Context) context.Context {
	ctx = a.on.Hold.Carry(ctx)
	outer, _ := ctx.Value(chainKey{}).(*chain)
	return context.WithValue(ctx, chainKey{}, &chain{hold: a.on, outer: outer})
}

// Context carries the values of the handle's own acquisition, and ends with the handle or
// with the hold.
func (a *Handle) Context() context.Context {
	hold := a.on.Hold.Context()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ctx != nil {
		return a.ctx
	}
	ctx, cancel := context.WithCancelCause(a.Carry(context.WithoutCancel(a.values)))
	stop := context.AfterFunc(hold, func() { cancel(context.Cause(hold)) })
	// A long hold must not remember each handle that came and went.
	a.ctx, a.cancel = ctx, func(cause error) { stop(); cancel(cause) }
	switch {
	case a.cause != nil:
		a.cancel(a.cause)
	case hold.Err() != nil:
		a.cancel(context.Cause(hold))
	}
	return a.ctx
}

// Attach ends the set when the handle, or the hold, ends.
func (a *Handle) Attach(s Set) { a.detach = context.AfterFunc(a.Context(), func() { _ = s.Err() }) }

// Detach lets them end without their set.
func (a *Handle) Detach() { a.detach() }

// Leave lets go of the handle; the last one ends the hold. A handle that is not the last
// has a cause of its own from then on. The last one's is the hold's: who sees that it has
// ended must find the name free. It returns false if the handle or the hold had ended.
func (a *Handle) Leave(why End, confirmed bool) (r Release, left bool) {
	last, left := a.part()
	if last {
		r, left = a.on.Hold.Leave(why, confirmed)
		a.settle()
	}
	return r, left
}

// settle ends the context of a handle whose hold has ended, for a caller who need
// not wait until the context hears of it by itself.
func (a *Handle) settle() {
	cause := a.on.Hold.err()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.cancel != nil {
		a.cancel(cause)
	}
}

// part takes a handle off the hold: last, if no other stands on it; first, if it
// had not left before.
func (a *Handle) part() (last, first bool) {
	r := a.on
	r.mu.Lock()
	defer r.mu.Unlock()
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.cause != nil:
		return false, false
	case r.open <= 1:
		r.open = 0
		return true, true
	}
	r.open--
	a.cause = r.Hold.keeper.Causes[Released]
	if a.cancel != nil {
		a.cancel(a.cause)
	}
	return false, true
}
