// Package election is what looks at the nodes tell an observer of a name: who holds it,
// that nobody does, or that nobody can say; and what the hints of a leader are worth.
// Nothing here reads a clock or waits.
//
// A hint brings about a look and is never believed alone: it may be lost, doubled, late
// or forged. Nor is one look at each node enough. The nodes are not read at one moment,
// so an owner value that was here before it came there may never have had a quorum. It
// is believed once there was a moment at which a quorum had it: between two looks at a
// node which both showed it, that node had it.
package election

import (
	"time"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/quorum"
)

const (
	// LookEvery is how often each node is looked at.
	LookEvery = time.Second
	// Stale is how old a look may be that an observer goes by: two looks' distance, so
	// that one may be lost.
	Stale = 2 * time.Second
)

// Kind is what a node had under a name.
type Kind uint8

// The kinds.
const (
	Unseen  Kind = iota // it was not looked at, or said nothing
	Free                // nothing
	Owned               // an owner value of this library's
	Foreign             // anything else
)

// Reading is what one look at one node showed.
type Reading struct {
	Kind  Kind
	Owner string // of what is Owned
}

// sight is what is known of one node.
type sight struct {
	Reading
	first clock.Instant // the reply came then, of the first look of those in a row that showed it
	last  clock.Instant // the latest of them was sent then
	lists [][]int       // by which a hold may be on the node: indexes of our nodes, -1 of another
}

func (s *sight) fresh(now clock.Instant) bool { return s.Kind != Unseen && now.Sub(s.last) <= Stale }

// had tells whether the node had this owner value at that moment for certain. Looks of one
// moment have no order: the reply has to be older.
func (s *sight) had(owner string, at clock.Instant) bool {
	return s.Kind == Owned && s.Owner == owner && s.first < at && at <= s.last
}

// Hint is what a leader publishes of its hold.
type Hint struct {
	Owner string
	Token quorum.Token
}

// View is what was seen of one name.
type View struct {
	list    quorum.List // that the observer goes by: no other node is counted
	nodes   []sight
	hints   []Hint // by node, of each the one with the largest token
	settled Hint   // what a quorum of the nodes hinted
}

// NewView is one that has seen nothing.
func NewView(nodes int) *View {
	return &View{nodes: make([]sight, nodes), hints: make([]Hint, nodes)}
}

// GoBy makes the view count the nodes of this list.
func (v *View) GoBy(list quorum.List) { v.list = list }

// Look takes in a look at node i that was answered. The looks at a node come one after
// another. One that was not answered is none: what was seen before grows old.
func (v *View) Look(i int, r Reading, sent, received clock.Instant, lists ...[]int) {
	s := &v.nodes[i]
	if s.Reading != r {
		*s = sight{Reading: r, first: received}
	}
	s.last, s.lists = sent, lists
}

// Hint takes in what node i passed on. The token is believed that a quorum of the nodes
// passes on: who can forge hints on fewer can make it unknown, and no other.
func (v *View) Hint(i int, h Hint) {
	if h.Token <= v.hints[i].Token {
		return // doubled, or late
	}
	v.hints[i] = h
	same := 0
	for k, other := range v.hints {
		if other == h && v.list.Has(k) {
			same++
		}
	}
	if same >= v.list.Quorum(len(v.nodes)) && h.Token > v.settled.Token {
		v.settled = h
	}
}

// Token is the owner's, as far as it was hinted; 0: it is not known.
func (v *View) Token(owner string) quorum.Token {
	if v.settled.Owner != owner {
		return 0
	}
	return v.settled.Token
}

// State is what a view comes to.
type State uint8

// The states.
const (
	Unknown State = iota // something may be on a quorum, by our list or another
	Young                // an owner value is on a quorum, and it is not certain that it was at one moment
	Split                // nothing can be on a quorum, and no quorum of ours is seen to be free
	Vacant               // a quorum has nothing
	Taken                // a quorum has what is no lock of this library's
	Led                  // a quorum has had one owner value at one moment
)

// Verdict is what a view comes to at a moment.
type Verdict struct {
	State State
	Owner string        // of what is Led or Young
	At    clock.Instant // of what is Vacant, Taken or Led: the latest moment for which it is known
}

// Judge says what the looks come to now. It is never older than Stale.
func (v *View) Judge(now clock.Instant) Verdict {
	q, lists, shown := v.list.Quorum(len(v.nodes)), [][]int{v.list.Indexes(len(v.nodes))}, []Reading{{}}
	for i := range v.nodes {
		s := &v.nodes[i]
		if !s.fresh(now) || !v.list.Has(i) {
			continue
		}
		if lists, shown = append(lists, s.lists...), append(shown, s.Reading); v.count(s.Reading, now) < q {
			continue
		}
		switch s.Kind {
		case Owned:
			if at, ok := v.held(s.Owner, now); ok {
				return Verdict{State: Led, Owner: s.Owner, At: at}
			}
			return Verdict{State: Young, Owner: s.Owner}
		case Free:
			return Verdict{State: Vacant, At: v.since(s.Reading, now)}
		case Foreign:
			return Verdict{State: Taken, At: v.since(s.Reading, now)}
		case Unseen:
		}
	}
	for _, r := range shown {
		if r.Kind != Free && quorum.Open(lists, func(i int) bool { return !v.nodes[i].fresh(now) || v.nodes[i].Reading == r }) {
			return Verdict{State: Unknown}
		}
	}
	return Verdict{State: Split}
}

// count is how many nodes showed this lately.
func (v *View) count(r Reading, now clock.Instant) (n int) {
	for i := range v.nodes {
		if s := &v.nodes[i]; s.fresh(now) && s.Reading == r && v.list.Has(i) {
			n++
		}
	}
	return n
}

// held is the latest moment at which a quorum had this owner value for certain; false:
// there was none lately.
func (v *View) held(owner string, now clock.Instant) (at clock.Instant, ok bool) {
	for i := range v.nodes {
		t, n := v.nodes[i].last, 0
		for k := range v.nodes {
			if v.nodes[k].had(owner, t) && v.list.Has(k) {
				n++
			}
		}
		if n >= v.list.Quorum(len(v.nodes)) && now.Sub(t) <= Stale && (!ok || t > at) {
			at, ok = t, true
		}
	}
	return at, ok
}

// since is the moment for which the oldest look of those speaks that showed this lately.
func (v *View) since(r Reading, now clock.Instant) clock.Instant {
	at := now
	for i := range v.nodes {
		if s := &v.nodes[i]; s.fresh(now) && s.Reading == r && v.list.Has(i) {
			at = min(at, s.last)
		}
	}
	return at
}

// Again are the nodes that are to be looked at once more, at once: those whose look was
// sent before the last node showed the owner value that is on a quorum. One bit each.
func (v *View) Again(now clock.Instant) (nodes uint64) {
	verdict := v.Judge(now)
	if verdict.State != Young {
		return 0
	}
	latest := clock.Instant(0)
	for i := range v.nodes {
		if s := &v.nodes[i]; s.fresh(now) && s.Owner == verdict.Owner {
			latest = max(latest, s.first)
		}
	}
	for i := range v.nodes {
		if s := &v.nodes[i]; s.Owner == verdict.Owner && s.last <= latest {
			nodes |= 1 << i
		}
	}
	return nodes
}
