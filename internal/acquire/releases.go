package acquire

import (
	"time"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/grant"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/node"
	"github.com/quorumkit/redlock/internal/queue"
	"github.com/quorumkit/redlock/internal/quorum"
	"github.com/quorumkit/redlock/internal/round"
	"github.com/quorumkit/redlock/internal/slots"
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
			start := a.Clock.Start()
			next := a.newClaim(c.Key, w.TTL, w.Label, start, 0)
			next.GoBy(c.List()) // by which the nodes pass it on: the list may have changed since
			next.Inherit(c, recorded)
			w.Give(a.handover(next, start, a.releaseOf(c, lease, next.Rollback(), r)))
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
	if a.Presence.Subscribed() < a.quorum() || !a.Enter() { // it could not be told
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

// freeSlot ends a claim of a slot: if it may (pass), it goes to a goroutine here that wants
// one, else the nodes wake the first in line.
func (a *Releases) freeSlot(c *round.Claim, lease time.Duration, pass bool, r *round.Round) {
	if pass && a.handSlot(c, lease, r) {
		return
	}
	slot := c.Slot()
	a.released[stripeOf(slot.Name)].Store(int32(slot.Number - slots.None)) //nolint:gosec // below 48
	a.discard(c, lease, round.LeaveNothing, r)
}

// handSlot passes a slot to the goroutine of this Locker that goes to the nodes for one. It
// returns false where none does.
func (a *Releases) handSlot(old *round.Claim, lease time.Duration, r *round.Round) bool {
	if !a.Enter() {
		return false
	}
	of := old.Slot()
	handed := a.Queue.HandSlot(of.Line, of.Number, of.Passed, func(to *queue.Waiter) *queue.Transfer {
		start := a.Clock.Start()
		c := a.newClaim(old.Key, to.TTL, to.Label, start, 0)
		slot := &round.Slot{Name: of.Name, Line: of.Line, Number: of.Number, Limit: to.Slots, Passed: of.Passed + 1}
		slot.Left.Store(true) // its asks, if it comes to any, put nobody in line
		c.TakeSlot(slot)
		c.KeepPlace()
		c.GoBy(old.List())
		return a.handover(c, start, a.releaseOf(old, lease, old.Rollback(), r))
	})
	if !handed {
		a.Settled()
	}
	return handed
}

// endShared releases a shared hold, or gives it back. Its process's place goes with it, unless
// others of the group still wait by that place.
func (a *Releases) endShared(c *round.Claim, lease time.Duration, r *round.Round) {
	entry := [...]round.Leaving{
		quorum.EntryNot: round.LeaveNothing, quorum.EntryGoes: round.LeaveQueue, quorum.EntryStays: round.LeaveEntry,
	}[a.Queue.EntryAt(c.Key, *c.Place())]
	a.discard(c, lease, entry, r)
}

// GiveBack ends a claim that was granted and that nobody holds: of a set that is not
// complete, or when Close had given up all places. A place goes with it, since nobody here
// goes on with that.
func (a *Releases) GiveBack(c *round.Claim, lease time.Duration) {
	switch c.Kind().(type) {
	case round.Shared:
		a.endShared(c, lease, nil)
		return
	case *round.Slot:
		a.discard(c, lease, round.LeaveNothing, nil)
		return
	}
	entry := round.LeaveNothing
	if c.KeepsPlace() {
		entry = round.LeaveQueue
	}
	a.Queue.Ending(c.Key)
	a.discard(c, lease, entry, nil)
	a.passOn(c.Key)
}

// GiveBackGrant releases what a node granted too late, to an attempt of ours that is over.
// Should this fail, the grant ends with its lease.
func (a *Releases) GiveBackGrant(key, owner string, n *node.Node) {
	c := a.newClaim(key, grant.Lease, "", a.Clock.Early(), 0)
	c.Dead = lua.TombstoneKey + owner
	c.Owner = c.Dead[len(lua.TombstoneKey):]
	c.Marks[n.Index] = quorum.Present
	c.Abandoned.Store(true)
	n.Release(a.releaseOf(c, grant.Lease, round.LeaveNothing, nil))
}

// rollBack cleans every node that may hold the claim, in the background. The process of a claim
// that takes pushes keeps its place by a next claim: the owner value of this one is dead.
func (a *Releases) rollBack(c *round.Claim, lease time.Duration) {
	if c.AcceptsPush() && c.Replacement == nil && *c.Place() != quorum.NoTicket {
		next := a.newClaim(c.Key, lease, a.labelOf(c), a.Clock.Early(), 0)
		next.AcceptPush(*c.Place())
		c.Replacement = next
	}
	a.discard(c, lease, c.Rollback(), nil)
}

// rollBackGranted frees the nodes that granted a round which is lost already,
// while its reason is still open.
func (a *Releases) rollBackGranted(r *round.Round, lease time.Duration) {
	for i, v := range r.SoFar() {
		if v.Outcome == quorum.Granted {
			a.Nodes[i].Release(a.releaseOf(r.Claim, lease, r.Claim.Rollback(), nil))
		}
	}
}

// discard sends the release of a claim that nobody wants any more to every node
// that may hold it. r, if any, collects the confirmations.
func (a *Releases) discard(c *round.Claim, lease time.Duration, entry round.Leaving, r *round.Round) {
	a.free(c, lease, entry, false, r)
}

// free is discard; with hand, nodes may grant the name to a waiter there.
func (a *Releases) free(c *round.Claim, lease time.Duration, entry round.Leaving, hand bool, r *round.Round) {
	a.ends(c)
	release := a.releaseOf(c, lease, entry, r)
	if hand {
		release.Hint = max(a.Hints.Hint(), c.Token+1)
	}
	for _, n := range a.Nodes {
		n.Release(release)
	}
}

// ends notes that a claim is over, and with it the attempt by which its process stood in line
// for it. A node may still have that one's entry: the queue remembers it (Queue.Ended).
func (a *Releases) ends(c *round.Claim) {
	c.Abandoned.Store(true)
	if owner := *c.QueueOwner(); owner != "" {
		a.Queue.Ended(owner, quorum.Token(c.Token)) //nolint:gosec // below 2^53
	}
}

// releaseOf makes the release of a claim. Each node repeats it for one lease from now on.
func (a *Releases) releaseOf(c *round.Claim, lease time.Duration, entry round.Leaving, r *round.Round) node.Release {
	return node.Release{Claim: c, Life: clock.Milliseconds(lease), Until: a.Clock.Early().Add(lease), Entry: entry, Round: r}
}

// leaveLine ends an acquisition that has no attempt any more.
func (a *Releases) leaveLine(key string) {
	stands := a.Queue.Standing(key)
	if a.Queue.Ending(key) == round.LeaveQueue {
		a.LeaveAs(key, stands)
	}
	a.passOn(key)
}

// passOn gives the turn for key to the next goroutine, if one is in line.
func (a *Releases) passOn(key string) {
	a.Queue.Pass(key, func(stands *round.Claim) { a.LeaveAs(key, stands) })
}

// LeaveAs takes the process's entry for a name off all nodes, and the entry of the claim that
// stands there; nil if none.
func (a *Releases) LeaveAs(key string, stands *round.Claim) {
	if stands == nil {
		a.Leave(key, a.Nodes)
		return
	}
	a.discard(stands, a.TTL, round.LeaveQueue, nil)
}

// Leave takes the process's entry in the line of exclusive holds for a name off these nodes.
func (a *Releases) Leave(key string, nodes []*node.Node) {
	if name, slots := lua.LineOf(key); slots {
		a.leaveSlots(name, lua.MaxSlots, a.stood[stripeOf(name)].Load(), nodes) // nothing says how many there are
		return
	}
	a.leave(a.newClaim(key, a.TTL, "", a.Clock.Early(), 0), nodes)
}

// leave takes the claim's entry off these nodes.
func (a *Releases) leave(c *round.Claim, nodes []*node.Node) {
	c.Abandoned.Store(true)
	for _, n := range nodes {
		n.Release(a.releaseOf(c, a.TTL, round.LeaveQueue, nil))
	}
}

// anyPlace is no lower than any place in line.
const anyPlace = int64(quorum.MaxToken)

// LeaveShared takes the process's entry in the line of sharers for a name off these nodes: the
// entry at this place, or at an earlier one.
func (a *Releases) LeaveShared(key string, place int64, nodes []*node.Node) {
	c := a.newClaim(key, a.TTL, "", a.Clock.Early(), 0)
	c.Share(place)
	a.leave(c, nodes)
}

// leaveSlots takes the process's entry for one of so many slots of a name off these nodes:
// that of this place, or of one before.
func (a *Releases) leaveSlots(name string, limit int, place int64, nodes []*node.Node) {
	c := a.newClaim(lua.SlotsKey(name), a.TTL, "", a.Clock.Early(), 0)
	c.TakeSlot(&round.Slot{Name: name, Line: c.Key, Number: slots.None, Limit: limit, Place: place})
	a.leave(c, nodes)
}
