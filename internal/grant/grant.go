package grant

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/quorum"
)

const (
	// Lease is what a release grants (internal/lua, hand.lua). Who takes less, or a
	// fixed lease, announces no owner and is called.
	Lease = 3 * time.Second
	// LastPushes is how long an attempt waits, when all nodes have answered and no
	// quorum has granted, for pushes that are on their way: then it gives all back.
	LastPushes = 5 * time.Millisecond
	// ExtendAfter is when a lock that is held gets its full lease. Most are released
	// before, and pay nothing.
	ExtendAfter = 20 * time.Millisecond
	// callEvery is every how many hand-overs the name is left free for a moment, so
	// that a client that stands in no line can take it.
	callEvery = 32
)

// Push is a grant, as its heir hears it.
type Push struct {
	Epoch   string
	Token   quorum.Token
	Reading int64 // of our own clock in ms, with the sign of life that the node had
	Owner   string
	Name    string
}

const (
	pushPrefix = "redlock:push\n" // no name that can be locked begins so
	pushParts  = 5
)

// ParsePush reads a message of a node's; false: it is a call, for the name that it is.
func ParsePush(message string) (Push, bool) {
	rest, ok := strings.CutPrefix(message, pushPrefix)
	parts := strings.SplitN(rest, "\n", pushParts)
	if !ok || len(parts) < pushParts {
		return Push{}, false
	}
	token, err := strconv.ParseUint(parts[1], 10, 64)
	reading, errToo := strconv.ParseInt(parts[2], 10, 64)
	if err != nil || errToo != nil || token == 0 || quorum.Token(token) > quorum.MaxToken {
		return Push{}, false
	}
	return Push{Epoch: parts[0], Token: quorum.Token(token), Reading: reading, Owner: parts[3], Name: parts[4]}, true
}

// Grants tells whether a push grants the attempt with this owner, by a node whose epoch we
// have as epoch. Any other says no more than a call does: the node is asked, if the name is
// wanted. What it granted ends with its lease. It can't be released on the word of a push,
// since that may be forged, and an owner value does not say whose it is; but for that of an
// attempt which the process remembers as one of its own that is over.
func (p Push) Grants(epoch, owner string) bool { return p.Owner == owner && p.Epoch == epoch }

// Attempt is what a process knows of an attempt, node by node.
type Attempt struct {
	quorum.Asked
	Votes []quorum.Vote   // granted is for good; taken is refused, and in line still
	Until []clock.Instant // until when the node's lease lasts, if it granted
	All   bool            // the time to gather is over: every node is asked
	Late  bool            // and that for the last pushes

	// Of an attempt that a release put in line:
	Unplaced bool   // the replies that say its place are out
	Told     uint64 // nodes that said another place, or granted less, and are asked by its own
}

// NewAttempt is one that knows nothing.
func NewAttempt(nodes int) *Attempt {
	return &Attempt{Votes: make([]quorum.Vote, nodes), Until: make([]clock.Instant, nodes)}
}

// Granted takes in a grant: a push, whose lease counts from the reading that it bears, or
// the reply to an ask or to a release of our own, whose lease counts from its sending. Of
// a node the largest token and the latest lease count: any of its messages may be late.
// With the first one the gathering begins: what was refused before says nothing of now,
// so all other nodes are to be asked, quorum.GatherAfter later or half a round trip.
func (a *Attempt) Granted(i int, t quorum.Token, until clock.Instant) (first bool) {
	if first = a.granted() == 0; first {
		a.Sent, a.All, a.Late = a.Out, false, false
	}
	v := &a.Votes[i]
	if v.Outcome != quorum.Granted {
		*v = quorum.Vote{Outcome: quorum.Granted}
	}
	v.Token = max(v.Token, t)
	a.Until[i] = max(a.Until[i], until)
	return first
}

// Refused takes in what else an ask came to. It never undoes a grant: the push may have
// overtaken it.
func (a *Attempt) Refused(i int, o quorum.Outcome) {
	if v := &a.Votes[i]; v.Outcome != quorum.Granted {
		*v = quorum.Vote{Outcome: o}
	}
}

// granted is the nodes that granted, one bit each.
func (a *Attempt) granted() (nodes uint64) {
	for i, v := range a.Votes {
		if v.Outcome == quorum.Granted {
			nodes |= 1 << i
		}
	}
	return nodes
}

// unlisted is the nodes that are not counted, one bit each.
func (a *Attempt) unlisted() (nodes uint64) {
	for i, v := range a.Votes {
		if v.Outcome == quorum.Unlisted {
			nodes |= 1 << i
		}
	}
	return nodes
}

// Step is what an attempt does next.
type Step uint8

// The steps.
const (
	Rest     Step = iota // nothing is granted, nothing is out: a push, a call or a look is next
	Wait                 // for what is out, or for the timer that sets All or Late
	Ask                  // these nodes
	Hold                 // a quorum has this token
	Raise                // a quorum granted different numbers: raise them to this one
	GiveBack             // roll all nodes back to a fresh owner at the same place
)

// Next is what to do now. Ask is followed by Asked.Ask and another Next.
func (a *Attempt) Next() (s Step, nodes uint64, t quorum.Token) {
	tally, q := quorum.Count(a.Votes), quorum.Needed(a.Votes)
	due := a.Due(a.All && tally.Granted < q, len(a.Votes), a.granted()|a.unlisted())
	if tally.Granted >= q {
		return a.settle(q)
	}
	switch {
	case due != 0:
		return Ask, due, 0
	case a.Out != 0:
		return Wait, 0, 0
	case tally.Granted == 0:
		return Rest, 0, 0
	case !a.All, !a.Late:
		return Wait, 0, 0
	default:
		return GiveBack, 0, 0
	}
}

// settle is Next where a quorum granted. Nodes that have not may make a quorum equal,
// for as long as others are not asked: that costs less than a raise. Nor is anything
// raised before all nodes know the place: to be told of it raises what a node has granted,
// and if a raise fails, nobody who came meanwhile stands before it anywhere.
func (a *Attempt) settle(q int) (s Step, nodes uint64, t quorum.Token) {
	verdict, t := quorum.Settle(a.Votes)
	if verdict == quorum.Settled {
		return Hold, 0, t
	}
	equal, tally := 0, quorum.Count(a.Votes)
	for _, v := range a.Votes {
		if v.Outcome == quorum.Granted {
			equal = max(equal, quorum.SameToken(a.Votes, v.Token))
		}
	}
	if !a.All && equal+tally.Listed-tally.Granted >= q || a.Unplaced || a.Told&a.Out != 0 {
		return Wait, 0, t
	}
	return Raise, 0, t
}

// LeaseUntil is until when a quorum of the nodes with this token lasts: the q-th best. It
// counts what the nodes keep; the drift is still to be taken off.
func (a *Attempt) LeaseUntil(t quorum.Token) (clock.Instant, bool) {
	var ends []clock.Instant
	for i, v := range a.Votes {
		if v.Outcome == quorum.Granted && v.Token == t {
			ends = append(ends, a.Until[i])
		}
	}
	q := quorum.Needed(a.Votes)
	if len(ends) < q {
		return 0, false
	}
	slices.Sort(ends)
	return ends[len(ends)-q], true
}
