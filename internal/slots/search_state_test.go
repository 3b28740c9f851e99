package slots_test

import (
	"errors"

	"github.com/quorumkit/redlock/internal/quorum"
	"github.com/quorumkit/redlock/internal/scriptmodel"
	"github.com/quorumkit/redlock/internal/slots"
)

const (
	nodes       = 3
	mostCallers = 4
	mostSent    = 7 // to one node, by one caller
	busy        = 3 // who has more than so much on its way to a node sends nothing new
)

// What a search can find.
var (
	errTooMany   = errors.New("more hold the name than may")
	errTwoHold   = errors.New("two hold one slot")
	errOvertaken = errors.New("a caller got a slot before one that stood on a quorum when it began")
	errHotLoop   = errors.New("a process woke itself")
	errTaken     = errors.New("a leave of a wait that has ended took the entry of one that goes on")
	errAsleep    = errors.New("a slot is free, somebody waits for it, and nothing is under way")
	errTurns     = errors.New("a slot was handed on more often in a row than the turns say")
	errLitter    = errors.New("all are done, and something is held or waited for")
)

// phase is where a caller stands.
type phase uint8

const (
	away  phase = iota // it has not begun, or is between two holds
	asks               // its round is out
	rests              // in line
	holds
	over // it is done for good
	dead // its process is
)

// What is on its way to a node, in the order in which it was sent.
const (
	nothing uint8 = iota
	anAsk
	aLateAsk  // nobody waits for the reply
	aGiveBack // of a slot, by who goes on waiting
	aRelease  // of a slot
	aLeave    // of the line
	aPass     // of a slot, to another goroutine of the process
	kinds     = 8
	placed    = 1 << 7
	byWhom    = 1 << 8  // the owner value, of three
	fromWhom  = 1 << 10 // and the earlier one
)

// sent is one message: its kind, the slot, whether it is an ask with a place, and the owner
// values that it is about. Of a leave it is the place, not the slot.
type sent uint16

func message(kind, slot, by uint8) sent {
	return sent(kind) + kinds*sent(slot) + byWhom*sent(by)
}

func pass(slot, from, to uint8) sent { return message(aPass, slot, to) + fromWhom*sent(from) }

// anyPlace is no lower than any place, and what a stray leave takes.
const anyPlace = placed/kinds - 1

func leaveOf(place scriptmodel.Number) sent {
	if place > anyPlace {
		panic("a place does not fit")
	}
	return message(aLeave, uint8(place), 0)
}

func (m sent) kind() uint8  { return uint8(m) % kinds }
func (m sent) slot() uint8  { return uint8(m) % placed / kinds }
func (m sent) placed() bool { return m&placed != 0 }
func (m sent) by() uint8    { return uint8(m / byWhom % 4) }
func (m sent) from() uint8  { return uint8(m / fromWhom) }

// reply is what a node said of the ask that is out.
type reply struct {
	vote   quorum.Outcome
	first  bool
	free   uint8
	ticket scriptmodel.Number
}

// hold is a slot that a goroutine of a process holds, or is handed.
type hold struct {
	slot   uint8 // and one; 0 if none
	by     uint8 // its owner value
	passed uint8 // how often it was handed on in a row, as its claim says
}

// caller is one process that wants a slot: the goroutine of it that goes to the nodes.
type caller struct {
	phase  phase
	by     uint8              // the owner value of what it asks for, or holds
	passed uint8              // of what it holds, as of a hold
	mate   hold               // of another goroutine, which went before
	given  hold               // what that one has handed on, and this one has not taken
	told   uint8              // nodes that have passed that, a bit each
	slot   uint8              // that it asks for, or holds
	place  scriptmodel.Number // in line; 0 if none
	was    scriptmodel.Number // the place that asks on their way have, of a line that it has left
	stood  scriptmodel.Number // the last place that it had
	out    [nodes][mostSent]sent
	said   [nodes]reply
	decide slots.Caller
	stands uint8 // nodes that have recorded the place of this wait
	split  bool  // the last ask was granted by some nodes: it looks again soon
	before uint8 // who stood on a quorum when it began, one bit each
	turns  uint8 // holds that are left
}

type state struct {
	nodes   [nodes]scriptmodel.Waiting
	callers [mostCallers]caller
	deaths  uint8                    // that may still come
	leaves  uint8                    // waits that may still be cancelled
	doubles uint8                    // leaves that may still come twice
	row     [scriptmodel.Names]uint8 // how often each slot was handed on in a row
	broken  uint8                    // what a step has broken
}

const (
	brokenOrder uint8 = 1 + iota
	brokenLoop
	brokenEntry
	brokenTurns
)

const (
	epoch = scriptmodel.Epoch(1)
	life  = scriptmodel.Tick(5)
)

// values is how many owner values a process has: of who holds, of who asks meanwhile, and
// of who is handed a slot.
const values = scriptmodel.Owners / mostCallers

func ownerOf(c, by uint8) scriptmodel.Owner { return scriptmodel.Owner(1 + values*c + by) }

// send queues a message of caller c to node i.
func (s *state) send(c, i uint8, m sent) {
	for k := range s.callers[c].out[i] {
		if s.callers[c].out[i][k] == 0 {
			s.callers[c].out[i][k] = m
			return
		}
		if m.kind() == aLeave && s.callers[c].out[i][k] == m && (k == mostSent-1 || s.callers[c].out[i][k+1] == 0) {
			return // once is enough
		}
	}
	panic("more messages are out than fit")
}

// free tells whether a caller may send more: what it does not send yet it may send later.
func (me *caller) free() bool {
	for i := range me.out {
		if me.out[i][busy] != 0 {
			return false
		}
	}
	return true
}

// gone notes the place that asks on their way still have.
func (me *caller) gone() {
	me.was = max(me.was, me.place)
	for i := range me.out {
		for _, m := range me.out[i] {
			if m.placed() {
				return
			}
		}
	}
	me.was = 0
}

func (s *state) sendAll(c uint8, m sent) {
	for i := range uint8(nodes) {
		s.send(c, i, m)
	}
}

// stands tells whether a caller waits, and has its place on a quorum.
func (s *state) stands(c uint8) bool {
	me := &s.callers[c]
	if me.place == 0 || me.phase != asks && me.phase != rests {
		return false
	}
	on := 0
	for i := range s.nodes {
		if s.nodes[i].Places[c] == me.place {
			on++
		}
	}
	return on >= quorum.Size(nodes)
}

// forget leaves out what decides nothing: counters, and calls that were heard.
func (s *state) forget(i uint8) {
	s.nodes[i].Stripes = [scriptmodel.Stripes]scriptmodel.Number{}
	s.nodes[i].Called = 0
}

// hear is a call of node i for a process.
func (s *state) hear(i uint8, w scriptmodel.Waiter, slot uint8, forgets bool) {
	if w == scriptmodel.NoWaiter {
		return
	}
	me := &s.callers[w]
	switch {
	case me.phase == dead:
	case me.place == 0 || me.phase != asks && me.phase != rests: // it does not wait: it leaves
		s.send(uint8(w), i, leaveOf(me.stood))
	case forgets && me.phase == asks:
	default:
		me.decide.Hear(int(slot))
	}
}
