package redlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/quorumkit/redlock/internal/fault"
	"github.com/quorumkit/redlock/internal/hold"
)

// MultiLock is a hold of several names at once (AcquireAll). It ends as a whole, when the
// first of its holds does, for the same causes as a Lock; the others are released then.
// Each name has a fencing token of its own. It is safe for use by many goroutines at once.
type MultiLock struct {
	locker    *core
	resources []string        // in the caller's order
	locks     []*Lock         // in the order of the set
	values    context.Context //nolint:containedctx // Context keeps the acquisition's values, never its cancellation
	revoked   chan struct{}   // closed once one of the locks was asked for; nil if none can be

	mu     sync.Mutex      // guards the fields below
	cause  error           // why it ended; nil: it has not
	ctx    context.Context //nolint:containedctx // what Context returns, made when it is first asked for
	cancel context.CancelCauseFunc
	stops  []func() bool
}

// newMultiLock makes a MultiLock of locks that are held; resources are their names in the
// caller's order.
func newMultiLock(values context.Context, l *core, resources []string, locks []*Lock) *MultiLock {
	m := &MultiLock{locker: l, resources: resources, locks: locks, values: values}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, lock := range m.locks {
		lock.grip.Attach(m)
	}
	m.listenLocked()
	return m
}

// listenLocked makes Revoked close with that of the first of the locks.
func (m *MultiLock) listenLocked() {
	var once sync.Once
	for _, lock := range m.locks {
		if lock.Revoked() == nil {
			continue
		}
		if m.revoked == nil {
			m.revoked = make(chan struct{})
		}
		stop := m.locker.requests.Also(lock.hold.Claim.Owner, m, func() { once.Do(func() { close(m.revoked) }) })
		m.stops = append(m.stops, stop)
	}
}

// carry puts the tokens into a context, and the holds on which several handles stand.
func (m *MultiLock) carry(ctx context.Context) context.Context {
	for _, lock := range m.locks {
		ctx = lock.carry(ctx) //nolint:fatcontext // at most MaxSet of them
	}
	return ctx
}

// work counts the functions that run under the set.
func (m *MultiLock) work(by int32) {
	for _, lock := range m.locks {
		lock.work(by)
	}
}

// setLabel is what messages call a set.
func setLabel(n int) string { return fmt.Sprintf("a set of %d", n) }

// label is what messages call it.
func (m *MultiLock) label() string { return setLabel(len(m.locks)) }

// Resources returns the names that are locked, without the prefix, in the order in which
// they were given.
func (m *MultiLock) Resources() []string { return slices.Clone(m.resources) }

// Token returns the fencing token of one of the names: greater than every token issued
// before for that one. It is 0 for a name that is not in the set.
func (m *MultiLock) Token(resource string) Token {
	for _, lock := range m.locks {
		if lock.hold.Resource == resource {
			return lock.Token()
		}
	}
	return 0
}

// Remaining returns how long all of the locks may still be trusted, as of now: the least
// of what Lock.Remaining says of each. It is 0 when the set is not held.
func (m *MultiLock) Remaining() time.Duration {
	if m.Err() != nil {
		return 0
	}
	least := m.locks[0].Remaining()
	for _, lock := range m.locks[1:] {
		least = min(least, lock.Remaining())
	}
	return least
}

// Err returns nil while all of the locks are held, and the cause of the end afterwards
// (ErrLost, ErrReleased, ErrMaxHold or ErrClosed, for errors.Is). A loss names the lock
// that was lost. Like Lock.Err it consults the clock, and may be set before Done closes.
func (m *MultiLock) Err() error {
	m.mu.Lock()
	cause := m.cause
	m.mu.Unlock()
	if cause != nil {
		return cause
	}
	now := m.locker.clock.Now()
	for _, lock := range m.locks {
		if cause := lock.grip.Err(now); cause != nil {
			m.end(m.lost(lock, cause), false)
			break
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.cause
}

// lost is why the set ended whose lock ended for this cause.
func (m *MultiLock) lost(lock *Lock, cause error) error {
	if !errors.Is(cause, ErrLost) {
		return cause
	}
	return fault.Errorf("redlock: %s in %s: %w", fault.Printable(lock.hold.Resource), m.label(), cause)
}

// Context returns a context that is done when the first of the locks is no longer held,
// with the cause as context.Cause. It carries the values of the context that AcquireAll
// was given, and the fencing token of each name; it is not cancelled with it.
func (m *MultiLock) Context() context.Context {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ctx == nil {
		m.ctx, m.cancel = context.WithCancelCause(m.carry(context.WithoutCancel(m.values)))
		if m.cause != nil {
			m.cancel(m.cause)
		}
	}
	return m.ctx
}

// Done is Context().Done().
func (m *MultiLock) Done() <-chan struct{} { return m.Context().Done() }

// Extend confirms all of the locks with a quorum each and lengthens their leases to ttl
// from now, as Lock.Extend does with one: in one round for all. Its errors are those of
// Lock.Extend, for the first name in the byte order of the keys that was not confirmed;
// the others may be lengthened then. ErrInvalidTTL is returned before anything is sent.
func (m *MultiLock) Extend(ctx context.Context, ttl time.Duration) error {
	holds := make([]*hold.Hold, len(m.locks))
	for i, lock := range m.locks {
		holds[i] = lock.hold
	}
	err := m.locker.extend(ctx, m.label(), m.Err, holds, ttl)
	if cause := m.Err(); cause != nil && err == nil { // of one that was confirmed before
		err = ended("extend", m.label(), cause)
	}
	return err
}

// Release ends all of the holds at once and frees the nodes, as Lock.Release does with
// one. It blocks until a quorum has confirmed each, for at most two node timeouts in all.
//
// It returns nil when all are confirmed; the *QuorumError of the first that is not, with
// ErrNoQuorum; and ErrNotHeld joined with the cause if the set had already ended, and
// then touches nothing. A handle on a hold that was entered (WithReentry) is given back;
// that hold goes on.
func (m *MultiLock) Release(ctx context.Context) error {
	_ = m.Err() // a lapse comes first
	releases, ok := m.end(ErrReleased, true)
	if !ok {
		return ended("release", m.label(), m.Err())
	}
	return m.confirm(releases)
}

// confirm waits for the releases of a set.
func (m *MultiLock) confirm(releases []hold.Release) error {
	var first error
	failed := 0
	began := m.locker.clock.Early()
	for _, r := range releases {
		took := m.locker.clock.Early().Sub(began)
		if err := r.Confirm(took); err != nil {
			failed++
			first = cmp.Or(first, err)
		}
	}
	if failed == 0 {
		return nil
	}
	return fault.Errorf("redlock: release %s: %d not confirmed, the first: %w", m.label(), failed, first)
}

// end ends the set for cause, once: all of its holds have ended before anybody can see
// that it has. With confirmed it returns their releases, for the caller to wait for.
func (m *MultiLock) end(cause error, confirmed bool) (releases []hold.Release, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cause != nil {
		return nil, false
	}
	m.cause = cause
	for _, lock := range m.locks {
		lock.grip.Detach()
	}
	for _, stop := range m.stops {
		stop()
	}
	each := hold.Released
	switch {
	case errors.Is(cause, ErrClosed):
		each = hold.Closed
	case errors.Is(cause, ErrMaxHold):
		each = hold.MaxHeld
	}
	for _, lock := range m.locks {
		if r, _ := lock.grip.Leave(each, confirmed); r.Sent() {
			releases = append(releases, r)
		}
	}
	if m.cancel != nil {
		m.cancel(cause)
	}
	return releases, true
}
