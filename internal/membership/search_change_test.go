package membership_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/quorumkit/redlock/internal/membership"
	"github.com/quorumkit/redlock/internal/scriptmodel"
	"github.com/quorumkit/redlock/internal/search"
)

// The search of changes of the configuration: nodes that forget or restart, clients of any
// list that there ever was, and agents, over the library's own decisions. An agent has a
// list, looks at its nodes one by one, takes blank ones in and brings those behind up to
// date (View.Next). As an operator it changes the configuration too (NewChange, Change.Next):
// the list, and with long the MaxTTL, up and down, with turns strict. What
// an agent decides is sent at once, and arrives whenever, or never.
//
// With goes a held lock goes over to a later list by its extensions (ADR 27), else it stays
// with its own. With long a locker takes longer leases than the others. Where founds, all nodes but one may
// forget, and are founded again, or wait for an operator where the cluster is strict.
//
// Not in it: other clusters, several names, queues.

const (
	mostSeats   = 5
	mostLockers = 3
	mostAgents  = 3
	mostGens    = 12
	mostIDs     = 8
)

// list is a set of nodes, by bits.
type list uint8

func (l list) has(n uint8) bool { return l>>n&1 == 1 }

func (l list) names() []string { return listNames[l] }

// size is the number of nodes.
func (l list) size() int { return len(listNames[l]) }

// listNames are the names of every list, in order.
var listNames = func() (out [1 << mostSeats][]string) {
	for l := range out {
		for n := range uint8(mostSeats) {
			if list(l).has(n) {
				out[l] = append(out[l], nodeNames[n])
			}
		}
	}
	return out
}()

// listOf is the inverse of names.
func listOf(names []string) (l list) {
	for n, name := range nodeNames {
		if slices.Contains(names, name) {
			l |= 1 << n
		}
	}
	return l
}

// conf is a configuration.
type conf struct {
	names  list
	most   uint8 // MaxTTL
	strict bool
}

// rules is it in the rules' own terms.
func (c conf) rules() membership.Configuration {
	return membership.Configuration{Names: c.names.names(), MaxTTL: time.Duration(c.most) * unit, Strict: c.strict}
}

// confOf is the inverse of rules.
func confOf(c membership.Configuration) conf {
	return conf{listOf(c.Names), uint8(c.MaxTTL / unit), c.Strict}
}

// page is a record: gen is one more than the record's, 0 for none.
type page struct {
	id, gen uint8
	conf
	before       list
	beforeMost   uint8
	settled      bool
	ballot       uint8
	proposedBy   uint8 // its ballot
	proposed     conf
	run          uint8
	nonce, onRun uint8
	settler      uint8 // whose settling began the epoch; 0: nobody's
}

// seat is one server.
type seat struct {
	page
	node                    scriptmodel.Node
	process, epochs, nonces uint8
}

// ballotBox is one locker at one node.
type ballotBox struct {
	acquire, raise, extend   bool // under way
	grant                    scriptmodel.Number
	known, raised, confirmed bool
	own, newer, gone, reseed bool  // of an extension: by which lists the node votes; the key is not there; it is put back
	until                    uint8 // only epochs below are known to the client; 0: it still learns
}

// lockerOf is one attempt at the lock.
type lockerOf struct {
	list, newer       list // newer: that it goes over to, or 0
	phase, left, more uint8
	target, token     scriptmodel.Number
	floor             scriptmodel.Number
	wrong             bool
	rounds            uint8
	at                [mostSeats]ballotBox
}

// sight is what an agent saw of a node, age units ago.
type sight struct {
	page
	answered, sent bool // sent: something was sent since
	process, epoch uint8
	base, largest  scriptmodel.Number
	age            uint8
}

// send is an order under way.
type send struct {
	kind       membership.Action // 0 if there is none
	page                         // of an install or a force
	run, nonce uint8
	epoch      uint8
	base       scriptmodel.Number
	tag        uint8 // of a settling
}

// attempt is a membership.Change.
type attempt struct {
	on           bool
	closes       bool
	id, gen      uint8 // as the record's
	from, wanted conf
	to           conf // no names: not known
	ballot       uint8
	began, asked uint8 // 1 + units ago; 0: not begun
	left         uint8 // 1 + units until the pause ends; 0: not settled
	largest      scriptmodel.Number
	tag          uint8
}

// founder is a membership.Founding.
type founder struct {
	on    bool
	page  // of the record
	base  scriptmodel.Number
	marks [mostSeats]mark
}

type agent struct {
	list  list
	begun founder
	op    attempt
	tags  uint8
	seen  [mostSeats]sight
	waits [mostSeats]patience
	sends [mostSeats]send
}

type changeState struct {
	seats   [mostSeats]seat
	lockers [mostLockers]lockerOf
	agents  [mostAgents]agent
	lists   [mostIDs][mostGens]conf // by cluster and generation, once one is in force
	ids     uint8                   // of clusters that were founded, or are about to be
	faults  uint8
	changes uint8 // left
	best    scriptmodel.Number
	broken  bool // two configurations of one generation
	founded bool // again, though strict
}

// slip is a rule of changes that is left out, for the controls.
type slip uint8

const (
	noSlip           slip = iota
	slipBallots           // settling and accepting look at no ballot
	slipByTwo             // a change of two nodes
	slipAtOnce            // a blank node votes at once
	slipEpoch             // settling keeps the epoch
	slipForceEpoch        // so does putting in force
	slipPause             // no pause
	slipBase              // no numbers are brought over
	slipOneList           // a joiner counts by the latest list only
	slipReads             // a joiner believes reads from before its wait
	slipAccept            // nothing is accepted
	slipFewAccept         // one fewer than a quorum accepts
	slipLowest            // the proposal of the lowest ballot is adopted
	slipCopies            // a joiner copies no proposal
	slipLate              // answers count for ever
	slipSettledJoins      // a joiner copies no settled mark
	slipOwnPause          // the pause is as long as the shortest MaxTTL
	slipBeforePause       // the pause ignores the MaxTTL before
	slipBeforeJoin        // so does a joiner
	slipProposedJoin      // a joiner ignores the MaxTTL proposed
	slipLease             // a lease is longer than the record's MaxTTL
	slipSwap              // one node in another's place, at once
	slipClock             // a founder goes by the numbers that are left
	slipStrict            // a joiner copies no strict recovery
	slipKnownID           // a founder takes the id that it knew
	slipKept              // a lock that its own list has is held on, though the next change has begun
)

// changeSystem is the size of an instance.
type changeSystem struct {
	seats, lockers, agents int
	first                  list
	life                   uint8
	long                   uint8 // the first locker's leases, if not life
	drift                  uint8
	rates                  [3]uint8 // of the clocks of nodes, clients and agents; 0: 1
	faults, changes        uint8
	founds, strict         bool
	turns                  bool // operators turn strict recovery on and off
	keeps                  bool // a node may restart with its data
	extends                uint8
	operators              int                // agents from 0 on that are operators at times
	goes                   int                // 1: held locks go over, and are held for longer
	eager, forgets         int                // operators begin, and die, more often; nodes forget more often
	once                   bool               // each locker locks once
	start                  func(*changeState) // the beginning is in the middle of something
	slip                   slip
	memo                   *changeMemo
}

// changeMemo remembers what the rules answered.
type changeMemo struct {
	mu    sync.RWMutex // guards known
	known map[changeQuestion]changeAnswer
}

type changeQuestion struct {
	list  list
	begun founder
	seen  [mostSeats]sight
	waits [mostSeats]patience
	n     uint8
}

type changeAnswer struct {
	send     send
	founding bool
	begun    founder
}

func (sys *changeSystem) Init() (s changeState) {
	s.faults, s.changes = sys.faults, sys.changes
	s.lists[0][0], s.ids = conf{sys.first, sys.life, sys.strict}, 1
	for n := range sys.seats {
		v := &s.seats[n]
		v.process = 1
		if sys.first.has(uint8(n)) {
			v.page = page{id: 1, gen: 1, conf: s.lists[0][0], run: 1}
			v.node.Epoch, v.epochs = 1, 1
		}
	}
	if sys.start != nil {
		sys.start(&s)
	}
	return s
}

var errTwoLists = errors.New("one generation has two configurations")

func (sys *changeSystem) Check(s changeState) error {
	if s.broken {
		return errTwoLists
	}
	if s.founded {
		return errFoundedAgain
	}
	holder := -1
	for i := range sys.lockers {
		c := &s.lockers[i]
		if c.wrong {
			return errTokenNotNew
		}
		if c.phase == held && c.left > 0 {
			if holder >= 0 {
				return errTwoHolders
			}
			holder = i
		}
	}
	if holder >= 0 && s.lockers[holder].token < s.best {
		return errOldHolder
	}
	return nil
}

// The steps.
const (
	stepTick uint8 = iota
	stepBegin
	stepWin
	stepRaise
	stepExtend
	stepConfirm
	stepReseed
	stepEnd
	stepFresh
	stepAcquire
	stepTakeRaise
	stepTakeExtend
	stepTakeReseed
	stepForget
	stepRestart
	stepNotice
	stepAgent
	stepLook
	stepSend
	stepRun
	stepChange
	stepThink
	stepDie
)

var changeTexts = [...]string{
	"time passes", "locker %[2]d begins with list %05[4]b", "locker %[2]d has the lock", "locker %[2]d raises", "locker %[2]d extends, over to %05[4]b",
	"locker %[2]d counts its extension", "locker %[2]d puts the key back on node %[3]d", "locker %[2]d is done", "locker %[2]d is another one", "node %[3]d runs locker %[2]d's acquire",
	"node %[3]d runs locker %[2]d's raise", "node %[3]d runs locker %[2]d's extend", "node %[3]d runs locker %[2]d's reseed", "node %[2]d forgets", "node %[2]d restarts",
	"node %[2]d gets a notice", "agent %[2]d has list %05[4]b", "agent %[2]d looks at node %[3]d", "agent %[2]d sends action %[4]d to node %[3]d",
	"node %[3]d runs agent %[2]d's order", "agent %[2]d begins a change to %05[4]b", "agent %[2]d goes on with its change", "agent %[2]d dies",
}

func (sys *changeSystem) Describe(st search.Step) string {
	return fmt.Sprintf(changeTexts[st.Kind]+"%[1]s", "", st.A, st.B, st.C)
}

// Weight: progress far more often than faults.
func (sys *changeSystem) Weight(st search.Step) int {
	switch st.Kind {
	case stepWin, stepRaise, stepConfirm, stepReseed, stepThink:
		return 600
	case stepForget, stepRestart:
		return 1 + 9*sys.forgets
	case stepAgent:
		return 30
	case stepDie:
		return 4
	case stepChange:
		return 4 + 40*sys.eager
	case stepEnd:
		return (50 - 2*int(sys.long)) / (1 + 9*sys.goes)
	case stepLook:
		return 100
	case stepTick:
		return 120 / (1 + 2*sys.eager)
	case stepSend, stepRun:
		return 400
	default:
		return 200
	}
}

func (s changeState) String() string {
	var b strings.Builder
	for i, v := range s.seats {
		if v.process > 0 {
			fmt.Fprintf(&b, "[%d: run %d of %d epoch %d id %d gen %d %+v before %05b of %d settled %t ballot %d proposed %d:%+v base %d stripe %d key %d for %d] ", i,
				v.run, v.process, v.node.Epoch, v.id, int(v.gen)-1, v.conf, v.before, v.beforeMost, v.settled, v.ballot, v.proposedBy, v.proposed, v.node.Base, v.node.Stripes[0], v.node.Keys[0].Owner, v.node.Keys[0].Until)
		}
	}
	for i, c := range s.lockers {
		if c.phase != idle {
			fmt.Fprintf(&b, "(locker %d of %05b: phase %d token %d left %d) ", i, c.list, c.phase, c.token, c.left)
		}
	}
	for i, k := range s.agents {
		if k.op.on {
			fmt.Fprintf(&b, "{operator %d: %+v} ", i, k.op)
		}
	}
	return b.String()
}
