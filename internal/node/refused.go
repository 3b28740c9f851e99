package node

import (
	"fmt"
	"slices"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/round"
)

// This file keeps a refusal to as few names as it can: a call for many that was
// refused for one of them goes again one by one, and a release that is refused alone
// holds back its own name only.
//
// A release on its way through it: taken into a batch (takeReleases); refused there, kept
// with its cause (refuse) and its name held back (hold); due again after a pause that
// doubles (retake), before all others. It ends when the node takes it, or with its lease.

// rejection is what became of a release that a node did not take.
type rejection struct {
	cause   error
	alone   bool // it goes in a call of its own: a call that it shared was refused
	tries   int
	retryAt clock.Instant // no try before
}

// alone tells whether the release goes in a call of its own.
func (r *Release) alone() bool { return r.rejected != nil && r.rejected.alone }

// refuse keeps a release until its next try. After a connection that broke, the first
// try costs no pause: it may have been stale. Until then no acquire of that name goes
// to the node: it would meet our own key.
//
// A rollback with a next claim puts that one's entry in line. Should it come late, behind the
// release of that claim, the entry would stay: so the next claim is marked as one that may
// still come, and its release leaves a tombstone.
func (q *pending) refuse(r Release, cause error, now clock.Instant) {
	q.unplaced(&r)
	if next := r.Claim.Replacement(); next != nil && r.Entry == round.LeaveEntry {
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
		q.releases = append(due, q.releases...)
	}
}

// keepEntries keeps a release that goes again from taking an entry away that is wanted by
// now: the process stands in line again, and a look may have told the node so meanwhile.
// No ask has: they wait for the release. Where the node still has the earlier entry,
// the process has its old place until it asks.
//
// A claim that takes pushes has an entry of its own, by its owner: that one goes in any case.
// It asks the queue without mu, which comes behind the queue's.
func (n *writer) keepEntries() {
	for i := range n.batch.releases {
		r := &n.batch.releases[i]
		if r.rejected == nil || r.Entry != round.LeaveQueue || r.Claim.AcceptsPush() || !n.Cfg.Recorded(r.Claim.Key, r.Claim.Shared()) {
			continue
		}
		n.mu.Lock()                                       // Unreleased may be reading it
		if r.Entry = round.LeaveEntry; r.Claim.Shared() { // it ended a hold: other sharers are called
			r.Entry = round.LeaveNothing
		}
		n.mu.Unlock()
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

// apart tells whether the call was refused for want of a right, and goes again in parts. The
// key patterns of a user's ACL are checked before a script runs, so nothing happened.
func (n *Node) apart(c *call, err error) bool {
	if !saysFirst(err, "NOPERM") {
		return false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.queue.apart(c, err)
}

// findUnreleased notes the names whose releases failed in this batch, before any reply is
// settled: an acquire of one of them, behind it in the same pipeline, may have met our own
// key. The map is made when it is first needed: most batches have no such name.
func (b *batch) findUnreleased() {
	clear(b.unreleased)
	for i := range b.calls {
		if c := &b.calls[i]; len(c.releases) > 0 && c.cmd.Err() != nil {
			if b.unreleased == nil {
				b.unreleased = make(map[string]bool)
			}
			for _, r := range c.releases {
				b.unreleased[r.Claim.Key] = true
			}
		}
	}
}

// metOurOwn tells whether an acquire that was refused for a key on the node goes
// again: its reply may be about the key that a release in front of it, in the same
// batch, was to delete. If that is refused again, the name is held back. So a caller
// never takes what is left of its own Locker's holds for another holder.
func (b *batch) metOurOwn(key string, reply int64) bool {
	_, held := leaseLeft(reply)
	return held && b.unreleased[key]
}

// Unreleased are the names that the node was not seen to release, in order, and why: what
// Close reports. A key whose lease is over has ended by itself, and is none of them.
func (n *Node) Unreleased(now clock.Instant) (names []string, cause error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	names, cause = n.queue.unreleased(n.sending, now)
	switch {
	case n.down.cause != nil:
		cause = n.down.cause
	case cause == nil:
		cause = round.ErrTimeout
	}
	slices.Sort(names)
	return slices.Compact(names), cause
}

// unreleased are the names whose releases wait, or are in the flush that is out, and why
// one of them was refused; nil if none was.
func (q *pending) unreleased(sending []Release, now clock.Instant) (names []string, cause error) {
	add := func(r *Release) {
		if r.Until <= now || q.clear(r) {
			return
		}
		names = append(names, r.Claim.Key)
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
	return names, cause
}
