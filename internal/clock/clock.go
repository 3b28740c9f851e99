// Package clock is where redlock takes its time from, and what a lease is worth by it:
// validity, drift, and whether a node's clock has stepped.
package clock

import (
	"context"
	"sync/atomic"
	"time"
)

// Clock is a scale that never goes back and counts the time that the machine spent
// suspended, where the system can tell. It is the growth of the monotonic clock plus
// the growth of (BOOTTIME - MONOTONIC), so that it counts a suspend on Linux and still
// is virtual inside a testing/synctest bubble. On other systems a suspend goes
// uncounted: there Go's monotonic clock decides (it runs on through a suspend on
// Windows, and stands still on macOS).
//
// Wall clocks never enter a validity. They only suggest tokens.
//
// This is the only file that reads the system's clock, but for suspend_linux.go,
// which reads BOOTTIME.
type Clock struct {
	origin    time.Time
	suspend   func() time.Duration // time spent suspended since boot
	booted    time.Duration        // suspend() at the origin
	suspended atomic.Int64         // the most seen since the origin, in nanoseconds
	asked     atomic.Int64         // when Now was last called
	off       func() time.Duration // by how much the wall clock is off; nil: it is the system's
}

// askEvery is how long a round may go without asking about a suspend.
const askEvery = 100 * time.Millisecond

// cutOff is more than the noise of suspendedSinceBoot. A first reading that is smaller by
// that much had a scheduling gap in it, which would count as a suspend from then on.
const cutOff = 100 * time.Microsecond

// New is a clock that counts from now on. It begins at 1: an Instant of 0 is none, also in
// virtual time, which may stand still from here to the first reading.
func New() *Clock {
	suspend := suspendedSinceBoot
	if simulations.Load() > 0 {
		suspend = func() time.Duration { return 0 }
	}
	booted := suspend()
	for again := suspend(); again-booted > cutOff; again = suspend() {
		booted = again
	}
	return &Clock{origin: time.Now().Add(-1), suspend: suspend, booted: booted}
}

// Early reads the clock without asking the system about a suspend: a suspend
// since the last call of Now is missing, so the result may be too early, never
// too late. That is safe where a lease begins, and good enough for everything
// that decides nothing about a validity; it costs no system call.
func (c *Clock) Early() Instant {
	return Instant(int64(time.Since(c.origin)) + c.suspended.Load())
}

// Start is when a round begins. It is early, unless nobody has asked about a
// suspend for a while: a round must not look as if it had slept through one.
func (c *Clock) Start() Instant { return c.within(askEvery) }

// Recent reads the clock with no suspend missing but one of the last millisecond. It decides
// whether an attempt was quick enough: a suspend so late looks to the caller as one that comes
// just behind, which nobody can rule out. Under load it saves most system calls of Now.
func (c *Clock) Recent() Instant { return c.within(time.Millisecond) }

func (c *Clock) within(d time.Duration) Instant {
	if at := c.Early(); at.Sub(Instant(c.asked.Load())) < d {
		return at
	}
	return c.Now()
}

// Now reads the clock: what decides about a validity asks this one.
func (c *Clock) Now() Instant {
	asleep := int64(c.suspend() - c.booted)
	defer func() { c.asked.Store(int64(c.Early())) }()
	for {
		seen := c.suspended.Load()
		if asleep <= seen {
			asleep = seen
			break
		}
		if c.suspended.CompareAndSwap(seen, asleep) {
			break
		}
	}
	return Instant(int64(time.Since(c.origin)) + asleep)
}

// Wall is the wall clock, for logs and for hints.
func (c *Clock) Wall() time.Time {
	if c.off != nil {
		return time.Now().Round(0).Add(c.off()) // of the two clocks of a Time only this one is off
	}
	return time.Now()
}

// WallOff sets the wall clock off by the result of f from now on, for simulations; with nil
// it is the system's. Nobody may read the clock meanwhile.
func (c *Clock) WallOff(f func() time.Duration) { c.off = f }

// Over tells whether ctx is done, or is about to be: a socket may notice its
// deadline first.
func (c *Clock) Over(ctx context.Context) bool {
	deadline, bounded := ctx.Deadline()
	return ctx.Err() != nil || bounded && !time.Now().Before(deadline)
}

// NewTimer is a timer on Go's monotonic clock, which does not count a suspend:
// who must not oversleep one looks at Now now and then.
func (c *Clock) NewTimer(d time.Duration) *time.Timer { return time.NewTimer(d) }

// AfterFunc runs f in a goroutine of its own after d.
func (c *Clock) AfterFunc(d time.Duration, f func()) *time.Timer { return time.AfterFunc(d, f) }

// SuspendBy takes the time spent suspended from f from now on, as if the system had
// told it: for tests. Nobody may read the clock meanwhile.
func (c *Clock) SuspendBy(f func() time.Duration) {
	c.suspend, c.booted = f, f()
	c.suspended.Store(0) // the system's two clocks are not read at one instant
}
