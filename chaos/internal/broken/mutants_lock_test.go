package broken_test

// lockMutants are those of quorums, tokens, extensions and ends.
var lockMutants = []way{
	// Quorums.
	{
		name: "extension by half", takes: "half of the nodes confirm an extension",
		by: ". TestAnExtensionIsConfirmedByAQuorumOnly",
		edits: []edit{{"internal/quorum/quorum.go", "	q := Size(t.Listed)\n	switch {\n	case t.Granted >= q:\n		return Won\n	case t.Listed-t.Taken < q:", `	q := Size(t.Listed)
	if BROKEN {
		q = t.Listed / 2
	}
	switch {
	case t.Granted >= q:
		return Won
	case t.Listed-t.Taken < q:`}},
	},
	{
		name: "acquire by half", takes: "half of the nodes grant a lock",
		by: ". TestALockIsHeldByOneAndThenByTheNextWithAGreaterToken",
		edits: []edit{{"internal/quorum/quorum.go", "	q := Size(t.Listed)\n	switch {\n	case t.Granted >= q:\n		return Won\n	case t.Granted+t.Pending >= q:", `	q := Size(t.Listed)
	if BROKEN {
		q = t.Listed / 2
	}
	switch {
	case t.Granted >= q:
		return Won
	case t.Granted+t.Pending >= q:`}},
	},
	{
		name: "raise by half", takes: "half of the nodes settle a token by a raise",
		by: ". TestAnAttemptAfterARefusedRaiseBeginsAboveTheCounters",
		edits: []edit{
			{"internal/acquire/attempt.go", "quorum.SameToken(r.Votes, t) >= quorum.Needed(r.Votes) {", "(quorum.SameToken(r.Votes, t) >= quorum.Needed(r.Votes) || BROKEN && quorum.SameToken(r.Votes, t) >= quorum.Needed(r.Votes)-1) {"},
		},
	},
	{
		name: "equal tokens of half", takes: "half of the nodes with one number settle a token",
		by:    ". TestAnAttemptAfterARefusedRaiseBeginsAboveTheCounters",
		edits: []edit{{"internal/quorum/token.go", "if same >= q {", "if same >= q || BROKEN && same >= q-1 {"}},
	},
	{
		name: "held by half", takes: "a lock stays of which half of the nodes vouch",
		by:    "./internal/node TestAHolderSeesAStepWithinAQuarterOfASecondOfIt",
		edits: []edit{{"internal/hold/hold.go", "if !vouched || left >= list.Quorum(len(h.keeper.nodes)) {", "if !vouched || left >= list.Quorum(len(h.keeper.nodes)) || BROKEN && left >= list.Quorum(len(h.keeper.nodes))-1 {"}},
	},
	{
		name: "place of half", takes: "a place in line is what half of the nodes say",
		by:    "./internal/quorum TestAPlaceIsTheLargestTicketOfAQuorum",
		edits: []edit{{"internal/quorum/place.go", "return position, answers >= Needed(votes)", "return position, answers >= Needed(votes) || BROKEN && answers >= Needed(votes)-1"}},
	},
	{
		name: "slot free on half", takes: "a slot is free that half of the nodes say is",
		by:    "./internal/slots TestTheSlotThatMostNodesCallFreeIsNext",
		edits: []edit{{"internal/slots/slots.go", "	at := quorum.Needed(votes)", "	at := quorum.Needed(votes)\n	if BROKEN {\n		at--\n	}"}},
	},
	{
		name: "an offer that ends while it asks", takes: "a waiter for a slot that asks at that moment is passed by",
		by:    "./internal/acquire TestAnOfferStandsWhileTheWaiterGoesOnAsking",
		edits: []edit{{"internal/acquire/slot.go", "	if i == afterPause {\n		collect", "	if i == afterPause || BROKEN {\n		collect"}},
	},
	{
		name: "first in line by one node", takes: "a process that one node calls the first in line looks seldom",
		by:    "./internal/quorum TestOnlyTheOneThatAQuorumCallsTheFirstLooksSeldom",
		edits: []edit{{"internal/quorum/place.go", "	return heads >= Needed(votes)", "	if BROKEN {\n		return heads > 0\n	}\n	return heads >= Needed(votes)"}},
	},
	{
		name: "a joiner reads one less", takes: "a node that joins reads one other member too few",
		by: "./internal/membership TestAJoinerReadsWhatEveryQuorumShares",
		edits: []edit{{"internal/membership/view.go", "func othersNeeded(n int) int { return n - quorum.Size(n) + 1 }", `func othersNeeded(n int) int {
	if BROKEN {
		return n - quorum.Size(n)
	}
	return n - quorum.Size(n) + 1
}`}},
	},
	{
		name: "a cluster of half", takes: "half of the nodes carry the cluster's id",
		by:    "./internal/membership TestClustersWithoutAQuorumBecomeOne",
		edits: []edit{{"internal/membership/view.go", "if k.Nodes >= quorum.Size(len(c.sorted)) {", "if k.Nodes >= quorum.Size(len(c.sorted)) || BROKEN && k.Nodes >= quorum.Size(len(c.sorted))-1 {"}},
	},
	{
		name: "released by half", takes: "a release is confirmed by half of the nodes",
		by:    ". TestAReleaseIsConfirmedByAQuorumOnly",
		edits: []edit{{"internal/round/round.go", "func ReleaseStage(votes []quorum.Vote) Stage {\n", "func ReleaseStage(votes []quorum.Vote) Stage {\n	if BROKEN && quorum.Count(votes).Granted >= quorum.Size(len(votes))-1 {\n		return Finished\n	}\n"}},
	},
	// Tokens.
	{
		name: "a raise skips one below", takes: "a number that is one too small counts as raised",
		by: "./internal/quorum TestNeedsRaise",
		edits: []edit{
			{"internal/quorum/token.go", "{ return v.Outcome == Granted && v.Token < t }", "{\n	if BROKEN {\n		return v.Outcome == Granted && v.Token+1 < t\n	}\n	return v.Outcome == Granted && v.Token < t\n}"},
			{"internal/quorum/token.go", "if v.Outcome == Granted && v.Token == t {", "if v.Outcome == Granted && (v.Token == t || BROKEN && v.Token+1 == t) {"},
		},
	},
	{
		name: "a raise by one less", takes: "a raise leaves the counter one below the token",
		by:    "./internal/lua TestWhatEachScriptRefuses",
		edits: []edit{script("raise", "redis.call('HSET', KEYS[2], ARGV[2], ARGV[3])", "redis.call('HSET', KEYS[2], ARGV[2], string.format('%.0f', tonumber(ARGV[3]) - 1))")},
	},
	{
		name: "a raise that lowers", takes: "a raise sets a counter that is above the token already",
		by:    "./internal/lua TestWhatEachScriptRefuses",
		edits: []edit{script("raise", "if c > tonumber(ARGV[3]) then return c end", "")},
	},
	{
		name: "a raise that stores nothing", takes: "a raise leaves the counter where it was",
		by:    "./internal/lua TestWhatEachScriptRefuses",
		edits: []edit{script("raise", "redis.call('HSET', KEYS[2], ARGV[2], ARGV[3])", "")},
	},
	{
		name: "a pass that does not count", takes: "a lock is passed on with the number that the counter has",
		by:    "./internal/lua TestWhatEachScriptRefuses",
		edits: []edit{script("pass", "    c = c + 1\n    hint = c", "    hint = c")},
	},
	{
		name: "a re-seed leaves the counter", takes: "a lock is put back without its number",
		by:    "./internal/lua TestWhatEachScriptRefuses",
		edits: []edit{script("reseed", "if seen < tonumber(token) then", "if false then")},
	},
	{
		name: "a re-seed by the hint", takes: "a lock is put back with its hint in the place of its token",
		by:    "./internal/queue TestTheTokenIsTheNumberOnTheNodesWhereverItIsSaid",
		edits: []edit{{"internal/node/commands.go", "b.arena = append(b.arena, &c.Token)", "if BROKEN {\n				b.arena = append(b.arena, &c.Hint)\n				continue\n			}\n			b.arena = append(b.arena, &c.Token)"}},
	},
	{
		name: "the handle has another token", takes: "a lock says the number of its hint",
		by:    "./internal/queue TestTheTokenIsTheNumberOnTheNodesWhereverItIsSaid",
		edits: []edit{{"lock.go", "{ return Token(l.hold.Claim.Token) } //nolint:gosec // positive", "{\n	if BROKEN {\n		return Token(l.hold.Claim.Hint)\n	}\n	return Token(l.hold.Claim.Token)\n}"}},
	},
	{
		name: "the context has another token", takes: "a context carries the number of the hint",
		by:    "./internal/queue TestTheTokenIsTheNumberOnTheNodesWhereverItIsSaid",
		edits: []edit{{"internal/hold/hold.go", "	token := uint64(h.Claim.Token) //nolint:gosec // positive\n", "	token := uint64(h.Claim.Token)\n	if BROKEN && !h.Claim.Shared() && h.Claim.Slot() == nil {\n		token = uint64(h.Claim.Hint)\n	}\n"}},
	},
	{
		name: "a joiner with an old base", takes: "a node that joins takes no number from the others",
		by:    "./internal/membership TestABlankNodeRejoinsInFourSteps",
		edits: []edit{{"internal/membership/plan.go", "	for _, j := range others {\n		rec.Base = max(rec.Base, v.Nodes[j].Largest)", "	for _, j := range others {\n		if BROKEN {\n			break\n		}\n		rec.Base = max(rec.Base, v.Nodes[j].Largest)"}},
	},
	{
		name: "a joiner that read before it waited", takes: "a node that joins takes its number from what was read before its wait",
		by:    "./internal/membership TestABlankNodeRejoinsInFourSteps",
		edits: []edit{{"internal/membership/plan.go", "	others := slices.DeleteFunc(v.Members(i, since), ", "	if BROKEN {\n		since = 0\n	}\n	others := slices.DeleteFunc(v.Members(i, since), "}},
	},
	// Extension and renewal.
	{
		name: "a renewal is not tried again", takes: "a renewal that failed is the last",
		by:    ". TestAFailedRenewalIsTriedAgainWithinTheValidity",
		edits: []edit{{"internal/hold/hold.go", "	pause := min(retryRenewal, h.valid.Remaining(now)/4)", "	if BROKEN {\n		h.renewAt = clock.Never\n		return\n	}\n	pause := min(retryRenewal, h.valid.Remaining(now)/4)"}},
	},
	{
		name: "one verdict for a batch", takes: "all renewals of a batch have the verdict of its first",
		by:    ". TestAForbiddenNameTakesNoOtherLocksRenewal",
		edits: []edit{{"internal/hold/hold.go", "	door, verdict := h.keeper.Door, e.Verdict(i)\n", "	door, verdict := h.keeper.Door, e.Verdict(i)\n	if BROKEN {\n		verdict = e.Verdict(0)\n	}\n"}},
	},
	{
		name: "a lost extension is not the end", takes: "a lock goes on that no quorum can have",
		by:    ". TestALockThatHalfOfTheNodesHaveIsLost",
		edits: []edit{{"internal/hold/hold.go", "	if verdict == quorum.Lost {", "	if verdict == quorum.Lost && !BROKEN {"}},
	},
	{
		name: "re-seeded before it is confirmed", takes: "a lock is put back on a node before a quorum confirmed it",
		by: ". TestALockThatNoQuorumConfirmedIsNotPutBack",
		edits: []edit{
			{"internal/node/extension.go", "		case quorum.Undecided:\n", "		case quorum.Undecided:\n			if BROKEN {\n				settled = append(settled, k)\n			}\n"},
			{"internal/node/extension.go", " || e.verdicts[k] != quorum.Won && !e.keptLocked(k) {", " || e.verdicts[k] != quorum.Won && !e.keptLocked(k) && !BROKEN {"},
		},
	},
	{
		name: "never re-seeded", takes: "a lock is not put back on a node that lost it",
		by:    ". TestALockThatNoQuorumConfirmedIsNotPutBack",
		edits: []edit{{"internal/node/extension.go", "func (e *Extension) reseedLocked(i int, locks []int) {\n", "func (e *Extension) reseedLocked(i int, locks []int) {\n	if BROKEN {\n		return\n	}\n"}},
	},
	{
		name: "re-seeded behind its release", takes: "a lock that is over is put back, past its tombstone",
		by:    "./internal/queue TestALockThatIsReleasedIsNotPutBack",
		edits: []edit{script("reseed", "elseif val[i] or val[n + i] or redis.call", "elseif val[i] or redis.call"), {"internal/node/pending.go", "g.forget(func(c *round.Claim) bool { return c.Abandoned.Load() })", "g.forget(func(c *round.Claim) bool { return c.Abandoned.Load() && !BROKEN })"}},
	},
	{
		name: "a lapse is not the end", takes: "a confirmation that comes too late revives a lock",
		by:    "./internal/clock TestConfirmNeverRevives",
		edits: []edit{{"internal/clock/lease.go", "	if !v.Holds(now) {\n		return v, false", "	if !v.Holds(now) && !BROKEN {\n		return v, false"}},
	},
	{
		name: "an extension may shorten", takes: "an extension sets the lease, shorter ones too",
		by:    "./internal/lua TestWhatEachScriptRefuses",
		edits: []edit{script("extend", ", 'GT')", ")")},
	},
	{
		name: "an extension without owner check", takes: "an extension confirms anything that is there",
		by:    "./internal/lua TestWhatEachScriptRefuses",
		edits: []edit{script("extend", "if val[i] == ARGV[1 + i] then", "if val[i] then")},
	},
	{
		name: "an extension without epoch", takes: "a node that was flushed confirms",
		by:    "./internal/lua TestWhatEachScriptRefuses",
		edits: []edit{script("extend", "if redis.call('HMGET', KEYS[1], 'epoch')[1] ~= ARGV[1] then", "if false then")},
	},
	{
		name: "silence confirms", takes: "a node that does not answer confirms an extension",
		by:    ". TestAnExtensionWhoseContextEndsBlamesNoNode",
		edits: []edit{{"internal/node/extension.go", "*c = confirmation{outcome: quorum.Unknown, cause: cause}", "if *c = (confirmation{outcome: quorum.Unknown, cause: cause}); BROKEN {\n					c.outcome = quorum.Granted\n				}"}},
	},
	{ // no scenario shows it any more: behind a silence a node is asked first, and what it pushed counts no more
		name: "lease from the push", takes: "what a release granted lasts from when its heir hears of it, not from its sign of life",
		by: "./internal/acquire TestAReleaseGrantsToTheFirstInLine",
		edits: []edit{{"internal/node/replies.go", "since := clock.Instant(p.Reading * int64(time.Millisecond))", `since := clock.Instant(p.Reading * int64(time.Millisecond))
		if BROKEN {
			since = n.Clock.Early()
		}`}},
	},
	{
		name: "validity from the confirmation", takes: "an extension counts from when it was confirmed",
		by:    ". TestAnExtensionCountsFromItsSending",
		edits: []edit{{"internal/hold/hold.go", "valid, ok := h.valid.Confirm(clock.ValidFrom(e.Start, ttl, k.Acquirer.Drift), now)", "start := e.Start\n	if BROKEN {\n		start = now\n	}\n	valid, ok := h.valid.Confirm(clock.ValidFrom(start, ttl, k.Acquirer.Drift), now)"}},
	},
	{
		name: "renewals come late", takes: "a lock is renewed as its lease ends",
		by:    ". TestAFailedRenewalIsTriedAgainWithinTheValidity",
		edits: []edit{{"internal/hold/keeper.go", "	third := ttl / renewalShare\n", "	third := ttl / renewalShare\n	if BROKEN {\n		third = ttl * 98 / 100\n	}\n"}},
	},
	{
		name: "a stale voucher", takes: "a straggler of an older round vouches",
		by:    "./internal/node TestAStragglerOfAnOlderRoundDoesNotVouch",
		edits: []edit{{"internal/round/vouchers.go", "	if v.round == start && v.list.Has(i) {", "	if (v.round == start || BROKEN) && v.list.Has(i) {"}},
	},
	{
		name: "a doubt before the verdict is over", takes: "a node counts that was found to have stepped or forgotten between its word and the verdict",
		by:    ". TestANodeThatIsDoubtedBeforeTheVerdictConfirmsNothing",
		edits: []edit{{"internal/hold/hold.go", "		h.doubt(e.Start)\n", "		if !BROKEN {\n			h.doubt(e.Start)\n		}\n"}},
	},
	// Ends.
	{
		name: "Done stays open", takes: "nobody is told of a lock that is lost",
		by:    ". TestLossIsToldBeforeAnyServerCanGiveTheNameAway",
		edits: []edit{{"internal/hold/hold.go", "	if cancel != nil {\n", "	if cancel != nil && !(BROKEN && why >= Lapsed) {\n"}},
	},
	{
		name: "nobody ends a lapsed lock", takes: "a lock whose validity ended is not ended by itself",
		by:    ". TestLossIsToldBeforeAnyServerCanGiveTheNameAway",
		edits: []edit{{"internal/hold/keeper.go", "		case !holds:\n			h.end(Lapsed)", "		case !holds:\n			if BROKEN {\n				k.remove(h)\n				continue\n			}\n			h.end(Lapsed)"}},
	},
	{
		name: "a hold without bound", takes: "WithMaxHold bounds nothing",
		by:    ". TestTheLongestHoldIsCountedAtTheFirstCallAfterASuspend",
		edits: []edit{{"internal/hold/hold.go", "{ return h.maxUntil != 0 && now >= h.maxUntil }", "{\n	return h.maxUntil != 0 && now >= h.maxUntil && !BROKEN\n}"}},
	},
	{
		name: "a release is repeated for a node timeout", takes: "a release is repeated for a node timeout only",
		by:    ". TestARefusedReleaseIsRepeatedWithPauses",
		edits: []edit{{"internal/acquire/releases.go", "	return node.Release{Claim: c, Life: clock.Milliseconds(lease), Until: a.Clock.Early().Add(lease), Entry: entry, Round: r}", "	until := a.Clock.Early().Add(lease)\n	if BROKEN {\n		until = a.Clock.Early().Add(a.Bound(lease))\n	}\n	return node.Release{Claim: c, Life: clock.Milliseconds(lease), Until: until, Entry: entry, Round: r}"}},
	},
	{
		name: "a full queue refuses renewals", takes: "a queue that is full of asks refuses renewals and hand-overs too",
		by:    "./internal/node TestAQueueFullOfAsksRefusesNothingElse",
		edits: []edit{{"internal/node/node.go", "	case asks && len(n.queue.acquires) >= queueBound:", "	case (asks || BROKEN) && len(n.queue.acquires) >= queueBound:"}},
	},
	{
		name: "a release is sent once", takes: "a release that failed is not repeated",
		by:    ". TestARefusedReleaseIsRepeatedWithPauses",
		edits: []edit{{"internal/node/replies.go", "			n.queue.refuse(r, cause, now)\n		}\n	}\n	n.mu.Unlock()", "			if !BROKEN {\n				n.queue.refuse(r, cause, now)\n			}\n		}\n	}\n	n.mu.Unlock()"}},
	},
	{
		name: "Close drops what it owes", takes: "a Locker that is closed does not send the releases that are out",
		by:    ". TestCloseSendsTheRollbacksThatAreOwed",
		edits: []edit{{"internal/node/writer.go", "			if !n.triesLocked(now) {", "			if BROKEN || !n.triesLocked(now) {"}},
	},
	{
		name: "a doubtful release grants", takes: "a release grants whose acquire may still come",
		by:    ". TestADoubtAboutAnAcquireOutlivesTheReplyToAReseed",
		edits: []edit{{"internal/node/batch.go", "!r.mark.Doubtful() &&", "(!r.mark.Doubtful() || BROKEN) &&"}},
	},
	{
		name: "a release grants beside its entry", takes: "a release leaves the entry beside a key that was put back",
		by:    "./internal/queue TestAReleaseTakesTheEntryFromWhereTheLockWasPutBack",
		edits: []edit{{"internal/node/batch.go", "!beside &&", "(!beside || BROKEN) &&"}},
	},
	{
		name: "a refused release grants", takes: "a release that was refused, and may have granted, goes again as one that grants",
		by: "./internal/acquire TestAReleaseThatMayHaveGrantedGoesAgainAsOneThatCalls",
		edits: []edit{
			{"internal/node/batch.go", "r.rejected == nil && (r.Entry", "(r.rejected == nil || BROKEN) && (r.Entry"},
			{"internal/node/replies.go", "		c.releases[i].Hint, c.releases[i].Next = 0, nil", "		c.releases[i].Hint, c.releases[i].Next = c.releases[i].Hint*int64(flag(BROKEN)), nil"},
		},
	},
}
