package quorum_test

import (
	"errors"
	"fmt"
	"hash/maphash"
	"strings"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/scriptmodel"
	"github.com/quorumkit/redlock/internal/search"
)

// Sizes of the largest instance; smaller ones leave the rest zero.
const (
	mostNodes    = 5
	mostAttempts = 6
)

// mistake is a client that breaks a rule, for the positive controls.
type mistake uint8

const (
	none          mistake = iota
	naive                 // the token is the largest grant of a quorum, as INCR on each node gives
	belowQuorum           // one node less than a quorum is enough
	lapsedExtends         // a confirmation counts after the validity ended
)

// tokenSystem is the protocol of one acquisition after another, over the scripts'
// model and the library's own rules (Settle, NeedsRaise, Verdict, confirm), with
// messages that are late, lost, doubled and out of order.
//
// What the state need not tell, because a step that is there stands for it:
//   - A lost message is one that never arrives: delay has no bound.
//   - What a client has heard: replies wait at the node's link, and the client
//     decides on any subset of them, which is then all that it ever heard.
//
// And, with lean, for the closed searches:
//   - A client that gives up is one that never decides. Its rollback deletes a
//     key, which may expire at any moment; its tombstone only refuses, and a
//     message that is refused is as good as lost.
//   - A message that changes nothing, and tells its sender nothing that lets it
//     do more, need not arrive: under way, it can do all that it can do arrived.
type tokenSystem struct {
	nodes    int
	attempts []uint8 // the name that each attempt wants
	stripe   [scriptmodel.Names]uint8
	copies   uint8 // how often each message may be executed
	// hints that an acquire may carry, to each node another one; nil: any number up
	// to most, or, where that is 0, any number, also between two in use.
	hints []scriptmodel.Number
	most  scriptmodel.Number
	// leases: a key goes only after the lease that its owner counts on (a bounded
	// clock rate), and locks are extended and re-seeded. Else: at any moment.
	leases bool
	lean   bool

	mistake        mistake
	flaw           scriptmodel.Flaw
	counterExpires bool
}

// The phases of an attempt.
const (
	idle uint8 = iota
	acquiring
	raising
	held
	over // given up or released: rolled back
)

// link is one attempt at one node: what is under way, and what came back.
type link struct {
	acquires, raises, extends, reseeds, releases uint8 // copies under way

	grants    [2]scriptmodel.Number // replies to the acquire, while it matters
	taken     bool
	raised    bool // the node assigned the target: by its grant or by a raise
	confirmed bool
}

// attempt is one acquisition: its owner value is its index and one.
type attempt struct {
	phase   uint8
	target  scriptmodel.Number // of the raise round
	token   scriptmodel.Number // completed with it; 0: not (yet)
	floor   scriptmodel.Number // the greatest token that was completed before it began
	until   uint8              // its validity: until that many of its leases are over
	passed  uint8              // how many of its leases are over, by its own clock
	rounds  uint8              // extensions sent
	inexact bool               // completed without a quorum that was assigned its token
}

// column is one node with all that concerns it.
type column struct {
	node  scriptmodel.Node
	links [mostAttempts]link
}

type tokenState struct {
	columns  [mostNodes]column
	attempts [mostAttempts]attempt
}

const epoch scriptmodel.Epoch = 1

func (sys *tokenSystem) Init() (s tokenState) {
	for i := range sys.nodes {
		s.columns[i].node.Epoch = epoch
	}
	return s
}

var seedOfColumns = maphash.MakeSeed()

// Canon: nodes are alike.
func (sys *tokenSystem) Canon(s tokenState) tokenState {
	var order [mostNodes]uint64
	for i := range sys.nodes {
		order[i] = maphash.Comparable(seedOfColumns, s.columns[i])
	}
	for i := 1; i < sys.nodes; i++ {
		for j := i; j > 0 && order[j] < order[j-1]; j-- {
			order[j], order[j-1] = order[j-1], order[j]
			s.columns[j], s.columns[j-1] = s.columns[j-1], s.columns[j]
		}
	}
	return s
}

var (
	errTwice    = errors.New("two acquisitions of one name have the same token")
	errOrder    = errors.New("an acquisition that began after another had completed has no greater token")
	errInexact  = errors.New("no quorum was assigned exactly this token")
	errTwoValid = errors.New("two locks of one name are valid")
	errOutdated = errors.New("a valid lock's token is not the greatest")
)

func (sys *tokenSystem) Check(s tokenState) error {
	for i, name := range sys.attempts {
		a := &s.attempts[i]
		if a.token == 0 {
			continue
		}
		if a.token <= a.floor {
			return errOrder
		}
		if a.inexact && sys.mistake == none {
			return errInexact
		}
		for j, other := range sys.attempts[:i] {
			if b := &s.attempts[j]; other == name && b.token != 0 {
				if err := sys.checkPair(a, b); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// checkPair checks two completed acquisitions of one name. Only with leases does
// the time of expiry have to do with the holder's clock.
func (sys *tokenSystem) checkPair(a, b *attempt) error {
	switch {
	case a.token == b.token:
		return errTwice
	case !sys.leases:
		return nil
	case a.valid() && b.valid():
		return errTwoValid
	case a.valid() && a.token < b.token, b.valid() && b.token < a.token:
		return errOutdated
	default:
		return nil
	}
}

// validity is the library's own, with leases that are over for a clock.
func (a *attempt) validity() clock.Validity { return validUntil(clock.Instant(a.until)) }

func validUntil(t clock.Instant) clock.Validity { return clock.Validity{Until: t} }

func (a *attempt) now() clock.Instant { return clock.Instant(a.passed) }

func (a *attempt) valid() bool { return a.phase == held && a.validity().Holds(a.now()) }

// The kinds of steps; A is the attempt, B the node.
const (
	stepBegin       uint8 = iota
	stepAcquire           // C: the hint
	stepRaise             // a raise arrives
	stepExtend            // an extension arrives
	stepReseed            // a re-seed arrives
	stepRelease           // a release arrives
	stepSettle            // C: the token
	stepRaiseRound        // C: the target
	stepRaised            // the raise round settled
	stepGiveUp            // and roll back
	stepEnd               // release a held lock
	stepLapse             // one lease of the attempt is over, by its clock
	stepExtendRound       // send an extension
	stepConfirm           // a quorum confirmed
	stepDrop              // A: the name, B: the node: the key expires
	stepDropDead          // A: the attempt, B: the node: the tombstone expires
	stepCounter           // A: the stripe, B: the node: the counter expires
)

// Weight makes clients get somewhere, and faults rare beside what they do.
func (sys *tokenSystem) Weight(st search.Step) int {
	switch st.Kind {
	case stepAcquire, stepRaise, stepExtend:
		return 12
	case stepSettle, stepRaiseRound, stepRaised, stepConfirm, stepExtendRound:
		return 8
	case stepReseed, stepDrop:
		return 4
	default:
		return 1
	}
}

func (sys *tokenSystem) Describe(st search.Step) string {
	who, node := string('A'+rune(st.A)), st.B+1
	switch st.Kind {
	case stepBegin:
		return who + " begins: acquires to all nodes"
	case stepAcquire:
		return fmt.Sprintf("%s's acquire (hint %d) arrives at node %d", who, st.C, node)
	case stepRaise, stepExtend, stepReseed, stepRelease:
		return fmt.Sprintf("%s's %s arrives at node %d", who, [...]string{"raise", "extension", "re-seed", "release"}[st.Kind-stepRaise], node)
	case stepSettle:
		return fmt.Sprintf("%s holds the lock with token %d", who, st.C)
	case stepRaiseRound:
		return fmt.Sprintf("%s raises the smaller grants to %d", who, st.C)
	case stepRaised:
		return who + " holds the lock with the raised token"
	case stepGiveUp:
		return who + " gives up and rolls back"
	case stepEnd:
		return who + " releases"
	case stepLapse:
		return who + ": by its clock a lease is over"
	case stepExtendRound:
		return who + " extends: to all nodes"
	case stepConfirm:
		return who + " has a quorum of confirmations"
	case stepDrop:
		return fmt.Sprintf("name %d expires at node %d", st.A+1, node)
	case stepDropDead:
		return fmt.Sprintf("%s's tombstone expires at node %d", who, node)
	default:
		return fmt.Sprintf("counter %d expires at node %d", st.A+1, node)
	}
}

// String shows the nodes: stripes, and who has which name.
func (s tokenState) String() string {
	var b strings.Builder
	for i := range s.columns {
		n := &s.columns[i].node
		if n.Epoch == 0 {
			break
		}
		fmt.Fprintf(&b, "node %d: stripes %v", i+1, n.Stripes)
		for name, k := range n.Keys {
			if k.Owner != scriptmodel.Nobody {
				fmt.Fprintf(&b, " name %d of %c", name+1, 'A'+rune(k.Owner-1))
			}
		}
		b.WriteString("; ")
	}
	for i, a := range s.attempts {
		if a.token != 0 {
			fmt.Fprintf(&b, "%c: token %d; ", 'A'+rune(i), a.token)
		}
	}
	return strings.TrimSuffix(b.String(), "; ")
}
