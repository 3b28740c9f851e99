package quorum_test

import (
	"errors"
	"fmt"

	"github.com/quorumkit/redlock/internal/quorum"
	"github.com/quorumkit/redlock/internal/scriptmodel"
	"github.com/quorumkit/redlock/internal/search"
)

// Sizes of the largest instance.
const (
	lineNodes    = 5
	lineMost     = 4 // goroutines
	lineMessages = 8 // under way from one goroutine to one node
)

// lineMistake is a process that breaks a rule; a node's are Flaws.
type lineMistake uint8

const (
	keepsPlace lineMistake = 1 << iota // a later goroutine goes by the place of an earlier one
	deafAsks                           // a hint is forgotten while the ask there is out
)

// lineSystem is both lines of one name over the scripts' model and the library's own rules
// (Asked, PositionOf, Verdict, Group). Each goroutine has one ordered line to each node, as
// the writers are; hints come in any order, and may be late. Each is a process of its own,
// but where said otherwise.
//
// As in queueSystem the counters stand still and leases do not end; besides, nobody passes
// the name on, and releases call and do not grant. A look is one node's word, at any time.
type lineSystem struct {
	nodes  int
	shares []bool // of each goroutine, whether it wants to share the name
	twin   bool   // the second is a later goroutine of the first one's process
	// together: and is there already when that one asks for a place, and goes by it.
	together bool
	more     uint8 // how often each comes again
	leavers  uint8 // who may leave while they wait, one bit each
	mortals  uint8 // who may die while they wait or hold
	lost     uint8 // hints that may be lost
	drops    uint8 // exclusive keys that may go on a node
	looks    bool
	counts   bool // attempts that hints bring about while the same ones hold are counted; whose key went holds for ever
	lean     bool // what decides nothing is taken away
	mistake  lineMistake
	flaw     scriptmodel.Flaw
}

// Messages of a goroutine to a node, in their order.
const (
	askNothing uint8 = iota
	askTicket
	askPlace
	askStaleTicket // an ask whose attempt is over: nobody reads the reply
	askStale
	freeNothing // a release that leaves entries alone
	freeKeeps   // one whose sender goes on waiting
	freeEntry   // one that takes the entry away
	leaveEntry  // the entry alone
	leaseEnds   // no release: what a dead one has ends by itself, and nobody is called
)

func lineAsks(m uint8) bool  { return m == askTicket || m == askPlace }
func lineFrees(m uint8) bool { return m >= freeNothing }

type lineLink struct {
	sent   [lineMessages]uint8
	of     [lineMessages]scriptmodel.Number // the place that each is sent by
	reply  quorum.Outcome                   // Pending if none
	said   scriptmodel.Number               // the ticket of the reply
	hint   bool                             // on its way
	vote   quorum.Outcome                   // in the attempt that is open
	ticket scriptmodel.Number
	bid    uint8 // this node's bits of the attempt's bid
}

type lineColumn struct {
	node  scriptmodel.Sharing
	links [lineMost]lineLink
}

// The phases of a goroutine.
const (
	lineIdle uint8 = iota
	lineTicket
	lineBids
	lineRests
	lineHolds
	lineDone
	lineDead
	lineFollows // it waits in its process, for one that asks
)

type lineGoroutine struct {
	phase uint8
	place scriptmodel.Number
	all   bool  // the attempt asks all nodes
	split bool  // the last one was granted by some
	ahead uint8 // who stood on a quorum when it began, and still waits; a bit each
	turns uint8 // how often it has come again
	calls uint8 // attempts that hints brought about, since somebody last began or ended a hold
}

type lineState struct {
	columns [lineNodes]lineColumn
	gs      [lineMost]lineGoroutine
	lost    uint8
	dropped uint8
	broken  uint8
}

func (sys *lineSystem) makes(m lineMistake) bool { return sys.mistake&m != 0 }

// waiter is the process of a goroutine.
func (sys *lineSystem) waiter(g uint8) scriptmodel.Waiter {
	if sys.twin && g > 0 {
		return scriptmodel.Waiter(g - 1)
	}
	return scriptmodel.Waiter(g)
}

func (sys *lineSystem) Init() (s lineState) {
	for i := range sys.nodes {
		n := &s.columns[i].node
		n.Epoch = epoch
		if sys.mortals == 0 { // then signs of life decide nothing
			n.Live, n.Waited, n.Sharing = 1<<len(sys.shares)-1, true, true
		}
	}
	return s
}

const mostCalls = 8

const lineOvertaken, lineExclusion, lineLoop uint8 = 1, 2, 3

var (
	errStarved  = errors.New("one had its turn before another, which it excludes, that stood on a quorum when it began")
	errAsleep   = errors.New("somebody waits who could go, and nothing is under way")
	errBothHold = errors.New("an exclusive hold is beside another")
	errLivelock = errors.New("those who wait wake each other while the same ones hold")
)

// Check: what steps have broken, what is left behind, and whether somebody sleeps who could go.
func (sys *lineSystem) Check(s lineState) error {
	switch s.broken {
	case lineOvertaken:
		return errStarved
	case lineExclusion:
		return errBothHold
	case lineLoop:
		return errLivelock
	}
	for n := range sys.nodes {
		if sys.leftBehind(&s, n) {
			return errKeyLeft
		}
	}
	g, ok := sys.couldGo(&s)
	if !ok || sys.underWay(&s) || sys.movesItself(&s) || sys.looks && sys.looksGetThere(s, g) {
		return nil
	}
	return errAsleep
}

// leftBehind tells whether a node has what nobody wants, and nothing is under way there.
func (sys *lineSystem) leftBehind(s *lineState, n int) bool {
	c := &s.columns[n]
	for g := range uint8(len(sys.shares)) {
		me, l := &s.gs[g], &c.links[g]
		wants := me.phase == lineTicket || me.phase == lineBids || me.phase == lineHolds
		if c.has(g) && !wants && l.sent[0] == askNothing && l.reply == quorum.Pending {
			return true
		}
	}
	return false
}

// has tells whether the node has the goroutine's hold.
func (c *lineColumn) has(g uint8) bool {
	k := c.node.Keys[0].Owner
	return k == owner(g) || k == scriptmodel.Shared && c.node.Set.Ends[g] != 0
}

// couldGo is one that waits though nobody holds what excludes it, and no living exclusive
// stands before it; or, where nobody holds at all, anyone.
func (sys *lineSystem) couldGo(s *lineState) (uint8, bool) {
	held := false
	for g := range sys.shares {
		if s.gs[g].phase == lineHolds {
			if held = true; !sys.shares[g] {
				return 0, false
			}
		}
	}
	for g, shares := range sys.shares {
		me := &s.gs[g]
		if me.phase != lineRests {
			continue
		}
		free := !held || shares
		for q, other := range sys.shares {
			o := &s.gs[q]
			before := o.phase == lineRests && o.place <= me.place || o.phase == lineTicket || o.phase == lineBids
			free = free && (!held || other || !before)
		}
		if free {
			return uint8(g), true
		}
	}
	return 0, false
}

// underWay tells whether a message, a reply or a hint is.
func (sys *lineSystem) underWay(s *lineState) bool {
	for n := range sys.nodes {
		for g := range sys.shares {
			if l := &s.columns[n].links[g]; l.sent[0] != askNothing || l.reply != quorum.Pending || l.hint {
				return true
			}
		}
	}
	return false
}

// movesItself tells whether a step is due that needs no chance.
func (sys *lineSystem) movesItself(s *lineState) (moves bool) {
	sys.steps(s, func(st search.Step, _ lineState) {
		moves = moves || st.Kind == lineGather || st.Kind == lineAgain && !sys.looks
	})
	return moves
}

// looksGetThere tells whether looks bring the name to one that waits, or to any where
// nobody holds: all that lived no longer is silent then, each in turn looks at each node,
// and all that this sends arrives.
func (sys *lineSystem) looksGetThere(s lineState, g uint8) bool {
	before := sys.holders(&s)
	for range 4 {
		for p := range uint8(len(sys.shares)) {
			for n := range uint8(sys.nodes) {
				s = sys.calm(s)
				if s.gs[p].phase == lineRests {
					sys.look(&s, p, n)
				}
			}
			s = sys.calm(s)
			if s.gs[g].phase == lineHolds || before == 0 && sys.holders(&s) > 0 {
				return true
			}
		}
	}
	return false
}

func (sys *lineSystem) holders(s *lineState) (n int) {
	for g := range sys.shares {
		n += int(boolean(s.gs[g].phase == lineHolds))
	}
	return n
}

// calm lets all messages under way arrive, and nothing else happen.
func (sys *lineSystem) calm(s lineState) lineState {
	for moved := true; moved; {
		moved = false
		sys.steps(&s, func(st search.Step, next lineState) {
			switch st.Kind {
			case lineDeliver, lineHear, lineHint, lineGather, lineSilence:
				if !moved {
					moved, s = true, next
				}
			}
		})
	}
	return s
}

// The kinds of steps; A is the goroutine, B the node.
const (
	lineBegins  uint8 = iota
	lineDeliver       // the first message of its line arrives
	lineLose          // the same, and the hints that it brings about are lost
	lineHear          // it takes in a reply
	lineHint          // a hint arrives
	lineGather        // it asks the nodes that gave no hint
	lineAgain         // it asks again after a split
	lineLook          // it looks at the node
	lineEnds          // it releases
	lineLeaves        // it waits no longer
	lineDies          // it dies
	lineSilence       // the node has no sign of life of a dead one any more
	lineDrops         // an exclusive key goes on the node
)

// Weight makes things get somewhere.
func (sys *lineSystem) Weight(st search.Step) int {
	switch st.Kind {
	case lineDeliver, lineHear, lineHint, lineBegins:
		return 12
	case lineGather, lineAgain, lineEnds, lineSilence:
		return 4
	default:
		return 1
	}
}

func (sys *lineSystem) Describe(st search.Step) string {
	who, node := string('A'+rune(st.A)), st.B+1
	if sys.shares[st.A] {
		who += " (shares)"
	}
	switch st.Kind {
	case lineDeliver, lineLose:
		return fmt.Sprintf("%s's message arrives at node %d%s", who, node, [...]string{"", ", whose calls are lost"}[st.Kind-lineDeliver])
	case lineHear, lineHint, lineLook, lineSilence:
		return fmt.Sprintf("%s %s node %d", who, map[uint8]string{lineHear: "hears", lineHint: "is called by", lineLook: "looks at", lineSilence: "is silent at"}[st.Kind], node)
	case lineDrops:
		return fmt.Sprintf("%s's key goes at node %d", who, node)
	default:
		return who + " " + map[uint8]string{
			lineBegins: "begins", lineGather: "asks all nodes", lineAgain: "asks again", lineEnds: "releases", lineLeaves: "leaves", lineDies: "dies",
		}[st.Kind]
	}
}

// String shows who holds and who waits where.
func (s lineState) String() string {
	out := ""
	for i, c := range s.columns {
		if c.node.Epoch == 0 {
			continue
		}
		out += fmt.Sprintf("node %d:", i+1)
		for g := range uint8(lineMost) {
			if c.has(g) {
				out += fmt.Sprintf(" held by %c", 'A'+rune(g))
			}
		}
		out += fmt.Sprintf(" lines %v %v; ", c.node.Places, c.node.Beside)
	}
	for i, g := range s.gs {
		if g.phase != lineIdle {
			phase := [...]string{"idle", "ticket", "bids", "rests", "holds", "done", "dead", "follows"}[g.phase]
			out += fmt.Sprintf("%c %s at %d; ", 'A'+rune(i), phase, g.place)
		}
	}
	return out
}
