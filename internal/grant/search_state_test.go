package grant_test

import (
	"fmt"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/grant"
	"github.com/quorumkit/redlock/internal/quorum"
	"github.com/quorumkit/redlock/internal/scriptmodel"
)

// Sizes of the largest instance.
const (
	mostNodes     = 5
	mostProcesses = scriptmodel.Waiters
	lineRoom      = 7 // messages under way from one process to one node
	replyRoom     = 3
	pushRoom      = 3
	fewOwners     = 3 // owner values of a process where there are four of them
	manyOwners    = 4 // and where there are fewer
	mostOwners    = 6 // and where there are two that pass
)

type (
	owner  = scriptmodel.Owner
	number = scriptmodel.Number
	tick   = scriptmodel.Tick
)

// The kinds of messages.
const (
	noMessage uint8 = iota
	sendTicket
	sendAsk
	sendTry // of one that stands in no line
	sendRaise
	sendPass // from the owner to the next; mode tells whether it has gone out
	sendExtend
	sendReseed
	sendHand
	sendRelease
)

// The modes of a hand.
const (
	handsAs  uint8 = iota // of a process that stands in line
	handsOff              // of one that does not
	callsAs               // of one that stands in line, and grants nothing
)

// message is one command of a process to a node, in its order.
type message struct {
	kind    uint8
	mode    uint8 // of a release
	owner   owner
	next    owner
	stood   owner // of a hand: that with which the process stood in line
	place   number
	number  number // the hint, or what is to be raised to
	reading tick
	tomb    bool
	byID    bool // of a release: the entry of the process goes, whichever it is
	old     bool // of an epoch that has ended
}

// answer is a reply on its way.
type answer struct {
	kind    uint8
	owner   owner
	next    owner
	outcome quorum.Outcome // Pending: it is none
	token   number         // granted; of a raise what the node has
	ticket  number         // of a ticket, or the place that a hand gave
	reading tick           // when it was asked
	gone    bool           // of an extension: the key is not there
}

// told is a push on its way.
type told struct {
	owner   owner // Nobody: it is none
	token   number
	reading tick
	old     bool // of an epoch that has ended
}

// link is one process's ordered line to one node, the node's calls, and what the process
// knows of that node.
type link struct {
	sent    [lineRoom]message
	late    message // a command that was given up: it arrives at any time, or never
	replies [replyRoom]answer
	pushes  [pushRoom]told
	hint    bool

	outcome quorum.Outcome // in the attempt that is open
	granted number
	until   tick
	bits    uint8 // of the attempt: asked, out, hinted, told of its place
	expects bool  // the reply to a release is out
	said    bool  // it has come
	place   number
	token   number // granted to the next owner
	raised  bool
	confirm quorum.Outcome // of the extension that is out
	gone    bool           // by which the key is not there
	has     owner          // the node has said that it is there, and it was not released since
	over    bool           // it had no room: the search goes no further here
	doubt   uint8          // owners of which something may still come, one bit each
}

type column struct {
	node  scriptmodel.Granting
	since tick // when it forgot; without an epoch it does not vote
	links [mostProcesses]link
}

// The phases of a process.
const (
	idle    uint8 = iota
	tickets       // it asks for a place
	inLine        // its attempt is open
	raising
	passing // to its next goroutine
	holding
	done
	dead
)

type process struct {
	phase  uint8
	owner  owner // of the attempt that is open, or of the lock
	place  number
	all    bool
	late   bool
	split  bool   // it has given something back, and looks again soon
	token  number // of the lock, or that it raises to
	until  tick   // of the lock
	extend tick   // when its extension was sent, from 1; 0 if none is out
	more   uint8  // turns that are left after this one
	held   uint8  // in a row, since it took its place
	stood  owner  // of a lock: that with which the process stood in line, before it passed it on; Nobody: it did not
	inside bool   // the attempt, or the lock, is passed on
	handed owner  // that its last releases were of
	stands uint8  // the nodes whose grants made it the holder, one bit each
	ahead  uint8  // who stood on a quorum when it began, and waits still; a bit each
}

type state struct {
	columns   [mostNodes]column
	processes [mostProcesses]process
	now       tick
	last      number // the largest token so far
	lost      uint8  // pushes and calls
	forgot    uint8  // nodes
	cut       uint8  // connections for them that broke
	unknown   uint8  // commands that were given up
	polled    uint8
	bumped    uint8 // counters that another name has moved
	broken    uint8
	pruned    bool // a process needed an owner value, and all were in use
}

// owners is how many owner values a process has.
func (sys *system) owners() int {
	switch {
	case sys.row > 1 && sys.processes == 2:
		return mostOwners
	case sys.processes > 3:
		return fewOwners
	}
	return manyOwners
}

// processOf is whose owner value it is.
func (sys *system) processOf(o owner) uint8 { return uint8(o-1) / uint8(sys.owners()) }

// bit is an owner value among those of its process.
func (sys *system) bit(o owner) uint8 { return 1 << (uint8(o-1) % uint8(sys.owners())) }

// ends tells whether the search goes no further: something had no room.
func (sys *system) ends(s *state) bool {
	for n := range sys.nodes {
		for p := range sys.processes {
			if s.columns[n].links[p].over {
				return true
			}
		}
	}
	return s.pruned
}

// used is the owner values of a process that something bears, one bit each.
func (sys *system) used(s *state, p uint8) (used uint8) {
	note := func(o owner) {
		if o != scriptmodel.Nobody && sys.processOf(o) == p {
			used |= sys.bit(o)
		}
	}
	note(s.processes[p].owner)
	note(s.processes[p].handed)
	note(s.processes[p].stood)
	for n := range sys.nodes {
		c := &s.columns[n]
		l := &c.links[p]
		note(c.node.Keys[0].Owner)
		for o, e := range c.node.Entries {
			if e.Place != 0 {
				note(owner(o + 1))
			}
		}
		for _, m := range l.sent {
			note(m.owner)
			note(m.next)
			note(m.stood)
		}
		note(l.late.stood)
		note(l.late.owner)
		note(l.late.next)
		for _, r := range l.replies {
			note(r.owner)
			note(r.next)
		}
		for _, t := range l.pushes {
			note(t.owner)
		}
	}
	return used
}

// unused tells whether there is an owner value that nothing bears.
func (sys *system) unused(s *state, p uint8) bool { return sys.used(s, p) != 1<<sys.owners()-1 }

// fresh is an owner value that nothing bears; Nobody: there is none.
func (sys *system) fresh(s *state, p uint8) owner {
	used := sys.used(s, p)
	for k := range sys.owners() {
		o := owner(1 + int(p)*sys.owners() + k)
		if used&sys.bit(o) != 0 {
			continue
		}
		for n := range sys.nodes { // of a former use
			s.columns[n].node.DropDead(o)
			l := &s.columns[n].links[p]
			l.doubt &^= sys.bit(o)
			if l.has == o {
				l.has = scriptmodel.Nobody
			}
		}
		return o
	}
	s.pruned = true
	return scriptmodel.Nobody
}

// attemptOf and keep have the rules' own attempt made of what is in the links.
func (sys *system) attemptOf(s *state, p uint8) *grant.Attempt {
	a := grant.NewAttempt(sys.nodes)
	me := &s.processes[p]
	a.All, a.Late = me.all, me.late
	for n := range sys.nodes {
		l := &s.columns[n].links[p]
		a.Votes[n] = quorum.Vote{Outcome: l.outcome, Token: quorum.Token(l.granted)}
		a.Until[n] = clock.Instant(l.until)
		a.Sent |= uint64(l.bits) & 1 << n
		a.Out |= uint64(l.bits) >> 1 & 1 << n
		a.Hinted |= uint64(l.bits) >> 2 & 1 << n
		if sys.makes(raisesUntold) {
			continue
		}
		a.Told |= uint64(l.bits) >> 3 & 1 << n
		a.Unplaced = a.Unplaced || me.place == 0 && l.expects
	}
	return a
}

func (sys *system) keep(s *state, p uint8, a *grant.Attempt) {
	s.processes[p].all, s.processes[p].late = a.All, a.Late
	for n := range sys.nodes {
		l := &s.columns[n].links[p]
		l.outcome, l.granted, l.until = a.Votes[n].Outcome, number(a.Votes[n].Token), tick(a.Until[n])
		l.bits = uint8(a.Sent>>n&1 | a.Out>>n&1<<1 | a.Hinted>>n&1<<2 | a.Told>>n&1<<3)
	}
}

// forgetAttempt takes away what the process knew in its attempt.
func (sys *system) forgetAttempt(s *state, p uint8) {
	for n := range sys.nodes {
		l := &s.columns[n].links[p]
		l.outcome, l.granted, l.until, l.bits, l.raised = quorum.Pending, 0, 0, 0, false
	}
	s.processes[p].all, s.processes[p].late = false, false
}

// forgetPlace takes away what the nodes said of the place.
func (sys *system) forgetPlace(s *state, p uint8) {
	for n := range sys.nodes {
		l := &s.columns[n].links[p]
		l.expects, l.said, l.place, l.token = false, false, 0, 0
	}
	s.processes[p].place, s.processes[p].handed = 0, scriptmodel.Nobody
}

func (l *link) send(m message) {
	for i := range l.sent {
		if l.sent[i].kind == noMessage {
			l.sent[i] = m
			return
		}
	}
	l.over = true
}

func (l *link) take() message {
	m := l.sent[0]
	copy(l.sent[:], l.sent[1:])
	l.sent[lineRoom-1] = message{}
	return m
}

func (l *link) reply(r answer) {
	for i := range l.replies {
		if l.replies[i].kind == noMessage {
			l.replies[i] = r
			return
		}
	}
	l.over = true
}

func (l *link) hear() answer {
	r := l.replies[0]
	copy(l.replies[:], l.replies[1:])
	l.replies[replyRoom-1] = answer{}
	return r
}

// push adds one, in an order that says nothing: they arrive in any.
func (l *link) push(t told) {
	for i := range l.pushes {
		if l.pushes[i] == t {
			return // twice the same says nothing more
		}
		if l.pushes[i].owner == scriptmodel.Nobody {
			l.pushes[i] = t
			return
		}
	}
	l.over = true
}

func (l *link) pushed(i int) told {
	t := l.pushes[i]
	copy(l.pushes[i:], l.pushes[i+1:])
	l.pushes[pushRoom-1] = told{}
	return t
}

// busy tells whether the link has something on its way.
func (l *link) busy() bool {
	return l.sent[0].kind != noMessage || l.replies[0].kind != noMessage || l.pushes[0].owner != scriptmodel.Nobody || l.hint
}

// String shows who holds and who waits where.
func (s state) String() string {
	out := ""
	for i, c := range s.columns {
		if c.node.Epoch == 0 {
			continue
		}
		out += fmt.Sprintf("node %d: key %d until %d, counter %d, places %v, entries", i+1, c.node.Keys[0].Owner, c.node.Keys[0].Until, c.node.Stripes[0], c.node.Places)
		for o, e := range c.node.Entries {
			if e.Place != 0 {
				out += fmt.Sprintf(" %d@%d", o+1, e.Place)
			}
		}
		out += "; "
	}
	for i, p := range s.processes {
		if p.phase == idle {
			continue
		}
		phase := [...]string{"idle", "tickets", "in line", "raising", "passes", "holds", "done", "dead"}[p.phase]
		out += fmt.Sprintf("%c: %s with %d at %d, votes", 'A'+rune(i), phase, p.owner, p.place)
		for n := range s.columns {
			if l := &s.columns[n].links[i]; s.columns[n].node.Epoch != 0 {
				out += fmt.Sprintf(" %v %d", l.outcome, l.granted)
			}
		}
		out += "; "
	}
	return out
}
