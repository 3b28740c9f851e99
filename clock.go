package redlock

// The time of a Locker is that of one clock.Clock, a scale that never goes back and
// counts what the machine spent suspended, where the system can tell. What decides
// about a validity asks its Now; a lease begins at a reading of Start, which may be
// too early, never too late. Wall clocks never enter a validity: they only
// suggest tokens (internal/round, ask.go), and date what is logged.
//
// The rules are in internal/clock. Here is what a Locker is told of the nodes' clocks.

// WithDriftFactor sets the share of a lease by which a node's clock may run fast
// against ours: at least 0, at most 0.5. The default is DefaultDriftFactor, 0.01. Validity
// is shorter by that much (and by 2 ms).
func WithDriftFactor(f float64) Option { return lockerOption(func(c *config) { c.drift = f }) }

// WithoutClockWatch believes the nodes' clocks: a step of one, which otherwise
// makes the node abstain for MaxTTL, goes unnoticed. It is for experiments that
// show what the watch is worth.
func WithoutClockWatch() Option { return lockerOption(func(c *config) { c.trustClocks = true }) }
