package redlock

// A Locker is told here what to think of the nodes' clocks. By which clock it lives itself
// is said at core (locker.go).

// WithDriftFactor sets the share of a lease by which a node's clock may run fast
// against ours: at least 0, at most 0.5. The default is DefaultDriftFactor, 0.01. Validity
// is shorter by that much (and by 2 ms).
func WithDriftFactor(f float64) Option { return lockerOption(func(c *config) { c.drift = f }) }

// WithoutClockWatch believes the nodes' clocks: a step of one, which otherwise
// makes the node abstain for MaxTTL, goes unnoticed. It is for experiments that
// show what the watch is worth.
func WithoutClockWatch() Option { return lockerOption(func(c *config) { c.trustClocks = true }) }
