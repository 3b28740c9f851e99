package broken_test

import "github.com/quorumkit/redlock/chaos"

// changeWays are those of changes of the list of nodes.
var changeWays = []way{
	{
		name: "change without its pause", takes: "the next list is in force before the leases of the one before the last are over",
		finds: []chaos.Rule{chaos.TwoHolders}, scenario: "partition-between-lists",
		edits: []edit{{"internal/membership/change.go", "		c.Until = now.Add(v.longest())\n", "		c.Until = now.Add(v.longest())\n		if BROKEN {\n			c.Until = now\n		}\n"}},
	},
	{
		name: "change without a base", takes: "the next list does not know the numbers of the one before",
		finds: []chaos.Rule{chaos.TokenRepeated, chaos.TokenOrder}, scenario: "partition-between-lists",
		edits: []edit{{"internal/membership/change.go", "			c.Largest = max(c.Largest, o.Largest)\n", "			if !BROKEN {\n				c.Largest = max(c.Largest, o.Largest)\n			}\n"}},
	},
	{
		name: "a vote for any lease", takes: "nodes vote for leases above the cluster's MaxTTL, which was lowered",
		finds: []chaos.Rule{chaos.LongLease}, kinds: []chaos.Break{chaos.ListChange}, seed: 1,
		edits: []edit{{"internal/node/batch.go", "b.longest > 0 && lease > b.longest {", "!BROKEN && b.longest > 0 && lease > b.longest {"}},
	},
	{
		name: "strict recovery the other way", takes: "an operator who wants strict recovery on or off gets the other",
		finds: []chaos.Rule{chaos.WrongList}, kinds: []chaos.Break{chaos.ListChange, chaos.Forget},
		edits: []edit{{"internal/membership/change.go", "		at.Strict = *w.Strict\n", "		at.Strict = *w.Strict != BROKEN\n"}},
	},
}
