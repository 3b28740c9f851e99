package redlock

import (
	"context"
	"time"
)

// The time of a Locker is that of one clock.Clock, a scale that never goes back and
// counts what the machine spent suspended, where the system can tell. What decides
// about a validity asks its Now; a lease begins at a reading of Start, which may be
// too early, never too late. Wall clocks never enter a validity: they only
// suggest tokens (internal/round, ask.go), and date what is logged.
//
// The rules are in internal/clock; here is how a Locker waits by it.

// wait waits d, or less when ctx is done or the Locker is closed.
func (l *core) wait(ctx context.Context, d time.Duration) error { return l.acquirer.Wait(ctx, d) }
