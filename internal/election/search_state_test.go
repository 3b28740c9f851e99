package election_test

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/election"
	"github.com/quorumkit/redlock/internal/quorum"
)

// The system: owners come and go on the nodes, each by commands that arrive at any time;
// one observer looks at the nodes, hears hints, and is told what the real code makes of
// it. Time goes in ticks of half of what is Stale. What happens in one tick has one
// instant, in any order it comes.

const (
	nodes  = 3
	owners = 3
	tick   = election.Stale / staleTicks
	// staleTicks is what is Stale, in ticks; old is the age of all that is older.
	staleTicks = 2
	old        = staleTicks + 1
	never      = old // of what has not been
	forged     = 100 // added to a token
)

// command is what is under way from an owner to a node.
type command struct {
	acquire bool // may still arrive
	release bool // the same
	buried  bool // the release arrived: no acquire does anything any more
}

// glance is a look under way at a node.
type glance struct {
	phase uint8 // 0 none, 1 sent, 2 the node has read
	age   uint8 // of its sending
	shows uint8 // the owner; 0: nothing
}

// seen is a node's sight, as ages.
type seen struct {
	any         bool
	owner       uint8
	first, last uint8
}

// hinted is a node's hint.
type hinted struct{ owner, token uint8 }

// told is what the observer was told.
type told struct {
	any   bool
	state uint8
	owner uint8
	token uint8
}

// state is all of it. Ages are in ticks, and no greater than old.
type state struct {
	begun   uint8 // owners so far; they are numbered from 1, and so are their tokens
	key     [nodes]uint8
	stood   [nodes]uint8 // age of the key's last change
	sent    [owners + 1][nodes]command
	held    [owners + 1]uint8 // age of the last moment at which a quorum had it
	won     [owners + 1]bool  // a quorum has had it
	glances [nodes]glance
	seen    [nodes]seen
	hints   [nodes]hinted
	settled hinted
	told    told
	sure    uint8
	broken  broken
	looked  [nodes]uint8 // looks so far, and ticks, where there is a bound
	ticks   uint8
}

// broken is what has gone wrong.
type broken uint8

const (
	nothing broken = iota
	staleLeader
	falseVacancy
	falseToken
)

func (s *state) on(owner uint8) (n int) {
	for _, k := range s.key {
		if k == owner {
			n++
		}
	}
	return n
}

func (s state) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "keys %v stood %v held %v, told %+v, sure %d", s.key, s.stood, s.held[1:], s.told, s.sure)
	for i := range s.seen {
		fmt.Fprintf(&b, "; node %d: look %+v seen %+v hint %+v", i, s.glances[i], s.seen[i], s.hints[i])
	}
	return b.String()
}

// now is the instant that ages count back from.
const now = clock.Instant(1000 * tick)

func instant(age uint8) clock.Instant { return now.Add(-tick * time.Duration(age)) }

func ageOf(at clock.Instant) uint8 { return uint8(min(now.Sub(at)/tick, old)) }

var names = [...]string{"", "a", "b", "c"}

func numberOf(owner string) uint8 {
	return uint8(strings.Index("abc", owner)+1) * uint8(min(len(owner), 1))
}

// view is the real view that the state stands for.
func (s *state) view() *election.View {
	v := election.NewView(nodes)
	for i, n := range s.seen {
		if n.any {
			v.Set(i, reading(n.owner), instant(n.first), instant(n.last))
		}
		if h := s.hints[i]; h.token != 0 {
			v.SetHint(i, election.Hint{Owner: names[h.owner], Token: quorum.Token(h.token)})
		}
	}
	v.Settled(election.Hint{Owner: names[s.settled.owner], Token: quorum.Token(s.settled.token)})
	return v
}

// keep takes a view back.
func (s *state) keep(v *election.View) {
	for i := range s.seen {
		if r, first, last := v.Sight(i); r.Kind != election.Unseen {
			s.seen[i] = seen{any: true, owner: numberOf(r.Owner), first: ageOf(first), last: ageOf(last)}
		}
		h := v.HintOf(i)
		s.hints[i] = hinted{numberOf(h.Owner), uint8(h.Token)}
	}
	h := v.SettledHint()
	s.settled = hinted{numberOf(h.Owner), uint8(h.Token)}
}

func reading(owner uint8) election.Reading {
	if owner == 0 {
		return election.Reading{Kind: election.Free}
	}
	return election.Reading{Kind: election.Owned, Owner: names[owner]}
}

// observer is the real observer that the state stands for.
func (s *state) observer() *election.Observer {
	o := election.NewObserver(instant(s.sure))
	if s.told.any {
		o.SetTold(election.Sight{State: election.State(s.told.state), Owner: names[s.told.owner], Token: quorum.Token(s.told.token)})
	}
	return o
}

// age lets a tick go by.
func (s *state) age() {
	up := func(a *uint8) { *a = min(*a+1, old) }
	for i := range s.key {
		up(&s.stood[i])
		up(&s.glances[i].age)
		up(&s.seen[i].first)
		up(&s.seen[i].last)
		if s.glances[i].phase == 0 {
			s.glances[i] = glance{}
		}
		if !s.seen[i].any {
			s.seen[i] = seen{}
		}
	}
	for k := range s.held {
		up(&s.held[k])
	}
	up(&s.sure)
	s.hold()
}

// hold notes who is on a quorum now.
func (s *state) hold() {
	for k := uint8(1); k <= owners; k++ {
		if s.on(k) >= quorum.Size(nodes) {
			s.held[k], s.won[k] = 0, true
		}
	}
}

// put changes a node's key.
func (s *state) put(node, owner uint8) {
	s.key[node], s.stood[node] = owner, 0
	s.hold()
}

// part is all that a state has of one node.
type part struct {
	key, stood, looked uint8
	glance             glance
	seen               seen
	hint               hinted
	sent               [owners + 1]command
}

func (p *part) compare(o *part) int {
	a, b := p.bytes(), o.bytes()
	return slices.Compare(a[:], b[:])
}

func (p *part) bytes() (b [11 + owners]uint8) {
	b = [11 + owners]uint8{p.key, p.stood, p.looked, p.glance.phase, p.glance.age, p.glance.shows, p.seen.owner, p.seen.first, p.seen.last, p.hint.owner, p.hint.token}
	for k := 1; k <= owners; k++ {
		for i, bit := range []bool{p.sent[k].acquire, p.sent[k].release, p.sent[k].buried} {
			if bit {
				b[10+k] |= 1 << i
			}
		}
	}
	return b
}

// sorted is the state with its nodes in an order of their own: they are all alike, where
// nobody forges on one.
func (s state) sorted() state {
	var parts [nodes]part
	for i := range parts {
		p := &parts[i]
		*p = part{key: s.key[i], stood: s.stood[i], looked: s.looked[i], glance: s.glances[i], seen: s.seen[i], hint: s.hints[i]}
		for k := range s.sent {
			p.sent[k] = s.sent[k][i]
		}
	}
	slices.SortFunc(parts[:], func(a, b part) int { return a.compare(&b) })
	for i := range parts {
		p := &parts[i]
		s.key[i], s.stood[i], s.looked[i], s.glances[i], s.seen[i], s.hints[i] = p.key, p.stood, p.looked, p.glance, p.seen, p.hint
		for k := range s.sent {
			s.sent[k][i] = p.sent[k]
		}
	}
	return s
}
