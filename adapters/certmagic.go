package adapters

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/quorumkit/redlock"
)

// Certmagic is the locking half of a certmagic Storage: its Locker, TryLocker and
// LockLeaseRenewer. A storage takes it by embedding it one level above what has
// Lock and Unlock of its own:
//
//	type files struct{ *certmagic.FileStorage }
//	type storage struct {
//		files
//		*adapters.Certmagic
//	}
//
// Locks are renewed for as long as they are held. It is safe for use by many goroutines
// at once.
//
// A storage unlocks by the name alone. So where a lock was lost, and another goroutine
// here takes the name before the loser has unlocked it, nobody can tell which of them calls.
// The first Unlock is then taken for the loser's in any case, and the second releases:
// no lock is released under a goroutine that works. A loser that never unlocks leaves the
// name locked behind the next.
type Certmagic struct {
	settings *settings

	mu   sync.Mutex         // guards held
	held map[string][]*grip // the locks that were not unlocked yet, lost ones included
}

// NewCertmagic returns the locks of a storage. It fails with ErrInvalidOption, also for
// redlock.WithShared and redlock.WithLimit: a storage wants one holder of a name.
func NewCertmagic(locker *redlock.Locker, opts ...Option) (*Certmagic, error) {
	s, err := newSettings(locker, anyName, opts)
	if err != nil {
		return nil, err
	}
	if err := s.exclusive("NewCertmagic"); err != nil {
		return nil, err
	}
	return &Certmagic{settings: s, held: map[string][]*grip{}}, nil
}

// Lock blocks until it has the lock or ctx is done. Its error is Acquire's.
func (c *Certmagic) Lock(ctx context.Context, name string) error {
	lock, err := c.settings.locker.Acquire(ctx, name, c.settings.acquire...)
	if err != nil {
		return err
	}
	c.keep(name, c.settings.grasp(lock))
	return nil
}

// TryLock makes one attempt, and tells whether it has the lock. That another has
// it is no error; that no quorum answers is.
func (c *Certmagic) TryLock(ctx context.Context, name string) (bool, error) {
	held, err := c.settings.try(ctx, name)
	switch {
	case errors.Is(err, redlock.ErrNotAcquired):
		return false, nil
	case err != nil:
		return false, err
	}
	c.keep(name, held)
	return true, nil
}

func (c *Certmagic) keep(name string, held *grip) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held[name] = append(c.held[name], held)
}

// Unlock releases the lock, no matter what became of ctx, and blocks as redlock.Lock.Release
// does. It returns ErrNotHeld for a
// name that is not locked here or, with the cause, for a lock that was lost.
func (c *Certmagic) Unlock(_ context.Context, name string) error {
	held := c.meant(name, true)
	if held == nil {
		return fmt.Errorf("adapters: unlock %q: %w", name, redlock.ErrNotHeld)
	}
	return held.release()
}

// RenewLockLease returns nil if the lock is still held, and the cause if it was lost. It
// is renewed without being asked; a lease of up to MaxTTL that is longer than what is left
// is asked for all the same, and one that the cluster does not allow is no error.
func (c *Certmagic) RenewLockLease(ctx context.Context, name string, lease time.Duration) error {
	held := c.meant(name, false)
	if held == nil {
		return fmt.Errorf("adapters: renew %q: %w", name, redlock.ErrNotHeld)
	}
	if err := held.lock.Extend(ctx, lease); err != nil && !errors.Is(err, redlock.ErrInvalidTTL) && !errors.Is(err, redlock.ErrMisconfigured) {
		return err
	}
	return held.lock.Err()
}

// meant is the grip that a call for a name is about: one that was lost, if there is one,
// for its owner may be the caller, and must neither release another's lock nor hear that
// it holds. It returns nil if there is none; taken, the grip is the caller's.
func (c *Certmagic) meant(name string, taken bool) *grip {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.held[name]
	if len(all) == 0 {
		return nil
	}
	i := max(slices.IndexFunc(all, func(g *grip) bool { return g.lock.Err() != nil }), 0)
	held := all[i]
	if taken {
		if c.held[name] = slices.Delete(all, i, i+1); len(all) == 1 {
			delete(c.held, name)
		}
	}
	return held
}
