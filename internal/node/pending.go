package node

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/grant"
	"github.com/quorumkit/redlock/internal/quorum"
	"github.com/quorumkit/redlock/internal/round"
)

// queueBound is how many asks may wait for one node. A node that is slower than its callers
// refuses the rest at once: no vote is better than a late one. It is eight flushes of acquires.
//
// Nothing else is refused for it. A hold depends on its renewals, hand-overs and raises, a
// waiter on its signs of life: each is one for a hold or an attempt that there is, or for many.
const queueBound = 8 * AcquiresPerFlush

// pending is what waits for one node. The node's mu guards it, and the node's marks of every
// claim: each caller of its methods holds mu. They are the only code that moves work from
// the queue into a batch, so that each claim is marked before it is sent.
type pending struct {
	node    int  // its index
	outside bool // no list had it: what may be there is released, and no entry is looked for
	flushed bool // a batch was taken for it: before that it has no entry of ours either

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

	behind map[string]int // the lines of the releases that wait for the next flush, and how many; nil if all fit into one
}

// len is how many commands wait, besides releases.
func (q *pending) len() int {
	sample := 0
	if q.sample {
		sample = 1
	}
	return sample + len(q.groups) + len(q.raises) + len(q.passes) + len(q.acquires) + len(q.probes) + len(q.polls) + len(q.pushes)
}

// longest is the longest lease that is asked for, in ms.
func (q *pending) longest() (most int64) {
	for _, r := range q.acquires {
		most = max(most, r.Claim.TTL)
	}
	for _, h := range q.passes {
		most = max(most, h.Round.Claim.TTL)
	}
	for _, g := range q.groups {
		most = max(most, slices.Max(g.ttls))
	}
	return most
}

// hasReleases tells whether releases or hand-overs are queued.
func (q *pending) hasReleases() bool { return len(q.releases)+len(q.refused)+len(q.passes) > 0 }

// clear tells whether there is nothing on the node to release: nothing was sent, or it is
// known not to be there, and no entry of the process hangs on it. Then nothing needs to be
// sent, which makes the rollback of an attempt that failed early cost nothing.
func (q *pending) clear(r *Release) bool {
	return r.Claim.Marks[q.node] == quorum.Absent && r.Next == nil && (q.outside || !q.flushed || r.Entry != round.LeaveQueue && !r.Claim.AcceptsPush())
}

// take moves what may be sent now from the queue into the batch. From here on a
// claim's mark says that its acquire may have happened. Rollbacks go first, and
// acquires only behind those of their name: a pending rollback
// must not make our own earlier command look like contention. An acquire whose
// round was won without it is sent all the same: a lock that rests on a bare
// quorum is lost with the first node of it that fails. An ask whose round is over is
// not sent: the node is told of the place by a look, whether it votes or not.
func (q *pending) take(b *batch, now clock.Instant) {
	q.flushed = true
	q.retake(now)
	q.takeReleases(b, now)
	q.takePasses(b)
	q.takeGroups(b)
	polls := q.polls[:min(len(q.polls), b.most()/asksPerPoll)]
	b.polls = append(b.polls, polls...)
	q.polls = drop(q.polls, len(polls))
	move(&b.pushes, &q.pushes)
	move(&b.probes, &q.probes)
	move(&b.raises, &q.raises)
	b.sample, q.sample = q.sample || len(b.probes) > 0, false // TIME answers a probe
	// Releases that did not fit go with the next flush, and the acquires of their names behind them.
	if len(q.releases) == 0 {
		q.behind = nil
	} else if q.behind == nil {
		q.behind = make(map[string]int)
		q.note(q.releases, 1)
	}
	q.takeAcquires(b)
	// Whether a release needs a tombstone, or may grant, is decided last: what was taken before
	// it may have changed its mark.
	for i, r := range b.releases {
		b.releases[i].mark = r.Claim.Marks[q.node]
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
		if len(b.releases) == b.most() {
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
	q.note(q.releases[:taken], -1)
	q.releases = drop(q.releases, taken)
}

// takeGroups takes the extensions, and of the re-seeds what is still wanted: a
// claim that is over must not be put back behind its release. Over is set before a release
// is queued: if it is not set here, that release goes behind this batch, and finds the mark
// that is made here. An extension marks nothing: it lengthens what is there, and creates nothing.
func (q *pending) takeGroups(b *batch) {
	// Counted in claims, not in calls: an extension of a whole Locker is many calls of 250.
	taken, claims := 0, 0
	for ; taken < len(q.groups) && claims < claimsPerAsk*b.most(); taken++ {
		claims += len(q.groups[taken].claims)
	}
	for _, g := range q.groups[:taken] {
		if g.reseeds() {
			g.forget(func(c *round.Claim) bool { return c.Abandoned.Load() })
			for _, c := range g.claims {
				c.Marks[q.node] = c.Marks[q.node].Again() | quorum.PutBack
			}
		}
		if len(g.claims) > 0 {
			b.groups = append(b.groups, g)
		}
	}
	q.groups = drop(q.groups, taken)
}

// takePasses takes the handovers of keys that are there. Where an earlier command
// may still come, or the node does not vote, the old claim's release goes out
// instead: only its tombstone keeps that command out (quorum.PassingOf).
func (q *pending) takePasses(b *batch) {
	for i, h := range q.passes {
		old := h.Old.Claim
		switch quorum.PassingOf(old.Marks[q.node], b.silent == nil && b.bounds(h.Round.Claim.TTL) == nil && b.votesBy(h.Round.List) == nil, h.Round.Claim.Abandoned.Load()) {
		case quorum.PassGone:
			// Nothing is there to pass: the node refuses, and the release of the old claim is done.
			h.Round.Claim.Marks[q.node] &^= quorum.Behind
			if old.AcceptsPush() { // its entry may stand here
				gone := h.Old
				gone.Entry, gone.Round = round.LeaveQueue, nil
				b.releases = append(b.releases, gone)
			}
			if h.Old.Round != nil {
				h.Old.Round.Deliver(q.node, quorum.Vote{Outcome: quorum.Granted}, nil)
			}
			h.Round.Deliver(q.node, quorum.Vote{Outcome: quorum.Taken}, ErrGone)
		case quorum.PassDoubted:
			// The new claim has failed here: it stays marked as standing behind the old one.
			b.releases = append(b.releases, h.Old)
			h.Round.Deliver(q.node, quorum.Vote{Outcome: quorum.Failed}, errNotPassed)
		case quorum.PassOver:
			// The new claim was passed on or given up before this node heard of it.
			if !onward(h, q.passes[i+1:], q.node) {
				b.releases = append(b.releases, h.Old)
			}
		case quorum.PassGoes:
			// Marked before it is sent: from here on only a tombstone keeps the new claim out.
			h.Round.Claim.Marks[q.node] |= quorum.Unsure | old.Marks[q.node]&quorum.PutBack
			b.passes = append(b.passes, h)
		}
	}
	q.passes = drop(q.passes, len(q.passes))
}

// errRelisted is a node that does not vote by the list that the attempt goes by, and errUnlisted one
// that the list of now does not have.
var (
	errRelisted = errors.New("the list of nodes has changed since it was asked for")
	errUnlisted = errors.New("not sent: the cluster's list does not have it")
)

// errNotPassed is a node that was sent no pass, but the old claim's release (PassDoubted).
var errNotPassed = errors.New("not sent: what this node holds of the lock is not known")

// onward makes a later handover in the queue begin at h's old claim: the one between
// has passed the lock on before this node heard of it. A node that is slower than
// the hand-overs stays among those that hold the lock; else one turn would thin
// them out to a bare quorum.
func onward(h *Handover, later []*Handover, node int) bool {
	for i, next := range later {
		if next.Old.Claim != h.Round.Claim {
			continue
		}
		if next.Old.Round != nil { // the claim between never was here, so its release is done
			next.Old.Round.Deliver(node, quorum.Vote{Outcome: quorum.Granted}, nil)
		}
		from := *next // a copy: the other nodes have the same Handover, and may have passed it
		from.Old = h.Old
		later[i] = &from
		return true
	}
	return false
}

// takeAcquires takes acquires and asks, each for the script of its kind. One whose claim is
// over meanwhile does not go, nor one of a name whose release was refused: it would meet our
// own key. If the node does not vote they are taken unmarked: abstain answers them.
func (q *pending) takeAcquires(b *batch) {
	taken, votes := 0, b.silent == nil
	var kept []*round.Round          // behind a release
	b.singly, q.singly = q.singly, 0 // those that were refused together stand at the head
	// One pass keeps their order: an earlier caller goes first, no matter the kind of its hold.
	for _, r := range q.acquires {
		if len(b.acquires)+len(b.bids)+len(b.shares)+len(b.slots)+len(b.late) == b.most() {
			break
		}
		taken++
		if r.Claim.Abandoned.Load() {
			if r.HasPlace() {
				b.late = append(b.late, r)
			}
			continue
		}
		if q.behind[r.LineOf()] > 0 {
			kept = append(kept, r)
			continue
		}
		if err := q.heldBack(r.Claim.Key); err != nil && votes {
			r.Deliver(q.node, quorum.Vote{Outcome: quorum.Failed}, err)
			continue
		}
		if cause := cmp.Or(b.votesBy(r.List), b.bounds(r.Claim.TTL)); cause != nil && votes {
			r.Deliver(q.node, quorum.Vote{Outcome: quorum.Abstained}, cause)
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
	if q.acquires = drop(q.acquires, taken); len(kept) > 0 {
		q.acquires = append(kept, q.acquires...)
	}
}

// note keeps acquires behind these releases, or with -1 no longer, while the releases that wait
// do not fit into a flush.
func (q *pending) note(releases []Release, by int) {
	if q.behind == nil {
		return
	}
	for i := range releases {
		q.behind[releases[i].Claim.Line()] += by
	}
}

// move appends a queue to what is taken, and empties it.
func move[T any](to, from *[]T) {
	*to = append(*to, *from...)
	*from = drop(*from, len(*from))
}

// drop removes the first k of a queue and lets go of what they point to. If the rest is no
// longer than that, it moves to the front, so that a queue which is never empty does not grow for
// ever; a long one is not moved with each flush.
func drop[T any](q []T, k int) []T {
	if len(q) > 2*k {
		clear(q[:k])
		return q[k:]
	}
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
			q.note([]Release{r}, 1)
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
		node: q.node, flushed: q.flushed, releases: slices.DeleteFunc(all.releases, past),
		refused: slices.DeleteFunc(all.refused, past), retryAt: all.retryAt, held: all.held,
	}
	return all
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

// errNotPlaced is a release that gave the next attempt no place: it was refused, went without a
// hand, or met a node that does not vote.
var errNotPlaced = errors.New("not in line: the release before did not put it there")

// unplaced tells the next attempt that this node does not put it in line. It then asks for a
// place itself, if too few nodes gave it one.
func (q *pending) unplaced(r *Release) {
	if r.Next != nil {
		r.Next.Stand(q.node, grant.Standing{}, quorum.Hearing{}, round.Lease{}, errNotPlaced)
		r.Next = nil
	}
}

// What a node refuses concerns as few names as it can: a call for many that was
// refused for one of them goes again one by one, and a release that is refused alone
// holds back its own name only.
//
// The way of a release here: taken into a batch (takeReleases); refused there, kept
// with its cause (refuse) and its name held back (hold); due again after a pause that
// doubles (retake), before all others. It ends when the node takes it, or with its lease.

// refuse keeps a release until its next try. After a connection that broke, the first
// try costs no pause: it may have been stale. Until then no acquire of that name goes
// to the node: it would meet our own key.
//
// A rollback with a next claim puts that one's entry in line. Should it come late, behind the
// release of that claim, the entry would stay: so the next claim is marked as one that may
// still come, and its release leaves a tombstone.
func (q *pending) refuse(r Release, cause error, now clock.Instant) {
	q.unplaced(&r)
	if next := r.Claim.Replacement; next != nil && r.Entry == round.LeaveEntry {
		next.Marks[q.node] = next.Marks[q.node].Doubted()
	}
	next := rejection{cause: cause, tries: 1, retryAt: now}
	if before := r.rejected; before != nil {
		next.alone, next.tries = before.alone, before.tries+1
	}
	// A reply says that the node is there and refuses: it needs time, not another connection.
	if next.tries > 1 || IsReply(cause) {
		next.retryAt = now.Add(backoff(next.tries - 1))
	}
	r.rejected = &next
	if len(q.refused) == 0 || next.retryAt < q.retryAt {
		q.retryAt = next.retryAt
	}
	q.refused = append(q.refused, r)
	q.hold(r)
}

// hold keeps acquires of the release's name back, and remembers what the node said: it is the
// cause of their votes (heldBack).
func (q *pending) hold(r Release) {
	if q.held == nil {
		q.held = make(map[string]error)
	}
	q.held[r.Claim.Key] = r.rejected.cause
}

// retake queues the refused releases that are due, before all others. The names that are held
// back are made anew of what is left: a release that is due counts as any other, and an
// acquire behind it in the same batch may meet our own key once more (metOurOwn).
func (q *pending) retake(now clock.Instant) {
	if len(q.refused) > 0 && now < q.retryAt {
		return
	}
	clear(q.held)
	var due []Release
	rest := q.refused[:0]
	for _, r := range q.refused {
		if r.rejected.retryAt <= now {
			due = append(due, r)
			continue
		}
		if len(rest) == 0 || r.rejected.retryAt < q.retryAt {
			q.retryAt = r.rejected.retryAt
		}
		rest = append(rest, r)
		q.hold(r)
	}
	clear(q.refused[len(rest):])
	q.refused = rest
	if len(due) > 0 {
		q.note(due, 1)
		q.releases = append(due, q.releases...)
	}
}

// heldBack is why no acquire of key goes to the node now; nil if one may.
func (q *pending) heldBack(key string) error {
	if cause := q.held[key]; cause != nil {
		return fmt.Errorf("not sent: an earlier release was refused: %w", cause)
	}
	return nil
}

// apart queues again, one by one, what was refused in one call for want of a right:
// one forbidden name makes Redis refuse the whole call, before anything of it happens, and
// the others need not know. It returns false where the call was for one: that refusal stands.
func (q *pending) apart(c *call, cause error) bool {
	switch {
	case len(c.releases) > 1:
		for i := range c.releases {
			c.releases[i].rejected = &rejection{cause: cause, alone: true}
		}
		q.note(c.releases, 1)
		q.releases = append(slices.Clone(c.releases), q.releases...)
	case len(c.acquires) > 1:
		q.requeue(c.acquires)
		q.singly += len(c.acquires)
	case c.group != nil && len(c.group.claims) > 1:
		q.groups = append(c.group.singly(), q.groups...)
	case c.poll != nil && c.poll.Size() > 1:
		q.polls = append(c.poll.Singly(), q.polls...)
	default:
		return false
	}
	return true
}

// unreleased are the names whose releases wait, or are in the flush that is out, when the last
// of them is free, and why one was refused; nil if none was.
func (q *pending) unreleased(sending []Release, now clock.Instant) (names []string, until clock.Instant, cause error) {
	add := func(r *Release) {
		if r.Until <= now || q.clear(r) {
			return
		}
		names, until = append(names, r.Claim.Key), max(until, r.Until)
		if r.rejected != nil && cause == nil {
			cause = r.rejected.cause
		}
	}
	for _, owed := range [][]Release{q.releases, q.refused, sending} {
		for i := range owed {
			add(&owed[i])
		}
	}
	for _, h := range q.passes {
		add(&h.Old)
	}
	return names, until, cause
}
