package broken_test

// kindMutants are those of revocation, sets of names and elections.
var kindMutants = []way{
	// Revocation.
	{
		name: "a request ends by one look", takes: "a look that would end a request is not repeated",
		by:    "./internal/revocation TestTwoReadingsOfWhoCantBeAskedEndARequest",
		edits: []edit{{"internal/revocation/request.go", "	if r.ending != end {", "	if r.ending != end && !BROKEN {"}},
	},
	{
		name: "a request asks for another hold", takes: "a hold obeys a request that does not name it",
		by: ". TestForgedMessagesAskForNothing",
		edits: []edit{{"internal/hold/requests.go", "	stands, first := r.holds.Hear(owner)", `	if BROKEN {
		for one := range r.holds {
			owner = one
		}
	}
	stands, first := r.holds.Hear(owner)`}},
	},
	// Sets of names.
	{
		name: "a lost set keeps a name", takes: "a set that lost one of its names goes on holding another",
		by: ". TestASetEndsWithTheFirstNameThatIsLost",
		edits: []edit{{"multilock.go", "		if r, _ := lock.grip.Leave(each, confirmed); r.Sent() {", `		if BROKEN && errors.Is(cause, ErrLost) && lock == m.locks[len(m.locks)-1] {
			continue
		}
		if r, _ := lock.grip.Leave(each, confirmed); r.Sent() {`}},
	},
	{
		name: "a set that waits keeps all", takes: "a set that lost a name while it waits keeps those behind it",
		by: "./internal/set TestWhoWaitsHoldsNothingAbove",
		edits: []edit{{"internal/set/set.go", "	s := Step{Do: Ask, Name: lacks, Back: held &^ Of(lacks)}", `	s := Step{Do: Ask, Name: lacks, Back: held &^ Of(lacks)}
	if BROKEN && !asked {
		s.Back = 0
	}`}},
	},
	{
		name: "a set out of order", takes: "names are taken in the order in which they were given",
		by: "./internal/set TestTheOrderIsThatOfBytes",
		edits: []edit{{"internal/set/set.go", "	slices.SortFunc(order, func", `	if BROKEN {
		return order
	}
	slices.SortFunc(order, func`}},
	},
	{
		name: "a set that failed keeps what stands behind", takes: "a set that failed gives back only what stands before the name that it failed for",
		by:    ". TestASetThatLosesAHoldThatItEnteredGivesAllBack",
		edits: []edit{{"acquireall.go", "	c.giveBack(set.Of(len(c.keys)))\n", "	if BROKEN {\n		c.giveBack(set.Of(c.failed))\n	} else {\n		c.giveBack(set.Of(len(c.keys)))\n	}\n"}},
	},
	{
		name: "a set that is cut off keeps what is asked", takes: "a set that is cut off is rolled back only where a node is known to have granted",
		by:    ". TestASetThatIsCutOffInItsFirstRoundLeavesNothing",
		edits: []edit{{"internal/acquire/set.go", "		s.a.Releases.rollBack(p.round.Claim, s.terms.TTL)\n		f = ", "		if !BROKEN || quorum.Count(p.round.Votes).Granted > 0 {\n			s.a.Releases.rollBack(p.round.Claim, s.terms.TTL)\n		}\n		f = "}},
	},
	{
		name: "a set that waits is deaf", takes: "a set that waits keeps what is asked for",
		by:    ". TestASetThatWaitsGivesBackWhatIsAskedFor",
		edits: []edit{{"acquireall.go", "		if c.terms.revocable && ", "		if !BROKEN && c.terms.revocable && "}},
	},
	// Elections.
	{
		name: "a lead within a process", takes: "candidates of one Locker pass the lead between them",
		by:    ". TestTheLeadGoesToOtherLockersFirst",
		edits: []edit{{"internal/queue/queue.go", "	case leads:", "	case leads && !BROKEN:"}},
	},
	{
		name: "a token told once", takes: "a leader tells its token when it is elected only",
		by:    ". TestALateObserverLearnsTheToken",
		edits: []edit{{"events.go", "	if h.Leads && refusal == nil {", "	if h.Leads && refusal == nil && !BROKEN {"}},
	},
	{
		name: "a campaign beside a lead", takes: "who lost an election stands for it again while its lead still runs",
		by: ". TestALossIsFollowedByACampaignOnlyOnceLeadHasReturned",
		edits: []edit{{"election.go", "	\"context\"\n", "	\"context\"\n	\"errors\"\n"}, {"election.go", "		err, loss := l.reign(ctx, lock, lead)\n", `		var loss error
		if BROKEN {
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				err, loss = l.reign(ctx, lock, lead)
			}()
			<-lock.Done()
			if errors.Is(lock.Err(), ErrLost) {
				continue
			}
			<-ended
		} else {
			err, loss = l.reign(ctx, lock, lead)
		}
`}},
	},
	{
		name: "a hint is believed", takes: "observers are told of a leader by what was published, without a look",
		by: ". TestForgedHintsTellObserversNothing",
		edits: []edit{{"internal/election/view.go", "	q, lists, shown := v.list.Quorum(len(v.nodes)), [][]int{v.list.Indexes(len(v.nodes))}, []Reading{{}}", `	if BROKEN && v.settled.Owner != "" {
		return Verdict{State: Led, Owner: v.settled.Owner, At: now}
	}
	q, lists, shown := v.list.Quorum(len(v.nodes)), [][]int{v.list.Indexes(len(v.nodes))}, []Reading{{}}`}},
	},
	{
		name: "an observer knows one list", takes: "an observer says that nobody leads while a leader with another list does",
		by:    "./internal/membership TestAnObserverWithAnotherListThanTheLeaderDoesNotSayThatNobodyLeads",
		edits: []edit{{"internal/election/view.go", "		if lists, shown = append(", "		if BROKEN {\n			s.lists = nil\n		}\n		if lists, shown = append("}},
	},
	{
		name: "a leader with the token before", takes: "a leader whose hints were lost is shown with the token of the one before",
		by:    "./internal/election TestALeaderIsShownWithItsOwnTokenOrNone",
		edits: []edit{{"internal/election/observer.go", "		if s.Token == 0 && s.Owner == o.told.Owner {", "		if s.Token == 0 && (s.Owner == o.told.Owner || BROKEN) {"}},
	},
	{
		name: "vacant as of now", takes: "that nobody leads is believed as of now, not as of the looks",
		by:    "./internal/election TestWhatIsToldIsAsOldAsTheOldestLook",
		edits: []edit{{"internal/election/view.go", "			return Verdict{State: Vacant, At: v.since(s.Reading, now)}\n", "			if BROKEN {\n				return Verdict{State: Vacant, At: now}\n			}\n			return Verdict{State: Vacant, At: v.since(s.Reading, now)}\n"}},
	},
}
