package quorum_test

import (
	"fmt"

	"github.com/quorumkit/redlock/internal/quorum"
	"github.com/quorumkit/redlock/internal/scriptmodel"
)

// Sizes of the largest instance.
const (
	queueNodes     = 5
	queueProcesses = scriptmodel.Waiters
	queueMessages  = 7 // under way from one process to one node
	queueClaims    = 4 // owner values of the first process: it may pass the lock on
)

// queueMessage is one message of a process to a node, in its order: a kind, the
// claim that it is for, and of a pass the old claim.
type queueMessage uint8

const (
	noMessage uint8 = iota
	sendTicket
	sendAsk
	sendStaleTicket // an ask whose attempt is over: nobody reads the reply
	sendStale
	sendKeep // a release that keeps the entry
	sendEnd  // one that takes it away
	duePass  // a handover that the writer has not come to
	sendPass
)

// staleAsk makes an ask a stale one.
const staleAsk = queueMessage(sendStale - sendAsk)

func messageOf(kind, claim, old uint8) queueMessage {
	return queueMessage(kind | claim<<4 | old<<6)
}

func (m queueMessage) kind() uint8  { return uint8(m) & 15 }
func (m queueMessage) claim() uint8 { return uint8(m) >> 4 & 3 }
func (m queueMessage) old() uint8   { return uint8(m) >> 6 }
func (m queueMessage) asks() bool   { return m.kind() == sendTicket || m.kind() == sendAsk }
func (m queueMessage) frees() bool  { return m.kind() == sendKeep || m.kind() == sendEnd }
func (m queueMessage) hands() bool  { return m.kind() == duePass || m.kind() == sendPass }
func (m queueMessage) sent() bool   { return m != 0 }
func (m queueMessage) claims() uint8 { // one bit each
	switch {
	case m == 0:
		return 0
	case m.hands():
		return 1<<m.claim() | 1<<m.old()
	default:
		return 1 << m.claim()
	}
}

// queueReply is what came back, until the process takes it in.
type queueReply struct {
	outcome quorum.Outcome // Pending: nothing
	ticket  scriptmodel.Number
	pass    queueMessage // that it is the reply to; 0: to an ask
}

// queueLink is one process's ordered line to one node, as the writers are, and
// what the process knows of that node.
type queueLink struct {
	sent   [queueMessages]queueMessage
	late   queueMessage // a command that was given up: it may arrive at any time, or never
	reply  queueReply
	hint   bool           // on its way
	vote   quorum.Outcome // in the attempt that is open
	ticket scriptmodel.Number
	bid    uint8 // this node's bits of the attempt's bid
	mark   quorum.Mark
	of     uint8 // the claim that mark is about; only who may pass keeps them
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
	queuePass // the next goroutine has been handed the name: it gathers votes
	queueHolds
	queueDone
	queueDead
)

type queueProcess struct {
	phase uint8
	place scriptmodel.Number
	claim uint8 // whose owner value it uses
	all   bool  // the attempt asks all nodes
	split bool  // the last one was granted by some
	more  uint8 // goroutines that wait behind
	held  uint8 // in this turn
	ahead uint8 // who stood on a quorum when it began, and still waits; a bit each
}

type queueState struct {
	columns   [queueNodes]queueColumn
	processes [queueProcesses]queueProcess
	lost      uint8 // hints
	unknown   uint8 // replies that were lost
	dropped   uint8 // keys
	cut       uint8 // connections for hints that broke
	forgot    uint8
	broken    uint8
}

// valueOf is the owner value of a process's claim.
func valueOf(p, claim uint8) scriptmodel.Owner {
	if p == 0 {
		return scriptmodel.Owner(1 + claim)
	}
	return scriptmodel.Owner(queueClaims + p)
}

// claimOf is whose claim an owner value is.
func claimOf(o scriptmodel.Owner) (p, claim uint8) {
	if o <= queueClaims {
		return 0, uint8(o) - 1
	}
	return uint8(o) - queueClaims, 0
}

// bidOf and setBid keep the attempt's bid by node, so that nodes are alike.
func (sys *queueSystem) bidOf(s *queueState, p uint8) quorum.Asked {
	var asked, out, hinted uint64
	for n := range sys.nodes {
		b := uint64(s.columns[n].links[p].bid)
		asked |= b & 1 << n
		out |= b >> 1 & 1 << n
		hinted |= b >> 2 & 1 << n
	}
	return quorum.Asked{Sent: asked, Out: out, Hinted: hinted}
}

func (sys *queueSystem) setBid(s *queueState, p uint8, b quorum.Asked) {
	asked, out, hinted := b.Sent, b.Out, b.Hinted
	for n := range sys.nodes {
		s.columns[n].links[p].bid = uint8(asked>>n&1 | out>>n&1<<1 | hinted>>n&1<<2)
	}
}

// String shows who holds and who waits where.
func (s queueState) String() string {
	out := ""
	for i, c := range s.columns {
		if c.node.Epoch == 0 {
			continue
		}
		out += fmt.Sprintf("node %d: ", i+1)
		if o := c.node.Keys[0].Owner; o != scriptmodel.Nobody {
			p, claim := claimOf(o)
			out += fmt.Sprintf("held by %c%d, ", 'A'+rune(p), claim)
		}
		out += fmt.Sprintf("places %v; ", c.node.Places)
	}
	for i, p := range s.processes {
		if p.phase == queueIdle {
			continue
		}
		phase := [...]string{"idle", "ticket", "bid", "rest", "pass", "holds", "done", "dead"}[p.phase]
		out += fmt.Sprintf("%c: %s at %d with %d, votes", 'A'+rune(i), phase, p.place, p.claim)
		for n := range s.columns {
			out += " " + s.columns[n].links[i].vote.String()
		}
		out += "; "
	}
	return out
}
