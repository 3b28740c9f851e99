package clock

import (
	"math"
	"time"
)

// DriftFloor is added to the drift allowance: Redis expires with a resolution of
// one millisecond on either side (the Redis page on distributed locks).
const DriftFloor = 2 * time.Millisecond

// The bounds of what a Locker may be given.
const (
	// MinTTL is the shortest lease.
	MinTTL = 10 * time.Millisecond
	// MaxMaxTTL is the longest lease that any cluster allows.
	MaxMaxTTL = 24 * time.Hour
	// MaxDriftFactor is the largest that a Locker may be given.
	MaxDriftFactor = 0.5
)

// Instant is a reading of the Clock: nanoseconds on a scale that never goes back.
type Instant int64

// Never is the date of what is not due.
const Never = Instant(math.MaxInt64)

// Add is d later than t; Never where the scale ends before.
func (t Instant) Add(d time.Duration) Instant {
	if d > 0 && t > Never-Instant(d) {
		return Never
	}
	return t + Instant(d)
}

// Floor is the last instant of a grid that is not after t.
func (t Instant) Floor(grid time.Duration) Instant { return t - t%Instant(grid) }

// Sub is how much later t is than u.
func (t Instant) Sub(u Instant) time.Duration { return time.Duration(t - u) }

// Drift is what a node's clock may gain on ours while a lease of ttl runs.
func Drift(ttl time.Duration, factor float64) time.Duration {
	return time.Duration(float64(ttl)*factor) + DriftFloor
}

// Validity is the part of a lease that its holder may trust, when the commands
// that set it were sent at start. It counts from the sending: no node can have
// begun its lease earlier.
type Validity struct {
	Until Instant // zero: never valid
}

// ValidFrom is the validity of a lease of ttl whose commands were sent at start.
func ValidFrom(start Instant, ttl time.Duration, factor float64) Validity {
	return Validity{Until: start.Add(ttl - Drift(ttl, factor))}
}

// Lease is the lease, sent now, whose validity lasts no less than what is left of
// v: what a node that lost the lock is given, where v is not to be lengthened.
func (v Validity) Lease(now Instant, factor float64) time.Duration {
	return time.Duration(float64(v.Remaining(now)+DriftFloor) / (1 - factor))
}

// Remaining is what is left of the validity; 0 when it has ended.
func (v Validity) Remaining(now Instant) time.Duration {
	return max(v.Until.Sub(now), 0)
}

// Holds tells whether the validity lasts at now.
func (v Validity) Holds(now Instant) bool { return v.Until > now }

// Confirm is the validity after a quorum confirmed an extension that would give
// next. A lapse is final: a confirmation that is known only after the old
// validity ended counts for nothing, because a late acquire may have revived a
// lock that another took and released in between, with an older token. A shorter
// lease never replaces a longer one, because the nodes never lower theirs.
func (v Validity) Confirm(next Validity, now Instant) (Validity, bool) {
	if !v.Holds(now) {
		return v, false
	}
	return Validity{Until: max(v.Until, next.Until)}, true
}

// Milliseconds rounds up: a node never keeps less than was asked for.
func Milliseconds(d time.Duration) int64 { return int64((d + time.Millisecond - 1) / time.Millisecond) }
