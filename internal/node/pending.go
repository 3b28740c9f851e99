package node

import (
	"errors"
	"slices"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/grant"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/quorum"
	"github.com/quorumkit/redlock/internal/round"
)

// queueBound is how many commands may wait for one node. A node that is slower than
// its callers refuses the rest at once: no vote is better than a late one. Rollbacks are
// never refused; their lease bounds them. It is eight flushes of acquires.
const queueBound = 4096

// pending is what waits for one node. The node's mu guards it, and the node's marks of every
// claim: each caller of its methods holds mu. They are the only code that moves work from
// the queue into a batch, so that each claim is marked before it is sent.
type pending struct {
	node int // its index

	releases []Release
	groups   []*group
	raises   []*round.Round
	passes   []*Handover
	acquires []*round.Round
	probes   []*round.Round
	polls    []Poll
	pushes   []push
	sample   bool // its clock is to be read
	singly   int  // acquires at the head that go one by one

	refused []Release        // releases that the node did not take, and that are not due yet
	retryAt clock.Instant    // when the first of them is
	held    map[string]error // their names, and what the node said
}

// len is how many commands wait, for queueBound. Releases do not count: they are never refused.
func (q *pending) len() int {
	sample := 0
	if q.sample {
		sample = 1
	}
	return sample + len(q.groups) + len(q.raises) + len(q.passes) + len(q.acquires) + len(q.probes) + len(q.polls) + len(q.pushes)
}

// hasReleases tells whether releases or hand-overs are queued.
func (q *pending) hasReleases() bool { return len(q.releases)+len(q.refused)+len(q.passes) > 0 }

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

	doubtful bool       // as of when it was taken: it must leave a tombstone
	rejected *rejection // by the node; nil if it was not refused yet
}

// Calls is the hint of a hand that grants nothing: it calls the first in line. So once in 32
// hand-overs, and while a holder with a foreign value was seen lately: a client that knows
// no line then finds the name free for a moment (grant.Calls, ADR 21).
const Calls = -1

// clear tells whether there is nothing on the node to release: nothing was sent, or it is
// known not to be there, and no entry of the process hangs on it. Then nothing needs to be
// sent, which makes the rollback of an attempt that failed early cost nothing.
func (q *pending) clear(r *Release) bool {
	return r.Claim.Marks[q.node] == quorum.Absent && r.Entry != round.LeaveQueue && !r.Claim.AcceptsPush() && r.Next == nil
}

// take moves what may be sent now from the queue into the batch. From here on a
// claim's mark says that its acquire may have happened. Rollbacks go first, and
// acquires only behind the last of them: a pending rollback of the same name
// must not make our own earlier command look like contention. An acquire whose
// round was won without it is sent all the same: a lock that rests on a bare
// quorum is lost with the first node of it that fails. An ask whose round is over is
// not sent: the node is told of the place by a look, whether it votes or not.
func (q *pending) take(b *batch, now clock.Instant) {
	q.retake(now)
	q.takeReleases(b, now)
	q.takePasses(b)
	q.takeGroups(b)
	move(&b.polls, &q.polls)
	move(&b.pushes, &q.pushes)
	move(&b.probes, &q.probes)
	move(&b.raises, &q.raises)
	b.sample, q.sample = q.sample || len(b.probes) > 0, false // TIME answers a probe
	// Releases that did not fit go with the next flush, and the acquires behind them.
	if len(q.releases) == 0 {
		q.takeAcquires(b)
	}
	// Whether a release needs a tombstone is decided last: what was taken before it may have
	// changed its mark.
	for i, r := range b.releases {
		b.releases[i].doubtful = r.Claim.Marks[q.node].Doubtful()
	}
	b.part()
	q.place(b)
}

// takeReleases takes the rollbacks that are still worth sending. A claim that stands behind
// another of its name (Behind) waits while that one's release is refused: a pass that comes
// late may turn the old claim's key into its own, until that key is gone.
func (q *pending) takeReleases(b *batch, now clock.Instant) {
	taken := 0
	for _, r := range q.releases {
		if len(b.releases) == acquiresPerFlush {
			break
		}
		taken++
		switch {
		case q.clear(&r):
			if r.Round != nil {
				r.Round.Deliver(q.node, quorum.Vote{Outcome: quorum.Granted}, nil)
			}
			continue
		case r.Until <= now: // its key has ended by itself
			q.unplaced(&r)
			continue
		case q.held[r.Claim.Key] != nil && r.Claim.Marks[q.node]&quorum.Behind != 0:
			cause := q.held[r.Claim.Key] // of the release before it
			if r.Round != nil {
				r.Round.Note(q.node, cause)
			}
			q.refuse(r, cause, now)
			continue
		}
		b.releases = append(b.releases, r)
	}
	q.releases = drop(q.releases, taken)
}

// takeGroups takes the extensions, and of the re-seeds what is still wanted: a
// claim that is over must not be put back behind its release. Over is set before a release
// is queued: if it is not set here, that release goes behind this batch, and finds the mark
// that is made here. An extension marks nothing: it lengthens what is there, and creates nothing.
func (q *pending) takeGroups(b *batch) {
	// Counted in claims, not in calls: an extension of a whole Locker is many calls of 250.
	taken, claims := 0, 0
	for ; taken < len(q.groups) && claims < groupsPerFlush*lua.ExtendBatchSize; taken++ {
		claims += len(q.groups[taken].claims)
	}
	for _, g := range q.groups[:taken] {
		if g.reseeds() {
			g.forget(func(c *round.Claim) bool { return c.Abandoned.Load() })
			for _, c := range g.claims {
				c.Marks[q.node] = c.Marks[q.node].Again()
			}
		}
		if len(g.claims) > 0 {
			b.groups = append(b.groups, g)
		}
	}
	q.groups = drop(q.groups, taken)
}

// takeAcquires takes acquires and asks, each for the script of its kind. One whose claim is
// over meanwhile does not go, nor one of a name whose release was refused: it would meet our
// own key. If the node does not vote they are taken unmarked: abstain answers them.
func (q *pending) takeAcquires(b *batch) {
	taken, votes := 0, b.silent == nil
	b.singly, q.singly = q.singly, 0 // those that were refused together stand at the head
	// One pass keeps their order: an earlier caller goes first, no matter the kind of its hold.
	for _, r := range q.acquires {
		if len(b.acquires)+len(b.bids)+len(b.shares)+len(b.slots)+len(b.late) == acquiresPerFlush {
			break
		}
		taken++
		if r.Claim.Abandoned.Load() {
			if r.HasPlace() {
				b.late = append(b.late, r)
			}
			continue
		}
		if err := q.heldBack(r.Claim.Key); err != nil && votes {
			r.Deliver(q.node, quorum.Vote{Outcome: quorum.Failed}, err)
			continue
		}
		if votes {
			r.Claim.Marks[q.node] = r.Claim.Marks[q.node].Again()
		}
		switch r.Claim.Kind().(type) {
		case round.Shared:
			b.shares = append(b.shares, r)
		case *round.Slot:
			b.slots = append(b.slots, r)
		default:
			if r.Asks != nil {
				b.bids = append(b.bids, r)
			} else {
				b.acquires = append(b.acquires, r)
			}
		}
	}
	q.acquires = drop(q.acquires, taken)
}

// move appends a queue to what is taken, and empties it.
func move[T any](to, from *[]T) {
	*to = append(*to, *from...)
	*from = drop(*from, len(*from))
}

// drop removes the first k of a queue and lets go of what they point to. The rest moves to the
// front, so that a queue which is never empty does not grow for ever.
func drop[T any](q []T, k int) []T {
	rest := copy(q, q[k:])
	clear(q[rest:])
	return q[:rest]
}

// requeue puts acquires that did not happen back at the head. The mark of each says so: but
// an earlier command of the same claim may still come, and stays marked.
func (q *pending) requeue(rounds []*round.Round) {
	for _, r := range rounds {
		r.Claim.Marks[q.node] = r.Claim.Marks[q.node].After(quorum.Failed)
	}
	q.acquires = append(slices.Clone(rounds), q.acquires...)
}

// confirm notes of releases that were answered that nothing of their claims is there,
// and returns them. One that stands behind a release that failed goes again: the old
// claim's key may still be there, and a pass that is late may turn it into this one's.
func (q *pending) confirm(releases []Release, unreleased map[string]bool) []Release {
	confirmed := releases[:0]
	for _, r := range releases {
		if r.Claim.Marks[q.node]&quorum.Behind != 0 && unreleased[r.Claim.Key] {
			q.releases = append(q.releases, r)
			continue
		}
		r.Claim.Marks[q.node] = quorum.Absent
		confirmed = append(confirmed, r)
	}
	return confirmed
}

// empty takes all out but the rollbacks that are still worth sending: those stay through an
// outage, until the node takes them or their leases are over.
func (q *pending) empty(now clock.Instant) pending {
	all := *q
	past := func(r Release) bool { return r.Until <= now }
	*q = pending{
		node: q.node, releases: slices.DeleteFunc(all.releases, past),
		refused: slices.DeleteFunc(all.refused, past), retryAt: all.retryAt, held: all.held,
	}
	return all
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

// SubmitPoll queues a poll, or fails it at once.
func (n *Node) SubmitPoll(k Poll) {
	err := n.enqueue(n.Clock.Early(), func(q *pending) { q.polls = append(q.polls, k) })
	if err != nil {
		k.Answer(n.Index, false, nil, err)
	}
}

// settlePoll hands out the reply to a poll. What a node in doubt says is passed on as that of
// a node which does not vote: a name that is free there is no news.
func (n *writer) settlePoll(c *call, err error) {
	if err != nil {
		n.doubtPlaces(c.claims, Classify(err))
		c.poll.Answer(n.Index, false, nil, err)
		return
	}
	votes := n.batch.silent == nil && n.doubt() == nil
	c.poll.Answer(n.Index, votes, c.cmd.(intsCall).Val(), nil)
}

// doubtPlaces notes that a look of unknown outcome may still put these claims in line. Their
// release must leave a tombstone: an entry takes a grant by push, and then nobody would
// hold the name for a lease.
func (n *writer) doubtPlaces(claims []*round.Claim, o quorum.Outcome) {
	if o != quorum.Unknown {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range claims {
		if c != nil {
			c.Marks[n.Index] = c.Marks[n.Index].Doubted()
		}
	}
}

// The rest of this file is what a release says of the attempt with which its process goes on:
// the place in line that each node gave it, or that it was granted at once.

// errNotPlaced is a release that gave the next attempt no place: it was refused, went without a
// hand, or met a node that does not vote.
var errNotPlaced = errors.New("not in line: the release before did not put it there")

// next is the owner that a hand puts in line; empty if none.
func (r *Release) next() any {
	if r.Next == nil {
		return ""
	}
	return &r.Next.Claim.Owner
}

// place notes that the hands which were taken put their next attempts in line, and tells
// those that no hand carries. A next attempt that is over meanwhile is dropped: its release
// is queued behind this one, and need not find anything.
func (q *pending) place(b *batch) {
	for i := range b.releases {
		r := &b.releases[i]
		switch {
		case r.Next == nil:
		case !b.mayHand(r):
			q.unplaced(r)
		case r.Next.Claim.Abandoned.Load():
			r.Next = nil
		default:
			m := &r.Next.Claim.Marks[q.node]
			*m = m.Again()
		}
	}
}

// unplaced tells the next attempt that this node does not put it in line. It then asks for a
// place itself, if too few nodes gave it one.
func (q *pending) unplaced(r *Release) {
	if r.Next != nil {
		r.Next.Stand(q.node, grant.Standing{}, quorum.Hearing{}, round.Lease{}, errNotPlaced)
		r.Next = nil
	}
}

// settleNext tells the next attempts what the reply to their hands said. It forgets them then:
// a hand that goes again is a plain release.
func (n *writer) settleNext(c *call, err error) {
	for i := range c.releases {
		r := &c.releases[i]
		if r.Next == nil {
			continue
		}
		if err != nil {
			n.markAfter(r.Next.Claim, Classify(err))
			r.Next.Stand(n.Index, grant.Standing{}, quorum.Hearing{}, round.Lease{}, Explain(err))
		} else {
			reply, more := handReply(c.cmd, i, len(c.releases))
			n.standing(r.Next, reply, more)
		}
		r.Next = nil
	}
}

// standing is settleNext for one. What a hand grants to its own process needs no reading
// of the clock behind it: it takes the place of a key that was there (ADR 21). Its lease
// counts from the sending of the batch, which is earlier than the grant.
func (n *writer) standing(next *round.Round, reply, more int64) {
	s, h := grant.StandingOf(more), quorum.Hearing{Left: grant.Lease, Free: reply == 1}
	outcome := quorum.Taken
	if s.Token > 0 {
		outcome = quorum.Granted
	}
	n.markAfter(next.Claim, outcome)
	switch doubt := n.doubt(); {
	case doubt != nil:
		next.Stand(n.Index, grant.Standing{}, h, round.Lease{}, doubt)
	case more == 0:
		next.Stand(n.Index, grant.Standing{}, h, round.Lease{}, errNotPlaced)
	default:
		at := n.batch.at
		n.vouch(at)
		next.Stand(n.Index, s, h, round.Lease{Since: at, Until: clock.ValidFrom(at, grant.Lease, n.Cfg.Drift).Until}, nil)
	}
}

// handReply is what a hand of so many locks replied of lock i: what became of it, and the
// standing of its next owner. A reply of another shape reads as no standing (0): the attempt
// then asks for its place.
func handReply(cmd any, i, locks int) (reply, more int64) {
	hand, ok := cmd.(handCall)
	if !ok {
		return 0, 0
	}
	list, ok := hand.Val().([]any)
	if !ok || len(list) < 2*locks {
		return 0, 0
	}
	reply, _ = list[i].(int64)
	more, _ = list[locks+i].(int64)
	return reply, more
}
