package membership_test

import (
	"errors"
	"fmt"
	"hash/maphash"
	"strings"
	"time"

	"github.com/quorumkit/redlock/internal/membership"
	"github.com/quorumkit/redlock/internal/quorum"
	"github.com/quorumkit/redlock/internal/scriptmodel"
	"github.com/quorumkit/redlock/internal/search"
)

// Sizes of the largest instance; smaller ones leave the rest zero.
const (
	mostServers = 5
	mostClients = 3
	mostJoiners = 2
)

// mistake is a rule of membership that is broken, for the positive controls.
type mistake uint8

const (
	noMistake mistake = iota
	mistakeNoTombstone
	mistakeRejoinAtOnce
	mistakeFewOthers        // N-q in place of N-q+1
	mistakeNoNonce          // install looks at the run only
	mistakeLoadBeforeMember // a joiner loads the voting set on a blank node
	mistakeOtherConnection  // read on one connection, SCRIPT LOAD on another
	mistakeStripesBelieved  // a node with old data gets no base
	mistakeReadBeforeWait
	mistakeNoEpoch       // voting scripts do not look at the epoch
	mistakeCacheSurvives // the script cache outlives the process
	mistakeNoDrift
	mistakeLapsedExtends
	mistakeLongLease    // a lease above MaxTTL
	mistakeEpochReturns // an epoch that another followed votes again
	mistakeNoHistory    // an identity is the run_id alone
	mistakeMarkIgnored  // a founder does not look at the records' mark of strict recovery
	mistakeMarkLost     // an install does not have the mark
	mistakeOldReads     // a founder believes reads from before its waits
	mistakeNoneLeft     // of the property: a founding where no record is left counts too
)

// memberSystem is nodes that forget, clients that lock, and joiners that bring
// the nodes back, over the scripts' model and the library's own rules: who is a
// member and what must happen next (View.Next), Verdict, Settle, NeedsRaise.
//
// What the state need not tell, because a step that is there stands for it:
//   - A lost message is one that never arrives: delay has no bound.
//   - Which epoch a client has seen: it may have verified a node at any moment,
//     so a command passes with any epoch that was installed before its client
//     was done with it (link.until).
//   - The connection on which a node is verified: the read of a member and the
//     SCRIPT LOAD are one step, because the connection dies with the process.
//     (Two steps in the control that leaves this out.)
//   - The put of a notice: joiners are many, and any may do it at any moment.
//   - When a client looks at a node's identity: behind each of its commands. (Between
//     two looks there is a gap, which SAFETY.md states.)
//   - Who has seen which epoch vote: all have. (What one client has not seen, its
//     Incarnation can't tell it: a stated limit.)
//
// Time is counted in units. A clock of rate r goes r units on each tick; leases
// and waits are counted down by the clock that they are kept by.
type memberSystem struct {
	nodes, clients, joiners int
	life                    uint8                             // a lease, and MaxTTL, in units
	drift                   uint8                             // what a validity is shorter by
	rates                   []uint8                           // of the clocks: nodes, then clients, then joiners; nil: 1
	faults                  uint8                             // how many
	faulty                  int                               // nodes from 0 on that they happen to
	blank, old, flush       bool                              // which faults: restart without data, or with old ones, FLUSHALL
	follows                 bool                              // the same for REPLICAOF its own lagging standby, and back
	swaps                   bool                              // the same for SWAPDB: two data sets, one of them in force
	extends                 uint8                             // extensions a lock may have, each with a re-seed
	releases                bool                              // locks are released, attempts rolled back
	strict                  bool                              // the cluster was founded with strict recovery
	founding                bool                              // the nodes are blank in the beginning
	racing                  bool                              // joiners look at every node, not only at what a blank one needs
	start                   func(*memberSystem, *memberState) // the beginning is in the middle of something
	drops                   bool                              // a key may go at any moment: tokens only are promised then
	twice                   bool                              // an install may arrive any number of times
	reuse                   bool                              // a client that is done begins again, with a new owner value
	lean                    bool                              // only reads that decide something
	back                    uint64                            // check that all nodes come back in one of so many states; 0: never

	mistake mistake
	flaw    scriptmodel.Flaw
	memo    *decisions
}

// data is all that a server would write to its disk.
type data struct {
	node                       scriptmodel.Node
	cluster, run, nonce, onRun uint8 // the record (cluster 0 if none) and the notice
	strict                     bool  // of the record
}

// server is one node: its data, its disk, its process.
type server struct {
	data
	saved          data
	isSaved        bool
	loaded         bool  // the voting set is in the script cache
	read           bool  // of mistakeOtherConnection: a client has read a member, and loads
	process        uint8 // its identity
	epochs, nonces uint8 // so many were given out
	voted          uint8 // the last epoch that it voted under, where data are swapped
}

// visit is one client at one node: what is under way, and what came back.
type visit struct {
	acquire, raise, extend, reseed, release bool // under way
	late                                    bool // sent before the epoch that votes now did

	grant     scriptmodel.Number // the reply to the acquire
	known     bool               // it was among those that the raise round began with
	raised    bool
	confirmed bool
	gone      bool  // answered the extension so
	until     uint8 // only epochs below are known to the client; 0: it still learns
	clean     uint8 // how long the node still must not show the owner
}

// client is one attempt at the one lock that there is, with its owner value.
type client struct {
	phase  uint8
	target scriptmodel.Number
	token  scriptmodel.Number
	floor  scriptmodel.Number // the greatest token completed before it began
	left   uint8              // of its validity
	more   uint8              // of the validity that the extension under way would give
	rounds uint8              // extensions begun
	wrong  bool               // its token is not new, or not the greatest
	visits [mostServers]visit
}

// glimpse is what a joiner saw of a node, age units ago.
type glimpse struct {
	answered            bool
	process             uint8
	cluster, run, epoch uint8
	nonce, onRun        uint8
	largest             scriptmodel.Number
	returned, strict    bool // its epoch has ended; its record is strict
	age                 uint8
}

// patience is a joiner's wait.
type patience struct{ nonce, run, age uint8 }

// order is an install under way.
type order struct {
	nonce, run, cluster uint8
	epoch               uint8 // of a survivor; 0: under the nonce
	strict              bool
	base                scriptmodel.Number
}

// founding is a membership.Founding.
type founding struct {
	order
	marks [mostServers]mark
}

// mark is what an install rests on: an epoch, or a notice.
type mark struct{ epoch, nonce, run uint8 }

// rules is it in the rules' own terms.
func (m mark) rules() string {
	if m.epoch != 0 {
		return word('e', m.epoch)
	}
	return word('n', m.nonce) + " " + word('r', m.run) + "\n" // and no claim
}

type joiner struct {
	begun  founding
	seen   [mostServers]glimpse
	waits  [mostServers]patience
	orders [mostServers]order
}

type memberState struct {
	servers [mostServers]server
	clients [mostClients]client
	joiners [mostJoiners]joiner
	faults  uint8 // left
	ids     uint8 // of clusters that were founded, or are about to be
	best    scriptmodel.Number

	gone, again bool // of a strict cluster: no record was left; it was founded again before
}

func (sys *memberSystem) Init() (s memberState) {
	s.faults, s.ids = sys.faults, 1
	for i := range sys.nodes {
		v := &s.servers[i]
		v.process = 1
		if !sys.founding {
			v.cluster, v.run, v.loaded = 1, 1, true
			v.node.Epoch, v.epochs = 1, 1
			v.strict = sys.strict
		}
	}
	if sys.start != nil {
		sys.start(sys, &s)
	}
	return s
}

var seedOfServers = maphash.MakeSeed()

// Canon: nodes that may fail are alike, and so are those that may not. Joiners,
// when they race, are told apart by the ids that they bring.
func (sys *memberSystem) Canon(s memberState) memberState {
	if !sys.lean || sys.racing {
		return s
	}
	type column struct {
		v server
		c [mostClients]visit
		g [mostJoiners]glimpse
		p [mostJoiners]patience
		o [mostJoiners]order
	}
	var cols [mostServers]column
	var sums [mostServers]uint64
	for i := range sys.nodes {
		k := &cols[i]
		k.v = s.servers[i]
		for c := range sys.clients {
			k.c[c] = s.clients[c].visits[i]
		}
		for j := range sys.joiners {
			k.g[j], k.p[j], k.o[j] = s.joiners[j].seen[i], s.joiners[j].waits[i], s.joiners[j].orders[i]
		}
		sums[i] = maphash.Comparable(seedOfServers, *k)
	}
	order := make([]int, 0, mostServers)
	for i := range sys.nodes {
		order = append(order, i)
		for at := i; at > 0 && at != sys.faulty && sums[order[at-1]] > sums[order[at]] && !sys.racing; at-- {
			order[at-1], order[at] = order[at], order[at-1]
		}
	}
	for i, from := range order {
		k := &cols[from]
		s.servers[i] = k.v
		for c := range sys.clients {
			s.clients[c].visits[i] = k.c[c]
		}
		for j := range sys.joiners {
			s.joiners[j].seen[i], s.joiners[j].waits[i], s.joiners[j].orders[i] = k.g[j], k.p[j], k.o[j]
		}
	}
	return s
}

// The properties.
var (
	errTwoHolders  = errors.New("two clients hold the lock at once, both within their validity")
	errTokenNotNew = errors.New("a token was not greater than those completed before it began, or was issued twice")
	errOldHolder   = errors.New("a valid holder's token is not the greatest completed one")
	errLitter      = errors.New("a node that answered a release shows that owner again")
	errNotBack     = errors.New("a node does not come back, though every node answers")
)

func (sys *memberSystem) Check(s memberState) error {
	if s.again {
		return errFoundedAgain
	}
	holder := -1
	for i := range sys.clients {
		c := &s.clients[i]
		if c.wrong {
			return errTokenNotNew
		}
		if c.phase == held && c.left > 0 {
			if holder >= 0 && !sys.drops {
				return errTwoHolders
			}
			holder = i
		}
		for n := range sys.nodes {
			if c.visits[n].clean > 0 && s.servers[n].node.Holds(0, ownerOf(uint8(i))) {
				return errLitter
			}
		}
	}
	if holder >= 0 && s.clients[holder].token < s.best && !sys.drops {
		return errOldHolder
	}
	if sys.back > 0 && maphash.Comparable(seedOfServers, s)%sys.back == 0 {
		return sys.comesBack(s)
	}
	return nil
}

func ownerOf(c uint8) scriptmodel.Owner { return scriptmodel.Owner(c + 1) }

// The steps.
const (
	tickAll uint8 = iota
	beginClient
	winClient
	raiseClient
	extendClient
	confirmClient
	endClient
	freshClient
	takeAcquire
	takeRaise
	takeExtend
	takeReseed
	takeRelease
	restartBlank
	saveDisk
	restartOld
	flushAll
	loadScripts
	putNotice
	lookAt
	missNode
	decideJoin
	takeInstall
	dropKey
	swapData
	followStandby
)

var stepTexts = [...]string{
	"time passes", "client %[2]d begins", "client %[2]d has the lock", "client %[2]d raises", "client %[2]d extends",
	"client %[2]d counts its extension", "client %[2]d releases or gives up", "client %[2]d is another one",
	"server %[3]d runs client %[2]d's acquire", "server %[3]d runs client %[2]d's raise",
	"server %[3]d runs client %[2]d's extend", "server %[3]d runs client %[2]d's re-seed",
	"server %[3]d runs client %[2]d's release", "server %[2]d restarts empty", "server %[2]d writes its disk",
	"server %[2]d restarts with its disk", "server %[2]d is flushed", "server %[2]d is verified, the voting set loaded",
	"server %[2]d gets a notice", "joiner %[2]d reads server %[3]d", "joiner %[2]d gets no answer of server %[3]d",
	"joiner %[2]d sends an install for server %[3]d", "server %[3]d runs joiner %[2]d's install",
	"server %[2]d drops its key", "server %[2]d swaps its data",
	"server %[2]d takes its standby's data",
}

func (sys *memberSystem) Describe(st search.Step) string {
	return fmt.Sprintf(stepTexts[st.Kind]+"%[1]s", "", st.A, st.B)
}

// Weight: progress far more often than faults and idle looks.
func (sys *memberSystem) Weight(st search.Step) int {
	switch st.Kind {
	case winClient, raiseClient, confirmClient:
		return 80
	case restartBlank, restartOld, flushAll, saveDisk, missNode, swapData, followStandby:
		return 1
	case lookAt:
		return 3
	case endClient, tickAll:
		return 6
	default:
		return 30
	}
}

func (s memberState) String() string {
	var b strings.Builder
	for i, v := range s.servers {
		if v.process == 0 {
			continue
		}
		fmt.Fprintf(&b, "[%d: run %d epoch %d of cluster %d (strict %t) run %d, base %d stripe %d, key %d for %d, loaded %t, notice %d/%d] ",
			i, v.process, v.node.Epoch, v.cluster, v.strict, v.run, v.node.Base, v.node.Stripes[0],
			v.node.Keys[0].Owner, v.node.Keys[0].Until, v.loaded, v.nonce, v.onRun)
	}
	for i, c := range s.clients {
		if c.phase != idle {
			fmt.Fprintf(&b, "(client %d: phase %d token %d left %d) ", i, c.phase, c.token, c.left)
		}
	}
	return b.String()
}

// unit is the length of a unit of time in the rules' own terms.
const unit = time.Second

// nodeNames are the names of the servers, in order.
var nodeNames = [...]string{"a", "b", "c", "d", "e"}

func (sys *memberSystem) config(j uint8) membership.Config {
	maxTTL := time.Duration(sys.life) * unit
	if sys.mistake == mistakeRejoinAtOnce {
		maxTTL = 0
	}
	c := membership.NewConfig(nodeNames[:sys.nodes], maxTTL, sys.option(j))
	if sys.mistake == mistakeFewOthers {
		c.Needed = func(n int) int { return n - quorum.Size(n) }
	}
	return c
}

// How far a client's attempt is.
const (
	idle uint8 = iota
	acquiring
	raising
	held
	over // given up or released: rolled back
)
