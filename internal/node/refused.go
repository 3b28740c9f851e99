package node

import (
	"context"
	"errors"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/round"
)

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

// writeRefusals are what a server says that answers and does not write: its memory
// is full (maxmemory), it is a replica, its disk failed (stop-writes-on-bgsave-error), it
// lacks the replicas that it wants (min-replicas-to-write).
var writeRefusals = []string{"OOM", "READONLY", "MISCONF", "NOREPLICAS"}

// refusesWrites tells whether the error is the reply of a server that does not write.
func refusesWrites(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply) && HasAnyPrefix(reply.Error(), writeRefusals...)
}

// SawRefusal takes note of an error: if the node refuses to write, it tells that once, until
// SawWrite. The votes need no note: each refused command fails by itself.
func (n *Node) SawRefusal(err error) {
	if err == nil || !refusesWrites(err) {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.unwritten.Load() == nil {
		r := &writeRefusal{Explain(err), n.Clock.Early()}
		n.unwritten.Store(r)
		n.observer.RefusesWrites(n.Index, r.cause)
	}
}

// SawWrite takes note that the node wrote what a full memory, too, would have
// refused: a deletion or a longer lease proves nothing.
func (n *Node) SawWrite() {
	if n.unwritten.Load() == nil {
		return // as nearly always: one atomic read for each grant
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if r := n.unwritten.Swap(nil); r != nil {
		n.observer.TakesWrites(n.Index, n.Clock.Early().Sub(r.since))
	}
}

// RefusesNow asks the node to write, and returns why it refuses; empty if it wrote, or
// said nothing about it. What it writes is a tombstone of an owner that nobody is,
// which ends within a millisecond: a check must find a full memory, and leave no trace.
// It loads the script in the same pipeline, since a node that was never used lacks it.
func (n *Node) RefusesNow(ctx context.Context) string {
	bounded, cancel := context.WithTimeout(ctx, n.Timeout)
	defer cancel()
	// A name and an owner of this call alone: no lock, and no other check, has them.
	id := n.Cfg.Chance.Name()
	load := AnyCall{redis.NewCmd(bounded, "SCRIPT", "LOAD", lua.ReleaseScript.Body)}
	leave := AnyCall{redis.NewCmd(bounded, "EVALSHA", lua.ReleaseScript.Hash, 2, lua.ProbeKey+id, lua.TombstoneKey+id, id, 1)}
	_, _ = n.Calls.Pipelined(bounded, func(p redis.Pipeliner) error { // each has its own error
		_ = p.Process(bounded, load)
		_ = p.Process(bounded, leave)
		return nil
	})
	err := leave.Err()
	n.SawRefusal(err)
	switch {
	case err == nil && leave.Val() != nil:
		n.SawWrite()
	case refusesWrites(err):
		return Explain(err).Error()
	}
	return ""
}
