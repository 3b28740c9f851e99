package acquire

import (
	"context"
	"time"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/node"
	"github.com/quorumkit/redlock/internal/queue"
	"github.com/quorumkit/redlock/internal/quorum"
	"github.com/quorumkit/redlock/internal/round"
)

// HandOn ends a claim that was held: the hold goes to the next goroutine of this Locker,
// or back to the nodes; pass tells whether it may go on. r, if any, collects the nodes'
// confirmations that the old claim is gone.
func (a *Releases) HandOn(c *round.Claim, lease time.Duration, pass bool, r *round.Round) {
	switch c.Kind().(type) {
	case round.Shared:
		a.endShared(c, lease, r)
		return
	case *round.Slot:
		a.freeSlot(c, lease, pass, r)
		return
	}
	if pass && a.Enter() {
		if w, recorded := a.Queue.Next(c.Key); w != nil {
			a.handTo(w, c, lease, recorded, r)
			return
		}
		a.Settled()
	}
	calls := pass && a.calls(c.Key)
	if pass && a.goOn(c, lease, calls, r) {
		return
	}
	hand := pass && !calls
	entry := a.Queue.Ending(c.Key)
	a.free(c, lease, entry, hand && entry != round.LeaveEntry, r)
	a.passOn(c.Key)
}

// goOn releases a claim by a release that also puts the next goroutine of this Locker in
// line, behind all other waiters. With calls it calls the first of them instead of granting.
// It returns false where no goroutine here goes on like that.
func (a *Releases) goOn(old *round.Claim, lease time.Duration, calls bool, r *round.Round) bool {
	if a.Presence.Subscribed() < a.quorum || !a.Enter() { // it could not be told
		return false
	}
	to, name, entry := a.Queue.GoesOn(old.Key, *old.QueueOwner() != "")
	if to == nil {
		a.Settled()
		return false
	}
	start := a.Clock.Start()
	w := a.Sleepers.Get()
	next := round.New(a.newClaim(old.Key, to.TTL, to.Label, start, 0), len(a.Nodes), start, w)
	next.Asks = &round.Asks{Heard: make([]quorum.Hearing, len(a.Nodes))}
	next.GoOn()
	a.Queue.Open(name, next)
	a.ends(old)
	release := a.releaseOf(old, lease, entry, r)
	release.Hint, release.Next = max(a.Hints.Hint(), old.Token+1), next
	if calls {
		release.Hint = node.Calls
	}
	for _, n := range a.Nodes {
		n.Release(release)
	}
	to.Give(&queue.Transfer{Open: next, Sleeper: w})
	return true
}

// handTo passes the lock to a waiter whose attempt has been entered.
func (a *Releases) handTo(to *queue.Waiter, old *round.Claim, lease time.Duration, recorded bool, r *round.Round) {
	start := a.Clock.Start()
	c := a.newClaim(old.Key, to.TTL, to.Label, start, 0)
	c.Inherit(old, recorded)
	to.Give(a.handover(c, start, a.releaseOf(old, lease, c.Rollback(), r)))
}

// handover makes the nodes pass the old claim's hold to a new one, made at start. old is
// what a node gets that does not.
func (a *Releases) handover(c *round.Claim, start clock.Instant, old node.Release) *queue.Transfer {
	old.Claim.Abandoned.Store(true)
	w := a.Sleepers.Get()
	given := &queue.Transfer{
		Handover: node.Handover{Old: old, Round: round.New(c, len(a.Nodes), start, w)}, Sleeper: w,
	}
	for _, n := range a.Nodes {
		n.SubmitPass(&given.Handover)
	}
	return given
}

// receive takes what handTo gave.
func (acq *acquisition) receive(ctx context.Context, given *queue.Transfer) (Grant, *Failure) {
	defer acq.a.Sleepers.Put(given.Sleeper)
	r := given.Handover.Round
	s, err := r.Await(ctx, acq.a.Clock, acq.a.Bound(acq.terms.TTL), round.AcquireStage, func() { acq.a.Releases.rollBackGranted(r, acq.terms.TTL) })
	return acq.a.attempts.conclude(ctx, r, acq.terms.TTL, given.Sleeper, s, err)
}
