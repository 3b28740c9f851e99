package clock

import (
	"math"
	"time"
)

// driftFloor is added to the drift allowance: Redis expires with a resolution of
// one millisecond on either side (the Redis page on distributed locks).
const driftFloor = 2 * time.Millisecond

const (
	// maxMaxTTL is the longest lease that any cluster allows.
	maxMaxTTL = 24 * time.Hour
	// maxDriftFactor is the largest that a Locker may be given.
	maxDriftFactor = 0.5
)

// instant is a reading of the Clock: nanoseconds on a scale that never goes back.
type instant int64

// never is the date of what is not due.
const never = instant(math.MaxInt64)

// add is d later than t; never where the scale ends before.
func (t instant) add(d time.Duration) instant {
	if d > 0 && t > never-instant(d) {
		return never
	}
	return t + instant(d)
}

// floor is the last instant of a grid that is not after t.
func (t instant) floor(grid time.Duration) instant { return t - t%instant(grid) }

func (t instant) sub(u instant) time.Duration { return time.Duration(t - u) }

// drift is what a node's clock may gain on ours while a lease of ttl runs.
func drift(ttl time.Duration, factor float64) time.Duration {
	return time.Duration(float64(ttl)*factor) + driftFloor
}

// validity is the part of a lease that its holder may trust, when the commands
// that set it were sent at start. It counts from the sending: no node can have
// begun its lease earlier.
type validity struct {
	until instant // zero: never valid
}

// validFrom is the validity of a lease of ttl whose commands were sent at start.
func validFrom(start instant, ttl time.Duration, factor float64) validity {
	return validity{until: start.add(ttl - drift(ttl, factor))}
}

// lease is the lease, sent now, whose validity lasts no less than what is left of
// v: what a node that lost the lock is given, where v is not to be lengthened.
func (v validity) lease(now instant, factor float64) time.Duration {
	return time.Duration(float64(v.remaining(now)+driftFloor) / (1 - factor))
}

// remaining is what is left of the validity; 0 when it has ended.
func (v validity) remaining(now instant) time.Duration {
	return max(v.until.sub(now), 0)
}

// holds tells whether the validity lasts at now.
func (v validity) holds(now instant) bool { return v.until > now }

// confirm is the validity after a quorum confirmed an extension that would give
// next. A lapse is final: a confirmation that is known only after the old
// validity ended counts for nothing, because a late acquire may have revived a
// lock that another took and released in between, with an older token. A shorter
// lease never replaces a longer one, because the nodes never lower theirs.
func (v validity) confirm(next validity, now instant) (validity, bool) {
	if !v.holds(now) {
		return v, false
	}
	return validity{until: max(v.until, next.until)}, true
}

// milliseconds rounds up: a node never keeps less than was asked for.
func milliseconds(d time.Duration) int64 { return int64((d + time.Millisecond - 1) / time.Millisecond) }
