package adapters

import (
	"context"
	"fmt"
	"sync"

	"github.com/quorumkit/redlock"
)

// Gocron is a Locker of gocron v2: of several schedulers that have a job, the one
// that gets the lock runs it, and the others leave this run out. L is gocron.Lock:
//
//	locks, err := adapters.NewGocron[gocron.Lock](locker)
//	scheduler, err := gocron.NewScheduler(gocron.WithDistributedLocker(locks))
//
// The key is the job's name: give each job one (gocron.WithName), for without it
// the key is that of the Go function. Schedulers whose clocks are apart need
// [WithHoldAtLeast].
type Gocron[L any] struct{ settings *settings }

// NewGocron returns a Locker for gocron. It fails with ErrOption, also if L is
// not an interface with the one method Unlock(context.Context) error.
func NewGocron[L any](locker *redlock.Locker, opts ...Option) (*Gocron[L], error) {
	s, err := newSettings(locker, opts)
	if err != nil {
		return nil, err
	}
	if _, ok := any(unlocker{}).(L); !ok {
		return nil, fmt.Errorf("%w: NewGocron's type parameter must be gocron.Lock", ErrOption)
	}
	return &Gocron[L]{s}, nil
}

// Lock makes one attempt at the lock. Its error is TryAcquire's: the job is not
// run.
func (g *Gocron[L]) Lock(ctx context.Context, key string) (L, error) {
	var none L
	held, err := g.settings.try(ctx, key)
	if err != nil {
		return none, err
	}
	return any(unlocker{held}).(L), nil //nolint:forcetypeassert // NewGocron has tried it
}

// unlocker is a lock as gocron sees it.
type unlocker struct{ held *grip }

// Unlock releases the lock, also if ctx is cancelled, as a scheduler's is that
// shuts down. It returns ErrNotHeld with the cause if the lock was lost during the
// job.
func (u unlocker) Unlock(context.Context) error { return u.held.release() }

// Elector is an Elector of gocron v2: one of several processes is the leader, and
// stays it for as long as it renews its lock. A new leader is found when a
// scheduler asks next.
//
// A leader that pauses may believe for the length of the pause that it is one:
// let what its jobs write to check a fencing token ([Elector.Token]).
type Elector struct {
	settings *settings
	resource string

	mu   sync.Mutex // guards held, and lets one attempt go out at a time
	held *grip
}

// NewElector returns an elector by the lock of that name. It fails with ErrOption.
func NewElector(locker *redlock.Locker, resource string, opts ...Option) (*Elector, error) {
	s, err := newSettings(locker, opts)
	if err != nil {
		return nil, err
	}
	return &Elector{settings: s, resource: resource}, nil
}

// IsLeader returns nil if this process is the leader or has just become it, and
// TryAcquire's error otherwise: ErrNotAcquired if another is. It makes at most one
// attempt.
func (e *Elector) IsLeader(ctx context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.held != nil && e.held.lock.Err() == nil {
		return nil
	}
	held, err := e.settings.try(ctx, e.resource)
	e.held = held
	return err
}

// Token is the fencing token of this leadership, 0 if this process does not lead
// now.
func (e *Elector) Token() redlock.Token {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.held == nil || e.held.lock.Err() != nil {
		return 0
	}
	return e.held.lock.Token()
}

// Resign gives the leadership up, whatever became of ctx; this process may be
// elected again. It returns nil if there was none to give up.
func (e *Elector) Resign(context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	held := e.held
	e.held = nil
	if held == nil || held.lock.Err() != nil {
		return nil
	}
	return held.release()
}
