package membership_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/quorumkit/redlock/internal/scriptmodel"
	"github.com/quorumkit/redlock/internal/search"
	"github.com/quorumkit/redlock/internal/testkit"
)

// firstStates is how many states are searched with the race detector.
const firstStates = 5_000

// closedSystem is three nodes, of which the first may forget once, two clients
// that want the lock, and one joiner.
func closedSystem(change func(*memberSystem)) *memberSystem {
	sys := &memberSystem{
		nodes: 3, clients: 2, joiners: 1, life: 1, faults: 1, faulty: 1, lean: true,
		memo: &decisions{known: map[question]answer{}},
	}
	change(sys)
	return sys
}

// skewed are clocks that differ by a sixteenth either way: every node's is fast,
// every client's slow.
func skewed(s *memberSystem) {
	s.faults, s.joiners, s.life, s.drift = 0, 0, 64, 8
	s.rates = []uint8{17, 17, 17, 15, 15}
}

// race is two founders in each other's way.
func race(s *memberSystem) {
	s.racing, s.joiners, s.faults, s.start = true, 2, 0, midRace
}

// late is a lock that lapsed, while another has it.
func late(s *memberSystem) {
	s.faults, s.joiners, s.extends, s.releases, s.start = 0, 0, 1, true, lateAcquire
}

// dropping is locks whose keys may go at any moment.
func dropping(s *memberSystem) { s.faults, s.joiners, s.drops, s.start = 0, 0, true, unevenCounters }

// keeping is one lock that is extended, re-seeded and released, on nodes of
// which one forgets.
func keeping(s *memberSystem) { s.extends, s.releases, s.clients, s.blank = 1, true, 1, true }

// midRace is where two founders of new nodes have waited, and the first node's install of each
// is under way.
func midRace(sys *memberSystem, s *memberState) {
	for n := range sys.nodes {
		s.servers[n] = server{data: data{nonce: 1, onRun: 1}, process: 1, nonces: 1}
	}
	for j := range uint8(2) {
		for range 2 {
			for n := range uint8(sys.nodes) {
				sys.look(s, j, n)
				s.joiners[j].waits[n].age = sys.life
			}
		}
		sys.send(s, j, 0, sys.ask(&s.joiners[j], j, 0, s.clock(), false))
	}
}

// lateAcquire is where one client has lapsed, its key still on the second node,
// its acquire at the third still under way, and another has the lock on the
// first and the third.
func lateAcquire(sys *memberSystem, s *memberState) {
	a, b := &s.clients[0], &s.clients[1]
	a.phase, a.token = held, 1
	a.visits[2].acquire = true
	b.phase, b.token, b.left, s.best = held, 2, sys.life, 2
	for n, stripe := range []scriptmodel.Number{2, 1, 2} {
		s.servers[n].node.Stripes[0] = stripe
		s.servers[n].node.Keys[0] = scriptmodel.Key{Owner: ownerOf(1), Until: scriptmodel.Tick(sys.life)}
	}
	s.servers[1].node.Keys[0].Owner = ownerOf(0)
}

// unevenCounters is where an acquisition that came to nothing has left one node's
// counter above the others'.
func unevenCounters(_ *memberSystem, s *memberState) { s.servers[1].node.Stripes[0] = 1 }

// lateInstall is where a node has come back by an install that was sent twice:
// the second one is still under way.
func lateInstall(_ *memberSystem, s *memberState) {
	s.servers[0].epochs, s.servers[0].node.Epoch, s.servers[0].nonces = 2, 2, 1
	s.joiners[0].orders[0] = order{nonce: 1, run: 1, cluster: 1}
}

// closedSearches go through everything that can happen. Those of whole are only
// for the whole search.
var closedSearches = []struct {
	name   string
	whole  bool
	change func(*memberSystem)
}{
	{"a node restarts empty", false, func(s *memberSystem) { s.blank = true }},
	{"a node restarts with an old AOF", false, func(s *memberSystem) { s.old = true }},
	{"a node is flushed", false, func(s *memberSystem) { s.flush = true }},
	{"a node takes its lagging standby's data", false, func(s *memberSystem) { s.follows = true }},
	{"a node's data are swapped, and swapped back", true, func(s *memberSystem) { s.swaps, s.faults = true, 2 }},
	{"a node that came back by one of two installs is flushed", false, func(s *memberSystem) { s.flush, s.start = true, lateInstall }},
	{"extended, re-seeded and released", false, keeping},
	{"a lapsed lock", false, late},
	{"clocks at other rates", false, skewed},
	{"keys go at any moment", false, dropping},
	{"a node forgets twice", true, func(s *memberSystem) { s.blank, s.faults = true, 2 }},
	{"a node forgets twice, in any way, and installs come again", true, func(s *memberSystem) {
		s.blank, s.old, s.flush, s.twice, s.faults = true, true, true, true, 2
	}},
	{"one founder", false, func(s *memberSystem) { s.founding, s.racing, s.clients, s.faults = true, true, 0, 0 }},
	{"one founder, and a client", true, func(s *memberSystem) { s.founding, s.racing, s.clients, s.faults = true, true, 1, 0 }},
	{"leases of two ticks", true, func(s *memberSystem) { s.blank, s.life = true, 2 }},
}

func TestSearchMembershipHoldsInEveryReachableState(t *testing.T) {
	testkit.Unraced(t)
	for _, c := range closedSearches {
		t.Run(c.name, func(t *testing.T) {
			if c.whole {
				testkit.NeedDeep(t)
			}
			sys := closedSystem(c.change)
			sys.back = 64
			var opts search.Options
			if testkit.UnderRace {
				opts.MaxStates = firstStates
			}
			r := search.Closed(sys, opts)
			t.Log(r)
			if err := r.Err(); err != nil && (r.Trace != nil || !testkit.UnderRace) {
				t.Fatal(err)
			}
		})
	}
}

// comesBack lets one new joiner work alone, every node answering: at the end all
// nodes must be members of one cluster. Under strict recovery it is an operator's.
func (sys *memberSystem) comesBack(s memberState) error {
	k := &joiner{}
	for range 6 * sys.nodes {
		s.joiners[0] = *k
		for n := range uint8(sys.nodes) {
			sys.look(&s, 0, n)
		}
		for n := range uint8(sys.nodes) {
			*k = s.joiners[0]
			a, v := sys.ask(k, 0, n, s.clock(), sys.strict), &s.servers[n]
			if a.install {
				sys.send(&s, 0, n, a)
				sys.install(v, s.joiners[0].orders[n])
			}
			if a.notice && (v.nonce == 0 || v.onRun != v.process) {
				v.nonces++
				v.nonce, v.onRun = v.nonces, v.process
			}
			sys.look(&s, 0, n)
		}
		*k = s.joiners[0]
		for n := range sys.nodes {
			if k.waits[n].nonce == 0 {
				continue
			}
			k.waits[n].age = uint8(min(255, int(k.waits[n].age)+int(sys.life)))
		}
	}
	for n := range sys.nodes {
		if v := &s.servers[n]; !v.member() || v.cluster != s.servers[0].cluster {
			return errNotBack
		} else if sys.strict && !s.gone && !v.strict {
			return errMarkLost
		}
	}
	return nil
}

// Not closed: so many states.
func TestSearchFoundersThatRaceMeet(t *testing.T) {
	testkit.Unraced(t)
	r := search.Closed(closedSystem(race), search.Options{MaxStates: testkit.Every(50_000, 200_000, 3_000_000)})
	t.Log(r)
	if r.Trace != nil {
		t.Fatal(r.Trace)
	}
}

// walkedSystem has five nodes, whose clocks and those of the clients and joiners
// differ by a sixteenth either way, and everything that can go wrong.
func walkedSystem(change func(*memberSystem)) *memberSystem {
	sys := &memberSystem{
		nodes: 5, clients: 3, joiners: 2, life: 64, drift: 8,
		rates:  []uint8{17, 16, 15, 17, 15, 15, 17, 16, 17, 15},
		faults: 12, faulty: 5, blank: true, old: true, flush: true, extends: 3,
		releases: true, reuse: true, twice: true, racing: true, back: 64,
		memo: &decisions{known: map[question]answer{}},
	}
	change(sys)
	return sys
}

func TestSearchMembershipHoldsOnRandomWalks(t *testing.T) {
	testkit.Unraced(t)
	walks := 15
	switch {
	case testkit.UnderRace:
		walks = 2
	case testkit.Deep():
		walks = 4000
	}
	for name, change := range map[string]func(*memberSystem){
		"established": func(*memberSystem) {},
		"four nodes":  func(s *memberSystem) { s.nodes, s.faulty = 4, 4 },
		"founders":    func(s *memberSystem) { s.founding = true },
	} {
		t.Run(name, func(t *testing.T) {
			sys := walkedSystem(change)
			r := search.Walk(sys, search.WalkOptions{Seed: 1, Walks: walks, Steps: 1000})
			t.Log(r)
			testkit.Must(t, r.Err())
			locks, installs, faults := sampleWalk(sys)
			t.Logf("%d locks, %d installs and %d faults in a walk of 3000 steps", locks, installs, faults)
			if locks < 10 || installs < 3 || faults < 3 {
				t.Error("too few for these walks to show anything")
			}
		})
	}
}

// sampleWalk walks once, and counts what happened.
func sampleWalk(sys *memberSystem) (locks, installs, faults int) {
	rnd, s := rand.New(rand.NewPCG(1, 1)), sys.Init()
	for range 3000 {
		total, pick := 0, search.Step{}
		var next memberState
		sys.Next(s, func(st search.Step, n memberState) {
			total += sys.Weight(st)
			if rnd.IntN(total) < sys.Weight(st) {
				pick, next = st, n
			}
		})
		s = next
		switch pick.Kind {
		case winClient:
			locks++
		case takeInstall:
			installs++
		case restartBlank, restartOld, flushAll:
			faults++
		}
	}
	return locks, installs, faults
}

// What a broken rule of membership brings about; which of the two comes first is
// the search's order.
var (
	forgotten = []error{errTwoHolders, errTokenNotNew}
	outlived  = []error{errTwoHolders, errOldHolder}
	litter    = []error{errLitter}
)

// breaking are the rules of membership, each broken: what the checker must
// catch, or it shows nothing.
var breaking = []struct {
	name   string
	want   []error // any of them
	change func(*memberSystem)
}{
	{"no tombstone", litter, func(s *memberSystem) { keeping(s); s.mistake, s.faults = mistakeNoTombstone, 0 }},
	{"rejoin at once", forgotten, func(s *memberSystem) { s.mistake, s.blank = mistakeRejoinAtOnce, true }},
	{"N-q others", forgotten, func(s *memberSystem) { s.mistake, s.blank = mistakeFewOthers, true }},
	{"install without the nonce", forgotten, func(s *memberSystem) { s.mistake, s.flush, s.start = mistakeNoNonce, true, lateInstall }},
	{"voting set loaded before membership", forgotten, func(s *memberSystem) { s.mistake, s.old = mistakeLoadBeforeMember, true }},
	{"raise without the owner check", forgotten, func(s *memberSystem) { dropping(s); s.flaw = scriptmodel.RaiseForAnyone }},
	{"verified on another connection than the load", forgotten, func(s *memberSystem) { s.mistake, s.old = mistakeOtherConnection, true }},
	{"an old AOF's stripes believed without base", forgotten, func(s *memberSystem) { s.mistake, s.old = mistakeStripesBelieved, true }},
	{"reading before the wait", forgotten, func(s *memberSystem) { s.mistake, s.blank = mistakeReadBeforeWait, true }},
	{"no epoch check after a flush", forgotten, func(s *memberSystem) { s.mistake, s.flush = mistakeNoEpoch, true }},
	{"a script cache that survives", forgotten, func(s *memberSystem) { s.mistake, s.old = mistakeCacheSurvives, true }},
	{"drift 0", forgotten, func(s *memberSystem) { skewed(s); s.mistake = mistakeNoDrift }},
	{"a lapsed lock that may extend", outlived, func(s *memberSystem) { late(s); s.mistake = mistakeLapsedExtends }},
	{"a re-seed without the tombstone check", litter, func(s *memberSystem) { keeping(s); s.flaw = scriptmodel.ReseedDead }},
	{"an identity without the replication id", forgotten, func(s *memberSystem) { s.mistake, s.follows = mistakeNoHistory, true }},
	{"an epoch that comes back", forgotten, func(s *memberSystem) { s.mistake, s.swaps, s.faults = mistakeEpochReturns, true, 2 }},
	{"a lease above MaxTTL", forgotten, func(s *memberSystem) { s.mistake, s.blank = mistakeLongLease, true }},
}

func TestSearchMembershipCheckerCatches(t *testing.T) {
	testkit.Unraced(t)
	for _, c := range breaking {
		t.Run(c.name, func(t *testing.T) {
			wantCaught(t, closedSystem(c.change), 4_000_000, c.want...)
		})
	}
}

// wantCaught searches a system that is broken, up to most states, for any of these
// errors.
func wantCaught(t *testing.T, sys *memberSystem, most int, want ...error) {
	t.Helper()
	if testkit.UnderRace {
		most = firstStates
	}
	r := search.Closed(sys, search.Options{MaxStates: most})
	t.Log(r)
	if r.Trace == nil && testkit.UnderRace {
		t.Skip("it takes more states than are searched with the race detector")
	}
	if r.Trace == nil {
		t.Fatal("not caught")
	}
	t.Log(r.Trace)
	if !slices.ContainsFunc(want, func(w error) bool { return errors.Is(r.Trace.Err, w) }) {
		t.Errorf("caught by %v; want any of %v", r.Trace.Err, want)
	}
}
