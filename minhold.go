package redlock

import (
	"context"
	"fmt"
	"time"

	"github.com/quorumkit/redlock/internal/clock"
)

// WithMinHold has Do and DoAll keep the lock for at least d from when it was acquired,
// though fn returns earlier. It is for a short job that several machines begin at the
// same time by clocks that differ: who comes late finds the name taken, and leaves the
// job out. So d is longer than the clocks are apart, and shorter than the job's period.
// ShedLock has it as lockAtLeastFor.
//
// Do does not wait for d: it returns when fn does. The lock is renewed meanwhile, taken
// for this Locker as well, and released in the background when d has passed. It is kept
// with any result of fn, also if it panics or ctx ends, for the job may have been done. It
// is not kept any more when fn releases it, when it is lost, and when the Locker is
// closed: who closes it at the end of a process does so after d. A loss that comes after
// fn has returned is an event, not Do's error.
//
// Where Do enters a hold that ctx carries (WithReentry), that one lasts for at least d
// from then on.
//
// d must be positive, at most WithMaxHold where that is given, and at most what
// WithFixedLease leaves (less what the acquire took, or the lease ends first). Otherwise
// it is ErrInvalidOption. So is the option where Acquire, TryAcquire, AcquireAll,
// TryAcquireAll or Campaign has it: a Release ends a hold at once, and so does a leader
// that resigns.
func WithMinHold(d time.Duration) AcquireOption {
	return acquireOption(func(t *terms) {
		t.minHold = d
		if d == 0 {
			t.minHold = -1 // an explicit zero is refused, not taken for none
		}
	})
}

// checkMinHold checks WithMinHold against the other terms.
func (t *terms) checkMinHold(c *config) error {
	switch lease := t.ttl - clock.Drift(t.ttl, c.drift); {
	case t.minHold < 0:
		return fmt.Errorf("%w: WithMinHold: give a positive duration", ErrInvalidOption)
	case t.maxHold > 0 && t.minHold > t.maxHold:
		return fmt.Errorf("%w: WithMinHold %v is above WithMaxHold %v: take less, or raise WithMaxHold", ErrInvalidOption, t.minHold, t.maxHold)
	case t.fixed && t.minHold > lease:
		return fmt.Errorf("%w: WithMinHold %v is above the %v for which WithFixedLease holds: take less, a longer WithTTL, or a lease that is renewed", ErrInvalidOption, t.minHold, lease)
	}
	return nil
}

// releasedByHand refuses WithMinHold where the caller releases, and not Do.
func (t *terms) releasedByHand() error {
	if t.minHold == 0 {
		return nil
	}
	return fmt.Errorf("%w: WithMinHold is for Do and DoAll: Release ends a hold at once", ErrInvalidOption)
}

// kept is when a hold of now may be released at the earliest; 0: at any time. It is read
// from the later of the two clocks, and compared with the earlier one: d is the least.
func (t *terms) kept(c *clock.Clock) clock.Instant {
	if t.minHold == 0 {
		return 0
	}
	return c.Now().Add(t.minHold)
}

// hold is what Do has: a lock, or a set of them.
type hold interface {
	Err() error
	Done() <-chan struct{}
	Release(ctx context.Context) error
}

// releaseAt releases what Do held: now, or in the background when its time has come.
// Whether that is confirmed is an event.
func (l *Locker) releaseAt(ctx context.Context, h hold, at clock.Instant) {
	left := time.Duration(0)
	if at != 0 {
		left = at.Sub(l.clock.Early())
	}
	if left <= 0 || h.Err() != nil || !l.acquirer.Enter() {
		_ = h.Release(ctx)
		return
	}
	defer l.acquirer.Settled()
	ctx = context.WithoutCancel(ctx)
	l.looks.Go(func() {
		t := l.clock.NewTimer(left)
		defer t.Stop()
		select {
		case <-t.C:
			_ = h.Release(ctx)
		case <-h.Done(): // Close, at the latest
		}
	})
}
