package broken_test

import "github.com/quorumkit/redlock/chaos"

// byLeadersPlace has one who was slow to ask go by the place of its group's leader. Plans with
// pauses find it, and a test of the root does.
var byLeadersPlace = []edit{{"internal/acquire/share.go", "position == quorum.NoTicket || !acq.leads", "position == quorum.NoTicket || !BROKEN && !acq.leads"}}

// shareWays are those of shared holds.
var shareWays = []way{
	{
		name: "one who shares asks by its leader's place", takes: "one who was slow to ask goes by the place that its group's leader has taken",
		finds: []chaos.Rule{chaos.NoProgress, chaos.Starved},
		kinds: []chaos.Break{chaos.WallClock}, load: sharing, pauses: true,
		edits: byLeadersPlace,
	},
	{
		name: "shared key ends with the first", takes: "who joins does not lengthen the key that is shared",
		finds: []chaos.Rule{chaos.KeyEnd, chaos.TwoHolders},
		edits: []edit{script("share", "  call('PEXPIREAT', key, whole(math.max(tonumber(latest), ends)))\nend", "end")},
	},
	{
		name: "shared key ends with who has left", takes: "a release does not shorten the key that is shared",
		finds: []chaos.Rule{chaos.KeyEnd, chaos.NoProgress},
		edits: []edit{script("release_shared", "call('PEXPIREAT', key, string.format('%.0f', latest))", "latest = latest")},
	},
	{
		name: "shared release deletes", takes: "the release of one who shares deletes the key",
		finds: []chaos.Rule{chaos.TwoHolders},
		seed:  3,
		edits: []edit{script("release_shared", "if latest < now then", "if true then")},
	},
	{
		name: "first sharer does not count up", takes: "a generation has the number that the counter has already",
		finds: []chaos.Rule{chaos.TokenRepeated, chaos.TokenOrder},
		edits: []edit{
			script("share", "c = c + 1\n    call('HSET'", "call('HSET'"),
			script("share", "c = c + 1\n    local number", "local number"),
		},
	},
	{
		name: "sharer ignores the queue", takes: "who shares goes before those who wait to be alone",
		finds: []chaos.Rule{chaos.Overtaken},
		seed:  2,
		edits: []edit{script("share", "if ahead and (position == 0 or ahead <= position) then", "if false then")},
	},
	{
		name: "sharer joins a plain lock", takes: "who shares takes the key of one who is alone",
		finds: []chaos.Rule{chaos.TwoHolders},
		edits: []edit{script("share", "  if holder then\n    reply = taken(key)", "  if holder then\n    call('DEL', key)")},
	},
	{
		name: "shared extension past the end", takes: "a renewal brings one back whose lease has ended, or who was released",
		finds: []chaos.Rule{chaos.Litter, chaos.TwoHolders, chaos.KeyEnd},
		seed:  56,
		edits: []edit{script("extend_shared", "if ownEnd < now then", "if false then")},
	},
	{
		name: "exclusive takes a shared key", takes: "who is alone takes the key of those who share",
		finds: []chaos.Rule{chaos.TwoHolders},
		edits: []edit{
			script("acquire", "'redlock:shared' then", "'redlock:shared' and call('DEL', KEYS[1]) == 0 then"),
			script("acquire_batch", "elseif shared and shared[i] then", "elseif shared and shared[i] and call('DEL', KEYS[1 + i]) == 0 then"),
			script("ask", "elseif pcall('ZRANGE', key, '0', '0')[1] == 'redlock:shared' then", "elseif pcall('ZRANGE', key, '0', '0')[1] == 'redlock:shared' and call('DEL', key) == 0 then"),
		},
	},
	{
		name: "last sharer wakes nobody", takes: "the release of the last who shares calls none of those who wait",
		finds: []chaos.Rule{chaos.NoProgress, chaos.Starved},
		seed:  10,
		edits: []edit{script("release_shared", "if isFree then wake(", "if false then wake(")},
	},
	{
		name: "shared release takes another", takes: "a release takes the one who shares for longest",
		finds: []chaos.Rule{chaos.TwoHolders, chaos.Litter},
		edits: []edit{script("release_shared", "call('ZREM', key, owner)", "call('ZREM', key, call('ZRANGE', key, '-1', '-1')[1])")},
	},
	{
		name: "sharer passes over its tombstone", takes: "who shares is granted what it has released before",
		finds: []chaos.Rule{chaos.Litter},
		seed:  6,
		edits: []edit{script("share", "elseif not reply and dead then", "elseif false then")},
	},
}

// setWays are those of sets of names.
var setWays = []way{
	{
		name: "a set keeps all that it won", takes: "what stands behind the name that a set waits for is not given back",
		finds: []chaos.Rule{chaos.NoProgress, chaos.Starved},
		seed:  3,
		edits: []edit{{"internal/set/set.go", "	if asked {\n		s.Do = Wait\n	}", "	if BROKEN {\n		s.Back = 0\n	}\n	if asked {\n		s.Do = Wait\n	}"}},
	},
	{
		name: "a set in its caller's order", takes: "names are taken in the order in which they were given",
		finds: []chaos.Rule{chaos.NoProgress, chaos.Starved},
		kinds: []chaos.Break{chaos.Jitter},
		seed:  1,
		edits: []edit{{"internal/set/set.go", "	slices.SortFunc(order, func(a, b int) int {", "	if BROKEN {\n		return order\n	}\n	slices.SortFunc(order, func(a, b int) int {"}},
	},
}

// electionWays are those of elections: what they break is what observers are told.
var electionWays = []way{
	{
		name: "one node tells who leads", takes: "an observer believes one node, not a quorum of them",
		finds: []chaos.Rule{chaos.Stale},
		kinds: []chaos.Break{chaos.Flush, chaos.LoseRequests},
		seed:  10,
		edits: []edit{{"internal/election/view.go", "		if !s.fresh(now) || !v.list.Has(i) {\n			continue", "		if BROKEN {\n			q = 1\n		}\n		if !s.fresh(now) || !v.list.Has(i) {\n			continue"}},
	},
}

// slotWays are those of slots.
var slotWays = []way{
	{
		name: "a freed slot wakes nobody", takes: "the release of a slot calls none of those who wait for one",
		finds: []chaos.Rule{chaos.NoProgress, chaos.Starved},
		seed:  10,
		edits: []edit{script("release_slot", "while free and val[2] do", "while false do")},
	},
	{
		name: "newcomer ignores the line of slots", takes: "a free slot is granted to one who asks, though others wait for one",
		finds: []chaos.Rule{chaos.Overtaken},
		seed:  33,
		edits: []edit{script("ask_slot", "elseif clear then", "elseif true then")},
	},
}
