package redlock

import (
	"context"
	"errors"

	"github.com/quorumkit/redlock/internal/fault"
)

// WithReentry lets a hold be entered again. An acquire under a context that
// carries a hold of the same name, taken through the same Locker, returns at once
// with a handle of its own on that hold, whose token it has, and sends nothing. A
// context carries a hold if it comes from the lock's Context, or from what Do gave
// to its function. Both acquisitions must be made with this option: a hold made
// without it is never shared, and an acquire without it waits, for itself too.
//
// Each handle is released once. Its Context ends then, and the hold goes on; the
// release of the last one, in any order, ends the hold and is the only one
// that is sent. A loss, the end of WithMaxHold and Close end all of them. TTL,
// renewal and WithMaxHold are the hold's, those of its first acquire; Extend is
// for all.
//
// An acquire under a context whose hold was lost, or held for its maximum, is
// ErrNotHeld joined with that cause, also where the context itself goes on
// (context.WithoutCancel). A fresh hold would let the inner part go on in the
// middle of an outer one that is broken. After the last release it is an acquire
// like any other.
//
// Goroutines that share the context are not excluded from one another: all that are
// given it stand inside the hold. Redisson's lock belongs to a thread instead: it
// excludes the threads that its holder starts, can't be handed to them, and asks
// the server on each entry. Goroutines have no identity to which a lock could
// belong, and work goes from one to another; so what is written down, the context,
// decides here.
func WithReentry() LockOption { return lockOption(func(t *terms) { t.reentry = true }) }

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
