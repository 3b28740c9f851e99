package redlock_test

import (
	"errors"
	"fmt"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/scriptmodel"
	"github.com/quorumkit/redlock/internal/search"
)

// Sizes of the largest instance.
const (
	queueNodes     = 5
	queueProcesses = scriptmodel.Waiters
	queueMessages  = 6 // under way from one process to one node
)

// queueMistake is a process, or a node, that breaks a rule.
type queueMistake uint16

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
)

// queueSystem is the queue of one name over the scripts' model and the library's
// own rules (bid, positionOf, verdict, turnLeft). Each process has one ordered
// line to each node, as the writers are; hints come in any order, and may be late.
//
// The counters stand still, so a ticket is only as high as the queue makes it:
// the worst case for the order, and what keeps the states few. Leases end only
// where a holder died.
type queueSystem struct {
	nodes     int
	processes uint8
	leaver    uint8 // this many of them may leave while they wait, from the last
	mortal    uint8 // this many may die while they wait, from the last
	more      uint8 // goroutines of the first process beside its first
	turns     int
	lost      uint8 // hints that may be lost
	polls     bool
	silent    bool  // who dies keeps its connections: a machine that is cut off
	forgets   uint8 // nodes that may forget all, one at a time
	mistake   queueMistake
}

func (sys *queueSystem) makes(m queueMistake) bool { return sys.mistake&m != 0 }

// The messages of a process to a node, in its order.
const (
	noMessage uint8 = iota
	sendTicket
	sendAsk
	sendStaleTicket // an ask whose attempt is over: nobody reads the reply
	sendStale
	sendKeep // a release that keeps the entry
	sendEnd  // one that takes it away
)

// queueReply is what came back, until the process takes it in.
type queueReply struct {
	there, granted bool
	abstained      bool
	ticket         scriptmodel.Number
}

type queueLink struct {
	sent  [queueMessages]uint8
	reply queueReply
	hint  bool // on its way
}

type queueColumn struct {
	node  scriptmodel.Waiting
	links [queueProcesses]queueLink
}

// The phases of a process.
const (
	queueIdle uint8 = iota
	queueTicket
	queueBid
	queueRest
	queueHolds
	queueDone
	queueDead
)

type queueProcess struct {
	phase   uint8
	place   scriptmodel.Number
	all     bool        // the attempt asks all nodes
	split   bool        // the last one was granted by some
	bid     redlock.Bid // of the attempt
	votes   [queueNodes]redlock.Outcome
	tickets [queueNodes]scriptmodel.Number
	more    uint8 // goroutines that wait behind
	held    uint8 // in this turn
	ahead   uint8 // who stood on a quorum when it began, and still waits; a bit each
	deaf    bool  // its connections are closed
}

type queueState struct {
	columns   [queueNodes]queueColumn
	processes [queueProcesses]queueProcess
	lost      uint8
	forgot    uint8
	broken    uint8
}

// What a step can break.
const (
	brokenOrder uint8 = 1 + iota
	brokenLoop
	brokenExclusion
)

var (
	errOvertaken = errors.New("a process had its turn before one that stood on a quorum when it began")
	errHotLoop   = errors.New("a process woke itself")
	errTwoHold   = errors.New("two processes hold the name")
	errStuck     = errors.New("somebody waits, and nothing is under way")
)

func (sys *queueSystem) Init() (s queueState) {
	for i := range sys.nodes {
		s.columns[i].node.Epoch = epoch
	}
	s.processes[0].more = sys.more
	return s
}

// Check: what steps have broken, and whether all stands still.
func (sys *queueSystem) Check(s queueState) error {
	switch s.broken {
	case brokenOrder:
		return errOvertaken
	case brokenLoop:
		return errHotLoop
	case brokenExclusion:
		return errTwoHold
	}
	waiting := false
	for i := range sys.processes {
		switch s.processes[i].phase {
		case queueHolds, queueIdle:
			return nil
		case queueTicket, queueBid, queueRest:
			waiting = true
		}
	}
	if !waiting {
		return nil
	}
	moves := false
	sys.steps(&s, func(st search.Step, _ queueState) {
		moves = moves || st.Kind != stepPoll && st.Kind != stepForget && (!sys.polls || st.Kind != stepAgain)
	})
	if moves || sys.polls && sys.pollsGetThere(s) {
		return nil
	}
	return errStuck
}

// pollsGetThere tells whether looks alone bring the name to somebody: each in
// turn looks, and all that this sends arrives.
func (sys *queueSystem) pollsGetThere(s queueState) bool {
	for range 4 {
		for p := range sys.processes {
			if s.processes[p].phase != queueRest {
				continue
			}
			sys.attempt(&s, p, 0)
			for moved := true; moved; {
				moved = false
				sys.steps(&s, func(st search.Step, next queueState) {
					if !moved && st.Kind != stepPoll && st.Kind != stepLoseHint && st.Kind != stepDie && st.Kind != stepAgain && st.Kind != stepLeave && st.Kind != stepForget {
						moved, s = true, next
					}
				})
				if s.processes[p].phase == queueHolds || s.processes[p].phase == queueDone {
					return true
				}
			}
		}
	}
	return false
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
	stepHandOn           // the holder releases, or hands on
	stepLeave            // a process that waits leaves
	stepDie              // one dies; its connections close
	stepSilence          // a dead one's sign of life ends on a node
	stepForget           // a node loses its memory, and abstains
	stepRejoin           // it votes again, and knows who waits
)

func (sys *queueSystem) Describe(st search.Step) string {
	who := string('A' + rune(st.A))
	switch st.Kind {
	case stepDeliver, stepLoseHint:
		lost := ""
		if st.Kind == stepLoseHint {
			lost = ", and the hint that it brings about is lost"
		}
		return fmt.Sprintf("%s's message arrives at node %d%s", who, st.B+1, lost)
	case stepHear:
		return fmt.Sprintf("%s has the reply of node %d", who, st.B+1)
	case stepHint:
		return fmt.Sprintf("node %d's hint reaches %s", st.B+1, who)
	case stepSilence:
		return fmt.Sprintf("%s's sign of life ends on node %d", who, st.B+1)
	case stepForget:
		return fmt.Sprintf("node %d forgets", st.B+1)
	case stepRejoin:
		return fmt.Sprintf("node %d votes again", st.B+1)
	}
	return who + [...]string{
		stepQueueBegin: " begins", stepGather: " asks the other nodes too", stepAgain: " asks again after a split",
		stepPoll: " looks without a hint", stepHandOn: " releases, or hands on", stepLeave: " leaves", stepDie: " dies",
	}[st.Kind]
}

// Weight makes messages arrive, and faults rare.
func (sys *queueSystem) Weight(st search.Step) int {
	switch st.Kind {
	case stepDeliver, stepHear, stepHint:
		return 8
	case stepHandOn, stepQueueBegin, stepGather:
		return 3
	default:
		return 1
	}
}

// String shows who holds and who waits where.
func (s queueState) String() string {
	out := ""
	for i, c := range s.columns {
		if c.node.Epoch != 0 {
			out += fmt.Sprintf("node %d: held by %d, places %v; ", i+1, c.node.Keys[0].Owner, c.node.Places)
		}
	}
	for i, p := range s.processes {
		if p.phase != queueIdle {
			out += fmt.Sprintf("%c: %s at %d, votes %v; ", 'A'+rune(i), [...]string{"idle", "ticket", "bid", "rest", "holds", "done", "dead"}[p.phase], p.place, p.votes)
		}
	}
	return out
}
