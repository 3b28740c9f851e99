package broken_test

import "github.com/quorumkit/redlock/chaos"

// stayWays are those of holders that renew, and of what an end leaves behind.
var stayWays = []way{
	{
		name: "half confirms", takes: "half of the nodes are enough to confirm a lock",
		finds: []chaos.Rule{chaos.TwoHolders},
		edits: []edit{{"internal/quorum/quorum.go", "func (t Tally) Extension() Verdict {\n	q := Size(t.nodes)", `func (t Tally) Extension() Verdict {
	q := Size(t.nodes)
	if BROKEN {
		q = t.nodes / 2
	}`}},
	},
	{
		name: "releases for a node timeout", takes: "a release is repeated for a node timeout only",
		finds: []chaos.Rule{chaos.Orphan, chaos.NoProgress},
		edits: []edit{{"internal/acquire/attempt.go", "	return node.Release{Claim: c, Life: clock.Milliseconds(lease), Until: a.Clock.Early().Add(lease), Entry: entry, Round: r}", `	until := a.Clock.Early().Add(lease)
	if BROKEN {
		until = a.Clock.Early().Add(a.Bound(lease))
	}
	return node.Release{Claim: c, Life: clock.Milliseconds(lease), Until: until, Entry: entry, Round: r}`}},
	},
	{
		name: "releases are sent once", takes: "a release that failed is not repeated",
		finds: []chaos.Rule{chaos.Orphan, chaos.NoProgress},
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
		edits: []edit{{"internal/node/writer.go", "			if !n.tries(now) {", "			if BROKEN || !n.tries(now) {"}},
	},
	{
		name: "a requeue forgets doubt", takes: "an acquire that goes again is taken for one that was never sent",
		finds: []chaos.Rule{chaos.Orphan, chaos.Litter, chaos.NoProgress},
		edits: []edit{{"internal/node/pending.go", "		r.Claim.Marks[q.node] = r.Claim.Marks[q.node].After(quorum.Failed)\n", `		r.Claim.Marks[q.node] = r.Claim.Marks[q.node].After(quorum.Failed)
		if BROKEN {
			r.Claim.Marks[q.node] = quorum.Absent
		}
`}},
	},
	{
		name: "nobody says that it is lost", takes: "Done stays open where a lock is lost",
		finds: []chaos.Rule{chaos.LateNotice},
		edits: []edit{{"lock.go", "	if cancel != nil {\n		cancel(cause)\n	}\n	return true", `	if BROKEN && errors.Is(cause, ErrLost) {
		cancel = nil
	}
	if cancel != nil {
		cancel(cause)
	}
	return true`}},
	},
	{
		name: "renewals are not retried", takes: "a renewal that no quorum confirmed is not tried again",
		finds: []chaos.Rule{chaos.NeedlessLoss},
		edits: []edit{{"renew.go", "			l.retryRenewal()\n		}\n		l.passTurn()", `			if !BROKEN {
				l.retryRenewal()
			} else {
				l.mu.Lock()
				l.renewAt = clock.Never
				l.mu.Unlock()
			}
		}
		l.passTurn()`}},
	},
	{
		name: "a shorter wait", takes: "a node that forgot waits for the usual lease, not for the longest",
		finds: []chaos.Rule{chaos.TwoHolders, chaos.TokenOrder, chaos.TokenRepeated},
		kinds: []chaos.Break{chaos.Forget, chaos.Flush},
		edits: []edit{{"internal/membership/view.go", "func (v View) wait() time.Duration {\n	most := v.MaxTTL", `func (v View) wait() time.Duration {
	if BROKEN {
		return v.MaxTTL / 4
	}
	most := v.MaxTTL`}},
	},
	{
		name: "one node less is read", takes: "who joins reads from one node less than share one with every quorum",
		finds: []chaos.Rule{chaos.TokenOrder, chaos.TokenRepeated},
		kinds: []chaos.Break{chaos.Forget, chaos.Flush},
		edits: []edit{{"internal/membership/view.go", "func othersNeeded(n int) int { return n - quorum.Size(n) + 1 }", `func othersNeeded(n int) int {
	if BROKEN {
		return n - quorum.Size(n)
	}
	return n - quorum.Size(n) + 1
}`}},
	},
	{
		name: "grants one apart are equal", takes: "a grant that is one below the token is not raised",
		finds: []chaos.Rule{chaos.TokenOrder, chaos.TokenRepeated},
		edits: []edit{
			{"internal/quorum/token.go", "func NeedsRaise(v Vote, t Token) bool { return v.Outcome == Granted && v.Token < t }", `func NeedsRaise(v Vote, t Token) bool {
	if BROKEN {
		t--
	}
	return v.Outcome == Granted && v.Token < t
}`},
			{"internal/quorum/token.go", "		if v.Outcome == Granted && v.Token == t {", "		if v.Outcome == Granted && (v.Token == t || v.Token+1 == t && BROKEN) {"},
		},
	},
}

// reseedWays are those of locks that nodes have lost, or may lose.
var reseedWays = []way{
	{
		name: "put back unconfirmed", takes: "a lock is put back on a node before a quorum has confirmed it",
		finds: []chaos.Rule{chaos.TwoHolders, chaos.Orphan, chaos.Litter, chaos.NoProgress},
		edits: []edit{
			{"internal/node/extension.go", "			if e.decide(k) == quorum.Won {", "			if e.decide(k) == quorum.Won || BROKEN {"},
			{"internal/node/extension.go", "!e.of(i, k).gone || e.verdicts[k] != quorum.Won {", "!e.of(i, k).gone || e.verdicts[k] != quorum.Won && !BROKEN {"},
		},
	},
	{
		name: "an extension that shortens", takes: "an extension sets the lease, also where it has a longer one",
		finds: []chaos.Rule{chaos.TwoHolders},
		kinds: []chaos.Break{chaos.Reorder, chaos.Jitter, chaos.Slow},
		edits: []edit{script("extend", "ARGV[1 + n + i], 'GT')", "ARGV[1 + n + i])")},
	},
}

// burstWays are those of many names at once.
var burstWays = []way{
	{
		name: "renewals by the first verdict", takes: "each lock of a renewal has the verdict of the first in it",
		finds: []chaos.Rule{chaos.TwoHolders, chaos.NeedlessLoss},
		edits: []edit{{"renew.go", "if err := l.extended(e, k, ttls[k]); err != nil {", `of := k
		if BROKEN {
			of = 0
		}
		if err := l.extended(e, of, ttls[k]); err != nil {`}},
	},
	{
		name: "batches without epoch", takes: "acquires that go together are granted by a node that was flushed",
		finds: []chaos.Rule{chaos.TwoHolders, chaos.TokenOrder, chaos.TokenRepeated},
		kinds: []chaos.Break{chaos.Flush},
		edits: []edit{script("acquire_batch", "if rec[1] ~= ARGV[1] then", "if false then")},
	},
	{
		name: "batches past the line", takes: "acquires that go together are granted a free name, whoever waits for it",
		finds: []chaos.Rule{chaos.Overtaken},
		edits: []edit{script("acquire_batch", "elseif waiting and (kept(", "elseif false and (kept(")},
	},
}

// passWays are those of locks that go from one goroutine of a process to the next.
var passWays = []way{
	{
		name: "a pass of another's lock", takes: "a lock is passed on, whoever has it by now",
		finds: []chaos.Rule{chaos.TwoHolders},
		edits: []edit{script("pass", "if val[1] ~= ARGV[1] then", "if not val[1] then")},
	},
	{
		name: "a pass to who gave up", takes: "a lock is passed on to an attempt that was released before",
		finds: []chaos.Rule{chaos.Litter, chaos.Orphan},
		edits: []edit{script("pass", "if val[2] then return -1 end", "")},
	},
	{
		name: "a lost pass is forgotten", takes: "a lock that was not passed on stays where it was",
		finds: []chaos.Rule{chaos.Orphan, chaos.NoProgress},
		edits: []edit{{"internal/node/pass.go", "	if !quorum.TookOver(v.Outcome) {\n", `	if BROKEN && err != nil {
		h.Round.deliver(n.Index, v, err)
		return recheck
	}
	if !quorum.TookOver(v.Outcome) {
`}},
	},
	{
		name: "an unmarked pass", takes: "an attempt that a lock is passed to is taken for one that nothing was sent for",
		finds: []chaos.Rule{chaos.Orphan, chaos.NoProgress, chaos.Litter},
		edits: []edit{{"internal/node/pass.go", "			h.Round.Claim.Marks[q.node] |= quorum.Unsure\n", `			if !BROKEN {
				h.Round.Claim.Marks[q.node] |= quorum.Unsure
			}
`}},
	},
}
