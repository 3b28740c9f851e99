package redlock

import (
	"context"
	"errors"
	"time"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/fault"
	"github.com/quorumkit/redlock/internal/membership"
)

// LowerMaxTTL brings the cluster's MaxTTL down, for example after one client with a
// large one raised it. It writes the new value on every node that answers, waits
// until every lease is over that may have been taken before, which is the old MaxTTL,
// and then drops the old one. Only then do nodes that restart wait the shorter time.
// Locks are held and taken meanwhile as always.
//
// It relies on what every wait relies on, and on nobody's word: clients whose own
// MaxTTL is larger may run. One that votes again raises the cluster's first, and
// LowerMaxTTL returns ErrMisconfigured as soon as it sees that, within 10 seconds.
//
// to is rounded up to milliseconds. ErrInvalidTTL: to is not 10 ms to 24 h, is below
// this Locker's own MaxTTL, which would raise it again, or above what the nodes have
// now; nothing is changed. ErrNoQuorum: no quorum shows the cluster's id; nothing is
// changed. Any other error, and ctx's, names the nodes that still have the old value,
// those that do not answer included. As long as there is one, waits are as long as
// before. Call it again then: it begins its wait anew on those nodes. Where no node
// has more it returns nil at once.
func (c *Cluster) LowerMaxTTL(ctx context.Context, to time.Duration) error {
	return c.lower(ctx, to, false)
}

// LowerMaxTTLNow is LowerMaxTTL without the wait. The caller vouches that nobody
// holds a lock with a lease above to, or is about to get one. If somebody does, and a
// node forgets, a second holder can get the lock.
func (c *Cluster) LowerMaxTTLNow(ctx context.Context, to time.Duration) error {
	return c.lower(ctx, to, true)
}

func (c *Cluster) lower(ctx context.Context, to time.Duration, vouched bool) error {
	l := c.locker
	if err := l.usable(ctx, "lower MaxTTL"); err != nil {
		return err
	}
	own := l.tracker.MaxTTL()
	switch {
	case to < minTTL || to > clock.MaxMaxTTL:
		return fault.Errorf("redlock: lower MaxTTL: %w: %v: give %v to %v", ErrInvalidTTL, to, minTTL, clock.MaxMaxTTL)
	case to < own:
		return fault.Errorf("redlock: lower MaxTTL: %w: %v is below this client's own MaxTTL, %v, to which it would raise the cluster's again: give it that one (WithMaxTTL)",
			ErrInvalidTTL, to, own)
	}
	w := membership.NewLowering(to, vouched, len(l.nodes), l.cfg.chance.Name)
	for {
		pause, left := l.tracker.Lower(ctx, w)
		if err := fault.OfContext(ctx); err != nil {
			return fault.Errorf("redlock: lower MaxTTL: %w", errors.Join(err, left))
		}
		if pause == 0 {
			if left != nil {
				return fault.Errorf("redlock: lower MaxTTL: %w", left)
			}
			return nil
		}
		if err := l.wait(ctx, pause); err != nil {
			return fault.Errorf("redlock: lower MaxTTL: not done: waits are as long as before: %w", errors.Join(err, left))
		}
	}
}
