package broken_test

import "github.com/quorumkit/redlock/chaos"

// lockWays are the broken protocols of the lock itself. In Go code BROKEN stands for the condition.
var lockWays = []way{
	{
		name: "wrong quorum", takes: "half of the nodes are enough",
		finds: []chaos.Rule{chaos.TwoHolders, chaos.TokenRepeated, chaos.TokenOrder},
		seed:  2,
		edits: []edit{{"internal/quorum/quorum.go", "func Size(n int) int {", `func Size(n int) int {
	if BROKEN {
		return n / 2
	}
`}},
	},
	{
		name: "validity from the reply", takes: "validity counts from when the replies came, not from the sending",
		finds: []chaos.Rule{chaos.TwoHolders},
		kinds: []chaos.Break{chaos.Slow},
		seed:  2003,
		edits: []edit{
			{"internal/acquire/attempt.go", "		if why = a.outlasted(", `
		if BROKEN {
			g.Valid = clock.ValidFrom(a.Clock.Now(), ttl, a.Drift)
		}
		if why = a.outlasted(`},
			{"internal/hold/hold.go", "valid, ok := h.valid.Confirm(clock.ValidFrom(e.Start, ttl, k.Acquirer.Drift), now)", `start := e.Start
	if BROKEN {
		start = now
	}
	valid, ok := h.valid.Confirm(clock.ValidFrom(start, ttl, k.Acquirer.Drift), now)`},
		},
	},
	{
		name: "no drift", takes: "validity is the whole lease",
		finds: []chaos.Rule{chaos.TwoHolders},
		kinds: []chaos.Break{chaos.Drift},
		edits: []edit{{"internal/clock/lease.go", "func ValidFrom(start Instant, ttl time.Duration, factor float64) Validity {", `func ValidFrom(start Instant, ttl time.Duration, factor float64) Validity {
	if BROKEN {
		return Validity{Until: start.Add(ttl)}
	}`}},
	},
	{
		name: "release without owner check", takes: "a release deletes, or grants, any key that is there",
		finds: []chaos.Rule{chaos.TwoHolders},
		seed:  3,
		edits: []edit{
			script("release", "if val[1] == ARGV[1] then", "if true then"),
			script("release_batch", "if val[i] == ARGV[1 + i] then", "if val[i] then"),
			script("hand", "if holder == owner then", "if holder then"),
			script("hand", "if val[i] == ARGV[1 + n + i] then", "if val[i] then"),
			script("hand_one", "if holder == owner then", "if holder then"),
			script("hand_one", "return holder == owner and call('DEL', key) or 0", "return holder and call('DEL', key) or 0"),
		},
	},
	{
		name: "extend that resurrects", takes: "an extension creates the key where there is none",
		finds: []chaos.Rule{chaos.Litter, chaos.TwoHolders, chaos.Orphan},
		seed:  33,
		edits: []edit{script("extend", "out[i] = redis.call('EXISTS', KEYS[1 + i]) * 2", `redis.call('SET', KEYS[1 + i], ARGV[1 + i], 'PX', ARGV[1 + n + i])
    out[i] = 1`)},
	},
	{
		name: "plain INCR tokens", takes: "the token is the largest of a quorum's counters",
		finds: []chaos.Rule{chaos.TokenRepeated, chaos.TokenOrder},
		seed:  3,
		edits: []edit{
			{"internal/acquire/acquirer.go", "c.Stand(start, 0)", `if BROKEN {
		c.Hint = 1
	}
	c.Stand(start, 0)`},
			{"internal/quorum/token.go", "q, granted, pending, equal := Needed(votes), 0, 0, 0", `q, granted, pending, equal := Needed(votes), 0, 0, 0
	if BROKEN {
		for _, v := range votes {
			if v.Outcome == Granted {
				granted, t = granted+1, max(t, v.Token)
			}
		}
		if granted < q {
			return Unsettled, 0
		}
		return Settled, t
	}`},
		},
	},
	{
		name: "no rollback", takes: "what a failed attempt got stays for its lease",
		finds: []chaos.Rule{chaos.NoProgress, chaos.Starved},
		seed:  2004,
		edits: []edit{
			{"internal/acquire/releases.go", "	a.discard(c, lease, c.Rollback(), nil)", `	if BROKEN {
		return
	}
	a.discard(c, lease, c.Rollback(), nil)`},
			{"internal/acquire/releases.go", "	for i, v := range r.SoFar() {", `	votes := r.SoFar()
	if BROKEN {
		votes = nil
	}
	for i, v := range votes {`},
		},
	},
	{
		name: "no tombstone", takes: "a release leaves nothing behind against an acquire that comes late",
		finds: []chaos.Rule{chaos.Litter},
		seed:  6,
		edits: []edit{{"internal/node/pending.go", "		b.releases[i].mark = r.Claim.Marks[q.node]\n", "		if b.releases[i].mark = r.Claim.Marks[q.node]; BROKEN {\n			b.releases[i].mark &= quorum.PutBack\n		}\n"}},
	},
	{
		name: "rejoin at once", takes: "a node that forgot votes without the wait",
		finds: []chaos.Rule{chaos.TwoHolders},
		seed:  7,
		edits: []edit{{"internal/membership/plan.go", "func (v View) due(i int, p Proposal) clock.Instant {", `func (v View) due(i int, p Proposal) clock.Instant {
	p.Admit = p.Admit || BROKEN`}},
	},
	{
		name: "no epoch check", takes: "a node that was flushed goes on voting",
		finds: []chaos.Rule{chaos.TwoHolders},
		kinds: []chaos.Break{chaos.Flush},
		seed:  2,
		edits: []edit{
			script("acquire", "if rec[1] ~= ARGV[5] then return 0 end", ""),
			script("acquire_batch", "if rec[1] ~= ARGV[1] then", "if false then"),
			script("ask", "if rec[1] ~= ARGV[1] then", "if false then"),
			script("pass", "if rec[1] ~= ARGV[6] then\n  c = 0\nelse", ""),
			script("extend", "if redis.call('HMGET', KEYS[1], 'epoch')[1] ~= ARGV[1] then", "if false then"),
		},
	},
	{
		name: "one owner value for all attempts", takes: "late commands of an old attempt are taken for a newer one's",
		finds: []chaos.Rule{chaos.TwoHolders, chaos.Litter},
		edits: []edit{{"internal/acquire/acquirer.go", "dead := string(a.Chance.AppendName(append(append(append(room[:0], lua.TombstoneKey...), a.Holder...), label...)))", `dead := string(a.Chance.AppendName(append(append(append(room[:0], lua.TombstoneKey...), a.Holder...), label...)))
	if BROKEN {
		dead = lua.TombstoneKey + a.Nodes[0].Name + a.Nodes[0].Cfg.Process
	}`}},
	},
	{
		name: "lost replies are believed", takes: "an acquire without a reply is taken for one that did not happen",
		finds: []chaos.Rule{chaos.NoProgress, chaos.Starved, chaos.Litter, chaos.Orphan},
		kinds: []chaos.Break{chaos.LoseReplies, chaos.Crash},
		seed:  10,
		edits: []edit{{"internal/node/pending.go", "r.Claim.Marks[q.node] = r.Claim.Marks[q.node].Again()", `r.Claim.Marks[q.node] = r.Claim.Marks[q.node].Again()
			if BROKEN {
				r.Claim.Marks[q.node] = quorum.Absent
			}`}},
	},
}
