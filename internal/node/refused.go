package node

import (
	"fmt"
	"slices"

	"github.com/quorumkit/redlock/internal/clock"
)

// What a node refuses concerns as few names as it can: a call for many that was
// refused for one of them goes again one by one, and a release that is refused alone
// holds back its own name only.

// rejection is what became of a release that a node did not take.
type rejection struct {
	cause   error
	alone   bool // it goes in a call of its own: one that it shared was refused
	tries   int
	retryAt clock.Instant // no try before
}

// alone tells whether the release shares no call.
func (c *Release) alone() bool { return c.rejected != nil && c.rejected.alone }

// refuse keeps a release until its next try. Of a connection that broke, the first
// try costs no pause: it may have been stale. Until then no acquire of that name goes
// to the node: it would meet our own key; mu is held.
func (b *pending) refuse(c Release, cause error, now clock.Instant) {
	next := rejection{cause: cause, tries: 1, retryAt: now}
	if before := c.rejected; before != nil {
		next.alone, next.tries = before.alone, before.tries+1
	}
	if next.tries > 1 || IsReply(cause) {
		next.retryAt = now.Add(min(FirstBackoff<<min(next.tries-1, 10), lastBackoff))
	}
	c.rejected = &next
	if len(b.refused) == 0 || next.retryAt < b.retryAt {
		b.retryAt = next.retryAt
	}
	b.refused = append(b.refused, c)
	b.hold(c)
}

// hold keeps acquires of the release's name back; mu is held.
func (b *pending) hold(c Release) {
	if b.held == nil {
		b.held = make(map[string]error)
	}
	b.held[c.Claim.Key] = c.rejected.cause
}

// retake queues the refused releases that are due, before all others; mu is held.
func (b *pending) retake(now clock.Instant) {
	if len(b.refused) > 0 && now < b.retryAt {
		return
	}
	clear(b.held)
	var due []Release
	rest := b.refused[:0]
	for _, c := range b.refused {
		if c.rejected.retryAt <= now {
			due = append(due, c)
			continue
		}
		if len(rest) == 0 || c.rejected.retryAt < b.retryAt {
			b.retryAt = c.rejected.retryAt
		}
		rest = append(rest, c)
		b.hold(c)
	}
	clear(b.refused[len(rest):])
	b.refused = rest
	if len(due) > 0 {
		b.releases = append(due, b.releases...)
	}
}

// keepEntries has no release that goes again take an entry away that is wanted by now:
// the process stands in line again, and a look may have told the node so meanwhile.
// No ask has: they wait for the release. Where the node still has the entry of before,
// the process has its old place until it asks.
func (n *Node) keepEntries() {
	for i := range n.batch.releases {
		c := &n.batch.releases[i]
		if c.rejected != nil && c.Entry == LeaveQueue && n.Cfg.Recorded(c.Claim.Key) {
			c.Entry = LeaveEntry
		}
	}
}

// heldBack is why no acquire of key goes to the node now; nil: one may; mu is held.
func (b *pending) heldBack(key string) error {
	if cause := b.held[key]; cause != nil {
		return fmt.Errorf("not sent: an earlier release was refused: %w", cause)
	}
	return nil
}

// apart queues again, one by one, what was refused in one call for want of a right:
// one forbidden name has the whole call refused, before anything of it happens, and
// the others need not know. It returns false where that is not so, or where the call
// was for one.
func (n *Node) apart(p *call, err error) bool {
	if !saysFirst(err, "NOPERM") {
		return false
	}
	switch {
	case len(p.releases) > 1:
		for i := range p.releases {
			p.releases[i].rejected = &rejection{cause: err, alone: true}
		}
		n.mu.Lock()
		n.queue.releases = append(append([]Release{}, p.releases...), n.queue.releases...)
		n.mu.Unlock()
	case len(p.acquires) > 1:
		n.requeue(p.acquires)
		n.singly += len(p.acquires)
	case p.group != nil && len(p.group.claims) > 1:
		n.mu.Lock()
		n.queue.groups = append(p.group.singly(), n.queue.groups...)
		n.mu.Unlock()
	case p.poll != nil && p.poll.Size() > 1:
		n.mu.Lock()
		n.queue.polls = append(p.poll.Singly(), n.queue.polls...)
		n.mu.Unlock()
	default:
		return false
	}
	return true
}

// findUnreleased notes the names whose releases failed in this batch. An acquire of
// one of them, behind it in the same pipeline, may have met our own key.
func (f *batch) findUnreleased() {
	clear(f.unreleased)
	for i := range f.calls {
		if p := &f.calls[i]; len(p.releases) > 0 && p.cmd.Err() != nil {
			if f.unreleased == nil {
				f.unreleased = make(map[string]bool)
			}
			for _, c := range p.releases {
				f.unreleased[c.Claim.Key] = true
			}
		}
	}
}

// metOurOwn tells whether an acquire that was refused for a key on the node goes
// again: its reply may be about the key that a release in front of it, in the same
// batch, was to delete. If that is refused again, the name is held back.
func (f *batch) metOurOwn(key string, reply int64) bool {
	return f.unreleased[key] && (reply == -9 || reply <= -10 && reply != noReply)
}

// Unreleased are the names that the node was not seen to release, in order, and why.
// A key whose lease is over has ended by itself.
func (n *Node) Unreleased(now clock.Instant) (names []string, cause error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	cause = n.down
	add := func(c *Release) {
		if c.Until <= now || n.clear(c) {
			return
		}
		names = append(names, c.Claim.Key)
		if c.rejected != nil && cause == nil {
			cause = c.rejected.cause
		}
	}
	for _, owed := range [][]Release{n.queue.releases, n.queue.refused, n.sending} {
		for i := range owed {
			add(&owed[i])
		}
	}
	for _, h := range n.queue.passes {
		add(&h.Old)
	}
	if cause == nil {
		cause = ErrTimeout
	}
	slices.Sort(names)
	return slices.Compact(names), cause
}
