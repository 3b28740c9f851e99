package quorum_test

import (
	"fmt"

	"github.com/quorumkit/redlock/internal/search"
)

// queueMistake is a process, or a node, that breaks a rule.
type queueMistake uint32

const (
	ignoresQueue  queueMistake = 1 << iota // a newcomer that asks as if nobody waited
	oneTicket                              // the place is one node's ticket
	deafWhileAsks                          // a hint is forgotten while the ask there is out
	onlyHinted                             // nodes that gave no hint are not asked
	leavesInPeace                          // a leaver wakes nobody
	noSignOfLife                           // an entry without one blocks all the same
	wakesItself                            // a rollback that wakes its own process
	ownPlaces                              // each node has an order of its own
	splitForGood                           // what some nodes granted is not given back
	endlessTurn                            // a process never lets others go first
	staysInFront                           // after its turn a process keeps its place
	wallClock                              // places by the processes' own clocks
	rejoinsBlank                           // a node that forgot votes before it is told who waits
	passesAnyKey                           // a pass swaps any key that is there
	trustsSilence                          // a pass of unknown outcome counts as a grant
	forgetsTheOld                          // after such a pass only the new claim is released
	noTombstones                           // and without a tombstone
	passesLate                             // a pass is sent for a claim that is over
	dropsUnheard                           // a release drops who lives and did not hear its call
	mendsAtRest                            // it looks only if it rests, not if it is asking
	mendsInPeace                           // who can be called again does not look at what it missed
)

// queueSystem is the queue of one name over the scripts' model and the library's
// own rules (Asked, PositionOf, Verdict, TurnLeft, PassingOf, TookOver, Mark). Each
// process has one ordered line to each node, as the writers are; hints come in any
// order, and may be late.
//
// The counters stand still, so a ticket is only as high as the queue makes it:
// the worst case for the order, and what keeps the states few. Leases end only
// where a holder died.
//
// The first process alone has goroutines more, so it alone hands the name on: a
// pass to each node, each with its own delay. The reply may be lost, and the pass
// then comes at any time later, or never.
type queueSystem struct {
	nodes     int
	processes uint8
	leaver    uint8 // this many of them may leave while they wait, from the last
	mortal    uint8 // this many may die while they wait, from the last
	more      uint8 // goroutines of the first process beside its first
	turns     int
	lost      uint8 // hints that may be lost
	breaks    uint8 // connections for hints that may break, and are made anew
	unknown   uint8 // passes whose reply may be lost
	drops     uint8 // keys that may go on a node, of those that are on more than a quorum
	polls     bool
	tells     bool  // a look may tell any node of a place at any time
	silent    bool  // who dies keeps its connections: a machine that is cut off
	forgets   uint8 // nodes that may forget all, one at a time
	lean      bool  // what decides nothing is taken away
	mistake   queueMistake
}

func (sys *queueSystem) makes(m queueMistake) bool { return sys.mistake&m != 0 }

// passes tells whether a process may hand the name on inside.
func (sys *queueSystem) passes(p uint8) bool {
	return p == 0 && sys.more > 0 && (sys.turns > 1 || sys.makes(endlessTurn))
}

func (sys *queueSystem) Init() (s queueState) {
	for i := range sys.nodes {
		s.columns[i].node.Epoch = epoch
		sys.vouch(&s, i)
	}
	s.processes[0].more = sys.more
	return s
}

// vouch gives the signs of life on a node where nobody dies: they decide nothing.
func (sys *queueSystem) vouch(s *queueState, n int) {
	if sys.mortal == 0 {
		s.columns[n].node.Live, s.columns[n].node.Waited = 1<<sys.processes-1, true
	}
}

// The kinds of steps; A is the process, B the node.
const (
	stepQueueBegin uint8 = iota
	stepDeliver          // the first message of the line arrives
	stepLoseHint         // the same, and the hint that it brings about is lost
	stepHear             // the process takes in a reply
	stepHint             // a hint arrives
	stepGather           // the process asks the nodes that gave no hint
	stepAgain            // it asks again after a split
	stepPoll             // it looks without a hint
	stepTell             // a look tells a node where it stands
	stepHandOn           // the holder releases, or hands on
	stepTakePass         // the writer comes to a handover
	stepNoReply          // it waits no longer for a reply
	stepTooLate          // that command arrives all the same
	stepDropKey          // a key goes
	stepLeave            // a process that waits leaves
	stepDie              // one dies; its connections close
	stepSilence          // a dead one's sign of life ends on a node
	stepForget           // a node loses its memory, and abstains
	stepRejoin           // it votes again, and knows who waits
	stepBreak            // the connection for hints of one that lives breaks
	stepMend             // it is there again, and what was missed is looked at
)

// byChance tells whether a kind of step is one that need never happen.
func byChance(kind uint8) bool {
	switch kind {
	case stepPoll, stepTell, stepForget, stepTooLate, stepDropKey, stepNoReply, stepLoseHint, stepBreak:
		return true
	default:
		return false
	}
}

func (sys *queueSystem) Describe(st search.Step) string {
	who := string('A' + rune(st.A))
	switch st.Kind {
	case stepDeliver, stepLoseHint:
		lost := ""
		if st.Kind == stepLoseHint {
			lost = ", and the hint that it brings about is lost"
		}
		return fmt.Sprintf("%s's message arrives at node %d%s", who, st.B+1, lost)
	case stepHint:
		return fmt.Sprintf("node %d's hint reaches %s", st.B+1, who)
	case stepForget:
		return fmt.Sprintf("node %d forgets", st.B+1)
	case stepRejoin:
		return fmt.Sprintf("node %d votes again", st.B+1)
	}
	text := [...]string{
		stepHear: "%s has the reply of node %d", stepSilence: "%s's sign of life ends on node %d",
		stepTakePass: "%s's writer comes to the handover at node %d", stepNoReply: "%s gives up its command at node %d",
		stepTooLate: "%s's command that it gave up arrives at node %d", stepDropKey: "%s's key goes at node %d",
		stepQueueBegin: "%s begins", stepGather: "%s asks the other nodes too", stepAgain: "%s asks again after a split",
		stepBreak: "node %[2]d can't call %[1]s", stepMend: "node %[2]d can call %[1]s again",
		stepTell: "%s tells node %d where it stands", stepPoll: "%s looks without a hint", stepHandOn: "%s releases, or hands on", stepLeave: "%s leaves", stepDie: "%s dies",
	}[st.Kind]
	switch st.Kind {
	case stepHear, stepTell, stepSilence, stepTakePass, stepNoReply, stepTooLate, stepDropKey, stepBreak, stepMend:
		return fmt.Sprintf(text, who, st.B+1)
	default:
		return fmt.Sprintf(text, who)
	}
}

// Weight makes messages arrive, and faults rare.
func (sys *queueSystem) Weight(st search.Step) int {
	switch st.Kind {
	case stepDeliver, stepHear, stepHint, stepTakePass:
		return 8
	case stepHandOn, stepQueueBegin, stepGather:
		return 3
	default:
		return 1
	}
}
