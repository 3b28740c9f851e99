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
//
// The cluster's list of nodes is the first three of the nodes, or four. While it changes there
// is another besides, that has one more. Owners have the shorter one or the longer one, and the
// observer one of them. A node votes for the list after the change once that is in force there.

const (
	most   = 5 // nodes
	few    = 3 // nodes, where no rule says otherwise
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
	lists uint8 // as many as the node votes by
}

// seen is a node's sight, as ages.
type seen struct {
	any         bool
	owner       uint8
	first, last uint8
	lists       uint8
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
	key     [most]uint8
	stood   [most]uint8       // age of the key's last change
	inForce [most]bool        // the list after the change is
	list    [owners + 1]uint8 // of each owner: its length
	sent    [owners + 1][most]command
	held    [owners + 1]uint8 // age of the last moment at which a quorum had it
	won     [owners + 1]bool  // a quorum of its list has had it
	glances [most]glance
	seen    [most]seen
	hints   [most]hinted
	settled hinted
	told    told
	sure    uint8
	broken  broken
	looked  [most]uint8 // looks so far, and ticks, where there is a bound
	ticks   uint8
	rules   rules
}

// change is what becomes of the list.
type change uint8

const (
	stays   change = iota // it is the short one
	grows                 // it was the short one, and is the long one where that is in force
	shrinks               // it was the long one, and is the short one where that is in force
)

// rules are the same in all states of a search.
type rules struct {
	short    uint8 // the length of the shorter list
	observes uint8 // that of the observer's
	change   change
	strict   bool // an owner is held by a quorum of its own list alone
	lax      bool // half of the longer list elect a leader
}

// broken is what has gone wrong.
type broken uint8

const (
	nothing broken = iota
	staleLeader
	falseVacancy
	falseToken
	twoLeaders
)

// on tells whether an owner is on a quorum of the list of that length.
func (s *state) on(owner, list uint8) bool {
	n, least := 0, quorum.Size(int(list))
	if s.rules.lax {
		least = int(list+1) / 2
	}
	for _, k := range s.key[:list] {
		if k == owner {
			n++
		}
	}
	return n >= least
}

// leads tells whether an owner is on a quorum of its own list.
func (s *state) leads(owner uint8) bool { return s.list[owner] > 0 && s.on(owner, s.list[owner]) }

// onAny tells whether it is on a quorum of one of the lists.
func (s *state) onAny(owner uint8) bool {
	return s.on(owner, s.rules.short) || s.on(owner, s.rules.long())
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
	v := election.NewView(int(s.rules.observes))
	for i, n := range s.seen[:s.rules.observes] {
		if n.any {
			v.Set(i, reading(n.owner), instant(n.first), instant(n.last), s.rules.lists(n.lists)...)
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
	for i := range s.rules.observes {
		if r, first, last, lists := v.Sight(int(i)); r.Kind != election.Unseen {
			s.seen[i] = seen{any: true, owner: numberOf(r.Owner), first: ageOf(first), last: ageOf(last), lists: uint8(lists)}
		}
		h := v.HintOf(int(i))
		s.hints[i] = hinted{numberOf(h.Owner), uint8(h.Token)}
	}
	h := v.SettledHint()
	s.settled = hinted{numberOf(h.Owner), uint8(h.Token)}
}

func (r rules) long() uint8 { return r.short + 1 }

// votes tells whether a node votes for owners that have the list of that length.
func (s *state) votes(node, list uint8) bool {
	switch s.rules.change {
	case grows:
		return list == s.rules.short || s.inForce[node]
	case shrinks:
		return list == s.rules.long() || s.inForce[node]
	case stays:
	}
	return true
}

// answers tells whether a look at a node counts: one that is to be added is blank.
func (s *state) answers(node uint8) bool {
	return node < s.rules.short || s.votes(node, s.rules.long())
}

// lists is how many a node votes by.
func (s *state) lists(node uint8) uint8 {
	switch {
	case s.rules.change == stays:
		return 0
	case s.inForce[node]:
		return 2
	}
	return 1
}

// lists are so many that a node votes by, the one before the change first: of the observer's
// nodes, and -1 is another.
func (r rules) lists(n uint8) [][]int {
	out := make([][]int, 2)
	for i := range int(r.short) {
		out[0] = append(out[0], i)
	}
	if out[1] = append(out[1], out[0]...); r.observes == r.short {
		out[1] = append(out[1], -1)
	} else {
		out[1] = append(out[1], int(r.short))
	}
	if r.change == shrinks {
		slices.Reverse(out)
	}
	return out[:n]
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
	leaders := 0
	for k := uint8(1); k <= owners; k++ {
		leads := s.leads(k)
		if leads {
			s.won[k] = true
			leaders++
		}
		if leads || !s.rules.strict && s.onAny(k) {
			s.held[k] = 0
		}
	}
	if leaders > 1 {
		s.broken = twoLeaders
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
	inForce            bool
	glance             glance
	seen               seen
	hint               hinted
	sent               [owners + 1]command
}

func (p *part) compare(o *part) int {
	a, b := p.bytes(), o.bytes()
	return slices.Compare(a[:], b[:])
}

func (p *part) bytes() (b [14 + owners]uint8) {
	b = [14 + owners]uint8{
		p.key, p.stood, p.looked, p.glance.phase, p.glance.age, p.glance.shows, p.seen.owner, p.seen.first, p.seen.last, p.hint.owner, p.hint.token,
		p.glance.lists, p.seen.lists,
	}
	if p.inForce {
		b[13] = 1
	}
	for k := 1; k <= owners; k++ {
		for i, bit := range []bool{p.sent[k].acquire, p.sent[k].release, p.sent[k].buried} {
			if bit {
				b[13+k] |= 1 << i
			}
		}
	}
	return b
}

// sorted is the state with the nodes of the short list in an order of their own: they are all
// alike, where nobody forges on one.
func (s state) sorted() state {
	parts := make([]part, s.rules.short)
	for i := range parts {
		p := &parts[i]
		*p = part{key: s.key[i], stood: s.stood[i], looked: s.looked[i], inForce: s.inForce[i], glance: s.glances[i], seen: s.seen[i], hint: s.hints[i]}
		for k := range s.sent {
			p.sent[k] = s.sent[k][i]
		}
	}
	slices.SortFunc(parts, func(a, b part) int { return a.compare(&b) })
	for i := range parts {
		p := &parts[i]
		s.key[i], s.stood[i], s.looked[i], s.inForce[i], s.glances[i], s.seen[i], s.hints[i] = p.key, p.stood, p.looked, p.inForce, p.glance, p.seen, p.hint
		for k := range s.sent {
			s.sent[k][i] = p.sent[k]
		}
	}
	return s
}
