package grant_test

import (
	"fmt"

	"github.com/quorumkit/redlock/internal/scriptmodel"
	"github.com/quorumkit/redlock/internal/search"
)

// epoch is that of all nodes.
const epoch scriptmodel.Epoch = 1

// The leases, in ticks, where time runs: what a release grants, and an ask.
const (
	grantLife = 3
	askLife   = 4
)

// mistake is a process that breaks a rule; nodes have scriptmodel's flaws.
type mistake uint32

const (
	countsFromArrival   mistake = 1 << iota // a grant's lease counts from when it is heard
	countsFromLastSign                      // or from the last sign that the process gave
	anyOwnerCounts                          // a push of an older attempt counts
	freshWhileOpen                          // the other nodes are asked with a fresh owner
	leavesPlacesUnequal                     // nodes that said another place are not told
	noTombstones                            // a release leaves none
	refusalUndoes                           // a refusal undoes a grant
	othersNeverAsked                        // after a push only nodes that push count
	endedPushIgnored                        // a push of an attempt that was given back is ignored
	leavesInPeace                           // a leaver calls nobody
	givesBackInPeace                        // what is given back calls nobody
	passesOverDeaf                          // who does not hear is dropped at once
	passesAnyKey                            // a pass swaps any key that is there
	trustsSilence                           // a pass of unknown outcome counts as a grant
	forgetsTheOld                           // after such a pass only the new owner is released
	passesLate                              // a pass goes out for an owner that is over
	endlessTurn                             // a process never lets others go first
	extendsFromReply                        // an extension counts from when it is confirmed
	extendsByOne                            // one node's confirmation is enough
	handsInPeace                            // a hand calls nobody where the first in line takes no push
	rejoinsAtOnce                           // a node that forgot votes before all is over that it may have granted
	rejoinsBlank                            // or before it is told who waits
	rejoinsAtZero                           // or counts from the start
	anyEpochCounts                          // a push from before the node forgot counts after
	handsByID                               // who stands in line by its id alone releases by a hand
	ignoresQueue                            // a stranger that should looks at no queue
	raisesNothing                           // the largest of unequal numbers is the token, without a raise
	raisesUntold                            // a raise goes out before all nodes know the place
)

// system is the hand-over of one name over the scripts' model and the rules of package
// grant. Each process has one ordered line to each node, as the writers are; replies come
// in their order, pushes and calls in any.
type system struct {
	nodes     int
	processes uint8
	turns     uint8 // of each process, or of each of its goroutines that follow each other
	row       uint8 // so many of these in a row may be passed on inside
	leaver    uint8 // this many of them may leave while they wait, from the last
	mortal    uint8 // this many may die while they wait, from the last
	silent    bool  // who dies keeps its connections
	lost      uint8 // pushes and calls that may be lost
	breaks    uint8 // connections for them that may break, and are made anew
	unknown   uint8 // commands that may be given up, and come later
	polls     uint8 // looks without a call
	time      tick  // how long it runs; 0: leases do not end, but of the dead
	plain     uint8 // so many processes take no push, from the last: they are called
	anew      bool  // a process whose turn is over asks for its next place
	calls     bool  // a release may call in the place of granting
	strangers uint8 // so many processes stand in no line, from the first
	barges    bool  // these look at no queue
	foreign   bool  // and are no redlock clients: they neither count nor call
	extends   bool  // holders lengthen their leases, where time runs
	forgets   uint8 // nodes that may forget all, one at a time
	bumps     uint8 // counters that may move for another name
	quiet     bool  // a holder's sign of life may end
	still     bool  // nobody looks again after it has given something back
	lean      bool  // numbers that only grow are brought down
	mistake   mistake
	flaw      scriptmodel.Flaw
}

func (sys *system) makes(m mistake) bool { return sys.mistake&m != 0 }

func (sys *system) Init() (s state) {
	for i := range sys.nodes {
		s.columns[i].node.Epoch = epoch
	}
	for p := range sys.processes {
		s.processes[p].more = sys.turns - 1
	}
	return s
}

// The kinds of steps; A is the process, B the node.
const (
	stepBegin    uint8 = iota
	stepDeliver        // the first message of the line arrives
	stepLose           // the same, and what it has others told is lost
	stepReply          // the process takes in a reply
	stepPush           // a push arrives
	stepCall           // a call arrives
	stepGather         // the process asks the nodes that granted nothing
	stepLate           // it waits no longer for pushes
	stepAgain          // it asks again after it has given something back
	stepPoll           // it looks without a call
	stepRelease        // the holder releases
	stepLeave          // a process that waits leaves
	stepDie            // one dies
	stepSilence        // a sign of life ends on a node, and a dead one's lease
	stepBreak          // the connection for pushes of one that lives breaks
	stepMend           // it is there again, and what was missed is looked at
	stepGiveUp         // a process waits no longer for a reply
	stepTooLate        // that command arrives all the same
	stepTick           // time passes
	stepLapse          // a holder's validity has ended
	stepPass           // the holder hands on to its next goroutine
	stepTakePass       // the writer comes to that
	stepCalls          // the holder releases, and has who waits called
	stepExtend         // the holder has its lease lengthened
	stepCount          // another name moves a node's counter
	stepForget         // a node loses its memory, and abstains
	stepRejoin         // it votes again, and knows who waits
	stepBeat           // a sign of life, where time runs
)

// byChance tells whether a kind of step is one that need never happen.
func byChance(kind uint8) bool {
	switch kind {
	case stepLose, stepBeat, stepPoll, stepCount, stepForget, stepExtend, stepSilence, stepBreak, stepGiveUp, stepTooLate, stepLeave, stepDie:
		return true
	default:
		return false
	}
}

func (sys *system) Describe(st search.Step) string {
	text := [...]string{
		stepBegin: "%s begins", stepDeliver: "%s's message arrives at node %d",
		stepLose: "%s's message arrives at node %d, and what it has others told is lost", stepReply: "%s has the reply of node %d",
		stepPush: "%s hears a push of node %d", stepCall: "%s hears a call of node %d", stepGather: "%s asks the other nodes too",
		stepLate: "%s waits no longer for pushes", stepAgain: "%s asks again after it gave something back", stepPoll: "%s looks without a call",
		stepRelease: "%s releases", stepLeave: "%s leaves", stepDie: "%s dies", stepSilence: "%s's sign of life ends on node %d",
		stepBreak: "%s no longer hears node %d", stepMend: "%s hears node %d again", stepGiveUp: "%s gives up its command at node %d",
		stepTooLate: "%s's command that it gave up arrives at node %d", stepTick: "time passes", stepLapse: "%s's validity has ended",
		stepPass: "%s hands on to its next goroutine", stepTakePass: "%s's writer comes to the pass at node %d",
		stepCalls: "%s releases, and grants nothing", stepExtend: "%s has its lease lengthened", stepCount: "another name moves the counter of node %d",
		stepForget: "node %d forgets", stepRejoin: "node %d votes again",
		stepBeat: "%s says at node %d that it lives",
	}[st.Kind]
	who := string('A' + rune(st.A))
	switch st.Kind {
	case stepDeliver, stepLose, stepReply, stepPush, stepCall, stepSilence, stepBeat, stepBreak, stepMend, stepGiveUp, stepTooLate, stepTakePass:
		return fmt.Sprintf(text, who, st.B+1)
	case stepTick:
		return text
	case stepCount, stepForget, stepRejoin:
		return fmt.Sprintf(text, st.B+1)
	default:
		return fmt.Sprintf(text, who)
	}
}

// Weight makes messages arrive, and faults rare.
func (sys *system) Weight(st search.Step) int {
	switch st.Kind {
	case stepDeliver, stepReply, stepPush, stepCall, stepTakePass:
		return 8
	case stepRelease, stepPass, stepCalls, stepExtend, stepBegin, stepGather, stepLate, stepMend, stepBreak:
		return 3
	default:
		return 1
	}
}
