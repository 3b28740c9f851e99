package adapters

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/quorumkit/redlock"
)

// grip is a lock in an adapter's hands.
type grip struct {
	*settings

	lock  *redlock.Lock
	since time.Time
	kept  atomic.Bool // nobody works under it any more: WithHoldAtLeast keeps it
}

// grasp takes care of a lock that was just acquired: a loss is reported. That Close ends
// what is merely kept is none.
func (s *settings) grasp(lock *redlock.Lock) *grip {
	g := &grip{settings: s, lock: lock, since: time.Now()}
	held := lock.Context()
	context.AfterFunc(held, func() {
		cause := context.Cause(held)
		closed := g.kept.Load() && errors.Is(cause, redlock.ErrClosed)
		if !closed && !errors.Is(cause, redlock.ErrReleased) {
			s.report(fmt.Errorf("adapters: lock %q ended while it was held: %w", lock.Resource(), cause))
		}
	})
	return g
}

// release gives the lock back, now or when it was held for long enough. Its error
// is of a lock that had ended before, or of a release that nobody confirmed.
func (g *grip) release() error {
	if g.lock.Err() != nil {
		return fmt.Errorf("adapters: unlock %q: %w", g.lock.Resource(), g.lock.Release(context.Background())) // it touches nothing
	}
	if rest := g.atLeast - time.Since(g.since); rest > 0 {
		g.kept.Store(true)
		time.AfterFunc(rest, func() {
			// A lock that was lost meanwhile is reported already, and nobody worked
			// under it any more.
			if err := g.lock.Release(context.Background()); err != nil && !errors.Is(err, redlock.ErrNotHeld) {
				g.report(err)
			}
		})
		return nil
	}
	return g.lock.Release(context.Background())
}

// try makes one attempt.
func (s *settings) try(ctx context.Context, resource string) (*grip, error) {
	lock, err := s.locker.TryAcquire(ctx, resource, s.acquire...)
	if err != nil {
		return nil, err
	}
	return s.grasp(lock), nil
}
