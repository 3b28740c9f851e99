package broken_test

// changeMutants are those of changes of the list of nodes, whose other ways are changeWays.
var changeMutants = []way{
	{
		name: "a change by one node less", takes: "a list is in force once one node less than a quorum has accepted it",
		by:    "./internal/membership TestTheNextListIsInForceOnceAQuorumHasAcceptedIt",
		edits: []edit{{"internal/membership/change.go", "	if turn.Done >= turn.Of {\n		return c.force(v, Record{", "	if turn.Done >= turn.Of || BROKEN && turn.Done+1 >= turn.Of {\n		return c.force(v, Record{"}},
	},
	{
		name: "a proposal is not adopted", takes: "an operator who finds what another proposed goes on with its own",
		by:    "./internal/membership TestWhatAnotherOperatorProposedIsFinished",
		edits: []edit{{"internal/membership/change.go", "			if o.Record.Proposed.Ballot > latest.Ballot {", "			if o.Record.Proposed.Ballot > latest.Ballot && !BROKEN {"}},
	},
	{
		name: "an operator heeds no other", takes: "an operator goes on though another has a higher ballot",
		by:    "./internal/membership TestAnOperatorStopsForAHigherBallot",
		edits: []edit{{"internal/membership/change.go", "		if c.Ballot != 0 && o.ofCluster(c.Cluster) && o.Record.Gen == c.Gen && o.Record.Ballot > c.Ballot {", "		if !BROKEN && c.Ballot != 0 && o.ofCluster(c.Cluster) && o.Record.Gen == c.Gen && o.Record.Ballot > c.Ballot {"}},
	},
	{
		name: "late answers settle", takes: "an operator counts as settled what nodes did long ago",
		by:    "./internal/membership TestARoundOfAChangeCountsForHalfOfMaxTTL",
		edits: []edit{{"internal/membership/change.go", "	if c.Began != 0 && c.Until == 0 && now >=", "	if !BROKEN && c.Began != 0 && c.Until == 0 && now >="}},
	},
	{
		name: "late answers accept", takes: "an operator counts as accepted what nodes did long ago",
		by:    "./internal/membership TestARoundOfAChangeCountsForHalfOfMaxTTL",
		edits: []edit{{"internal/membership/change.go", "		c.Asked != 0 && now >= c.Asked.Add(v.window()) {", "		!BROKEN && c.Asked != 0 && now >= c.Asked.Add(v.window()) {"}},
	},
	{
		name: "a joiner counts by one list", takes: "who joins reads enough by the latest list alone",
		by:    "./internal/membership TestAJoinerCountsByEachListThatHasIt",
		edits: []edit{{"internal/membership/lists.go", "	out := [][]string{v.newest.Names, v.newest.Before}\n", "	out := [][]string{v.newest.Names, v.newest.Before}\n	if BROKEN {\n		return out[:1]\n	}\n"}},
	},
	{
		name: "a joiner copies no proposal", takes: "who joins does not know what was accepted",
		by:    "./internal/membership TestAJoinerCountsByEachListThatHasIt",
		edits: []edit{{"internal/membership/lists.go", "			if o.Record.Proposed.Ballot > r.Proposed.Ballot {", "			if o.Record.Proposed.Ballot > r.Proposed.Ballot && !BROKEN {"}},
	},
	{
		name: "an admit ends waits in a change", takes: "who joins during a change is admitted without its wait",
		by:    "./internal/membership TestAJoinerCountsByEachListThatHasIt",
		edits: []edit{{"internal/membership/plan.go", "	if p.Admit && !v.changing() {", "	if p.Admit && (!v.changing() || BROKEN) {"}},
	},
	{
		name: "the list before is accepted for good", takes: "a node votes for the list before, though a change has begun",
		by:    "./internal/membership TestANodeVotesForItsListAndTheOneBeforeUntilTheNextChange",
		edits: []edit{{"internal/membership/lists.go", " || !r.Settled && slices.Equal(r.Before, c.sorted)", " || (!r.Settled || BROKEN) && slices.Equal(r.Before, c.sorted)"}},
	},
	{
		name: "a lease above MaxTTL", takes: "a node votes for a longer lease than its record allows",
		by:    "./internal/membership TestALongerLeaseTakesALongerMaxTTL",
		edits: []edit{{"internal/node/batch.go", "b.longest > 0 && lease > b.longest {", "!BROKEN && b.longest > 0 && lease > b.longest {"}},
	},
	{
		name: "an extension above MaxTTL", takes: "a lock is lengthened beyond what the record allows",
		by:    "./internal/node TestAnExtensionAboveMaxTTLIsRefusedAloneOfItsCall",
		edits: []edit{{"internal/node/writer.go", "	n.boundGroups()\n", "	if !BROKEN {\n		n.boundGroups()\n	}\n"}},
	},
	{
		name: "a release grants above MaxTTL", takes: "a release grants for longer than the record allows",
		by:    "./internal/membership TestNoReleaseGrantsMoreThanMaxTTL",
		edits: []edit{{"internal/node/batch.go", "b.bounds(grant.Lease.Milliseconds()) == nil &&", "(b.bounds(grant.Lease.Milliseconds()) == nil || BROKEN) &&"}},
	},
	{
		name: "the MaxTTL before is forgotten", takes: "who joins waits the lowered MaxTTL while longer leases run",
		by:    "./internal/membership TestALongerLeaseOutlastsTheLowering",
		edits: []edit{{"internal/membership/record.go", "	now := max(r.MaxTTL, r.BeforeMaxTTL)\n", "	now := max(r.MaxTTL, r.BeforeMaxTTL)\n	if BROKEN {\n		now = r.MaxTTL\n	}\n"}},
	},
	{
		name: "the MaxTTL proposed is forgotten", takes: "who joins waits the shorter MaxTTL while a longer one comes",
		by:    "./internal/membership TestALongerLeaseTakesALongerMaxTTL",
		edits: []edit{{"internal/membership/record.go", "	return max(now, r.Proposed.MaxTTL)\n", "	if BROKEN {\n		return now\n	}\n	return max(now, r.Proposed.MaxTTL)\n"}},
	},
	{
		name: "no close", takes: "a MaxTTL that came down leaves the earlier one in all waits",
		by:    "./internal/membership TestWhatIsWantedComesInSteps",
		edits: []edit{{"internal/membership/change.go", " || before > at.MaxTTL {", " || !BROKEN && before > at.MaxTTL {"}},
	},
	{
		name: "strict where it is not", takes: "a client with strict recovery counts votes of a cluster without",
		by:    "./internal/membership TestWhoHasTheOptionGetsNoVoteOfAClusterWithout",
		edits: []edit{{"internal/membership/view.go", "	return state == Member && v.Strict &&", "	return !BROKEN && state == Member && v.Strict &&"}},
	},
	{
		name: "a founder goes over what changed", takes: "a founder installs a node that is not as it was when it began",
		by:    "./internal/membership TestAFoundingGoesOnWhileNodesAreAsTheyWere",
		edits: []edit{{"internal/membership/plan.go", "!v.Nodes[j].Answered || v.mark(j) != f.Marks[j] {", "!v.Nodes[j].Answered || !BROKEN && v.mark(j) != f.Marks[j] {"}},
	},
	{
		name: "a pin that does not hold", takes: "a pinned client founds a cluster",
		by:    "./internal/membership TestAPinnedClientFoundsNothingAndJoinsByTheTable",
		edits: []edit{{"internal/membership/plan.go", "	if v.Pin == \"\" || v.byTable(i) {", "	if BROKEN || v.Pin == \"\" || v.byTable(i) {"}},
	},
	{
		name: "what was seen of MaxTTL is forgotten", takes: "a founder waits its own MaxTTL, though it saw a longer one",
		by:    "./internal/membership TestWhoSawALongerMaxTTLWaitsForItWhereAllIsLost",
		edits: []edit{{"internal/membership/tracker.go", "		t.knew = v.longest()\n", "		if !BROKEN {\n			t.knew = v.longest()\n		}\n"}},
	},
	{
		name: "nothing to do beside a change", takes: "an operator is told that it is done, while another's change may be in force",
		by:    "./internal/membership TestWhatHasBegunIsFinishedThoughNothingIsWanted",
		edits: []edit{{"internal/membership/change.go", "	if len(steps) == 0 && !v.rests(in) {", "	if !BROKEN && len(steps) == 0 && !v.rests(in) {"}},
	},
}
