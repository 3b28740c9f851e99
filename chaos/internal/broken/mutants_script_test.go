package broken_test

// scriptMutants are those of what the scripts and their marks refuse, of shared holds, slots and waiting.
var scriptMutants = []way{
	// Epochs, owners and tombstones of scripts.
	{
		name: "a batch without epoch", takes: "a node that was flushed grants batches of locks",
		by:    "./internal/lua TestWhatEachScriptRefuses",
		edits: []edit{script("acquire_batch", "if rec[1] ~= ARGV[1] then", "if false then")},
	},
	{
		name: "a batch past the line", takes: "batches of locks go before those who wait",
		by:    "./internal/lua TestWhatEachScriptRefuses",
		edits: []edit{script("acquire_batch", "elseif waiting and (hasWaiter(", "elseif false and (hasWaiter(")},
	},
	{
		name: "a batch past tombstones", takes: "a batch of locks grants what was released before",
		by:    "./internal/lua TestWhatEachScriptRefuses",
		edits: []edit{script("acquire_batch", "elseif val and val[n + 2 + i] then", "elseif false then")},
	},
	{
		name: "a batch past a holder", takes: "a batch of locks grants what another holds",
		by: "./internal/lua TestWhatEachScriptRefuses",
		edits: []edit{
			script("acquire_batch", "c = holder == ARGV[owners + i] and c", "c = c"),
		},
	},
	{
		name: "a tombstone without the node's mark", takes: "an acquire that comes behind its release is granted",
		by:    "./internal/lua TestWhatEachScriptRefuses",
		edits: []edit{script("tombstone", "ipairs({key, 'redlock:tombstones'})", "ipairs({key})")},
	},
	{
		name: "a shorter mark of tombstones", takes: "a node with a long tombstone and a short one forgets the long one",
		by:    "./internal/lua TestWhatEachScriptRefuses",
		edits: []edit{script("tombstone", "if redis.call('PTTL', mark) < tonumber(life) then", "if true then")},
	},
	{
		name: "a batch that says that no two names share a stripe", takes: "two names on one stripe get one token",
		by:    "./internal/node TestABatchTellsOfSharedStripes",
		edits: []edit{{"internal/node/commands.go", "if seen[word]&bit != 0 {", "if seen[word]&bit != 0 && !BROKEN {"}},
	},
	{
		name: "an acquire without epoch", takes: "a node that was flushed grants a lock",
		by:    "./internal/lua TestWhatEachScriptRefuses",
		edits: []edit{script("acquire", "if rec[1] ~= ARGV[5] then return 0 end", "")},
	},
	{
		name: "an acquire past its tombstone", takes: "an acquire that comes behind its release is granted",
		by:    "./internal/lua TestWhatEachScriptRefuses",
		edits: []edit{script("acquire", "if val[4] then return -1 end", "")},
	},
	{
		name: "an acquire that does not count", takes: "a grant is not written to the counter",
		by:    "./internal/lua TestWhatEachScriptRefuses",
		edits: []edit{script("acquire", "call('HSET', KEYS[2], ARGV[4], hint)", "")},
	},
	{
		name: "an ask without epoch", takes: "a node that was flushed grants to who waits",
		by:    "./internal/lua TestWhatEachScriptRefuses",
		edits: []edit{script("ask", "if rec[1] ~= ARGV[1] then", "if false then")},
	},
	{
		name: "an ask past its tombstone", takes: "an ask that comes behind its release is granted",
		by:    "./internal/lua TestWhatEachScriptRefuses",
		edits: []edit{script("ask", "elseif val[2] then\n    reply = -1\n", "elseif false then\n    reply = -1\n")},
	},
	{
		name: "a pass without owner check", takes: "a pass takes another's lock",
		by:    "./internal/lua TestWhatEachScriptRefuses",
		edits: []edit{script("pass", "if val[1] ~= ARGV[1] then", "if not val[1] then")},
	},
	{
		name: "a pass of nothing", takes: "a pass says that it passed what is not there",
		by:    "./internal/lua TestWhatEachScriptRefuses",
		edits: []edit{script("pass", "c = -4", "c = c + 1")},
	},
	{
		name: "a pass without epoch", takes: "a node that was flushed passes locks on",
		by:    "./internal/lua TestWhatEachScriptRefuses",
		edits: []edit{script("pass", "if rec[1] ~= ARGV[6] then\n  c = 0\nelse", "")},
	},
	{
		name: "a pass past its tombstone", takes: "a pass that comes behind its release is done",
		by:    "./internal/lua TestWhatEachScriptRefuses",
		edits: []edit{script("pass", "elseif val[2] then\n  c = -1\n", "")},
	},
	{
		name: "a pass that keeps the owner", takes: "a pass leaves the old owner on the node",
		by:    "./internal/lua TestWhatEachScriptRefuses",
		edits: []edit{script("pass", "call('SET', KEYS[1], ARGV[2], 'XX', 'PX', ARGV[3])", "call('PEXPIRE', KEYS[1], ARGV[3])")},
	},
	{
		name: "a pass that is not marked", takes: "a pass under way leaves no doubt where it went",
		by:    "./internal/queue TestALostPassLeavesNothingBehind",
		edits: []edit{{"internal/node/pending.go", "			h.Round.Claim.Marks[q.node] |= quorum.Unsure |", "			if !BROKEN {\n				h.Round.Claim.Marks[q.node] |= quorum.Unsure\n			}\n			h.Round.Claim.Marks[q.node] |="}},
	},
	{
		name: "a lost pass leaves the old owner", takes: "where a pass was lost the old claim is not released",
		by:    "./internal/queue TestALostPassLeavesNothingBehind",
		edits: []edit{{"internal/node/replies.go", "	if !quorum.TookOver(v.Outcome) {\n", "	if BROKEN && v.Outcome == quorum.Unknown {\n		h.Round.Deliver(n.Index, v, err)\n		return recheck\n	}\n	if !quorum.TookOver(v.Outcome) {\n"}},
	},
	{
		name: "a requeue forgets doubt", takes: "an acquire that goes again makes an earlier one be forgotten",
		by:    "./internal/queue TestADoubtAboutAnAskOutlivesTheReplyToTheNext",
		edits: []edit{{"internal/node/pending.go", "r.Claim.Marks[q.node] = r.Claim.Marks[q.node].After(quorum.Failed)", "r.Claim.Marks[q.node] = r.Claim.Marks[q.node].After(quorum.Failed)\n		if BROKEN {\n			r.Claim.Marks[q.node] = quorum.Absent\n		}"}},
	},
	{
		name: "a later reply ends doubt", takes: "the reply to a second command ends the doubt of the first",
		by:    "./internal/queue TestADoubtAboutAnAskOutlivesTheReplyToTheNext",
		edits: []edit{{"internal/quorum/mark.go", "	if m&Unsure != 0 {", "	if m&Unsure != 0 && !BROKEN {"}},
	},
	{
		name: "a refused rollback is sure", takes: "the attempt that a refused rollback puts in line is released without a tombstone",
		by:    "./internal/node TestWhatMayPutAnAttemptInLineLateIsDoubted",
		edits: []edit{{"internal/node/pending.go", "next != nil && r.Entry == round.LeaveEntry {", "next != nil && r.Entry == round.LeaveEntry && !BROKEN {"}},
	},
	{
		name: "a raise without epoch", takes: "a node that was flushed raises",
		by:    "./internal/lua TestWhatEachScriptRefuses",
		edits: []edit{script("raise", "if rec[1] ~= ARGV[4] then return -1 end", "")},
	},
	{
		name: "a raise without owner check", takes: "a raise counts where another holds",
		by:    "./internal/lua TestWhatEachScriptRefuses",
		edits: []edit{script("raise", "if redis.call('MGET', KEYS[1])[1] ~= ARGV[1] then return 0 end", "")},
	},
	{
		name: "a re-seed without epoch", takes: "a lock is put back on a node that does not vote",
		by:    "./internal/lua TestWhatEachScriptRefuses",
		edits: []edit{script("reseed", "if rec[1] ~= ARGV[1] then", "if false then")},
	},
	{
		name: "a re-seed past its tombstone", takes: "a lock that was released is put back",
		by:    "./internal/lua TestWhatEachScriptRefuses",
		edits: []edit{script("reseed", "elseif val[i] or val[n + i] or redis.call", "elseif val[i] or redis.call")},
	},
	{
		name: "a re-seed over another", takes: "a lock is put back over another's",
		by:    "./internal/lua TestWhatEachScriptRefuses",
		edits: []edit{script("reseed", "elseif val[i] or val[n + i] or redis.call('EXISTS', KEYS[1 + i]) == 1 then", "elseif val[n + i] then")},
	},
	{
		name: "a hand without epoch", takes: "a node that was flushed grants by a release",
		by: "./internal/lua TestWhatEachScriptRefuses",
		edits: []edit{
			script("hand", "votes, held, counted, alive, out = tonumber(rec[2] or 0), rec[1] == ARGV[1],", "votes, held, counted, alive, out = tonumber(rec[2] or 0), true,"),
			script("hand_one", "local votes, c = rec[1] == ARGV[2],", "local votes, c = true,"),
		},
	},
	{
		name: "a hand of another's lock", takes: "a late release grants another's lock on",
		by: "./internal/lua TestWhatEachScriptRefuses",
		edits: []edit{
			script("hand", "if holder == owner then", "if holder then"),
			script("hand_one", "if holder == owner then", "if holder then"),
		},
	},
	{
		name: "a batch of releases without owner check", takes: "a late release in a batch deletes another's lock",
		by:    "./internal/lua TestWhatEachScriptRefuses",
		edits: []edit{script("release_batch", "if val[i] == ARGV[1 + i] then", "if val[i] then")},
	},
	{
		name: "a tombstone too short", takes: "a tombstone lasts a tenth of a lease",
		by: "./internal/lua TestWhatEachScriptRefuses",
		edits: []edit{
			script("tombstone", "redis.call('SET', mark, '1', 'PX', life)", "redis.call('SET', mark, '1', 'PX', string.format('%.0f', math.ceil(tonumber(life) / 10)))"),
		},
	},
	// Shared holds and slots.
	{
		name: "a share without epoch", takes: "a node that was flushed lets share",
		by:    "./internal/lua TestWhatEachScriptRefuses",
		edits: []edit{script("share", "if rec[1] ~= ARGV[1] then", "if false then")},
	},
	{
		name: "a shared extension without epoch", takes: "a node that was flushed confirms who shares",
		by:    "./internal/lua TestWhatEachScriptRefuses",
		edits: []edit{script("extend_shared", "if call('HMGET', KEYS[1], 'epoch')[1] ~= ARGV[1] then", "if false then")},
	},
	{
		name: "a shared raise without epoch", takes: "a node that was flushed raises of who shares",
		by:    "./internal/lua TestWhatEachScriptRefuses",
		edits: []edit{script("raise_shared", "if rec[1] ~= ARGV[4] then return -1 end", "")},
	},
	{
		name: "a shared re-seed without epoch", takes: "who shares is put back on a node that does not vote",
		by:    "./internal/lua TestWhatEachScriptRefuses",
		edits: []edit{script("reseed_shared", "if rec[1] ~= ARGV[1] then", "if false then")},
	},
	{
		name: "a shared re-seed over another", takes: "who shares is put back over one who is alone",
		by:    "./internal/lua TestWhatEachScriptRefuses",
		edits: []edit{script("reseed_shared", "elseif not ours and (mark[1] or mark.err) or call('EXISTS', KEYS[1 + n + i]) == 1 then", "elseif not ours and call('DEL', key) == 2 then")},
	},
	{
		name: "a slot without epoch", takes: "a node that was flushed grants slots",
		by:    "./internal/lua TestWhatEachScriptRefuses",
		edits: []edit{script("ask_slot", "if rec[1] ~= ARGV[1] then return {0, 0, 0, 0, 0} end", "")},
	},
	{
		name: "a slot past its tombstone", takes: "an ask for a slot that comes behind its release is granted",
		by:    "./internal/lua TestWhatEachScriptRefuses",
		edits: []edit{script("ask_slot", "if val[2] and left == -2 then return {-1, 0, 0, 0, 0} end", "")},
	},
	{
		name: "a slot is released without owner check", takes: "a late release of a slot deletes another's",
		by:    "./internal/lua TestWhatEachScriptRefuses",
		edits: []edit{script("release_slot", "if val[1] == ARGV[1] then gone", "if val[1] then gone")},
	},
	{
		name: "one slot too many", takes: "a name has one slot more than was said",
		by:    ". TestThreeOnThreeNodesDoNotHoldTwoSlots",
		edits: []edit{{"internal/slots/slots.go", "min(int(roll*float64(c.limit)), c.limit-1)", "min(int(roll*float64(c.limit)), c.limit-1)\n		if BROKEN {\n			slot = c.limit\n		}"}},
	},
	{
		name: "one who shares asks by its leader's place", takes: "one who was slow to ask goes by the place that its group's leader has taken",
		by:    "./internal/queue TestWhoIsSlowToShareLeavesTheLeadToTheLeader",
		edits: byLeadersPlace,
	},
	{
		name: "a slot by the first refusals", takes: "one who asks for a slot once goes by the first quorum of refusals",
		by:    ". TestTryAcquireTakesASlotThatOnlyAQuorumHasFree",
		edits: []edit{{"internal/acquire/attempt.go", "		if s == round.Finished && quorum.Count", "		if !BROKEN && s == round.Finished && quorum.Count"}},
	},
	{
		name: "a group's place stays", takes: "the place of a group stays in line whose last one was granted without it",
		by:    "./internal/queue TestAPlaceGoesWhereTheLastOfItsGroupIsGrantedWithoutIt",
		edits: []edit{{"internal/acquire/acquire.go", "	byPlace := err == nil && *g.Claim.Place() == a.Queue.Position(name)\n", "	byPlace := err == nil && (*g.Claim.Place() == a.Queue.Position(name) || BROKEN)\n"}},
	},
	// Waiting.
	{
		name: "signs of life too short", takes: "a sign of life lasts for less than the time to the next",
		by: "./internal/lua TestWhatEachScriptRefuses",
		edits: []edit{
			script("look", "call('SET', live, reading or '1', 'PX', '3000')", "call('SET', live, reading or '1', 'PX', '300')"),
			script("ask", "call('SET', 'redlock:live:' .. id, reading, 'PX', '3000')", "call('SET', 'redlock:live:' .. id, reading, 'PX', '300')"),
		},
	},
	{
		name: "a grant for longer", takes: "a release grants for ten leases",
		by: "./internal/lua TestWhatEachScriptRefuses",
		edits: []edit{
			script("hand", "call('SET', key, holder, 'PX', '3000')", "call('SET', key, holder, 'PX', '30000')"),
			script("hand_one", "call('SET', key, newOwner, 'PX', '3000')", "call('SET', key, newOwner, 'PX', '30000')"),
		},
	},
	{
		name: "a push of another epoch", takes: "a grant counts that was told under another epoch, or to another attempt",
		by:    "./internal/acquire TestAPushThatIsNotOfOurEpochAndAttemptIsNoGrant",
		edits: []edit{{"internal/node/replies.go", "|| !p.Grants(n.epoch, p.round.Claim.Owner) {", "|| !p.Grants(n.epoch, p.round.Claim.Owner) && !BROKEN {"}},
	},
	{
		name: "a grant to an attempt that is over stays", takes: "nothing releases what a node grants to an attempt that is over",
		by:    "./internal/acquire TestAGrantToAnAttemptThatIsOverIsGivenBack",
		edits: []edit{{"internal/queue/presence.go", "		case w.queue.ended.before(", "		case !BROKEN && w.queue.ended.before("}},
	},
	{
		name: "an attempt that was handed on is not over", takes: "the attempt in line is not over with the hold that it was handed on to",
		by:    "./internal/acquire TestAGrantToAnAttemptThatIsOverIsGivenBack",
		edits: []edit{{"internal/acquire/releases.go", "owner := *c.QueueOwner(); owner != \"\" {", "owner := *c.QueueOwner(); owner != \"\" && (c.AcceptsPush() || !BROKEN) {"}},
	},
	{
		name: "an attempt that goes on is not over", takes: "nothing notes the end of a hold whose process goes on in line",
		by:    "./internal/acquire TestAGrantToAnAttemptThatIsOverIsGivenBack",
		edits: []edit{{"internal/acquire/releases.go", "	a.ends(old)\n", "	if old.Abandoned.Store(true); !BROKEN {\n		a.ends(old)\n	}\n"}},
	},
	{
		name: "a place that nobody has is told", takes: "a look tells nodes of a process that has no place yet, before all others",
		by:    "./internal/queue TestNoNodeIsToldOfAPlaceThatNobodyHas",
		edits: []edit{{"internal/queue/queue.go", "return position != quorum.NoTicket && name != nil", "return (BROKEN || position != quorum.NoTicket) && name != nil"}},
	},
}
