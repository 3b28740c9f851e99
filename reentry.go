package redlock

import (
	"context"
	"errors"
	"sync"

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

// sharedHold is a hold that several handles stand on.
type sharedHold struct {
	lock *Lock // the hold itself, which nobody outside has

	mu   sync.Mutex // guards open, and the cause of every handle that was released before the last
	open int        // handles that were not released; 0: for good
}

// holdChainKey is where a context has its chain of holds.
type holdChainKey struct{}

// holdChain is the holds that a context carries: the innermost, and those around it.
type holdChain struct {
	hold  *sharedHold
	outer *holdChain
}

// share makes the first handle on a hold.
func (l *Lock) share(ctx context.Context) *Lock {
	s := &sharedHold{lock: l, open: 1}
	return s.handle(ctx)
}

// handle is one more Lock that stands on the hold; it is counted already.
func (s *sharedHold) handle(ctx context.Context) *Lock {
	return &Lock{locker: s.lock.locker, resource: s.lock.resource, claim: s.lock.claim, values: ctx, shared: s, place: -1}
}

// reenter returns a handle on the hold of key that ctx carries; errOutside if
// there is none that could be entered; or why it has ended, or can't be entered.
func (l *core) reenter(ctx context.Context, key string, shared bool) (*Lock, error) {
	link, _ := ctx.Value(holdChainKey{}).(*holdChain)
	for ; link != nil; link = link.outer {
		// The innermost decides: one hold of a name follows another.
		if on := link.hold.lock; on.locker == l && on.claim.Key == key {
			return link.hold.enter(ctx, shared)
		}
	}
	return nil, errOutside
}

// enter returns one more handle, unless the hold has ended, or is shared where an
// exclusive one is wanted.
func (s *sharedHold) enter(ctx context.Context, shared bool) (*Lock, error) {
	if cause := s.lock.Err(); cause != nil && !errors.Is(cause, ErrReleased) {
		return nil, ended("acquire", s.lock.resource, cause)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == 0 {
		return nil, errOutside
	}
	if s.lock.claim.Shared() && !shared {
		return nil, fault.Errorf("redlock: acquire %s: %w: this context is inside a shared hold of the name: release that first, acquire, and read again what it guards",
			fault.Printable(s.lock.resource), ErrUpgrade)
	}
	s.open++
	handle := s.handle(ctx)
	handle.tell(Event{Kind: LockReentered})
	return handle, nil
}

// carry puts the hold into a context.
func (s *sharedHold) carry(ctx context.Context) context.Context {
	outer, _ := ctx.Value(holdChainKey{}).(*holdChain)
	return context.WithValue(ctx, holdChainKey{}, &holdChain{hold: s, outer: outer})
}

// err is Err of a handle: it was released, or the hold has ended.
func (s *sharedHold) err(handle *Lock) error {
	handle.mu.Lock()
	cause := handle.cause
	handle.mu.Unlock()
	if cause != nil {
		return cause
	}
	return s.lock.Err()
}

// context is Context of a handle: it has the values of its own acquisition, and
// ends with the handle or with the hold.
func (s *sharedHold) context(handle *Lock) context.Context {
	hold := s.lock.Context()
	handle.mu.Lock()
	defer handle.mu.Unlock()
	if handle.ctx != nil {
		return handle.ctx
	}
	ctx, cancel := context.WithCancelCause(handle.carry(context.WithoutCancel(handle.values)))
	stop := context.AfterFunc(hold, func() { cancel(context.Cause(hold)) })
	// A long hold must not remember each handle that came and went.
	handle.ctx, handle.cancel = ctx, func(cause error) { stop(); cancel(cause) }
	switch {
	case handle.cause != nil:
		handle.cancel(handle.cause)
	case hold.Err() != nil:
		handle.cancel(context.Cause(hold))
	}
	return handle.ctx
}

// release lets go of a handle; the last one ends the hold. A handle that is not
// the last has a cause of its own from then on. The last one's is the hold's: who
// sees that it has ended must find the name free.
func (s *sharedHold) release(ctx context.Context, handle *Lock) error {
	if cause := handle.Err(); cause != nil {
		return ended("release", handle.resource, cause)
	}
	last, first := s.leave(handle)
	switch {
	case last:
		err := s.lock.Release(ctx)
		s.settle(handle)
		return err
	case !first:
		return ended("release", handle.resource, ErrReleased)
	}
	return nil
}

// settle ends the context of a handle whose hold has ended, for a caller who need
// not wait until the context hears of it by itself.
func (s *sharedHold) settle(handle *Lock) {
	cause := s.lock.Err()
	handle.mu.Lock()
	defer handle.mu.Unlock()
	if handle.cancel != nil {
		handle.cancel(cause)
	}
}

// leave takes a handle off the hold: last, if no other stands on it; first, if it
// had not left before.
func (s *sharedHold) leave(handle *Lock) (last, first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	handle.mu.Lock()
	defer handle.mu.Unlock()
	switch {
	case handle.cause != nil:
		return false, false
	case s.open <= 1:
		s.open = 0
		return true, true
	}
	s.open--
	handle.cause = ErrReleased
	if handle.cancel != nil {
		handle.cancel(ErrReleased)
	}
	return false, true
}
