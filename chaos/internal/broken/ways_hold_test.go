package broken_test

import "github.com/quorumkit/redlock/chaos"

// stayWays are those of holders that renew, of what an end leaves behind, and of what is
// told of it.
var stayWays = []way{
	{
		name: "releases for a node timeout", takes: "a release is repeated for a node timeout only",
		finds: []chaos.Rule{chaos.Orphan, chaos.NoProgress},
		kinds: []chaos.Break{chaos.LoseRequests, chaos.CutRequests, chaos.Refuse, chaos.Reset},
		seed:  14,
		edits: []edit{{"internal/acquire/releases.go", "	return node.Release{Claim: c, Life: clock.Milliseconds(lease), Until: a.Clock.Early().Add(lease), Entry: entry, Round: r}", `	until := a.Clock.Early().Add(lease)
	if BROKEN {
		until = a.Clock.Early().Add(a.Bound(lease) / 2)
	}
	return node.Release{Claim: c, Life: clock.Milliseconds(lease), Until: until, Entry: entry, Round: r}`}},
	},
	{
		name: "releases are sent once", takes: "a release that failed is not repeated",
		finds: []chaos.Rule{chaos.Orphan, chaos.NoProgress},
		seed:  39,
		edits: []edit{{"internal/node/replies.go", `		for _, r := range c.releases {
			n.queue.refuse(r, cause, now)
		}
	}
	n.mu.Unlock()`, `		for _, r := range c.releases {
			if !BROKEN {
				n.queue.refuse(r, cause, now)
			}
		}
	}
	n.mu.Unlock()`}},
	},
	{
		name: "Close drops releases", takes: "a Locker that is closed does not send the releases that are out",
		finds: []chaos.Rule{chaos.Orphan, chaos.NoProgress},
		seed:  19,
		edits: []edit{{"internal/node/writer.go", "			if !n.triesLocked(now) {", "			if BROKEN || !n.triesLocked(now) {"}},
	},
	{
		name: "nobody says that it is lost", takes: "Done stays open where a lock is lost",
		finds: []chaos.Rule{chaos.LateNotice},
		seed:  1,
		edits: []edit{{"internal/hold/hold.go", "	if cancel != nil {\n		cancel(cause)\n	}\n	return true", `	if BROKEN && why >= Lapsed {
		cancel = nil
	}
	if cancel != nil {
		cancel(cause)
	}
	return true`}},
	},
	{
		name: "a shorter wait", takes: "a node that forgot waits for the usual lease, not for the longest",
		finds: []chaos.Rule{chaos.TwoHolders, chaos.TokenOrder, chaos.TokenRepeated},
		kinds: []chaos.Break{chaos.Forget, chaos.Flush},
		seed:  2,
		edits: []edit{{"internal/membership/view.go", "func (v View) wait() time.Duration {", `func (v View) wait() time.Duration {
	if BROKEN {
		return v.MaxTTL / 4
	}`}},
	},
}

// passWays are those of locks that go from one goroutine of a process to the next.
var passWays = []way{
	{
		name: "a lost pass is forgotten", takes: "a lock that was not passed on stays where it was",
		finds: []chaos.Rule{chaos.Orphan, chaos.NoProgress},
		kinds: []chaos.Break{chaos.LoseRequests, chaos.CutRequests, chaos.LoseReplies},
		seed:  161, far: true, load: passing,
		edits: []edit{{"internal/node/replies.go", "	if !quorum.TookOver(v.Outcome) {\n", `	if BROKEN && err != nil {
		h.Round.Deliver(n.Index, v, err)
		return recheck
	}
	if !quorum.TookOver(v.Outcome) {
`}},
	},
}
