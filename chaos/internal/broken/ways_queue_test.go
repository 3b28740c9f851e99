package broken_test

import (
	"slices"

	"github.com/quorumkit/redlock/chaos"
)

// ways are the broken protocols.
var ways = slices.Concat(under(asking, lockWays), under(waiting, queueWays))

// under has the plans of these ways a load.
func under(l load, ways []way) []way {
	for i := range ways {
		ways[i].load = l
	}
	return ways
}

// queueWays are those of waiting: what they break is order and progress.
var queueWays = []way{
	{
		name: "newcomer ignores the queue", takes: "a first attempt is granted a free name, whoever waits for it",
		finds: []chaos.Rule{chaos.Overtaken},
		seed:  2,
		edits: []edit{
			script("acquire", "while head do", "while false do"),
			script("acquire_batch", "elseif waiting and kept(KEYS[1 + i]) then", "elseif false then"),
			script("ask", "elseif position >= 0 then", "elseif position > 0 then"),
		},
	},
	{
		name: "ticket of one node", takes: "a position is what the first node says, not the largest of a quorum",
		finds: []chaos.Rule{chaos.Overtaken},
		kinds: []chaos.Break{chaos.Slow, chaos.LoseReplies, chaos.Jitter},
		seed:  2002,
		edits: []edit{{"acquisition.go", "if position, ok := quorum.PositionOf(c.votes, c.heard); ok {", `if BROKEN {
			for i := range c.votes {
				if c.votes[i].Outcome == quorum.Taken && c.heard[i].Ticket > 0 {
					c.votes, c.heard = c.votes[i:i+1], c.heard[i:i+1]
					break
				}
			}
		}
		if position, ok := quorum.PositionOf(c.votes, c.heard); ok {`}},
	},
	{
		name: "turns without end", takes: "a process keeps the lock for as long as one of its goroutines wants it",
		finds: []chaos.Rule{chaos.Overtaken},
		seed:  2,
		edits: []edit{{"internal/quorum/place.go", "func TurnLeft(held, turns int) bool { return held < turns }", "func TurnLeft(held, turns int) bool { return held < turns || BROKEN }"}},
	},
	{
		name: "no fallback", takes: "who waits does so until it is called, and no sign of life tells it of a call that was lost",
		finds: []chaos.Rule{chaos.NoProgress, chaos.Starved},
		kinds: []chaos.Break{chaos.LoseReplies},
		seed:  21,
		edits: []edit{
			{"acquisition.go", "	if next.Look {\n		l.presence", `	if BROKEN {
		next = quorum.Rest{After: time.Hour}
	}
	if next.Look {
		l.presence`},
			{"look.go", "len(replies) > 0 && replies[0] == 0 {", "len(replies) > 0 && replies[0] == 0 && !BROKEN {"},
		},
	},
}
