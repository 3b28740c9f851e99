package membership_test

import (
	"errors"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/quorumkit/redlock/internal/membership"
	"github.com/quorumkit/redlock/internal/search"
	"github.com/quorumkit/redlock/internal/testkit"
)

// The search of claims: nodes that forget, and clients with lists of several generations, over
// the library's own decisions. The list has grown before it begins. A client looks at its nodes,
// with the claim that a look puts, acts on them by what it saw (View.Next), and takes the lock in
// one step. Time is counted in units.
//
// Assumed: a blank node with a notice gets the claim of a client of the newest list within the
// MaxTTL of old clients, unless all clients of the newest list are dead; those that are back reach
// every node; and what an old list founded, or what was seized, does not forget.
//
// Not in it: changes (search_lists_test.go), strict recovery, numbers, pins, replicas, data that come
// back, orders that arrive late, nodes that take no writes, and the pause for another founder.

const (
	claimSeats    = 3
	claimMost     = 4 // clients
	claimClusters = 8 // the first is 1
)

// vow is a claim: the cluster, its generation, and the longest lease.
type vow struct {
	id, gen, lease uint8
	seized         bool
}

// claimShow is what a node shows: its record, and a notice.
type claimShow struct {
	id, epoch, nonce uint8
	claim            vow
}

type claimNode struct {
	claimShow
	owner, left uint8 // of the key
	stood       uint8 // how long the notice stands without the newest list's claim
}

// claimSight is what a client saw of a node, and how long it has waited there.
type claimSight struct {
	claimShow
	answered   bool
	age, since uint8 // age: 1 + that of the look, 0 without one
}

// claimCluster is a cluster that was founded anew.
type claimCluster struct {
	names        list
	most, before uint8                // its MaxTTL, and the one before, or 0
	from         [claimClusters]uint8 // 1 + the generation that its founder saw
}

// claimFounding is a membership.Founding.
type claimFounding struct {
	on    bool
	id    uint8 // 0: nothing is installed yet
	first claimCluster
	marks [claimSeats]claimShow
}

// claimMind is what a client's decisions rest on.
type claimMind struct {
	seen  [claimSeats]claimSight
	known vow
	by    list // that it goes by; 0: all of its nodes
	begun claimFounding
}

type claimClient struct {
	claimMind
	seized, left uint8 // how long what was seized, and its own lock, may last
}

type claimState struct {
	nodes    [claimSeats]claimNode
	clients  [claimMost]claimClient
	clusters [claimClusters]claimCluster
	asleep   bool // all clients of the newest list are dead

	forgets, sleeps, foundings uint8 // left
}

// claimFlaw is a rule, or an assumption, that is left out, for the controls.
type claimFlaw uint8

const (
	noClaimFlaw   claimFlaw = iota
	claimsPlain             // notices have no claim
	claimsDeaf              // a founder ignores the claims of other lists
	claimsLower             // a lower generation's claim replaces
	claimsLast              // votes count where a claim is missing
	claimsBeside            // votes count beside what an old list founded
	claimsHasty             // no wait after a seizing
	claimsUnbound           // an install looks at the nonce only
	claimsLate              // a blank node is not reached in time
	claimsTwice             // what an old list founded may forget
)

// claimSystem is the size of an instance.
type claimSystem struct {
	grown    []list // the lists, one a generation
	lists    []list // of the clients
	settled  bool   // the next change has begun
	together bool   // a client looks at all of its nodes in one step
	misses   bool   // a look may get no answer
	life     uint8  // MaxTTL of the cluster, and of clients of the newest list
	old      uint8  // of the others
	back     uint64 // check that one of so many states comes back to a lock; 0: never
	flaw     claimFlaw
	start    func(*claimState) // the beginning is in the middle of something

	forgets, sleeps, foundings uint8

	mu   sync.RWMutex // guards memo
	memo map[claimQuestion]claimAnswer
}

func (sys *claimSystem) newest() list { return sys.grown[len(sys.grown)-1] }

// serves reports whether the newest list serves client k, which has all nodes of it.
func (sys *claimSystem) serves(k uint8) bool { return sys.lists[k]&sys.newest() == sys.newest() }

// longest is the longest lease.
func (sys *claimSystem) longest() uint8 { return max(sys.life, sys.old) }

func (sys *claimSystem) Init() (s claimState) {
	s.forgets, s.sleeps, s.foundings = sys.forgets, sys.sleeps, sys.foundings
	for i := range sys.newest().size() {
		s.nodes[i].claimShow = claimShow{id: 1, epoch: 1}
	}
	for k, l := range sys.lists { // an old client knows its own generation; one that restarts, none
		for gen, old := range sys.grown[:len(sys.grown)-1] {
			if old == l {
				s.clients[k].known = vow{id: 1, gen: uint8(gen), lease: sys.life}
			}
		}
	}
	if sys.start != nil {
		sys.start(&s)
	}
	return s
}

// tidy leaves out what decides nothing: which numbers stand for epochs and nonces, and clusters
// of which nothing is left.
func (s *claimState) tidy() {
	used := list(0b11)
	for i := range s.nodes {
		var epochs, nonces [256]uint8
		low := func(n *uint8, all *[256]uint8) {
			if *n != 0 && all[*n] == 0 {
				all[0]++
				all[*n] = all[0]
			}
			if *n != 0 {
				*n = all[*n]
			}
		}
		keep := func(w *claimShow) {
			low(&w.epoch, &epochs)
			low(&w.nonce, &nonces)
			used |= 1<<w.id | 1<<w.claim.id
		}
		v := &s.nodes[i]
		if keep(&v.claimShow); v.owner > 0 && s.clients[v.owner-1].left == 0 {
			v.owner = claimMost // of a client that is gone
		}
		for k := range s.clients {
			c := &s.clients[k]
			keep(&c.seen[i].claimShow)
			keep(&c.begun.marks[i])
			if used |= 1<<c.known.id | 1<<c.begun.id; c.seen[i].nonce == 0 {
				c.seen[i].since = 0
			}
		}
	}
	for id := range uint8(claimClusters) {
		for j := range s.clusters {
			if !used.has(id) {
				s.clusters[id], s.clusters[j].from[id] = claimCluster{}, 0
			}
		}
		for k := range s.clients {
			if !used.has(id) {
				s.clients[k].begun.first.from[id] = 0
			}
		}
	}
}

var errNoLock = errors.New("the newest clients get no lock, though every node answers")

func (sys *claimSystem) Check(s claimState) error {
	holders := 0
	for k := range s.clients {
		if s.clients[k].left > 0 {
			holders++
		}
	}
	if holders > 1 {
		return errTwoHolders
	}
	if sys.back > 0 && maphash.Comparable(seedOfServers, s)%sys.back == 0 && !sys.lockable(s) {
		return errNoLock
	}
	return nil
}

// claiming is a cluster that grew through these lists, and a client of each.
func claiming(change func(*claimSystem), grown ...list) *claimSystem {
	sys := &claimSystem{
		grown: grown, lists: grown, together: true, life: 1, old: 1, forgets: 1, foundings: 2, back: 64,
		memo: map[claimQuestion]claimAnswer{},
	}
	change(sys)
	return sys
}

func (w claimShow) String() string {
	return fmt.Sprintf("cluster %d epoch %d nonce %d claim %v", w.id, w.epoch, w.nonce, w.claim)
}

func (s claimState) String() string {
	var b strings.Builder
	for i, v := range s.nodes {
		fmt.Fprintf(&b, "[%d: %v key %d for %d] ", i, v.claimShow, v.owner, v.left)
	}
	for k, c := range s.clients {
		if c == (claimClient{}) {
			continue
		}
		fmt.Fprintf(&b, "\n       (%d: left %d knows %v seized %d founding %t %d", k, c.left, c.known, c.seized, c.begun.on, c.begun.id)
		for i, g := range c.seen {
			if g.age > 0 {
				fmt.Fprintf(&b, "; %d: %v answered %t ages %d %d", i, g.claimShow, g.answered, g.age-1, g.since)
			}
		}
		b.WriteString(")")
	}
	return b.String()
}

// Growth before the search begins.
var (
	toTwo   = []list{0b01, 0b11}
	toThree = []list{0b11, 0b111}
	twice   = []list{0b01, 0b11, 0b111}
)

// outer makes two clients: of the first list, and of the newest.
func outer(s *claimSystem) { s.lists = []list{0b01, 0b111} }

func always(testing.TB) {} // the quick tier has it

// books makes two clients: of the first list, and one that has a node more than the newest.
func books(s *claimSystem) { s.lists = []list{s.grown[0], 0b111} }

// claimSearches go through everything that can happen.
var claimSearches = []struct {
	name   string
	tier   func(testing.TB)
	grown  []list
	change func(*claimSystem)
}{
	{"one to two nodes, one look after another", always, toTwo, func(s *claimSystem) { s.together = false }},
	{"two to three", always, toThree, func(s *claimSystem) { s.sleeps = 1 }},
	{"one to three, clients of the first list and the last", always, twice, func(s *claimSystem) { outer(s); s.sleeps = 1 }},

	{"one node, and a client with two more", always, []list{0b01}, func(s *claimSystem) { books(s); s.sleeps = 1 }},
	{"one to two, and a client with one more", always, toTwo, func(s *claimSystem) { books(s); s.sleeps = 1 }},

	{"one to two, a client with one more, one look after another", testkit.Full, toTwo, func(s *claimSystem) { books(s); s.together = false }},
	{"one to two, a client with one more, nodes forget twice", testkit.Full, toTwo, func(s *claimSystem) { books(s); s.sleeps, s.forgets, s.foundings = 1, 2, 1 }},
	{"one to two, a client with one more, a look gets no answer", testkit.Full, toTwo, func(s *claimSystem) { books(s); s.misses = true }},
	{"one to three, nodes forget twice", testkit.Full, twice, func(s *claimSystem) { outer(s); s.sleeps, s.forgets = 1, 2 }},
	{"one to three, a longer MaxTTL of old clients", testkit.Full, twice, func(s *claimSystem) { outer(s); s.sleeps, s.old = 1, 2 }},
	{"one to three, a shorter one", testkit.Full, twice, func(s *claimSystem) { outer(s); s.sleeps, s.life = 1, 2 }},
	{"one to three, a look gets no answer", testkit.Full, twice, func(s *claimSystem) { outer(s); s.misses = true }},
	{"one to two, a longer MaxTTL of old clients", testkit.Full, toTwo, func(s *claimSystem) { s.sleeps, s.old = 1, 2 }},
	{"one to two, a shorter one", testkit.Full, toTwo, func(s *claimSystem) { s.sleeps, s.life = 1, 2 }},

	{"one to two, nodes forget twice", testkit.NeedDeep, toTwo, func(s *claimSystem) { s.together, s.sleeps, s.forgets = false, 1, 2 }},
	{"one to two, two old clients", testkit.NeedDeep, toTwo, func(s *claimSystem) {
		s.together, s.sleeps, s.lists = false, 1, []list{0b01, 0b01, 0b11}
	}},
	{"two to three, nodes forget twice, and a change has begun", testkit.NeedDeep, toThree, func(s *claimSystem) { s.sleeps, s.forgets, s.settled = 1, 2, true }},
	{"one to three, clients of each list", testkit.NeedDeep, twice, func(s *claimSystem) { s.sleeps = 1 }},
	{"one to three, two clients of the last list", testkit.NeedDeep, twice, func(s *claimSystem) { s.sleeps, s.lists = 1, []list{0b01, 0b111, 0b111} }},
	{"one to three, one look after another, leases of two ticks", testkit.NeedDeep, twice, func(s *claimSystem) {
		outer(s)
		s.together, s.sleeps, s.life, s.old = false, 1, 2, 2
	}},
}

func TestSearchClaimsHoldInEveryReachableState(t *testing.T) {
	testkit.NotRaced(t)
	for _, c := range claimSearches {
		t.Run(c.name, func(t *testing.T) {
			c.tier(t)
			r := search.Closed(claiming(c.change, c.grown...), search.Options{})
			t.Log(r)
			testkit.Must(t, r.Err())
		})
	}
}

// forgottenFirst is where the first node has forgotten, while the clients of the newest list are dead.
func forgottenFirst(s *claimState) { s.nodes[0], s.asleep = claimNode{}, true }

// claimWalks are walked at random: clients of every list, two of the last, nodes that forget
// often, one look after another.
var claimWalks = []struct {
	name   string
	grown  []list
	change func(*claimSystem)
}{
	{"one to two", toTwo, func(s *claimSystem) { s.sleeps, s.life, s.start = 8, 2, forgottenFirst }},
	{"one to three, a change has begun", twice, func(s *claimSystem) {
		s.sleeps, s.life, s.settled, s.start = 8, 2, true, forgottenFirst
	}},
	{"one to three, a longer MaxTTL of old clients, a change has begun", twice, func(s *claimSystem) {
		s.sleeps, s.old, s.settled, s.start = 8, 2, true, forgottenFirst
	}},
	{"one to three, a look gets no answer", twice, func(s *claimSystem) { s.misses = true }},
}

func TestSearchClaimsHoldOnRandomWalks(t *testing.T) {
	testkit.NotRaced(t)
	for _, c := range claimWalks {
		t.Run(c.name, func(t *testing.T) {
			sys := claiming(func(s *claimSystem) {
				s.together, s.forgets, s.foundings, s.lists = false, 8, 200, append(slices.Clone(c.grown), s.newest())
				c.change(s)
			}, c.grown...)
			r := search.Walk(sys, search.WalkOptions{Seed: 1, Walks: testkit.Every(5, 60, 2000), Steps: 600})
			t.Log(r)
			testkit.Must(t, r.Err())
			locks, old, seized := sampleClaims(sys)
			t.Logf("%d locks, %d foundings by old lists and %d seizings in 30 walks", locks, old, seized)
			if locks < 10 || old < 1 && sys.start != nil || seized < 1 && sys.settled {
				t.Error("too few for these walks to show anything")
			}
		})
	}
}

// sampleClaims walks, and counts what happened.
func sampleClaims(sys *claimSystem) (locks, old, seized int) {
	for seed := range uint64(30) {
		rnd, s := rand.New(rand.NewPCG(seed, 0)), sys.Init()
		for range 600 {
			total, pick := 0, search.Step{}
			var next claimState
			sys.Next(s, func(st search.Step, n claimState) {
				total += sys.Weight(st)
				if rnd.IntN(total) < sys.Weight(st) {
					pick, next = st, n
				}
			})
			switch {
			case pick.Kind == claimLock:
				locks++
			case pick.Kind == claimDo && next.foundings < s.foundings && !sys.serves(pick.A):
				old++
			case pick.Kind == claimDo && sys.question(&s, pick.A).ask().acts[pick.B].kind == membership.DoSeize:
				seized++
			}
			s = next
		}
	}
	return locks, old, seized
}

// claimFlaws are the rules, and what is assumed, each left out.
var claimFlaws = []struct {
	name   string
	flaw   claimFlaw
	change func(*claimSystem)
}{
	{"no claims", claimsPlain, outer},
	{"a founder ignores claims of other lists", claimsDeaf, outer},
	{"a lower generation's claim replaces", claimsLower, outer},
	{"votes count where a claim is missing", claimsLast, func(s *claimSystem) { outer(s); s.sleeps = 1 }},
	{"votes count beside what an old list founded", claimsBeside, func(s *claimSystem) { outer(s); s.sleeps = 1 }},
	{"no wait after a seizing", claimsHasty, func(s *claimSystem) { outer(s); s.sleeps = 1 }},
	{"an install is not bound to the claim", claimsUnbound, func(s *claimSystem) { outer(s); s.sleeps = 1 }},
	{"a blank node is not reached in time", claimsLate, func(s *claimSystem) { outer(s); s.life, s.old = 2, 2 }},
	{"what an old list founded forgets", claimsTwice, func(s *claimSystem) { outer(s); s.sleeps, s.forgets = 1, 2 }},
	{"clients that are back do not reach a node", noClaimFlaw, func(s *claimSystem) { outer(s); s.sleeps, s.misses = 1, true }},
}

func TestSearchClaimsCheckerCatches(t *testing.T) {
	testkit.Unraced(t)
	for _, c := range claimFlaws {
		t.Run(c.name, func(t *testing.T) {
			sys := claiming(c.change, twice...)
			sys.flaw, sys.back = c.flaw, 0
			r := search.Closed(sys, search.Options{})
			switch t.Log(r); {
			case r.Trace == nil:
				t.Fatal("not caught")
			case !errors.Is(r.Trace.Err, errTwoHolders):
				t.Error(r.Trace.Err)
			default:
				t.Log(r.Trace)
			}
		})
	}
}
