package quorum_test

import (
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/quorum"
	"github.com/quorumkit/redlock/internal/scriptmodel"
	"github.com/quorumkit/redlock/internal/search"
)

// Sizes of the largest instance; smaller ones leave the rest zero.
const (
	mostSharedNodes = 5
	mostHolds       = 5
	mostRaiseRounds = 3
)

// noon is always now at a node: a tick brings all ends nearer, so that states that differ
// in their time only are one. before is an end that has passed.
const (
	before scriptmodel.Tick = 1
	noon   scriptmodel.Tick = 2
)

// sharedSystem is one name that shared and exclusive holds want, over the scripts' model
// and the library's rules (Settle, NeedsRaise, Verdict, Confirm), with messages that are
// late, lost, doubled and out of order. A lost message is one that never arrives.
//
// Without time what a node has may go at any moment, which is more than leases, a
// release or a loss of memory do: what is looked for are tokens. A key that goes does so
// when it is in the way of something that arrives: before, it only lets its owner do what a
// message under way need not do. A client that gives up is one that decides nothing more.
//
// With time, all clocks run alike, in ticks: a lease of one is until the end of the next. What
// is looked for then is exclusion, each node's ends, and litter as well. With lean, numbers
// are left out: one who has the grants of a quorum holds, which is more than the rules of
// tokens allow; and of an attempt that is over only asks, re-seeds and releases arrive.
//
// In all:
//   - An attempt begins with its first grant: one that begins earlier is valid for less
//     long, and knows fewer tokens that were issued before.
//   - A message that changes nothing, and tells its sender nothing that lets it do more,
//     need not arrive.
//   - A client raises at all nodes that have granted no more than it raises to: that it had
//     not heard one of them is as good as a raise that is lost.
//   - The number of a repeated raise is any number above the last: the clock may say any.
type sharedSystem struct {
	nodes  int
	holds  []bool             // of each attempt, whether it is shared
	lives  []scriptmodel.Tick // their leases, in ticks; nil: one each
	copies uint8              // how often each message may be executed
	most   scriptmodel.Number
	// hinted: an exclusive's acquire may carry any number up to most, to each node another.
	hinted  bool
	raises  uint8 // how many rounds an attempt may raise in
	moves   uint8 // how often another name of the stripe counts up, at any node
	reseeds bool  // without time: each hold may be put back, once a node
	time    bool
	lean    bool
	extends uint8 // how often a hold is extended, with time
	forgets uint8 // how often a node loses its memory, with time
	foreign bool  // one node has another program's sorted set under the name

	// alike: nothing goes, and the sharers that come must be given one number everywhere.
	alike bool
	// ahead: no raise is lost, and a repeated one goes beyond all counters, as clocks do:
	// then a token must come of it.
	ahead bool

	mistake sharedMistake
	flaw    scriptmodel.Flaw // of the shared scripts
	blind   bool             // nodes' ends are not looked at
}

// sharedMistake is a client that breaks a rule, for the positive controls.
type sharedMistake uint8

const (
	takesLargest   sharedMistake = 1 + iota // of a quorum's different numbers
	takesSmallest                           // of these
	lapseExtends                            // a confirmation counts after the validity ended
	rejoinsEarly                            // a node that forgot votes at once
	raisesToGrants                          // a repeated raise goes to the largest number that was shown
)

// holdLink is one attempt at one node: what is under way, and what came back.
type holdLink struct {
	asks, extends, reseeds, releases uint8                  // copies under way
	raises                           [mostRaiseRounds]uint8 // by round

	heard     [2]scriptmodel.Number // what replies in this round say
	carried   scriptmodel.Number    // the grant that counts in the raise round as it is
	raised    bool                  // the raise rounds go to this node
	confirmed bool

	due  scriptmodel.Tick // the end that the node has promised
	gone scriptmodel.Tick // until when its release keeps it away
}

// hold is one attempt: its owner value is its index and one.
type hold struct {
	phase   uint8 // as an acquisition's
	rounds  uint8 // of raises
	targets [mostRaiseRounds]scriptmodel.Number
	token   scriptmodel.Number // completed with it; 0: not (yet)
	above   scriptmodel.Number // the greatest that was issued before, and that it must exceed
	least   scriptmodel.Number // the greatest shared one, which a shared one may equal
	left    uint8              // how many ticks it is valid, this one included
	next    uint8              // and would be, by the extension that is under way
	renewed uint8              // extensions sent
	uneven  bool               // it was given different numbers, where all look alike
}

// shareColumn is one node with all that concerns it.
type shareColumn struct {
	node  scriptmodel.Node
	set   scriptmodel.Sharers
	links [mostHolds]holdLink
	waits uint8 // how many ticks it abstains
}

type sharedState struct {
	columns [mostSharedNodes]shareColumn
	holds   [mostHolds]hold
	moved   uint8
	forgot  uint8
}

// theirSet is another program's, which has its own idea of scores.
var theirSet = scriptmodel.Sharers{Number: 1, Ends: [scriptmodel.Owners]scriptmodel.Tick{10: before, 11: 40}}

func (sys *sharedSystem) Init() (s sharedState) {
	for i := range sys.nodes {
		s.columns[i].node.Epoch = epoch
	}
	if sys.foreign {
		s.columns[0].node.Keys[0] = scriptmodel.Key{Owner: scriptmodel.Alien, Until: scriptmodel.Forever}
		s.columns[0].set = theirSet
	}
	return s
}

var seedOfShareColumns = maphash.MakeSeed()

// Canon: nodes are alike, and so are attempts of a kind.
func (sys *sharedSystem) Canon(s sharedState) sharedState {
	best, least := sys.sorted(s)
	for j := range sys.holds {
		for i := range j {
			if sys.holds[i] != sys.holds[j] || sys.lives != nil || s.holds[j].phase == idle {
				continue
			}
			if other, h := sys.sorted(swapped(s, i, j)); h < least {
				best, least = other, h
			}
		}
	}
	return best
}

// swapped is the state with two attempts under each other's names.
func swapped(s sharedState, i, j int) sharedState {
	s.holds[i], s.holds[j] = s.holds[j], s.holds[i]
	for n := range s.columns {
		c := &s.columns[n]
		c.links[i], c.links[j] = c.links[j], c.links[i]
		c.set.Ends[i], c.set.Ends[j] = c.set.Ends[j], c.set.Ends[i]
		c.node.Dead[i], c.node.Dead[j] = c.node.Dead[j], c.node.Dead[i]
		k := &c.node.Keys[0]
		if first, second := owner(uint8(i)), owner(uint8(j)); k.Owner == first {
			k.Owner = second
		} else if k.Owner == second {
			k.Owner = first
		}
	}
	return s
}

// sorted is the state with its nodes in an order of their own, and a hash of it.
func (sys *sharedSystem) sorted(s sharedState) (sharedState, uint64) {
	var order [mostSharedNodes]uint64
	for i := range sys.nodes {
		order[i] = maphash.Comparable(seedOfShareColumns, s.columns[i])
	}
	for i := 1; i < sys.nodes; i++ {
		for j := i; j > 0 && order[j] < order[j-1]; j-- {
			order[j], order[j-1] = order[j-1], order[j]
			s.columns[j], s.columns[j-1] = s.columns[j-1], s.columns[j]
		}
	}
	return s, maphash.Comparable(seedOfShareColumns, s)
}

var (
	errAlike    = errors.New("a shared and an exclusive hold, or two exclusive ones, have the same token")
	errNotAbove = errors.New("a token is not above one that was issued before it was asked for")
	errFell     = errors.New("a shared token is below a shared one that was issued before it was asked for")
	errBeside   = errors.New("an exclusive hold is valid beside another")
	errStale    = errors.New("a valid hold's token is below one that excludes it")
	errKeyEnd   = errors.New("a key does not end with the last of its members")
	errOwnEnd   = errors.New("a member does not end when its own lease does")
	errLitter   = errors.New("a node has what was released there, within its lease")
	errUneven   = errors.New("sharers that came together were given different numbers")
	errNoToken  = errors.New("a sharer that all nodes answered is left without a token")
	errTheirs   = errors.New("another program's set has changed")
)

func (sys *sharedSystem) Check(s sharedState) error {
	for i := range sys.holds {
		a := &s.holds[i]
		switch {
		case a.uneven:
			return errUneven
		case sys.ahead && a.phase == raising && a.rounds == sys.raises && sys.leftOut(&s, uint8(i)):
			return errNoToken
		case a.token == 0:
			continue
		case sys.lean:
		case a.token <= a.above:
			return errNotAbove
		case a.token < a.least:
			return errFell
		}
		for j := range i {
			if b := &s.holds[j]; b.token != 0 && (!sys.holds[i] || !sys.holds[j]) {
				if err := sys.checkPair(a, b); err != nil {
					return err
				}
			}
		}
	}
	for n := range sys.nodes {
		if err := sys.checkNode(&s.columns[n]); err != nil {
			return err
		}
	}
	return nil
}

// leftOut tells whether the attempt has heard of all nodes that it raises at, and has no
// token by that.
func (sys *sharedSystem) leftOut(s *sharedState, a uint8) bool {
	votes := make([]quorum.Vote, sys.nodes)
	for i := range votes {
		l := &s.columns[i].links[a]
		votes[i] = quorum.Vote{Outcome: quorum.Granted, Token: quorum.Token(max(l.carried, l.heard[0], l.heard[1]))}
		switch {
		case !l.raised:
			votes[i] = quorum.Vote{Outcome: quorum.Failed}
		case votes[i].Token == 0:
			return false
		}
	}
	verdict, _ := quorum.Settle(votes)
	return verdict != quorum.Settled
}

// checkPair checks two issued holds that exclude each other.
func (sys *sharedSystem) checkPair(a, b *hold) error {
	switch {
	case a.valid() && b.valid():
		return errBeside
	case sys.lean:
		return nil
	case a.token == b.token:
		return errAlike
	case a.valid() && a.token < b.token, b.valid() && b.token < a.token:
		return errStale
	default:
		return nil
	}
}

// checkNode checks one node's ends, by what its replies promised.
func (sys *sharedSystem) checkNode(c *shareColumn) error {
	k := c.node.Keys[0]
	switch {
	case k.Owner == scriptmodel.Alien:
		if c.set != theirSet {
			return errTheirs
		}
		return nil
	case sys.foreign && c.set == theirSet:
		return errTheirs // the set of nobody's
	case !sys.time:
		return nil
	}
	latest := scriptmodel.Tick(0)
	for a := range sys.holds {
		l := &c.links[a]
		there := k.Owner == owner(uint8(a)) || k.Owner == scriptmodel.Shared && c.set.Has(noon, owner(uint8(a)))
		if there && l.gone != 0 {
			return errLitter
		}
		if k.Owner == scriptmodel.Shared {
			latest = max(latest, l.due)
			if end := c.set.Ends[a]; !sys.blind && end != l.due && (end >= noon || l.due != 0) {
				return errOwnEnd
			}
		}
	}
	if k.Owner == scriptmodel.Shared && !sys.blind && k.Until != latest {
		return errKeyEnd
	}
	return nil
}

// life is the lease of an attempt, and stays the end of one that begins now.
func (sys *sharedSystem) life(a uint8) scriptmodel.Tick {
	if sys.lives == nil {
		return 1
	}
	return sys.lives[a]
}

func (sys *sharedSystem) stays(a uint8) scriptmodel.Tick { return noon + sys.life(a) }

// longest is the longest lease.
func (sys *sharedSystem) longest() scriptmodel.Tick {
	if sys.lives == nil {
		return 1
	}
	return slices.Max(sys.lives)
}

// valid asks the library whether the hold is, by its own clock.
func (a *hold) valid() bool { return a.phase == held && a.validity().Holds(0) }

func (a *hold) validity() clock.Validity { return validUntil(clock.Instant(a.left)) }

// The kinds of steps; A is the attempt, B the node.
const (
	shareAsk        uint8 = iota // C: the hint; D: 1: what is in the way goes first
	shareRaise                   // C: the round
	shareExtend                  // an extension arrives
	shareReseed                  // a re-seed arrives; D as above
	shareRelease                 // a release arrives
	shareSettle                  // C: the token
	shareRaiseRound              // C: the target
	shareGiveUp                  // and roll back, or release
	shareRenew                   // send an extension
	shareConfirm                 // a quorum confirmed
	shareTick                    // all clocks
	shareMove                    // another name of the stripe counts up at the node
	shareForget                  // the node loses its memory
	shareRejoin                  // and votes again
)

// Weight makes clients get somewhere, and faults rare beside what they do.
func (sys *sharedSystem) Weight(st search.Step) int {
	switch st.Kind {
	case shareAsk, shareRaise, shareExtend:
		return 12
	case shareSettle, shareConfirm, shareRenew, shareRejoin:
		return 8
	case shareReseed, shareRaiseRound, shareTick, shareRelease:
		return 4
	default:
		return 1
	}
}

func (sys *sharedSystem) Describe(st search.Step) string {
	who, node, first := string('A'+rune(st.A)), st.B+1, ""
	if st.D != 0 {
		first = ", after what was there has gone"
	}
	switch st.Kind {
	case shareAsk:
		return fmt.Sprintf("%s's ask (hint %d) arrives at node %d%s", who, st.C, node, first)
	case shareRaise:
		return fmt.Sprintf("%s's raise of round %d arrives at node %d", who, st.C+1, node)
	case shareExtend, shareReseed, shareRelease:
		return fmt.Sprintf("%s's %s arrives at node %d%s", who, [...]string{"extension", "re-seed", "release"}[st.Kind-shareExtend], node, first)
	case shareSettle:
		return fmt.Sprintf("%s holds the name with token %d", who, st.C)
	case shareRaiseRound:
		return fmt.Sprintf("%s raises to %d", who, st.C)
	case shareGiveUp:
		return who + " gives up or releases: to all nodes"
	case shareRenew:
		return who + " extends: to all nodes"
	case shareConfirm:
		return who + " has a quorum of confirmations: re-seeds to the others"
	case shareTick:
		return "a tick passes"
	case shareMove:
		return fmt.Sprintf("another name counts up at node %d", node)
	case shareForget:
		return fmt.Sprintf("node %d forgets", node)
	default:
		return fmt.Sprintf("node %d votes again", node)
	}
}

// String shows the nodes: their number, and who has the name until when; and the tokens.
func (s sharedState) String() string {
	var b strings.Builder
	for i := range s.columns {
		c := &s.columns[i]
		fmt.Fprintf(&b, "node %d: counter %d", i+1, c.node.Number(0))
		switch k := c.node.Keys[0]; {
		case k.Owner == scriptmodel.Shared:
			fmt.Fprintf(&b, ", shared with %d until %d:", c.set.Number, k.Until)
			for o, end := range c.set.Ends {
				if end != 0 {
					fmt.Fprintf(&b, " %c until %d", 'A'+rune(o), end)
				}
			}
		case k.Owner != scriptmodel.Nobody && k.Owner != scriptmodel.Alien:
			fmt.Fprintf(&b, ", %c's until %d", 'A'+rune(k.Owner-1), k.Until)
		}
		b.WriteString("; ")
	}
	for i, a := range s.holds {
		if a.token != 0 {
			fmt.Fprintf(&b, "%c: token %d; ", 'A'+rune(i), a.token)
		}
	}
	return strings.TrimSuffix(b.String(), "; ")
}
