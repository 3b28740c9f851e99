package redlock

import "time"

// What the searches and the proofs of the pure rules need of the inside.
type (
	Instant  = instant
	Validity = validity
)

const DriftFloor = driftFloor

func Drift(ttl time.Duration, factor float64) time.Duration { return drift(ttl, factor) }

func ValidUntil(t instant) validity { return validity{until: t} }

func ValidFrom(start instant, ttl time.Duration, factor float64) validity {
	return validFrom(start, ttl, factor)
}

func (v validity) Until() instant { return v.until }

func (v validity) Remaining(now instant) time.Duration { return v.remaining(now) }

func (v validity) Holds(now instant) bool { return v.holds(now) }

func (v validity) Confirm(next validity, now instant) (validity, bool) { return v.confirm(next, now) }
