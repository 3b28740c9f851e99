package revocation

import (
	"slices"
	"time"

	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/quorum"
)

// Reading is what one node shows of a name.
type Reading struct {
	Answered bool     // it says something, and what it says counts: it may vote
	Owners   []string // the owner values that have the name there, alone or beside others
	Foreign  bool     // a value that no client of this library wrote has the name
	Lists    [][]int  // by which a hold may be there: membership.Tracker.ListsOn
}

// Action is what comes next.
type Action uint8

// The actions. The last four end the request, but for Unknown, which may look again.
const (
	LookAgain    Action = iota // after SecondLook: what was seen ends the request, if it is seen twice
	Ask                        // those who may hold, and look again after AskEvery
	Gone                       // none of those who were asked holds any more
	NotHeld                    // nobody holds
	NotRevocable               // somebody holds who can't be asked
	Unknown                    // nobody can say who holds
)

// Step is an action, and the owner values that it is about: those to Ask, or those that
// are NotRevocable; none there: it is held by no client of this library.
type Step struct {
	Do     Action
	Owners []string
}

// Request is one call that asks for the holds of a name. Its zero value has looked at
// nothing.
//
// Those are asked who may hold by the first readings that show anybody: who comes later
// was not meant. Keys move while nodes are read one by one, so what ends the request has
// to be seen twice, by readings of which the second began when the first had ended. Being
// asked harms nobody, and needs one. Who can't be asked may be another one in the second:
// where short holds follow each other, no two readings show the same. So NotRevocable may
// name an attempt that went from node to node while they were read, and never held.
type Request struct {
	List quorum.List // that the client goes by: no other node is counted

	asked  []string // nil: nobody yet
	ending Action   // what the last readings came to, if it would end the request
}

// Relies tells whether what comes next relies on what these nodes do not show. Then a node
// counts only if it voted before it was read, and by a look afterwards votes still: else it
// may have forgotten. That costs time, and those who were asked are asked again without.
func (r *Request) Relies(nodes []Reading) bool {
	next := *r
	step := next.Next(nodes)
	return r.asked == nil || step.Do != Ask
}

// Next is what comes next after these readings, one of each node.
func (r *Request) Next(nodes []Reading) Step {
	c := countOf(nodes, r.List)
	if r.asked != nil {
		var left []string
		for _, owner := range r.asked {
			if c.may(owner) {
				left = append(left, owner)
			}
		}
		if len(left) == 0 {
			return r.twice(Gone, nil)
		}
		return r.ask(left)
	}
	return r.begin(c)
}

// begin is Next before anybody was asked.
func (r *Request) begin(c count) Step {
	var ask, refused []string
	open := c.may(foreign)
	for owner, n := range c.on {
		_, revocable := lua.LockerOf(owner)
		switch {
		case revocable && c.may(owner):
			ask = append(ask, owner)
		case n >= c.quorum:
			refused = append(refused, owner)
		case c.may(owner):
			open = true
		}
	}
	slices.Sort(ask)
	slices.Sort(refused)
	switch {
	case c.answered < c.quorum:
		r.ending = Unknown
		return Step{Do: Unknown}
	case len(refused) > 0 || c.foreign >= c.quorum:
		return r.twice(NotRevocable, refused)
	case len(ask) > 0:
		r.asked = ask
		return r.ask(ask)
	case open:
		r.ending = Unknown
		return Step{Do: Unknown}
	}
	return r.twice(NotHeld, nil)
}

func (r *Request) ask(owners []string) Step {
	r.ending = Ask
	return Step{Ask, owners}
}

// twice ends the request if the readings before came to the same.
func (r *Request) twice(end Action, owners []string) Step {
	if r.ending != end {
		r.ending = end
		return Step{Do: LookAgain}
	}
	return Step{end, owners}
}

// count is what readings come to.
type count struct {
	list                      quorum.List
	nodes                     []Reading
	quorum, answered, foreign int
	on                        map[string]int // nodes, by owner value
}

func countOf(nodes []Reading, list quorum.List) count {
	c := count{list: list, nodes: nodes, quorum: list.Quorum(len(nodes)), on: make(map[string]int)}
	for i, n := range nodes {
		if !n.Answered || !list.Has(i) {
			continue
		}
		c.answered++
		if n.Foreign {
			c.foreign++
		}
		for _, owner := range n.Owners {
			c.on[owner]++
		}
	}
	return c
}

// foreign stands for the owner of a value that no client of this library wrote.
const foreign = ""

// may tells whether an owner may be on a quorum, by our list or by another that a node votes
// by: a node that says nothing may have anything.
func (c *count) may(owner string) bool {
	lists := [][]int{c.list.Indexes(len(c.nodes))}
	for _, n := range c.nodes {
		lists = append(lists, n.Lists...)
	}
	return quorum.Open(lists, func(i int) bool {
		n := &c.nodes[i]
		return !n.Answered || slices.Contains(n.Owners, owner) || owner == foreign && n.Foreign
	})
}

const (
	// AskEvery is how often those are asked again who still may hold: a message that got
	// lost costs so long.
	AskEvery = time.Second
	// firstLook is when the nodes are looked at after the first message. The pauses
	// between looks double from there to AskEvery: who lets go at once is seen at once.
	firstLook = 20 * time.Millisecond
	// SecondLook is how long a request waits before it looks whether it sees the same: what
	// comes and goes must not have it look at the nodes without a pause.
	SecondLook = 20 * time.Millisecond
)

// Pause is how long a request waits before it looks, after so many looks for those who
// were asked.
func Pause(looks int) time.Duration { return min(firstLook<<min(looks, 10), AskEvery) }
