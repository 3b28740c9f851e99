package revocation_test

import (
	"errors"
	"fmt"

	"github.com/quorumkit/redlock/internal/revocation"
	"github.com/quorumkit/redlock/internal/search"
)

var (
	errWrongHold = errors.New("a hold was told that nobody had asked for")
	errGone      = errors.New("told that all are gone, while one who was asked has held all along")
	errVacancy   = errors.New("told that nobody holds, while somebody has held at every moment")
	errRefusal   = errors.New("told that somebody can't be asked who was on no quorum, not even on one node after another")
	errNewcomer  = errors.New("one was asked who came when others had been asked already")
	errStuck     = errors.New("when all has settled, and all who are asked let go, the request does not end")
)

// mistake is a rule that is broken.
type mistake uint8

const (
	none          mistake = iota
	namesResource         // a message names the resource: who holds it is asked
	namesLocker           // a message names the Locker: all that it holds is asked for
	asksOnce              // the message is published once
	asksOneNode           // the message is published on one node
	oneIsGone             // one node that does not show them is believed
	oneReading            // one reading of each node is believed
	muteIsFree            // a node that says nothing has nothing
	oneRefuses            // one node that shows who can't be asked is believed
	oldVotes              // a node that forgot counts as one that has nothing
	asksWhoHolds          // who holds by then is asked, and waited for
	oneSlot               // a node shows the first slot's owner only
	oneOfThem             // one of those who were asked is gone: that is believed of all
)

// system is the holds, the nodes and the request.
type system struct {
	owners  uint8 // at most
	faults  uint8 // keys that vanish, and nodes that forget
	mutes   bool  // nodes are not reached
	blind   bool  // it is not asked whether all settles
	still   bool  // nothing is published
	narrow  bool  // one node passes on messages, and is heard
	second  uint8 // owners who have the second slot, a bit each; 0: the name has no slots
	mistake mistake
}

const (
	stepBegin uint8 = iota
	stepPass
	stepEnd
	stepAcquire
	stepRelease
	stepReseed
	stepVanish
	stepForget
	stepMute
	stepSpeak
	stepDeaf
	stepHear
	stepLose
	stepForge
	stepDeliver
	stepCall
	stepRead
	stepDecide
)

func (sys *system) Init() state {
	s := state{second: sys.second}
	s.got = [nodes]uint8{unread, unread, unread}
	return s
}

// Canon renames the nodes: they are all alike, where each passes on messages.
func (sys *system) Canon(s state) state {
	if sys.narrow {
		return s
	}
	return s.sorted()
}

func (sys *system) Describe(st search.Step) string {
	what := [...]string{
		stepBegin: "asks all nodes", stepPass: "hands on", stepEnd: "gives up, or releases",
		stepAcquire: "acquires on", stepRelease: "is released on", stepReseed: "is put back on",
		stepVanish: "the key vanishes", stepForget: "forgets", stepMute: "is not reached", stepSpeak: "votes and answers",
		stepDeaf: "has no subscription", stepHear: "has its subscription again", stepLose: "loses its messages", stepForge: "passes on forged messages",
		stepDeliver: "passes on its messages", stepCall: "the request begins", stepRead: "is read", stepDecide: "the request decides",
	}[st.Kind]
	switch st.Kind {
	case stepCall, stepDecide:
		return what
	case stepBegin, stepPass, stepEnd:
		return fmt.Sprintf("owner %d %s", st.B, what)
	case stepAcquire, stepRelease, stepReseed:
		return fmt.Sprintf("owner %d %s node %d", st.B, what, st.A)
	}
	return fmt.Sprintf("node %d: %s", st.A, what)
}

// Weight has what is rare in life be rare.
func (sys *system) Weight(st search.Step) int {
	switch st.Kind {
	case stepEnd, stepPass, stepVanish, stepForget, stepMute, stepDeaf, stepForge, stepLose, stepCall:
		return 1
	case stepRead, stepDecide:
		return 5
	}
	return 3
}

type doer func(kind, a, b uint8, f func(n *state))

func (sys *system) Next(s state, yield func(search.Step, state)) {
	if s.broken != nothing {
		return
	}
	do := doer(func(kind, a, b uint8, f func(n *state)) {
		n := s
		f(&n)
		n.note()
		yield(search.Step{Kind: kind, A: a, B: b}, n)
	})
	for k := uint8(1); k <= sys.owners; k++ {
		sys.ofOwner(&s, k, do)
	}
	for i := range uint8(nodes) {
		sys.ofKey(&s, i, do)
		if sys.passesOn(i) {
			sys.ofChannel(&s, i, do)
		}
	}
	sys.ofRequest(&s, do)
}

// ofOwner is what an owner and its commands may do.
func (sys *system) ofOwner(s *state, k uint8, do doer) {
	if s.life[k] == unborn {
		do(stepBegin, 0, k, func(n *state) { n.beginOwner(k) })
	}
	if k == 2 && s.slotOf(2) == s.slotOf(1) && s.life[1] == held && s.life[2] == unborn {
		do(stepPass, 0, 1, func(n *state) {
			n.endOwner(1)
			n.beginOwner(2)
			n.passed = true
		})
	}
	if s.life[k] == trying || s.life[k] == held {
		do(stepEnd, 0, k, func(n *state) { n.endOwner(k) })
	}
	for i := range uint8(nodes) {
		c := s.sent[k][i]
		key := s.ownerAt(i, s.slotOf(k))
		free := key == 0 || k == 2 && s.passed && key == 1
		if c&acquires != 0 && free && s.mute[i] != forgot {
			do(stepAcquire, i, k, func(n *state) {
				if n.sent[k][i] &^= acquires; c&buried == 0 {
					n.put(i, n.slotOf(k), k)
				}
			})
		}
		if c&releases != 0 {
			do(stepRelease, i, k, func(n *state) { n.release(k, i) })
		}
		if s.life[k] == held && key == 0 && c == 0 && s.mute[i] != forgot {
			do(stepReseed, i, k, func(n *state) { n.put(i, n.slotOf(k), k) })
		}
	}
}

func (s *state) beginOwner(k uint8) {
	s.life[k] = trying
	if s.sends > 0 {
		s.late |= bit(k)
	}
	for i := range s.sent[k] {
		s.sent[k][i] = acquires
	}
}

func (s *state) endOwner(k uint8) {
	s.life[k]++
	if s.life[k] == held {
		s.life[k] = over
	} else {
		s.life[k] = outlived
	}
	for i := range s.sent[k] {
		s.sent[k][i] |= releases
	}
}

func (s *state) release(k, i uint8) {
	s.sent[k][i] = s.sent[k][i]&acquires | buried
	if s.has(k, i) {
		s.put(i, s.slotOf(k), 0)
	}
}

// ofKey is what may happen to a node.
func (sys *system) ofKey(s *state, i uint8, do doer) {
	for slot := range uint8(slots) {
		if s.ownerAt(i, slot) != 0 && s.faults < sys.faults {
			do(stepVanish, i, slot, func(n *state) { n.lose(i, slot) })
		}
	}
	others := 0 // that forgot
	for _, m := range s.mute {
		if m == forgot {
			others++
		}
	}
	switch s.mute[i] {
	case speaks:
		if sys.mutes {
			do(stepMute, i, 0, func(n *state) { n.mute[i] = unreached })
		}
		if s.faults < sys.faults && others == 0 {
			do(stepForget, i, 0, func(n *state) {
				n.key[i], n.mute[i] = 0, forgot
				n.faults++
			})
		}
	case unreached:
		do(stepSpeak, i, 0, func(n *state) { n.mute[i] = speaks })
	case forgot:
		if s.settledBut(i) {
			do(stepSpeak, i, 0, func(n *state) { n.mute[i] = speaks })
		}
	}
}

// lose makes a node lose a key. An owner without a quorum has lost its hold before the key goes.
func (s *state) lose(i, slot uint8) {
	if k := s.ownerAt(i, slot); s.life[k] == held && s.on(k) <= nodes/2+1 {
		s.endOwner(k)
	}
	s.put(i, slot, 0)
	s.faults++
}

// settledBut tells whether a node that forgot may vote again: who holds is on a quorum of
// the others by then, and so on one without it.
func (s *state) settledBut(i uint8) bool {
	for k := uint8(1); k <= owners; k++ {
		n := s.on(k)
		if s.has(k, i) {
			n--
		}
		if s.life[k] == held && n <= nodes/2 {
			return false
		}
	}
	return true
}

// ofChannel is what may happen to messages on a node.
func (sys *system) ofChannel(s *state, i uint8, do doer) {
	switch {
	case sys.narrow:
	case s.deaf[i]:
		do(stepHear, i, 0, func(n *state) { n.deaf[i] = false })
	case s.deaf == [nodes]bool{}:
		do(stepDeaf, i, 0, func(n *state) { n.deaf[i] = true })
	}
	if s.flight[i] == 0 {
		do(stepForge, i, 0, func(n *state) { n.flight[i] |= bit(theResource) | bit(theLocker) })
		return
	}
	do(stepLose, i, 0, func(n *state) { n.flight[i] = 0 })
	if !s.deaf[i] {
		do(stepDeliver, i, 0, func(n *state) { sys.deliver(n, i) })
	}
}

// deliver makes a node pass on the messages on their way, which stay so.
func (sys *system) deliver(n *state, i uint8) {
	holds := revocation.Holds{}
	for k := uint8(1); k <= 2; k++ {
		if n.life[k] == held {
			holds[names[k]] = n.told&bit(k) != 0
		}
	}
	for what := range uint8(owners + 2) {
		if n.flight[i]&bit(what) == 0 {
			continue
		}
		if what == theResource && sys.mistake == namesResource || what == theLocker && sys.mistake == namesLocker {
			for k := uint8(1); k <= 2; k++ {
				if n.life[k] == held {
					n.tell(k)
				}
			}
			continue
		}
		owner, ok := revocation.Parse(messages[what])
		if !ok {
			continue
		}
		if _, first := holds.Hear(owner); first {
			n.tell(uint8(indexOf(owner)))
		}
	}
}

var messages = [...]string{
	revocation.Message("orders/42"), revocation.Message(names[1]), revocation.Message(names[2]), revocation.Message(names[3]), revocation.Message(names[4]), revocation.Message(locker),
}

func indexOf(owner string) int {
	for k, name := range names {
		if name == owner {
			return k
		}
	}
	return 0
}

func (s *state) tell(k uint8) {
	s.told |= bit(k)
	if s.named&bit(k) == 0 {
		s.broken = wrongHold
	}
}

// ofRequest is what the request may do.
func (sys *system) ofRequest(s *state, do doer) {
	if !s.begun {
		do(stepCall, 0, 0, func(n *state) { n.begun = true })
		return
	}
	if s.ended != 0 {
		return
	}
	all := true
	for i := range uint8(nodes) {
		if s.got[i] == unread {
			all = false
			do(stepRead, i, 0, func(n *state) { sys.read(n, i) })
		}
	}
	if all {
		do(stepDecide, 0, 0, sys.decide)
	}
}

// read reads a node. Of one that forgot nothing counts: where something relies on that, it
// is looked at whether the node voted before and does afterwards, by one right.
func (sys *system) read(n *state, i uint8) {
	n.got[i] = n.key[i]
	if n.mute[i] == unreached || n.mute[i] == forgot && sys.mistake != oldVotes {
		n.got[i] = silent
	}
}

// decide makes the request decide by its readings.
func (sys *system) decide(n *state) {
	r := n.request()
	if sys.mistake == asksWhoHolds {
		r = revocation.Made(nil, revocation.Action(n.ending))
	}
	step := sys.misjudge(n, r)
	n.keep(r)
	n.got = [nodes]uint8{unread, unread, unread}
	about := bitsOf(step.Owners)
	switch step.Do {
	case revocation.Ask:
		sys.publish(n, about)
	case revocation.Gone:
		n.ended = uint8(step.Do)
		if n.asked&^n.off != 0 {
			n.broken = falseGone
		}
	case revocation.NotHeld:
		n.ended = uint8(step.Do)
		if !n.vacant {
			n.broken = falseVacancy
		}
	case revocation.NotRevocable:
		n.ended = uint8(step.Do)
		for k := uint8(1); k <= owners; k++ {
			if about&bit(k) != 0 && !n.stood(k) {
				n.broken = falseRefusal
			}
		}
	case revocation.LookAgain, revocation.Unknown:
	}
}

// passesOn tells whether node i passes on messages.
func (sys *system) passesOn(i uint8) bool { return !sys.still && (i == 0 || !sys.narrow) }

// publish makes the nodes pass on that these are asked for.
func (sys *system) publish(n *state, owners uint8) {
	if owners&n.late != 0 {
		n.broken = newcomer
	}
	n.named |= owners
	n.sends = min(n.sends+1, 2)
	message := owners
	switch sys.mistake { //nolint:exhaustive // of the others, no rule here is broken
	case namesResource:
		message = bit(theResource)
	case namesLocker:
		message = bit(theLocker)
	case asksOnce:
		if n.sends > 1 {
			return
		}
	case asksOneNode:
		at := 0
		for i := range n.deaf {
			if n.deaf[i] {
				at = i
			}
		}
		n.flight[at] |= message
		return
	}
	for i := range uint8(nodes) {
		if sys.passesOn(i) {
			n.flight[i] |= message
		}
	}
}

// misjudge is what the request decides where a rule is broken.
func (sys *system) misjudge(n *state, r *revocation.Request) revocation.Step {
	readings := n.readings()
	switch sys.mistake { //nolint:exhaustive // of the others, no rule here is broken
	case muteIsFree:
		for i := range readings {
			readings[i].Answered = true
		}
	case oneIsGone:
		for _, got := range n.got {
			if n.asked != 0 && got != silent && n.asked&shown(got) == 0 {
				return revocation.Step{Do: revocation.Gone}
			}
		}
	case oneSlot:
		for i, got := range n.got {
			if got != silent {
				readings[i].Owners = namesOf(shown(got & one))
			}
		}
	case oneOfThem:
		if step := r.Next(readings); step.Do == revocation.Ask && n.asked != 0 && len(step.Owners) < len(namesOf(n.asked)) {
			return revocation.Step{Do: revocation.Gone}
		}
	case oneRefuses:
		for _, got := range n.got {
			if shown(got)&bit(3) != 0 {
				return revocation.Step{Do: revocation.NotRevocable, Owners: []string{names[3]}}
			}
		}
	}
	step := r.Next(readings)
	if sys.mistake == oneReading && step.Do == revocation.LookAgain {
		step = r.Next(readings)
	}
	return step
}

func (sys *system) Check(s state) error {
	switch s.broken {
	case wrongHold:
		return errWrongHold
	case falseGone:
		return errGone
	case falseVacancy:
		return errVacancy
	case falseRefusal:
		return errRefusal
	case newcomer:
		return errNewcomer
	case nothing:
	}
	if s.begun && s.ended == 0 && !sys.blind && !sys.settles(s) {
		return errStuck
	}
	return nil
}

// settles tells whether the request ends once nodes answer, nothing gets lost, and who
// is asked lets go. The subscription to one node may stay broken.
func (sys *system) settles(s state) bool {
	for range 8 {
		s.calm()
		for i := range uint8(nodes) {
			if s.got[i] == unread {
				sys.read(&s, i)
			}
		}
		sys.decide(&s)
		if s.ended != 0 || s.broken != nothing { // which the search finds by itself
			return true
		}
		for i := range uint8(nodes) {
			if !s.deaf[i] {
				sys.deliver(&s, i)
			}
		}
		for k := uint8(1); k <= owners; k++ {
			if s.told&bit(k) != 0 && s.life[k] == held {
				s.endOwner(k)
			}
		}
		s.note()
	}
	return false
}

// calm lets all commands under way arrive, and makes the owners without a quorum give up.
func (s *state) calm() {
	s.mute = [nodes]uint8{}
	for k := uint8(1); k <= owners; k++ {
		if s.life[k] == trying {
			s.endOwner(k)
		}
		for i := range uint8(nodes) {
			if s.sent[k][i]&releases != 0 {
				s.release(k, i)
			}
		}
	}
	for k := uint8(1); k <= owners; k++ {
		for i := range uint8(nodes) {
			if slot := s.slotOf(k); s.life[k] == held && s.ownerAt(i, slot) == 0 {
				s.put(i, slot, k)
			}
		}
	}
	s.note()
}
