package adapters

import (
	"context"
	"fmt"

	"github.com/quorumkit/redlock"
)

// Gocron is a Locker of gocron v2: of several schedulers that have a job, the one
// that gets the lock runs it, and the others leave this run out. L is gocron.Lock:
//
//	locks, err := adapters.NewGocron[gocron.Lock](locker, adapters.WithHoldAtLeast(30*time.Second))
//	scheduler, err := gocron.NewScheduler(gocron.WithDistributedLocker(locks))
//
// The key is the job's name: give each job one (gocron.WithName), for without it
// the key is that of the Go function. Give [WithHoldAtLeast] for every job that may end
// within seconds: else a scheduler that asks some milliseconds later runs it again. It
// has no default, for a job of gocron may have any period, and a lock that is still kept
// would leave its next run out.
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
