package broken_test

import "github.com/quorumkit/redlock/chaos"

// wallWays are those of the clients' own clocks.
var wallWays = []way{
	{
		name: "validity by the wall clock", takes: "a client measures its leases by a clock that is set",
		finds: []chaos.Rule{chaos.TwoHolders},
		kinds: []chaos.Break{chaos.WallClock, chaos.Pause},
		seed:  3,
		edits: []edit{
			{"internal/clock/clock.go", "	return Instant(int64(time.Since(c.origin)) + c.suspended.Load())", `	if BROKEN && c.off != nil {
		return Instant(int64(time.Since(c.origin)+c.off()) + c.suspended.Load())
	}
	return Instant(int64(time.Since(c.origin)) + c.suspended.Load())`},
			{"internal/clock/clock.go", "	return Instant(int64(time.Since(c.origin)) + asleep)", `	if BROKEN && c.off != nil {
		return Instant(int64(time.Since(c.origin)+c.off()) + asleep)
	}
	return Instant(int64(time.Since(c.origin)) + asleep)`},
		},
	},
}

// stepWays are those of the nodes' clocks.
var stepWays = []way{
	{
		name: "nodes that stepped count", takes: "a node whose clock stepped goes on voting",
		finds: []chaos.Rule{chaos.TwoHolders},
		seed:  153, far: true,
		edits: []edit{
			{"internal/node/votes.go", "	if d := n.distrust.Load(); d != nil {\n		return d", "	if d := n.distrust.Load(); d != nil && !BROKEN {\n		return d"},
			{"internal/node/node.go", "	n.revokeVotes(0, why)", "	if !BROKEN {\n		n.revokeVotes(0, why)\n	}"},
		},
	},
}
