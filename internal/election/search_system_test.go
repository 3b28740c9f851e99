package election_test

import (
	"errors"
	"fmt"
	"slices"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/election"
	"github.com/quorumkit/redlock/internal/quorum"
	"github.com/quorumkit/redlock/internal/search"
)

var (
	errStale   = errors.New("told of a leader whose value no quorum has had for longer than two seconds")
	errVacancy = errors.New("told that nobody leads, while one has been on a quorum for longer than two seconds")
	errToken   = errors.New("told of a token that is not the leader's")
	errTwo     = errors.New("two lead at once")
	errSettled = errors.New("when all has settled, the observer is not told what is")
)

// mistake is a rule that is broken.
type mistake uint8

const (
	none            mistake = iota
	believesHints           // a hint is told at once
	believesOne             // an owner value on one node is enough
	believesOneLook         // one look at each of a quorum is enough
	countsReplies           // a look speaks for the moment of its reply
	sameMoment              // a reply counts for a look that is sent in the same moment
	goesByOldLooks          // looks are believed for a tick longer
	missingIsFree           // a node that was not seen lately has nothing
	oneFreeIsVacant         // a node that has nothing is enough
	tokenOfOne              // the token is believed that one node passes on
	neverVacant             // a name on which no quorum agrees stays as it is
	goesByOneList           // what may be on a quorum by another list than the observer's is not looked at
)

// system is the owners, the nodes and the observer.
type system struct {
	owners  uint8 // at most
	lost    bool  // looks get lost
	forges  bool  // somebody publishes forged hints on node 0
	blind   bool  // it is not asked whether all settles
	looks   uint8 // at each node at most; 0: no bound, and none for the time
	ticks   uint8 // at most; no hint comes then
	rules   rules // three nodes if they do not say
	mistake mistake
}

const (
	stepTick uint8 = iota
	stepBegin
	stepAcquire
	stepGiveUp
	stepRelease
	stepExpire
	stepReseed
	stepLook
	stepRead
	stepAnswer
	stepLose
	stepHint
	stepForge
	stepTell
	stepForce
)

func (sys *system) Init() state {
	var s state
	for k := range s.held {
		s.held[k] = never
	}
	s.rules = sys.rules
	s.rules.short = max(s.rules.short, few)
	s.rules.observes = max(s.rules.observes, s.rules.short)
	return s
}

// Canon renames the nodes.
func (sys *system) Canon(s state) state {
	if sys.forges {
		return s
	}
	return s.sorted()
}

func (sys *system) Describe(st search.Step) string {
	switch st.Kind {
	case stepTick:
		return "half of what is stale goes by"
	case stepBegin:
		return fmt.Sprintf("an owner asks the first %d nodes: %s", st.B, names[st.A])
	case stepForce:
		return fmt.Sprintf("the list after the change is in force on node %d", st.A)
	case stepTell:
		return "the observer is told"
	case stepGiveUp:
		return names[st.A] + " gives up, or resigns"
	}
	what := [...]string{
		stepAcquire: "acquires on", stepRelease: "is released on", stepExpire: "expires on", stepReseed: "is put back on",
		stepLook: "a look is sent to", stepRead: "the look is made on", stepAnswer: "the look's reply comes from", stepLose: "the look gets lost at",
		stepHint: "is hinted by", stepForge: "is hinted by a forger on",
	}[st.Kind]
	return fmt.Sprintf("%s %s node %d", names[st.B], what, st.A)
}

// Weight has time go by less often than all else.
func (sys *system) Weight(st search.Step) int {
	switch st.Kind {
	case stepTick, stepBegin, stepGiveUp, stepExpire:
		return 1
	case stepTell:
		return 4
	}
	return 3
}

func (sys *system) Next(s state, yield func(search.Step, state)) {
	do := func(kind, a, b uint8, f func(n *state)) {
		n := s
		f(&n)
		yield(search.Step{Kind: kind, A: a, B: b}, n)
	}
	if sys.looks == 0 || s.ticks < sys.ticks {
		do(stepTick, 0, 0, func(n *state) {
			n.age()
			if sys.looks > 0 {
				n.ticks++
			}
		})
	}
	do(stepTell, 0, 0, sys.tell)
	for list := s.rules.short; s.begun < sys.owners && (list == s.rules.short || list == s.rules.long() && s.rules.change != stays); list++ {
		do(stepBegin, s.begun+1, list, func(n *state) {
			n.begun++
			n.list[n.begun] = list
			for i := range list {
				n.sent[n.begun][i].acquire = true
			}
		})
	}
	for i := range s.rules.long() {
		if s.rules.change != stays && !s.inForce[i] {
			do(stepForce, i, 0, func(n *state) { n.inForce[i] = true })
		}
	}
	for k := uint8(1); k <= s.begun; k++ {
		sys.ofOwner(&s, k, do)
	}
	for i := range s.rules.observes {
		sys.ofLook(&s, i, do)
	}
}

// ofOwner is what an owner and its commands may do.
func (sys *system) ofOwner(s *state, k uint8, do func(kind, a, b uint8, f func(n *state))) {
	resigned := false
	for i := range s.list[k] {
		c := s.sent[k][i]
		resigned = resigned || c.release || c.buried
		if c.acquire && s.key[i] == 0 && s.votes(i, s.list[k]) {
			do(stepAcquire, i, k, func(n *state) {
				n.sent[k][i].acquire = false
				if !c.buried {
					n.put(i, k)
				}
			})
		}
		if c.release {
			do(stepRelease, i, k, func(n *state) {
				n.sent[k][i] = command{buried: true}
				if n.key[i] == k {
					n.put(i, 0)
				}
			})
		}
		if s.key[i] == k {
			do(stepExpire, i, k, func(n *state) { n.put(i, 0) })
		}
		if s.key[i] == 0 && !c.acquire && !c.release && !c.buried && s.leads(k) && s.votes(i, s.list[k]) {
			do(stepReseed, i, k, func(n *state) { n.put(i, k) })
		}
		if s.won[k] && sys.looks == 0 && i < s.rules.observes {
			do(stepHint, i, k, func(n *state) { sys.hint(n, i, hinted{k, k}) })
		}
		if sys.forges && i == 0 {
			do(stepForge, i, k, func(n *state) { sys.hint(n, i, hinted{k, k + forged}) })
		}
	}
	if !resigned {
		do(stepGiveUp, k, 0, func(n *state) {
			for i := range n.list[k] {
				n.sent[k][i].release = true
			}
		})
	}
}

// ofLook is what a look at a node may do.
func (sys *system) ofLook(s *state, i uint8, do func(kind, a, b uint8, f func(n *state))) {
	switch g := s.glances[i]; g.phase {
	case 0:
		if sys.looks > 0 && s.looked[i] == sys.looks {
			return
		}
		if !s.answers(i) {
			return // it is blank
		}
		do(stepLook, i, 0, func(n *state) {
			n.glances[i] = glance{phase: 1}
			if sys.looks > 0 { // it is made at once, and only its reply takes long
				n.glances[i] = glance{phase: 2, shows: n.key[i], lists: n.lists(i)}
				n.looked[i]++
			}
		})
	case 1:
		do(stepRead, i, 0, func(n *state) { n.glances[i] = glance{2, g.age, n.key[i], n.lists(i)} })
	case 2:
		do(stepAnswer, i, 0, func(n *state) {
			v := n.view()
			sys.answer(v, int(i), reading(g.shows), instant(g.age), n.rules.lists(g.lists)...)
			n.keep(v)
			n.glances[i] = glance{}
		})
	}
	if sys.lost && s.glances[i].phase != 0 {
		do(stepLose, i, 0, func(n *state) { n.glances[i] = glance{} })
	}
}

func (sys *system) answer(v *election.View, i int, r election.Reading, sent clock.Instant, lists ...[]int) {
	received := now
	switch sys.mistake { //nolint:exhaustive // of the others, no rule here is broken
	case countsReplies:
		sent = received
	case sameMoment:
		received = received.Add(-tick)
	case goesByOneList:
		lists = nil
	}
	v.Look(i, r, sent, received, lists...)
}

func (sys *system) hint(n *state, i uint8, h hinted) {
	v := n.view()
	v.Hint(int(i), election.Hint{Owner: names[h.owner], Token: quorum.Token(h.token)})
	n.keep(v)
	switch sys.mistake { //nolint:exhaustive // of the others, no rule here is broken
	case believesHints:
		n.lead(h.owner, h.token)
	case tokenOfOne:
		if n.told.state == uint8(election.Led) && n.told.owner == h.owner {
			n.lead(h.owner, h.token)
		}
	}
}

// tell asks the observer for its next state, and tells it if it changed.
func (sys *system) tell(n *state) {
	v, at := n.view(), now
	if sys.mistake == goesByOldLooks {
		at = at.Add(-tick)
	}
	o := n.observer()
	s, changed := o.Next(v, at)
	n.sure = ageOf(o.Sure())
	if s, changed = sys.misjudge(n, v, s, changed); !changed {
		return
	}
	switch s.State { //nolint:exhaustive // the others have a default
	case election.Led:
		n.lead(numberOf(s.Owner), uint8(s.Token))
	case election.Vacant:
		n.told = told{any: true, state: uint8(election.Vacant)}
		n.checkVacancy()
	default:
		n.told = told{any: true, state: uint8(s.State)}
	}
}

// misjudge is what is told where a rule is broken.
func (sys *system) misjudge(n *state, v *election.View, s election.Sight, changed bool) (election.Sight, bool) {
	counts, missing, q := [owners + 1]int{}, 0, quorum.Size(int(n.rules.observes))
	for _, g := range n.seen[:n.rules.observes] {
		if g.any && g.last <= staleTicks {
			counts[g.owner]++
		} else {
			missing++
		}
	}
	least := 0
	switch sys.mistake { //nolint:exhaustive // of the others, no rule here is broken
	case believesOne:
		least = 1
	case believesOneLook:
		least = q
	case missingIsFree:
		if counts[0]+missing >= q {
			return election.Sight{State: election.Vacant}, true
		}
	case oneFreeIsVacant:
		if counts[0] > 0 {
			return election.Sight{State: election.Vacant}, true
		}
	case neverVacant:
		return s, changed && (s.State != election.Vacant || counts[0] >= q)
	}
	for k := owners; k > 0 && least > 0; k-- {
		if counts[k] >= least {
			return election.Sight{State: election.Led, Owner: names[k], Token: v.Token(names[k])}, true
		}
	}
	return s, changed
}

// lead tells the observer of a leader, and checks that.
func (s *state) lead(owner, token uint8) {
	s.told = told{any: true, state: uint8(election.Led), owner: owner, token: token}
	if s.held[owner] > staleTicks {
		s.broken = staleLeader
	}
	if token != 0 && token != owner {
		s.broken = falseToken
	}
}

// checkVacancy checks that nobody has led for long.
func (s *state) checkVacancy() {
	for k := uint8(1); k <= owners; k++ {
		standing := *s
		for i := range standing.key {
			if s.stood[i] <= staleTicks {
				standing.key[i] = 0
			}
		}
		if standing.leads(k) {
			s.broken = falseVacancy
		}
	}
}

func (sys *system) Check(s state) error {
	switch s.broken {
	case staleLeader:
		return errStale
	case falseVacancy:
		return errVacancy
	case falseToken:
		return errToken
	case twoLeaders:
		return errTwo
	case nothing:
	}
	if sys.blind || !s.sampled() {
		return nil // it takes as long as many steps
	}
	return sys.settles(s)
}

// sampled tells of which states it is asked whether all settles: of one in 64 or so, the
// same ones in every run.
func (s *state) sampled() bool {
	h := uint32(s.begun)
	mix := func(parts ...uint8) {
		for _, p := range parts {
			h = (h ^ uint32(p)) * 16777619
		}
	}
	for i, g := range s.glances {
		mix(s.key[i], s.stood[i], g.phase, g.age, g.shows, s.seen[i].owner, s.seen[i].first, s.seen[i].last)
	}
	mix(s.told.state, s.told.owner, s.sure)
	return h>>16%64 == 0
}

// open tells whether an owner may be on a quorum, as far as the nodes that answer say: of the
// observer's list, or of one that they vote by.
func (s *state) open(owner uint8) bool {
	for list := s.rules.short; list == s.rules.short || list == s.rules.long() && s.rules.change != stays; list++ {
		n, known := 0, list == s.rules.observes
		for i := range s.rules.long() {
			answers := i < s.rules.observes && s.answers(i)
			known = known || answers && s.votes(i, list)
			if i < list && (!answers || s.key[i] == owner) {
				n++
			}
		}
		if known && n >= quorum.Size(int(list)) {
			return true
		}
	}
	return false
}

// settles lets nothing change any more on the nodes, while looks and hints arrive: the
// observer must then be told the true state, as far as it is one by its list.
func (sys *system) settles(s state) error {
	s.glances = [most]glance{}
	leader, open := uint8(0), false
	for k := uint8(1); k <= s.begun; k++ {
		if s.on(k, s.rules.observes) {
			leader = k
		}
		open = open || s.open(k)
	}
	for i := range s.rules.observes {
		if leader != 0 {
			sys.hint(&s, i, hinted{leader, leader})
		}
	}
	for range old + 1 {
		s.age()
		v := s.view()
		for i, k := range s.key[:s.rules.observes] {
			if s.answers(uint8(i)) {
				sys.answer(v, i, reading(k), now, s.rules.lists(s.lists(uint8(i)))...)
			}
		}
		s.keep(v)
		sys.tell(&s)
	}
	switch {
	case s.broken != nothing:
		return fmt.Errorf("%w: on the way there it is broken: %d", errSettled, s.broken)
	case leader == 0 && !open && s.told.state == uint8(election.Vacant), leader == 0 && open && s.told.state == uint8(election.Unknown), leader != 0 && s.told == told{true, uint8(election.Led), leader, leader}:
		return nil
	case leader != 0 && slices.Contains(s.won[leader+1:], true) && s.told == told{true, uint8(election.Led), leader, 0}:
		return nil // a later one was hinted, which here may win before: numbers are not given by the nodes
	}
	return fmt.Errorf("%w: %d leads, told %+v", errSettled, leader, s.told)
}
