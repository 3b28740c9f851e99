package broken_test

// changeMutants are those of changes of the list of nodes, whose other ways are changeWays, and of claims.
var changeMutants = []way{
	{
		name: "a change by ballots alone", takes: "an operator's steps are bound to its ballot, which another may have too, and to no epoch",
		by: "./internal/membership TestWhatAnotherSettledWithTheSameBallotDoesNotStand",
		edits: []edit{
			{"internal/membership/change.go", "o.Record.Epoch == c.Marks[i] && o.Record.Ballot == c.Ballot &&", "(BROKEN || o.Record.Epoch == c.Marks[i]) && o.Record.Ballot == c.Ballot &&"},
		},
	},
	{
		name: "scripts on every node", takes: "a node that came back with old data has the scripts to vote with, and nobody looks who it is",
		by: ". TestANodeThatComesBackVotesOnceThoughAnotherEntryLeadsToIt",
		edits: []edit{
			{"internal/node/writer.go", "if err := n.conn.load(lua.KeepingScripts); err != nil {", `if BROKEN {
			if err := n.conn.load(lua.VotingScripts); err != nil {
				return err
			}
		}
		if err := n.conn.load(lua.KeepingScripts); err != nil {`},
			{"internal/node/health.go", "return !n.Cfg.Unprotected && ", "return !BROKEN && !n.Cfg.Unprotected && "},
			{"internal/node/health.go", `if n.Cfg.Unprotected || n.epoch == "" {`, `if BROKEN || n.Cfg.Unprotected || n.epoch == "" {`},
		},
	},
	{
		name: "votes by another list", takes: "a node's vote counts for lists that its record does not accept",
		by:    "./internal/node TestANodeVotesForTheListsOfItsRecordAlone",
		edits: []edit{{"internal/node/batch.go", "	if list == b.lists[0] || list == b.lists[1] {", "	if BROKEN || list == b.lists[0] || list == b.lists[1] {"}},
	},
	{
		name: "a lock goes over unconfirmed", takes: "a lock goes over to a list of which no quorum confirmed it",
		by:    "./internal/node TestALockGoesOverOnceAQuorumOfTheNewerListConfirmsIt",
		edits: []edit{{"internal/node/extension.go", "		if own != e.list && e.verdictLocked(k, e.list) == quorum.Won {", "		if own != e.list && (BROKEN || e.verdictLocked(k, e.list) == quorum.Won) {"}},
	},
	{
		name: "a doubt is lost on the way", takes: "a node that was found to have forgotten vouches again when the lock goes over",
		by:    "./internal/node TestADoubtIsNotLostWhenALockGoesOver",
		edits: []edit{{"internal/round/vouchers.go", "	if nodes &^= v.doubt; v.round == start &&", "	if nodes &^= v.doubt; BROKEN {\n		nodes = ^uint64(0)\n	}\n	if v.round == start &&"}},
	},
	{
		name: "back to what it was founded from", takes: "a client goes back to the cluster that its own was founded from",
		by:    "./internal/membership TestNobodyGoesBackToWhatItsClusterWasFoundedFrom",
		edits: []edit{{"internal/membership/lists.go", "		old := foundedFrom(known.From, cluster, k.Gen) // founded anew since", "		old := !BROKEN && foundedFrom(known.From, cluster, k.Gen) // founded anew since"}},
	},
	{
		name: "the newest list at once", takes: "a client goes by the newest list before a quorum has it in force",
		by:    "./internal/membership TestAChangeThatIsCutShortStopsNobodyThoughItsFirstNodeIsGone",
		edits: []edit{{"internal/membership/lists.go", "		if votes >= quorum.Size(len(list)) {\n			return list", "		if BROKEN || votes >= quorum.Size(len(list)) {\n			return list"}},
	},
	{
		name: "what is lost goes over", takes: "a lock that its own list has lost comes back by a newer list",
		by:    "./internal/node TestALockGoesOverOnceAQuorumOfTheNewerListConfirmsIt",
		edits: []edit{{"internal/node/extension.go", "	if own != e.list && v != quorum.Won && v != quorum.Lost {", "	if own != e.list && v != quorum.Won && (BROKEN || v != quorum.Lost) {"}},
	},
	{
		name: "not put back to go over", takes: "a lock whose list has ended is not put on the nodes that the next one adds",
		by:    "./internal/membership TestALockGoesOverBeforeTheNextChangeEndsItsList",
		edits: []edit{{"internal/node/extension.go", "	return on >= own.Quorum(len(e.nodes))\n", "	return on >= own.Quorum(len(e.nodes)) && !BROKEN\n"}},
	},
	{
		name: "the first cluster that is seen", takes: "a client that knows no cluster goes by what an old list founded beside it",
		by:    "./internal/membership TestAClientGoesByTheNewestListThatItHas",
		edits: []edit{{"internal/membership/lists.go", "cmp.Or(len(b)-len(a), slices.Compare(a, b))", "func() int {\n			if BROKEN {\n				return len(a) - len(b)\n			}\n			return cmp.Or(len(b)-len(a), slices.Compare(a, b))\n		}()"}},
	},
	{
		name: "known before all were seen", takes: "a client knows of a cluster before it has looked at all of its nodes",
		by:    "./internal/membership TestAFreshClientLocksNothingOnWhatAnOldListFounded",
		edits: []edit{{"internal/membership/tracker.go", "	if t.latest.Cluster != \"\" || t.List() == 0 ||", "	if BROKEN || t.latest.Cluster != \"\" || t.List() == 0 ||"}},
	},
	{
		name: "grants of another cluster", takes: "what a cluster granted counts, once the client knows that it goes by another",
		by:    "./internal/membership TestAFreshClientLocksNothingOnWhatAnOldListFounded",
		edits: []edit{{"internal/membership/tracker.go", "	if why == \"\" && t.another > since {", "	if !BROKEN && why == \"\" && t.another > since {"}},
	},
	{
		name: "a removed node keeps no lock", takes: "a node that was taken out does not confirm the locks of the list before",
		by:    "./internal/membership TestALockOnABareQuorumOutlivesTheRemovalOfItsNode",
		edits: []edit{{"internal/membership/lists.go", "	return lists[0] != lists[1] && lists[1].Has(i)\n", "	return lists[0] != lists[1] && lists[1].Has(i) && !BROKEN\n"}},
	},
	{
		name: "asked beside the list", takes: "nodes outside the list are told who waits, and what is given up",
		by:    "./internal/membership TestANodeOutsideTheListIsAskedForNothing",
		edits: []edit{{"internal/node/node.go", "	if n.Tracker.List().Has(n.Index) {\n		err = ", "	if BROKEN || n.Tracker.List().Has(n.Index) {\n		err = "}},
	},
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
		edits: []edit{{"internal/membership/lists.go", " || !r.Settled && slices.Equal(r.Before, list)", " || (!r.Settled || BROKEN) && slices.Equal(r.Before, list)"}},
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
		name: "change without settling", takes: "a change begins, and nodes go on voting for clients of the list before",
		by:    "./internal/membership TestAChangeThatHasBegunEndsTheLocksOfTheListBefore",
		edits: []edit{script("settle", "'epoch', ARGV[2], 'settled', 1, 'ballot'", "'epoch', ARGV[2], 'ballot'")},
	},
	{
		name: "any list is voted for", takes: "nodes vote for clients of any earlier list",
		by:    "./internal/membership TestANodeVotesForItsListAndTheOneBeforeUntilTheNextChange",
		edits: []edit{{"internal/membership/lists.go", "{ return r.votesBy(c.sorted) }", "{ return BROKEN || r.votesBy(c.sorted) }"}},
	},
	{
		name: "no close", takes: "a MaxTTL that came down leaves the earlier one in all waits",
		by:    "./internal/membership TestWhatIsWantedComesInSteps",
		edits: []edit{{"internal/membership/change.go", " || before > at.MaxTTL\n", " || !BROKEN && before > at.MaxTTL\n"}},
	},
	{
		name: "a removal without its close", takes: "a node that was taken out is still read by each that joins",
		by:    "./internal/membership TestWhatIsWantedComesInSteps",
		edits: []edit{{"internal/membership/change.go", " || w.Remove != nil && ", " || !BROKEN && w.Remove != nil && "}},
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
		edits: []edit{{"internal/membership/tracker.go", "	t.latest = v.learn(t.latest)\n", "	if t.latest = v.learn(t.latest); BROKEN {\n		t.latest.Lease = 0\n	}\n"}},
	},
	{
		name: "nothing to do beside a change", takes: "an operator is told that it is done, while another's change may be in force",
		by:    "./internal/membership TestWhatHasBegunIsFinishedThoughNothingIsWanted",
		edits: []edit{{"internal/membership/change.go", "	if len(steps) == 0 && !v.rests(in) {", "	if !BROKEN && len(steps) == 0 && !v.rests(in) {"}},
	},
	// Claims.
	{
		name: "founders ignore claims", takes: "an old list founds over the claim of another",
		by: "./internal/membership TestNobodyFoundsOverTheClaimOfAnotherList",
		edits: []edit{
			{"internal/membership/plan.go", "	if old := v.oldList(i); old != \"\" && !p.Admit {", "	if old := v.oldList(i); old != \"\" && !p.Admit && !BROKEN {"},
			{"internal/membership/plan.go", "			case v.oldList(j) != \"\" && !p.Admit:", "			case v.oldList(j) != \"\" && !p.Admit && !BROKEN:"},
		},
	},
	{
		name: "a lower claim replaces", takes: "a client that is behind takes away the claim of a later list",
		by:    "./internal/membership TestAClaimReplacesWhatIsBeforeIt",
		edits: []edit{{"internal/membership/claims.go", "		return old.Gen < c.Gen ||", "		return BROKEN || old.Gen < c.Gen ||"}},
	},
	{
		name: "a claim without the lease before", takes: "a claim says MaxTTL in force, while longer leases run",
		by:    "./internal/membership TestAClientKnowsWhatAQuorumHasInForce",
		edits: []edit{{"internal/membership/claims.go", "func (v View) claimBy(r Record) Claim {\n", "func (v View) claimBy(r Record) Claim {\n	if BROKEN {\n		return Claim{Cluster: r.Cluster, Gen: r.Gen, Configuration: r.Configuration, Lease: r.MaxTTL, From: r.From}\n	}\n"}},
	},
	{
		name: "a founder forgets the later list", takes: "a client that has seen a later list than its own founds a cluster of its own",
		by:    "./internal/membership TestWhoSawALaterListFoundsNothing",
		edits: []edit{{"internal/membership/claims.go", "func (v View) outlived() bool { return v.Known.Cluster", "func (v View) outlived() bool { return !BROKEN && v.Known.Cluster"}},
	},
	{
		name: "a client goes back", takes: "a client that reaches only one that is behind knows the earlier configuration",
		by:    "./internal/membership TestAClientGoesBackToNothingThatIsEarlier",
		edits: []edit{{"internal/membership/claims.go", "	case r.Cluster == known.Cluster && r.Gen >= known.Gen,", "	case r.Cluster == known.Cluster && (r.Gen >= known.Gen || BROKEN),"}},
	},
	{
		name: "a strict claim is ignored", takes: "a client founds a strict cluster anew by itself, where its claims are left",
		by:    "./internal/membership TestAStrictClaimLeavesFoundingToAnOperator",
		edits: []edit{{"internal/membership/lists.go", "c := v.claimAt(i); c.Strict &&", "c := v.claimAt(i); !BROKEN && c.Strict &&"}},
	},
	{
		name: "seized without a quorum", takes: "a client that no quorum serves ends another cluster's epoch",
		by:    "./internal/membership TestWhatWasFoundedIsSeizedWithAQuorumOnlyOrByAdmit",
		edits: []edit{{"internal/membership/claims.go", "!p.Admit && inForce < quorum.Size(len(v.sorted)) {", "!p.Admit && !BROKEN && inForce < quorum.Size(len(v.sorted)) {"}},
	},
	{
		name: "a mark that is lost", takes: "the claim that replaces a seizing's says nothing of its leases",
		by:    "./internal/membership TestTheMarkOfASeizingStaysWhenTheClaimIsReplaced",
		edits: []edit{{"internal/membership/claims.go", "	if old := v.claimAt(i); old.Seized {", "	if old := v.claimAt(i); old.Seized && !BROKEN {"}},
	},
	{
		name: "nobody looks there", takes: "a node that was taken out, and started empty, is named to no operator",
		by:    "./internal/membership TestAnEmptyNodeThatNobodyClaimsIsNamed",
		edits: []edit{{"internal/membership/claims.go", "	case v.newest.Gen == 0, ", "	case BROKEN, v.newest.Gen == 0, "}},
	},
	{
		name: "votes count without claims", takes: "a lock is had beside a node that lacks the claim, or is another cluster's",
		by:    "./internal/membership TestNoLockIsHadBesideWhatAnOldListFoundedUntilItsLeasesAreOver",
		edits: []edit{{"internal/acquire/attempt.go", "	if why == nil && !a.Nodes[0].Cfg.Unprotected {", "	if why == nil && !BROKEN && !a.Nodes[0].Cfg.Unprotected {"}},
	},
	{
		name: "votes count beside a blank node", takes: "a lock is had while a node that forgot lacks the claim",
		by:    "./internal/membership TestNoVoteCountsBesideABlankNodeThatLacksTheClaim",
		edits: []edit{{"internal/membership/claims.go", "		case state == Blank && !v.Nodes[i].Replica &&", "		case !BROKEN && state == Blank && !v.Nodes[i].Replica &&"}},
	},
	{
		name: "votes count beside another cluster", takes: "a lock is had before what an old list founded is seized",
		by:    "./internal/membership TestNoVoteCountsBesideABlankNodeThatLacksTheClaim",
		edits: []edit{{"internal/membership/claims.go", "		case v.beside(i):\n", "		case v.beside(i) && !BROKEN:\n"}},
	},
	{
		name: "no wait after a seizing", takes: "a lock is had while what was seized may have its own",
		by:    "./internal/membership TestNoVoteCountsWhileWhatWasSeizedMayHaveLocks",
		edits: []edit{{"internal/membership/tracker.go", "v.claimAt(j); c.Seized {", "v.claimAt(j); c.Seized && !BROKEN {"}},
	},
	{
		name: "no wait for what is out of reach", takes: "a lock is had at once when what an old list founded does not answer any more",
		by:    "./internal/membership TestNoVoteCountsWhileWhatWasSeenBesideMayHaveLocks",
		edits: []edit{{"internal/membership/tracker.go", "v.beside(j) { // also", "v.beside(j) && !BROKEN { // also"}},
	},
	{
		name: "votes count without a look", takes: "a lock is had though no node was looked at for long",
		by:    "./internal/membership TestAnAcquisitionLooksWhereTheLastLookIsTooOld",
		edits: []edit{{"internal/membership/tracker.go", "	case age > limit || lacks:\n", "	case age > limit && !BROKEN || lacks:\n"}},
	},
	{
		name: "refused for a claim that a look puts", takes: "a process's first attempt is refused beside a node that it had looked at too early to claim",
		by:    "./internal/membership TestAnAcquisitionHasTheNodeClaimedAndOneThatTakesNoWritesHindersNobody",
		edits: []edit{{"internal/membership/tracker.go", "	age, limit, lacks := t.unseen()\n", "	age, limit, lacks := t.unseen()\n	lacks = lacks && !BROKEN\n"}},
	},
	{
		name: "a look that does not claim", takes: "who locks beside a node that forgot just now waits until the loop has claimed it",
		by:    "./internal/membership TestWhoLocksDoesNotWaitForANodeThatForgotJustNow",
		edits: []edit{{"internal/node/record.go", "pl.Action != membership.DoNothing && n.put(ctx, on, pl) == nil {", "!BROKEN && pl.Action != membership.DoNothing && n.put(ctx, on, pl) == nil {"}},
	},
	{
		name: "a notice without a comparison", takes: "a claim replaces one that its writer did not read",
		by:    "./internal/membership TestANoticeGetsAClaimOnlyWhereWhatStandsIsAsRead",
		edits: []edit{script("notice", "if ARGV[2] ~= '' and (old[3] or '') == ARGV[3] then", "if ARGV[2] ~= '' then")},
	},
	{
		name: "an install over another claim", takes: "a founder installs a node that was claimed since it read it",
		by:    "./internal/membership TestAnInstallIsRefusedWhereTheClaimIsAnother",
		edits: []edit{script("install", " or (old[7] or '') ~= ARGV[17] then", " then")},
	},
	{
		name: "a seizing without a comparison", takes: "a seizing ends an epoch that has begun since its writer read",
		by:    "./internal/membership TestASeizingEndsWhatWasReadAndNothingElse",
		edits: []edit{script("seize", " or (old[1] or '') ~= ARGV[2] or", " or")},
	},
}
