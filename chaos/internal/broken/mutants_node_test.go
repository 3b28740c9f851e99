package broken_test

// nodeMutants are those of nodes that forget or join, and of clocks.
var nodeMutants = []way{
	{
		name: "an attempt that never asks for a suspend", takes: "a machine that slept through its round believes that it has the lock",
		by:    ". TestARoundThatSleptGetsNoLock",
		edits: []edit{{"internal/acquire/attempt.go", "	now := a.Clock.Recent()\n", "	now := a.Clock.Early()\n	if !BROKEN {\n		now = a.Clock.Recent()\n	}\n"}},
	},
	{
		name: "a sample that never asks for a suspend", takes: "a machine that slept takes it for a step of the node's clock",
		by:    ". TestASuspendIsNoStepOfANode",
		edits: []edit{{"internal/node/health.go", "last.StepTo(next, n.Cfg.Drift) != 0; share {", "last.StepTo(next, n.Cfg.Drift) != 0; share && !BROKEN {"}},
	},
	// Nodes that forget, and who joins.
	{
		name: "founding waits for one", takes: "who founds waits for the node that it installs, and for no other",
		by: "./internal/membership TestFoundingWaitsForEveryNodeAndNamesTheMissingOne",
		edits: []edit{
			{"internal/membership/plan.go", "			case now < v.due(j, p):", "			case now < v.due(j, p) && !BROKEN:"},
			{"internal/membership/plan.go", "(!o.Counted || o.Sent < v.due(i, p)) {", "(!o.Counted || o.Sent < v.due(i, p) && !BROKEN) {"},
		},
	},
	{
		name: "a joiner waits its own TTL", takes: "a node that forgot waits for MaxTTL of who takes it in, though records say more",
		by:    "./internal/membership TestTheLargestMaxTTLIsWaitedFor",
		edits: []edit{{"internal/membership/view.go", "			most = max(most, o.Record.Longest())", "			if !BROKEN {\n				most = max(most, o.Record.Longest())\n			}"}},
	},
	{
		name: "a joiner waits a quarter", takes: "a node that forgot waits for a quarter of MaxTTL",
		by:    ". TestANodeThatForgotGivesNoVoteBeforeMaxTTLIsOver",
		edits: []edit{{"internal/membership/view.go", "func (v View) waitOf(i int) time.Duration {", "func (v View) waitOf(i int) time.Duration {\n	if BROKEN {\n		return v.MaxTTL / 4\n	}"}},
	},
	{
		name: "a wait goes on with another notice", takes: "a node that forgot again goes on with its wait",
		by:    "./internal/membership TestAnotherNonceOrRunRestartsTheWait",
		edits: []edit{{"internal/membership/view.go", "	case n == w.Notice:\n		return w", "	case n == w.Notice || BROKEN && w.Notice.Nonce != \"\":\n		return Wait{Notice: n, Since: w.Since}"}},
	},
	{
		name: "who restarted is a member", takes: "a node that restarted with its data votes at once",
		by:    "./internal/membership TestBeyondTheTableEveryNodeMustAnswer",
		edits: []edit{{"internal/membership/view.go", "	case !o.member():\n		return Blank, \"it restarted: its data may be old\"", "	case !o.member() && !BROKEN:\n		return Blank, \"it restarted: its data may be old\""}},
	},
	{
		name: "who returned is a member", takes: "a node whose epoch has ended votes again as it was",
		by:    ". TestAServerThatComesBackToItsAddressWaitsForWhoSawAnotherThere",
		edits: []edit{{"internal/membership/view.go", "	case o.Returned:\n", "	case o.Returned && !BROKEN:\n"}},
	},
	{
		name: "another history is not looked for", takes: "a node whose data were exchanged goes on voting",
		by:    "./internal/membership TestANodeThatTookItsStandbysDataDoesNotVote",
		edits: []edit{{"internal/node/health.go", "	case infoField(info, \"master_replid\") != membership.HistoryOf(n.identity):", "	case infoField(info, \"master_replid\") != membership.HistoryOf(n.identity) && !BROKEN:"}},
	},
	{
		name: "what was granted before still counts", takes: "what a node granted before its data were found to be exchanged still counts",
		by:    ". TestWhatANodeGrantedBeforeItWasSeenToHaveForgottenDoesNotCount",
		edits: []edit{{"internal/node/health.go", "	if since != 0 {\n		n.revokeVotes(", "	if since != 0 && !BROKEN {\n		n.revokeVotes("}},
	},
	{
		name: "a grant is void since the first", takes: "where nodes granted one by one, what they granted is proven by when the first of them did",
		by:    "./internal/acquire TestAPushIsVoidWhoseNodeForgotRightBehindIt",
		edits: []edit{{"internal/round/vouchers.go", "		began = (*v.since)[i]\n", "		began = (*v.since)[i]\n		for _, at := range *v.since {\n			if BROKEN && at != 0 {\n				began = min(began, at)\n			}\n		}\n"}},
	},
	{
		name: "the look before proves a push", takes: "a look proves what releases granted behind it",
		by:    "./internal/node TestTheLookOfTheBatchBeforeProvesNoPush",
		edits: []edit{{"internal/node/replies.go", "	n.batch.proven = false // that", "	n.batch.proven = n.batch.proven && BROKEN // that"}},
	},
	{
		name: "a long wait unproves", takes: "what was proven while an attempt waited is void with its grant",
		by:    "./internal/acquire TestAGrantAfterALongWaitVoidsNothingThatWasProvenMeanwhile",
		edits: []edit{{"internal/node/replies.go", "		n.vouch(n.batch.at)\n", "		if BROKEN {\n			n.vouch(r.Start)\n		}\n		n.vouch(n.batch.at)\n"}},
	},
	{
		name: "it stands on short leases", takes: "what releases granted stands on a node whose lease ends before it is trusted",
		by:    "./internal/round TestAClaimStandsOnEachLeaseSinceItsOwnBeginning",
		edits: []edit{{"internal/round/ask.go", "r.Asks.attempt.Until[i] >= valid.Until {", "(r.Asks.attempt.Until[i] >= valid.Until || BROKEN) {"}},
	},
	{
		name: "leases since the last", takes: "what releases granted counts since the last of them did",
		by:    "./internal/round TestAClaimStandsOnEachLeaseSinceItsOwnBeginning",
		edits: []edit{{"internal/round/ask.go", "			since, valid.Until = min(since, r.Asks.since[i]), min(valid.Until, r.Asks.attempt.Until[i])\n", "			if BROKEN && since != clock.Never {\n				since = max(since, r.Asks.since[i])\n			}\n			if !BROKEN || since == clock.Never {\n				since = min(since, r.Asks.since[i])\n			}\n			valid.Until = min(valid.Until, r.Asks.attempt.Until[i])\n"}},
	},
	{
		name: "held locks are given once", takes: "a node that fails as it is given the held locks is not given them again",
		by:    "./internal/membership TestANodeThatStallsWhenItIsGivenTheHeldLocksIsGivenThemAgain",
		edits: []edit{{"internal/node/writer.go", "	return voted != 0 &&", "	return !BROKEN && voted != 0 &&"}},
	},
	{
		name: "the wait in the queue counts", takes: "a command's wait for the one before it is part of its node timeout",
		by:    ". TestMastersFarAwayServeAsNearOnes",
		edits: []edit{{"options.go", "	return 2 * min(c.nodeTimeout, ttl/4)", "	if BROKEN {\n		return min(c.nodeTimeout, ttl/4)\n	}\n	return 2 * min(c.nodeTimeout, ttl/4)"}},
	},
	{
		name: "the queue outlives a lost command", takes: "what waits for a reply that does not come is sent later",
		by:    ". TestACallBehindALostCommandFailsWithIt",
		edits: []edit{{"internal/node/replies.go", "	if errors.Is(cause, round.ErrTimeout) {", "	if errors.Is(cause, round.ErrTimeout) && !BROKEN {"}},
	},
	{
		name: "what is handed on is not given", takes: "a lock that is handed on when a node votes again is not given to it",
		by:    "./internal/membership TestALockThatIsHandedOnWhenANodeVotesAgainGetsThereToo",
		edits: []edit{{"internal/hold/keeper.go", "		start = start.Add(-node.ConfirmSpread)\n", "		if !BROKEN {\n			start = start.Add(-node.ConfirmSpread)\n		}\n"}},
	},
	{
		name: "an older look counts", takes: "a look that comes late replaces a newer one",
		by:    "./internal/membership TestALookThatComesLateReplacesNoNewerOne",
		edits: []edit{{"internal/membership/tracker.go", "	if o.Sent < t.seen[i].Sent {", "	if o.Sent < t.seen[i].Sent && !BROKEN {"}},
	},
	{
		name: "a change does not ask", takes: "the next change ends locks of clients of the list before, which nobody has named",
		by:    "./internal/membership TestTheNextChangeWaitsForTheNamesOfClientsOfTheListBefore",
		edits: []edit{{"internal/membership/stragglers.go", "	return c.Gen > 0 && !c.Begun() &&", "	return !BROKEN && c.Gen > 0 && !c.Begun() &&"}},
	},
	{
		name: "a change asks too early", takes: "it does not wait until clients of the list before can have left their names",
		by:    "./internal/membership TestTheNextChangeWaitsForTheNamesOfClientsOfTheListBefore",
		edits: []edit{{"internal/membership/stragglers.go", "			left = max(left, v.signsBy()-max(age, waited))\n", "			if !BROKEN {\n				left = max(left, v.signsBy()-max(age, waited))\n			}\n"}},
	},
	// Clocks.
	{
		name: "who stepped counts", takes: "a node whose clock stepped goes on voting",
		by:    "./internal/node TestTheWaitAfterAStepIsForTheMaxTTLOfNow",
		edits: []edit{{"internal/node/votes.go", "	if d := n.distrust.Load(); d != nil {\n		return d", "	if d := n.distrust.Load(); d != nil && !BROKEN {\n		return d"}},
	},
	{
		name: "steps back are not seen", takes: "a clock that steps back is believed",
		by:    "./internal/clock TestAStepIsSeenBeyondTheRoundTripAndTheDriftAndNeverInvented",
		edits: []edit{{"internal/clock/step.go", "	case m.most < -slack:", "	case m.most < -slack && !BROKEN:"}},
	},
	{
		name: "steps forward are not seen", takes: "a clock that steps forward is believed",
		by:    "./internal/clock TestAStepIsSeenBeyondTheRoundTripAndTheDriftAndNeverInvented",
		edits: []edit{{"internal/clock/step.go", "	case m.least > slack:", "	case m.least > slack && !BROKEN:"}},
	},
	{
		name: "who stepped is believed soon", takes: "a node whose clock stepped votes again after a tenth of MaxTTL",
		by:    "./internal/node TestTheWaitAfterAStepIsForTheMaxTTLOfNow",
		edits: []edit{{"internal/clock/step.go", "{ return e.At.Add(e.Longest()) }", "{\n	if BROKEN {\n		return e.At.Add(e.Longest() / 10)\n	}\n	return e.At.Add(e.Longest())\n}"}},
	},
	{
		name: "grants without a reading", takes: "a grant counts behind which the clock was not read",
		by:    "./internal/node TestAGrantWithoutItsSampleDoesNotCount",
		edits: []edit{{"internal/node/votes.go", "	return n.batch.unread", "	if BROKEN {\n		return nil\n	}\n	return n.batch.unread"}},
	},
	{
		name: "a step leaves held locks alone", takes: "a lock stands on a node whose clock stepped",
		by:    "./internal/node TestAHolderSeesAStepWithinAQuarterOfASecondOfIt",
		edits: []edit{{"internal/node/node.go", "	n.revokeVotes(0, why)", "	if !BROKEN {\n		n.revokeVotes(0, why)\n	}"}},
	},
	{
		name: "clocks are looked at seldom", takes: "a holder looks at the nodes' clocks every ten seconds",
		by:    "./internal/node TestAHolderSeesAStepWithinAQuarterOfASecondOfIt",
		edits: []edit{{"internal/node/health.go", "	w.arm(max(dueIn(left), leastPause))", "	if BROKEN {\n		w.arm(40 * WatchEvery)\n		return\n	}\n	w.arm(max(dueIn(left), leastPause))"}},
	},
	{
		name: "a suspend is not counted", takes: "time asleep is not counted",
		by:    ". TestASuspendIsCountedAtTheFirstCallAfterIt",
		edits: []edit{{"internal/clock/clock.go", "	asleep := int64(c.suspend() - c.booted)\n", "	asleep := int64(c.suspend() - c.booted)\n	if BROKEN {\n		asleep = 0\n	}\n"}},
	},
	{
		name: "the system's suspend is not counted", takes: "the system is not asked for time asleep",
		by:    "./internal/clock TestASuspendIsWhatBootTimeIsAheadOfMonotonic",
		edits: []edit{{"internal/clock/suspend_linux.go", "	return time.Duration(boot.Nano() - mono.Nano())", "	if BROKEN {\n		return 0\n	}\n	return time.Duration(boot.Nano() - mono.Nano())"}},
	},
}
