package node

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/fault"
	"github.com/quorumkit/redlock/internal/grant"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/quorum"
	"github.com/quorumkit/redlock/internal/round"
)

// Each command is sent once: a second try would be a new command, and the first
// one counts as unknown. go-redis asks the command itself, and one such command
// in a pipeline keeps all of it from being sent again.
type (
	intCall  struct{ *redis.IntCmd }
	intsCall struct{ *redis.IntSliceCmd }
	handCall struct{ *redis.Cmd }
	// TimeCall is the node's clock, by TIME.
	TimeCall struct{ *redis.TimeCmd }
)

// NoRetry keeps go-redis from sending it again, as do the others.
func (intCall) NoRetry() bool { return true }

// NoRetry keeps go-redis from sending it again.
func (intsCall) NoRetry() bool { return true }

// NoRetry keeps go-redis from sending it again.
func (handCall) NoRetry() bool { return true }

// NoRetry keeps go-redis from sending it again.
func (TimeCall) NoRetry() bool { return true }

// infoCall is INFO. It is sent once: a second answer might come from another server.
type infoCall struct{ *redis.StringCmd }

// NoRetry keeps go-redis from sending it again.
func (infoCall) NoRetry() bool { return true }

// AnyCall is a command that is sent once, whose reply may have any shape.
type AnyCall struct{ *redis.Cmd }

// NoRetry keeps go-redis from sending it again.
func (AnyCall) NoRetry() bool { return true }

// A call has up to two forms: a plain script for one lock, and a batch script for many. One
// lock alone is the usual case, and the plain script is the cheaper one for it; under load
// the batch saves more than half of the servers' time (ADR 1). Both must mean the same: a model and
// tests hold them to it (internal/scriptmodel).

// noReply is what a command holds before a reply was read into it. No script
// returns it, so a client that reports success without a reply is found out.
const noReply = math.MinInt64

// again makes a command ready to be sent once more: what is left of its last reply could else
// be taken for the next one.
func (c intCall) again() redis.Cmder {
	c.SetErr(nil)
	c.SetVal(noReply)
	return c
}

// replyAt reads the i-th of the n integers that a command was to bring; what is
// missing reads as noReply. A list of another length is no reply at all: nothing says which
// lock each integer would be about.
func replyAt(cmd redis.Cmder, i, n int) int64 {
	switch c := cmd.(type) {
	case intCall:
		return c.Val()
	case intsCall:
		if got := c.Val(); len(got) == n {
			return got[i]
		}
	}
	return noReply
}

// answered tells whether a reply was read into the command. For a handCall, whose
// reply may be an integer or a list, it takes the client's word.
func answered(cmd redis.Cmder) bool {
	switch c := cmd.(type) {
	case intCall:
		return c.Val() != noReply
	case intsCall:
		return len(c.Val()) > 0
	case TimeCall:
		return !c.Val().IsZero()
	case infoCall:
		return c.Val() != ""
	}
	return true
}

const (
	// AcquiresPerFlush bounds one flush, so that its reply is
	// not long in coming: what waits behind it has the node timeout as well. At
	// 5 us a pair (ADR 1), so many acquires and as many releases take a server some 3 ms; as
	// many asks by a place, 13 ms, and releases that grant, 8 ms. A look at 250 names takes
	// it 0.7 ms, and counts as asksPerPoll. A slow node gets less (fit), down to leastPerFlush,
	// with which each renewal of 250 locks goes by itself.
	AcquiresPerFlush = 8 * lua.AcquireBatchSize
	leastPerFlush    = lua.AcquireBatchSize
	claimsPerAsk     = 4
	asksPerPoll      = lua.AcquireBatchSize
)

// Release is a release that a node still owes: of a hold, of an attempt that failed, or of a
// place in line. Each node gets a copy of its own, since its reply changes it; the claim is
// the same for all.
type Release struct {
	Claim *round.Claim
	Life  int64         // of the tombstone it may have to leave, in ms
	Until clock.Instant // one lease later the key is gone anyway
	Entry round.Leaving // what becomes of the process's entry
	Round *round.Round  // gets the confirmation; nil if nobody waits for it
	Hint  int64         // the least token of a grant to the first in line there; Calls; 0 if the node may not grant the name on
	Next  *round.Round  // with a Hint: the attempt with which the process stands in line from then on; nil if none

	mark     quorum.Mark // its claim's, as of when it was taken
	rejected *rejection  // by the node; nil if it was not refused yet
}

// Calls is the hint of a hand that grants nothing: it calls the first in line. So once in 32
// hand-overs, and while a holder with a foreign value was seen lately: a client that knows
// no line then finds the name free for a moment (grant.Calls, ADR 21).
const Calls = -1

// next is the owner that a hand puts in line; empty if none.
func (r *Release) next() any {
	if r.Next == nil {
		return ""
	}
	return &r.Next.Claim.Owner
}

// alone tells whether the release goes in a call of its own.
func (r *Release) alone() bool { return r.rejected != nil && r.rejected.alone }

// ifDoubtful is arg if the release leaves a tombstone; else nil, which columnOf leaves out.
func (r *Release) ifDoubtful(arg any) any {
	if !r.mark.Doubtful() {
		return nil
	}
	return arg
}

// rejection is what became of a release that a node did not take.
type rejection struct {
	cause   error
	alone   bool // it goes in a call of its own: a call that it shared was refused
	tries   int
	retryAt clock.Instant // no try before
}

// Handover is a lock on its way from one goroutine of the Locker to the next: each
// node that has the old claim's key is asked to pass it to the new claim, in one
// round trip and past the queue. A node that can't is sent the old claim's
// release instead; what the new claim then has is decided as ever, by a quorum.
// So a handover that fails half way leaves an attempt like any other, and no key behind.
type Handover struct {
	Old   Release      // what a node gets that did not pass the lock
	Round *round.Round // of the new claim
}

// group is one script call for many claims of one kind on one node: an extension, or a
// re-seed. answer gets the node's reply, one integer for each claim. The writer calls it
// with no mutex of the node held, so that it may take the Extension's.
type group struct {
	script *lua.Script
	claims []*round.Claim
	ttls   []int64        // ms
	start  clock.Instant  // of its round
	first  int            // of an extension: the claims are its locks from here on
	lists  [2]quorum.List // by which the node voted that answers
	answer func(g *group, node int, o quorum.Outcome, replies []int64, cause error)
}

// reseeds tells whether the call puts its claims back, and does not only lengthen them.
func (g *group) reseeds() bool {
	return g.script == lua.ReseedScript || g.script == lua.ReseedSharedScript
}

// forget takes out the claims for which gone is true. Only a re-seed's: the claims of an
// extension share their memory with its other nodes' groups.
func (g *group) forget(gone func(*round.Claim) bool) {
	k := 0
	for i, c := range g.claims {
		if !gone(c) {
			g.claims[k], g.ttls[k] = c, g.ttls[i]
			k++
		}
	}
	g.claims, g.ttls = g.claims[:k], g.ttls[:k]
}

// singly are groups of one claim each, which share the memory of this one's lists. first says
// which lock of the extension each is.
func (g *group) singly() []*group {
	groups := make([]*group, len(g.claims))
	for k := range g.claims {
		groups[k] = &group{
			script: g.script, claims: g.claims[k : k+1 : k+1], ttls: g.ttls[k : k+1 : k+1],
			start: g.start, first: g.first + k, answer: g.answer,
		}
	}
	return groups
}

// push is a grant that this node told of, and the round of the attempt that it grants. The
// queue has found that round by the owner value (Queue.push).
type push struct {
	grant.Push
	round *round.Round
}

// Poll is one call of look.lua: a sign of life, the names that are looked at, and
// places in line that the node is told of.
type Poll interface {
	// Wanted are the names that are still to be looked at, and the process's places
	// there (with a minus sign: in the line of sharers), with the claims that take a grant
	// there by push (nil if none). It is asked when the call is sent.
	Wanted() (keys []string, positions []int64, claims []*round.Claim)
	// Answer takes in what the node said, a number for each name behind one for the
	// sign of life, and whether the node votes; or why it said nothing.
	Answer(node int, votes bool, replies []int64, err error)
	// Size is of how many names the poll is, and Singly the same in polls of one.
	Size() int
	Singly() []Poll
}

// batch is one flush: what was taken, and the commands that carry it. The
// writer has one flush out at a time and uses the same batch again. Commands hold pointers
// into it, and into its claims: nothing of it may change before the replies are there.
type batch struct {
	epoch   string         // to send with every vote
	longest time.Duration  // the longest lease that the node votes for; 0: any
	lists   [2]quorum.List // by which the node votes
	process string         // the id under which the Locker waits
	at      clock.Instant  // when it is sent; the lease of a claim that takes pushes counts from here
	reading int64          // the same in ms: the sign of life

	// releases are ordered (part): first those of slots, then of shared holds, then those that
	// call a waiter, then those that grant. The three lists below are parts of it.
	releases   []Release
	slotters   []Release // the releases of slots
	sharers    []Release // the releases of shared holds
	hands      []Release // the releases that grant
	pushes     []push
	groups     []*group
	raises     []*round.Round
	passes     []*Handover
	acquires   []*round.Round
	bids       []*round.Round // acquires by a place in line
	shares     []*round.Round // acquires of shared holds
	slots      []*round.Round // acquires of slots
	late       []*round.Round // asks that do not go (over, or no vote): a look tells the node of their places
	probes     []*round.Round
	polls      []Poll
	sample     bool // somebody wants the node's clock read
	calls      []call
	cmds       []redis.Cmder   // of the calls
	sent       clock.Instant   // just before it was sent: the reading of the clock counts from here
	unread     error           // why its clock was not read behind what it granted; nil if it was
	unreleased map[string]bool // the names whose releases failed in it
	silent     error           // why the node does not vote in this batch; nil if it does
	doubt      error           // why nothing counts that it grants in this batch; nil if it does
	proven     bool            // a look behind all else said that it was the one verified
	singly     int             // acquires at the head that go one by one
	less       int             // by how much a flush takes less than AcquiresPerFlush
	trip       time.Duration   // that of a flush with little in it
	arena      []any           // the batches' arguments, one after another
	one        reusable
}

// call is one command of a batch, and what its reply concerns: one of the rest, by which
// handOut tells the kinds apart. A call with none of them is TIME. Its lists are parts of the
// batch's own, and allocate nothing.
type call struct {
	cmd      redis.Cmder
	releases []Release
	acquires []*round.Round
	bids     bool // the acquires are bids
	shares   bool // the acquires are of shared holds
	slot     bool // the acquire is of a slot
	raise    *round.Round
	group    *group
	pass     *Handover
	poll     Poll
	claims   []*round.Claim // that the poll puts in line; nil if none at that name
	identity bool           // it is the look at the node's identity
}

// reusable are the plain calls of one lock each. A writer has one of either out
// at a time and uses them again: they are most of what an idle service sends.
// Arguments are pointers, which go-redis writes without a copy: each call changes them, and
// only once the reply to the call before was handed out.
type reusable struct {
	acquire, release, part             intCall
	hand                               handCall
	share, pass                        intsCall
	time                               TimeCall
	identity                           infoCall
	acquireArgs, releaseArgs, passArgs []any
	handArgs, shareArgs, partArgs      []any
}

// reset makes the batch ready for the next flush. epoch, silent and process are set anew, or stay, as do less and trip.
func (b *batch) reset() {
	b.unread, b.singly = nil, 0
	b.slotters, b.sharers, b.hands = nil, nil, nil // parts of releases
	for _, rounds := range []*[]*round.Round{&b.raises, &b.acquires, &b.bids, &b.shares, &b.slots, &b.late, &b.probes} {
		empty(rounds)
	}
	empty(&b.releases)
	empty(&b.pushes)
	empty(&b.groups)
	empty(&b.passes)
	empty(&b.polls)
	empty(&b.calls)
	empty(&b.cmds)
	empty(&b.arena)
}

// bounds is why the node does not vote for a lease of so many ms; nil: it does.
func (b *batch) bounds(ttl int64) error {
	if lease := time.Duration(ttl) * time.Millisecond; b.longest > 0 && lease > b.longest {
		return fmt.Errorf("%w: a lease of %v is above the cluster's MaxTTL, %v: take less (WithTTL), or raise it: Cluster.Change (redlock nodes change --max-ttl %v)", fault.ErrMisconfigured, lease, b.longest, lease)
	}
	return nil
}

// votesBy returns why the node does not vote by that list; nil: it does.
func (b *batch) votesBy(list quorum.List) error {
	if list == b.lists[0] || list == b.lists[1] {
		return nil
	}
	return errRelisted
}

// most bounds the releases of a flush, and its asks.
func (b *batch) most() int { return AcquiresPerFlush - b.less }

// fit takes in how long a flush took. A node, or a client, that is short of processor time takes
// many times as long for it: then the next is smaller, so that a renewal behind it is not late.
// One that failed before its time tells nothing.
func (b *batch) fit(took time.Duration, err error, timeout time.Duration) {
	if err != nil && took < b.trip {
		return
	}
	if b.trip == 0 {
		b.trip = took
	}
	if b.trip = min(b.trip+took/256, took); took-b.trip > timeout/8 {
		b.less = AcquiresPerFlush - max(b.most()/2, leastPerFlush)
	} else if took-b.trip < timeout/16 {
		b.less = max(AcquiresPerFlush-2*b.most(), 0)
	}
}

// mayHand tells whether a release may grant: where the node votes, and nothing of the
// claim may still come. An entry that is the process's id alone goes by a release only:
// of a hand that comes late nobody could tell whether it is a newer one. So does one that
// may stand beside the key that a renewal put back: a hand takes no entry out there.
func (b *batch) mayHand(r *Release) bool {
	beside := r.mark&quorum.PutBack != 0 && r.Entry == round.LeaveQueue
	return r.Hint != 0 && b.silent == nil && b.bounds(grant.Lease.Milliseconds()) == nil && !r.mark.Doubtful() && !beside && r.rejected == nil && (r.Entry == round.LeaveNothing || *r.Claim.QueueOwner() != "")
}

// part puts the releases of slots and of shared holds first, and those last that may grant.
// A stable sort: two releases of one name, such as of a claim and of the one that stands
// behind it, keep their order. They nearly always come sorted, and cost no sort then.
func (b *batch) part() {
	var of [4]int
	sorted := true
	for i := range b.releases {
		order := b.order(&b.releases[i])
		of[order]++
		sorted = sorted && (i == 0 || b.order(&b.releases[i-1]) <= order)
	}
	if !sorted {
		slices.SortStableFunc(b.releases, func(x, y Release) int { return b.order(&x) - b.order(&y) })
	}
	b.slotters, b.sharers, b.hands = b.releases[:of[0]], b.releases[of[0]:of[0]+of[1]], b.releases[of[0]+of[1]+of[2]:]
}

// order is where in a batch a release goes: one of a slot is 0, one of a shared hold 1, one
// that calls a waiter 2, and one that may grant 3.
func (b *batch) order(r *Release) int {
	switch r.Claim.Kind().(type) {
	case *round.Slot:
		return 0
	case round.Shared:
		return 1
	default:
		return 2 + flag(b.mayHand(r))
	}
}

// grants tells whether the batch asks for grants, each of which counts only with a
// reading of the node's clock that was taken behind it on the same connection: else a
// step since the last sample could have ended the lease of a holder.
func (b *batch) grants() bool {
	return len(b.acquires)+len(b.bids)+len(b.shares)+len(b.slots)+len(b.passes) > 0
}

// begin starts the arguments of a call in the arena, and returns where. The arena is one slice
// for all calls of a batch, and is used again: arguments by the thousand allocate nothing.
func (b *batch) begin(s *lua.Script, keys int) int {
	start := len(b.arena)
	b.arena = append(b.arena, "EVALSHA", &s.Hash, keys)
	return start
}

// column lays out one argument of each round. The batch scripts take their arguments by
// kind, not by lock, so that Lua unpacks each kind in one call.
func (b *batch) column(rounds []*round.Round, arg func(*round.Round) any) {
	for _, r := range rounds {
		b.arena = append(b.arena, arg(r))
	}
}

// columnOf lays out one argument of each release that has it.
func (b *batch) columnOf(releases []Release, arg func(*Release) any) {
	for i := range releases {
		if a := arg(&releases[i]); a != nil {
			b.arena = append(b.arena, a)
		}
	}
}

// args are what was laid out since start. Their capacity ends there: an append by go-redis
// must not run into the next call. Should the arena grow, the earlier calls keep the old one.
func (b *batch) args(start int) []any { return b.arena[start:len(b.arena):len(b.arena)] }

// flag is yes as the scripts take it.
func flag(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// empty empties a list, and lets go of what its elements point to: the memory stays for the
// next batch, and must keep no attempt alive that is over.
func empty[T any](list *[]T) {
	clear(*list)
	*list = (*list)[:0]
}

// together are the first of these releases that go in one call, most at a time. One that
// was refused in a call with others goes alone: should it be refused again, that call
// delays no other name.
func together(releases []Release, most int) []Release {
	k := 1
	for k < min(len(releases), most) && !releases[0].alone() && !releases[k].alone() {
		k++
	}
	return releases[:k]
}
