package membership_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/quorumkit/redlock/internal/membership"
	"github.com/quorumkit/redlock/internal/quorum"
	"github.com/quorumkit/redlock/internal/scriptmodel"
	"github.com/quorumkit/redlock/internal/search"
)

// The search of changes of the list of nodes: nodes that forget or restart, clients of any
// list that there ever was, and agents, over the library's own decisions. An agent has a
// list, looks at its nodes one by one, takes blank ones in and brings those behind up to
// date (View.Next). As an operator it changes the list too (NewChange, Change.Next). What
// an agent decides is sent at once, and arrives whenever, or never.
//
// Not in it: founding, retirement, other clusters, several names, queues.

const (
	mostSeats   = 5
	mostLockers = 3
	mostAgents  = 3
	mostGens    = 12
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

// page is a record: gen is one more than the record's, 0 for none.
type page struct {
	gen           uint8
	names, before list
	settled       bool
	ballot        uint8
	proposedBy    uint8 // its ballot
	proposed      list
	run           uint8
	nonce, onRun  uint8
	settler       uint8 // whose settling began the epoch; 0: nobody's
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
	until                    uint8 // only epochs below are known to the client; 0: it still learns
}

// lockerOf is one attempt at the lock.
type lockerOf struct {
	list              list
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
	gen          uint8 // as the record's
	from, wanted list
	to           list // 0: not known
	ballot       uint8
	began, asked uint8 // 1 + units ago; 0: not begun
	left         uint8 // 1 + units until the pause ends; 0: not settled
	largest      scriptmodel.Number
	tag          uint8
}

type agent struct {
	list  list
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
	lists   [mostGens]list // by generation, once one is in force
	faults  uint8
	changes uint8 // left
	best    scriptmodel.Number
	broken  bool // two lists of one generation
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
)

// changeSystem is the size of an instance.
type changeSystem struct {
	seats, lockers, agents int
	first                  list
	life                   uint8
	drift                  uint8
	rates                  [3]uint8 // of the clocks of nodes, clients and agents; 0: 1
	faults, changes        uint8
	keeps                  bool // a node may restart with its data
	extends                uint8
	operators              int                // agents from 0 on that are operators at times
	eager                  int                // operators begin, and die, more often
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
	seen  [mostSeats]sight
	waits [mostSeats]patience
	n     uint8
}

type changeAnswer struct{ send send }

func (sys *changeSystem) Init() (s changeState) {
	s.faults, s.changes = sys.faults, sys.changes
	s.lists[0] = sys.first
	for n := range sys.seats {
		v := &s.seats[n]
		v.process = 1
		if sys.first.has(uint8(n)) {
			v.page = page{gen: 1, names: sys.first, run: 1}
			v.node.Epoch, v.epochs = 1, 1
		}
	}
	if sys.start != nil {
		sys.start(&s)
	}
	return s
}

var errTwoLists = errors.New("one generation has two lists")

func (sys *changeSystem) Check(s changeState) error {
	if s.broken {
		return errTwoLists
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
	stepEnd
	stepFresh
	stepAcquire
	stepTakeRaise
	stepTakeExtend
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
	"time passes", "locker %[2]d begins with list %05[4]b", "locker %[2]d has the lock", "locker %[2]d raises", "locker %[2]d extends",
	"locker %[2]d counts its extension", "locker %[2]d is done", "locker %[2]d is another one", "node %[3]d runs locker %[2]d's acquire",
	"node %[3]d runs locker %[2]d's raise", "node %[3]d runs locker %[2]d's extend", "node %[2]d forgets", "node %[2]d restarts",
	"node %[2]d gets a notice", "agent %[2]d has list %05[4]b", "agent %[2]d looks at node %[3]d", "agent %[2]d sends action %[4]d to node %[3]d",
	"node %[3]d runs agent %[2]d's order", "agent %[2]d begins a change to %05[4]b", "agent %[2]d goes on with its change", "agent %[2]d dies",
}

func (sys *changeSystem) Describe(st search.Step) string {
	return fmt.Sprintf(changeTexts[st.Kind]+"%[1]s", "", st.A, st.B, st.C)
}

// Weight: progress far more often than faults.
func (sys *changeSystem) Weight(st search.Step) int {
	switch st.Kind {
	case stepWin, stepRaise, stepConfirm, stepThink:
		return 600
	case stepForget, stepRestart:
		return 1
	case stepAgent:
		return 30
	case stepDie:
		return 4
	case stepChange:
		return 4 + 40*sys.eager
	case stepEnd:
		return 50
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
			fmt.Fprintf(&b, "[%d: run %d of %d epoch %d gen %d %05b before %05b settled %t ballot %d proposed %d:%05b base %d stripe %d key %d for %d] ", i,
				v.run, v.process, v.node.Epoch, int(v.gen)-1, v.names, v.before, v.settled, v.ballot, v.proposedBy, v.proposed, v.node.Base, v.node.Stripes[0], v.node.Keys[0].Owner, v.node.Keys[0].Until)
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

type yieldChange = func(search.Step, changeState)

func (sys *changeSystem) Next(s changeState, yield yieldChange) {
	if n := sys.tick(s); n != s {
		yield(search.Step{Kind: stepTick}, n)
	}
	begun := false
	for c := range uint8(sys.lockers) {
		switch {
		case s.lockers[c].phase != idle:
			sys.act(&s, c, yield)
			for n := range uint8(sys.seats) {
				sys.vote(&s, c, n, yield)
			}
		case !begun:
			begun = true
			for g, l := range s.lists {
				if l != 0 && !slices.Contains(s.lists[:g], l) && (g+3 >= mostGens || s.lists[g+3] == 0) { // earlier ones get no vote
					next := s
					k := &next.lockers[c]
					k.list, k.phase, k.left, k.floor = l, acquiring, sys.life-sys.drift, s.best
					for n := range uint8(sys.seats) {
						k.at[n].acquire = l.has(n)
					}
					yield(search.Step{Kind: stepBegin, A: c, C: uint8(l)}, next)
				}
			}
		}
	}
	for n := range uint8(sys.seats) {
		sys.suffer(&s, n, yield)
	}
	for j := range uint8(sys.agents) {
		sys.agent(&s, j, yield)
	}
}

func (sys *changeSystem) rate(of int) uint8 { return max(1, sys.rates[of]) }

func (sys *changeSystem) tick(s changeState) changeState {
	for i := range sys.seats {
		runData(&s.seats[i].node, sys.rate(0))
	}
	for i := range sys.lockers {
		down(&s.lockers[i].left, sys.rate(1))
		down(&s.lockers[i].more, sys.rate(1))
	}
	r := sys.rate(2)
	older := func(v *uint8) {
		if *v != 0 {
			*v = uint8(min(int(*v)+int(r), 4*int(sys.life), 255))
		}
	}
	for i := range sys.agents {
		k := &s.agents[i]
		for n := range sys.seats {
			if g := &k.seen[n]; g.answered {
				g.age = uint8(min(int(g.age)+int(r), 4*int(sys.life), 255))
			}
			if w := &k.waits[n]; w.nonce != 0 {
				w.age = uint8(min(int(w.age)+int(r), 4*int(sys.life), 255))
			}
		}
		older(&k.op.began)
		older(&k.op.asked)
		if k.op.left > 0 {
			k.op.left -= min(k.op.left-1, r)
		}
	}
	return s
}

// act yields what a locker may do by itself.
func (sys *changeSystem) act(s *changeState, c uint8, yield yieldChange) {
	k := &s.lockers[c]
	do := func(kind uint8, change func(*lockerOf, *changeState)) {
		next := *s
		change(&next.lockers[c], &next)
		yield(search.Step{Kind: kind, A: c}, next)
	}
	win := func(t scriptmodel.Number) {
		do(stepWin, func(k *lockerOf, s *changeState) {
			k.phase, k.token, k.target, k.wrong = held, t, 0, t <= k.floor
			for i := range sys.lockers {
				k.wrong = k.wrong || i != int(c) && s.lockers[i].token == t
			}
			s.best = max(s.best, t)
			for n := range k.at {
				k.at[n] = ballotBox{acquire: k.at[n].acquire}
			}
		})
	}
	switch k.phase {
	case acquiring:
		votes := make([]quorum.Vote, 0, sys.seats)
		for n := range uint8(sys.seats) {
			if k.list.has(n) && k.at[n].grant != 0 {
				votes = append(votes, quorum.Vote{Outcome: quorum.Granted, Token: quorum.Token(k.at[n].grant)})
			} else if k.list.has(n) {
				votes = append(votes, quorum.Vote{})
			}
		}
		if k.left == 0 || quorum.Count(votes).Verdict() != quorum.Won {
			break
		}
		switch verdict, t := quorum.Settle(votes); verdict {
		case quorum.Settled:
			win(scriptmodel.Number(t))
		case quorum.Uneven, quorum.Waiting:
			do(stepRaise, func(k *lockerOf, _ *changeState) {
				k.phase, k.target = raising, scriptmodel.Number(t)
				for n := range k.at {
					b := &k.at[n]
					b.known = b.grant != 0
					b.raise = b.known && b.grant < k.target
				}
			})
		case quorum.Unsettled:
		}
	case raising:
		exact := 0
		for n := range k.at {
			if b := k.at[n]; b.known && b.grant == k.target || b.raised {
				exact++
			}
		}
		if k.left > 0 && exact >= quorum.Size(k.list.size()) {
			win(k.target)
		}
	case held:
		if k.rounds < sys.extends && k.more == 0 && k.left > 0 {
			do(stepExtend, func(k *lockerOf, _ *changeState) {
				k.rounds++
				k.more = sys.life - sys.drift
				for n := range uint8(sys.seats) {
					k.at[n].extend, k.at[n].confirmed = k.list.has(n), false
				}
			})
		}
		confirmed := 0
		for n := range k.at {
			if k.at[n].confirmed {
				confirmed++
			}
		}
		if k.more > 0 && k.left > 0 && confirmed >= quorum.Size(k.list.size()) {
			do(stepConfirm, func(k *lockerOf, _ *changeState) { k.left, k.more = max(k.left, k.more), 0 })
		}
	case over:
		if !sys.once && sys.spent(s, c) {
			do(stepFresh, func(k *lockerOf, _ *changeState) { *k = lockerOf{} })
		}
		return
	}
	do(stepEnd, func(k *lockerOf, s *changeState) {
		k.phase, k.left, k.more, k.target = over, 0, 0, 0
		for n := range k.at {
			k.at[n] = ballotBox{acquire: k.at[n].acquire, until: s.seats[n].epochs + 1}
		}
	})
}

// spent tells whether nothing of a locker that is over matters any more.
func (sys *changeSystem) spent(s *changeState, c uint8) bool {
	for n := range sys.seats {
		if s.seats[n].node.Holds(0, ownerOf(c)) {
			return false
		}
	}
	for i := range sys.lockers {
		if o := &s.lockers[i]; i != int(c) && o.phase != idle && o.phase != over && o.floor < s.lockers[c].token {
			return false
		}
	}
	return s.best < 100
}

// vote yields what the node may run of the locker's messages. It has read the record under
// the epoch that votes, unless that was left out.
func (sys *changeSystem) vote(s *changeState, c, n uint8, yield yieldChange) {
	k, v := &s.lockers[c], &s.seats[n]
	b := &k.at[n]
	if v.node.Epoch == 0 || v.run != v.process || b.until != 0 && uint8(v.node.Epoch) >= b.until || !sys.accepts(v.page, k.list) &&
		(sys.slip != slipForceEpoch || v.settled || v.gen < 3 || s.lists[v.gen-3] != k.list) { // who was accepted before still is
		return
	}
	owner, life, epoch := ownerOf(c), scriptmodel.Tick(sys.life), v.node.Epoch
	at := func(kind uint8, ok bool, run func(*ballotBox, *scriptmodel.Node)) {
		if ok {
			next := *s
			run(&next.lockers[c].at[n], &next.seats[n].node)
			yield(search.Step{Kind: kind, A: c, B: n}, next)
		}
	}
	at(stepAcquire, b.acquire, func(b *ballotBox, node *scriptmodel.Node) {
		b.acquire = false
		if g := node.Acquire(0, scriptmodel.Acquire{Owner: owner, Life: life, Epoch: epoch}, 0); g > 0 && k.phase == acquiring {
			b.grant = scriptmodel.Number(g)
		}
	})
	at(stepTakeRaise, b.raise, func(b *ballotBox, node *scriptmodel.Node) {
		b.raise = false
		b.raised = node.Raise(scriptmodel.Raise{Owner: owner, Token: k.target, Epoch: epoch}, 0) == scriptmodel.Done && k.phase == raising
	})
	at(stepTakeExtend, b.extend, func(b *ballotBox, node *scriptmodel.Node) {
		b.extend = false
		b.confirmed = node.Extend(0, scriptmodel.Extend{Owner: owner, Life: life, Epoch: epoch}) == scriptmodel.Done && k.phase == held && k.more > 0
	})
}

// accepts asks the library whether a node with this record votes for a client of the list.
func (sys *changeSystem) accepts(p page, l list) bool {
	if sys.slip == slipEpoch {
		p.settled = false // who was accepted before still is
	}
	key := acceptance{p.gen, p.names, p.before, p.settled, l}
	if known, ok := acceptances.Load(key); ok {
		return known.(bool)
	}
	o := sys.observation(sight{page: p, answered: true, process: p.run, epoch: 1}, l)
	v := membership.NewView(membership.NewConfig(l.names(), unit, false), slices.Repeat([]membership.Observation{o}, l.size()), make([]membership.Wait, l.size()))
	state, _ := v.Standing(0)
	acceptances.Store(key, state == membership.Member)
	return state == membership.Member
}

type acceptance struct {
	gen           uint8
	names, before list
	settled       bool
	l             list
}

var acceptances sync.Map

// suffer yields what befalls a node.
func (sys *changeSystem) suffer(s *changeState, n uint8, yield yieldChange) {
	if v := &s.seats[n]; (v.node.Epoch == 0 || v.run != v.process) && (v.nonce == 0 || v.onRun != v.process) {
		next := *s
		w := &next.seats[n]
		w.nonces++
		w.nonce, w.onRun = w.nonces, w.process
		yield(search.Step{Kind: stepNotice, A: n}, next)
	}
	if s.faults == 0 || s.seats[n].process > 200 || !sys.spared(s, n) {
		return
	}
	next := *s
	next.faults--
	next.seats[n].process++
	if sys.keeps {
		yield(search.Step{Kind: stepRestart, A: n}, next)
	}
	next.seats[n].page, next.seats[n].node = page{}, scriptmodel.Node{}
	yield(search.Step{Kind: stepForget, A: n}, next)
}

// spared tells whether the node may forget, so that enough others are left to take it in:
// a majority's loss is founded anew, which is not in this search.
func (sys *changeSystem) spared(s *changeState, n uint8) bool {
	blank := func(i uint8) bool { return s.seats[i].node.Epoch == 0 || s.seats[i].run != s.seats[i].process }
	if blank(n) {
		return false
	}
	for g, l := range s.lists {
		if l == 0 || !l.has(n) || g+2 < mostGens && s.lists[g+2] != 0 {
			continue
		}
		left := 0
		for i := range uint8(sys.seats) {
			if l.has(i) && i != n && !blank(i) {
				left++
			}
		}
		if left < l.size()-quorum.Size(l.size())+1 {
			return false
		}
	}
	return true
}
