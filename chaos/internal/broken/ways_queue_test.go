package broken_test

import (
	"slices"

	"github.com/quorumkit/redlock/chaos"
)

// ways are the broken protocols.
var ways = slices.Concat(under(asking, lockWays), under(waiting, queueWays), under(renewing, grantWays), under(sharing, shareWays), under(gathering, setWays), under(electing, electionWays), under(slotting, slotWays), under(staying, stayWays), under(passing, passWays), under(asking, wallWays), under(drawn, stepWays), under(drawn, changeWays))

// under gives the plans of these ways a load.
func under(l load, ways []way) []way {
	for i := range ways {
		ways[i].load = l
	}
	return ways
}

// queueWays are those of waiting: what they break is order and progress.
var queueWays = []way{
	{
		name: "newcomer ignores the queue", takes: "a first attempt is granted a free name, though others wait for it",
		finds: []chaos.Rule{chaos.Overtaken},
		seed:  2,
		edits: []edit{
			script("acquire", "while head do", "while false do"),
			script("acquire_batch", "elseif waiting and (hasWaiter(", "elseif false and (hasWaiter("),
			script("ask", "elseif position >= 0 then", "elseif position > 0 then"),
		},
	},
	{
		name: "ticket of one node", takes: "a position is what the first node says, not the largest of a quorum",
		finds: []chaos.Rule{chaos.Overtaken},
		kinds: []chaos.Break{chaos.Slow, chaos.LoseReplies, chaos.Jitter},
		seed:  2108,
		edits: []edit{{"internal/acquire/push.go", "if position, ok := quorum.PositionOf(acq.votes, acq.heard); ok {", `if BROKEN {
			for i := range acq.votes {
				if acq.votes[i].Outcome == quorum.Taken && acq.heard[i].Ticket > 0 {
					acq.votes, acq.heard = acq.votes[i:i+1], acq.heard[i:i+1]
					break
				}
			}
		}
		if position, ok := quorum.PositionOf(acq.votes, acq.heard); ok {`}},
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
			{"internal/acquire/acquisition.go", "	if next.Look", `	if BROKEN {
		next = quorum.Rest{After: 3600e9}
	}
	if next.Look`},
			{"internal/queue/poll.go", "len(replies) > 0 && replies[0] == 0 {", "len(replies) > 0 && replies[0] == 0 && !BROKEN {"},
		},
	},
}

// grantWays are those of a release that grants: only leases that are lengthened take
// part.
var grantWays = []way{
	{
		name: "no rollback of a grant", takes: "what releases granted to an attempt that brought no lock stays",
		finds: []chaos.Rule{chaos.NoProgress, chaos.Starved},
		kinds: []chaos.Break{chaos.Slow, chaos.LoseReplies, chaos.Jitter},
		seed:  4,
		edits: []edit{{"internal/acquire/releases.go", "func (a *Releases) rollBack(c *round.Claim, lease time.Duration) {", `func (a *Releases) rollBack(c *round.Claim, lease time.Duration) {
	if c.AcceptsPush() && BROKEN {
		return
	}`}},
	},
	{
		name: "lost grants are not looked for", takes: "a look does not say that the lock was granted",
		finds: []chaos.Rule{chaos.NoProgress}, scenario: "lost-grants",
		edits: []edit{{"internal/queue/poll.go", "case votes && replies[1+i] == -3:", "case votes && replies[1+i] == -3 && !BROKEN:"}},
	},
	{
		name: "grants do not count", takes: "a release grants with the number that the counter has already",
		finds: []chaos.Rule{chaos.TokenRepeated, chaos.TokenOrder},
		edits: []edit{
			script("hand", "local nextToken = math.max(c + 1, tonumber(ARGV[1 + 2 * n + i]), place or 0)", "local nextToken = c"),
			script("hand_one", "local nextToken = math.max(c + 1, tonumber(ARGV[3]), place or 0)", "local nextToken = c"),
		},
	},
	{
		name: "grants that nobody heard", takes: "a grant stays, though its heir hears nothing",
		finds: []chaos.Rule{chaos.NoProgress}, scenario: "dead-head",
		edits: []edit{
			script("hand", "if reply == 0 then\n      reply, holder = call('DEL', key), false", "if reply == 0 and not claim then\n      reply, holder = call('DEL', key), false"),
			script("hand_one", "if reply == 0 then\n    reply = call('DEL', key)", "if reply == 0 and not claim then\n    reply = call('DEL', key)"),
		},
	},
}
