package acquire

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/fault"
	"github.com/quorumkit/redlock/internal/grant"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/node"
	"github.com/quorumkit/redlock/internal/queue"
	"github.com/quorumkit/redlock/internal/quorum"
	"github.com/quorumkit/redlock/internal/round"
)

// acquisition is one goroutine's way to a lock that it may have to wait for.
type acquisition struct {
	a      *Acquirer
	name   *queue.Name
	terms  Terms
	failed int // attempts
	floor  quorum.Token
	open   *round.Round   // the attempt that releases may grant; nil if none
	waiter *round.Sleeper // nil until it waits for the nodes, and after
	joined bool           // it has waited
	leads  bool           // with a shared hold: it asks for all of its group
	ticket int64          // with a shared hold: the place that the last ask brought; NoTicket if none
	hints  uint64         // nodes that called it, and were not asked yet
	called bool           // the attempt that is open asks because nodes called it
	begun  uint64         // nodes that called while their reply was out: it was asked anew for that
	splits int            // attempts in a row that some nodes granted
	kept   int            // attempts in a row that found the name free, and kept for another
	votes  []quorum.Vote  // of the last bid
	heard  []quorum.Hearing
	slot   *slotWay // of an acquisition of a slot; else nil
}

// run makes attempts until one succeeds, waiting does not help, or ctx ends.
func (acq *acquisition) run(ctx context.Context, given *queue.Transfer) (Grant, error) {
	var last *Failure
	for {
		if err := fault.OfContext(ctx); err != nil && given == nil {
			return Grant{}, acq.a.Door.Ended(acq.name.Key, joined(err, last))
		}
		var err error
		if acq.terms.Shared {
			if given, err = (sharing{acq}).take(ctx, given); err != nil {
				return Grant{}, acq.a.Door.Ended(acq.name.Key, joined(err, last))
			}
		}
		turn := acq.turn(given)
		g, next, failed := acq.try(ctx, given)
		given = nil
		if failed == nil {
			switch g.Turn = turn; {
			case g.Short:
				g.Turn = Granted
			case turn == Found && acq.called:
				g.Turn = Called
			}
			return g, nil
		}
		acq.failed++
		switch {
		case failed.Sentinel == nil:
			if errors.Is(failed.Cause, fault.ErrClosed) {
				last = nil
			}
			return Grant{}, joined(failed.Words, last)
		case (acq.failed == 1 || failed.hopeless()) && acq.a.lookAgain(ctx, failed):
			continue // at once: a node that abstained may vote by now
		case failed.hopeless():
			return Grant{}, failed.Words
		}
		last = failed
		var race *raceError
		if errors.As(failed.Cause, &race) {
			acq.floor = race.above + 1
			continue // at once
		}
		if given, err = acq.await(ctx, next); err != nil {
			return Grant{}, acq.a.Door.Ended(acq.name.Key, joined(err, last))
		}
	}
}

// joined is why an acquisition ended, and what its last attempt brought.
func joined(err error, last *Failure) error {
	if last == nil {
		return err
	}
	if errors.Is(err, fault.ErrClosed) {
		err = fault.Within(err) // of a wait that Close ended, for a message that has the name
	}
	return fmt.Errorf("%w: %w", err, fault.Within(last.Words))
}

// turn is how the attempt that is due came about.
func (acq *acquisition) turn(given *queue.Transfer) Turn {
	switch {
	case given != nil && given.Turn != 0:
		return Turn(given.Turn)
	case given != nil && given.Open == nil:
		return HandedOver
	case acq.failed == 0 && given == nil:
		return First
	case acq.hints != 0:
		return Called
	default:
		return Found
	}
}

// interval is how an acquisition waits between two attempts. It is no function: a method
// value of the acquisition would move it to the heap, in acquisitions that never wait too.
type interval uint8

const (
	atOnce      interval = iota // not at all
	afterPause                  // for a pause of random length
	untilCalled                 // until a node calls, or it is time to look without a call
)

// await waits the interval, or until ctx is done or the Locker is closed. It may have been
// given a slot meanwhile.
func (acq *acquisition) await(ctx context.Context, i interval) (given *queue.Transfer, err error) {
	switch {
	case acq.slot != nil:
		return forSlot{acq}.await(ctx, i)
	case i == afterPause:
		err = acq.pause(ctx)
	case i == untilCalled:
		err = acq.rest(ctx)
	}
	return nil, err
}

// try makes the attempt that is due, and says how to wait if it fails.
func (acq *acquisition) try(ctx context.Context, given *queue.Transfer) (Grant, interval, *Failure) {
	switch {
	case acq.slot != nil:
		return forSlot{acq}.try(ctx, given)
	case acq.terms.Shared:
		return sharing{acq}.try(ctx, given)
	default:
		return alone{acq}.try(ctx, given)
	}
}

// enterLine makes the acquisition wait where the nodes can call it.
func (acq *acquisition) enterLine(ctx context.Context) *Failure {
	if err := acq.join(ctx); err != nil {
		return acq.a.attempts.ended(acq.name.Key, err)
	}
	acq.a.noteWaiting(acq.name.Key)
	acq.withdraw()
	return nil
}

// barge asks past the line.
func (acq *acquisition) barge(ctx context.Context) (Grant, interval, *Failure) {
	if f := acq.enterLine(ctx); f != nil {
		return Grant{}, atOnce, f
	}
	g, f := acq.bid(ctx, quorum.Barging)
	return g, afterPause, f
}

// recallAfter is how many attempts in a row may find the name free and kept for
// waiter, which has been called, before that one is called again: some 2.5 s.
const recallAfter = 10

// recallFirst calls the first in line again. It may be a process that lives and
// does not want the name any more: its leave was lost in an outage, or a late look
// put it back. A call makes it leave. Asks call nobody, so this process leaves and
// comes back, at the same place: that calls the first in line.
func (acq *acquisition) recallFirst() {
	if acq.kept < recallAfter {
		return
	}
	acq.kept = 0
	alone, shared := acq.a.Queue.Stood(acq.name.Key) // one of the other kind may be left of ours
	if alone {
		acq.a.Releases.Leave(acq.name.Key, acq.a.Nodes)
	}
	if shared {
		acq.a.Releases.LeaveShared(acq.name.Key, anyPlace, acq.a.Nodes)
	}
}

// countKept takes in whether the last attempt found the name free, and kept, on so
// many nodes that the others are no quorum.
func (acq *acquisition) countKept() {
	kept := 0
	for i, v := range acq.votes {
		if v.Outcome == quorum.Taken && acq.heard[i].Free && !acq.heard[i].Head {
			kept++
		}
	}
	if kept <= len(acq.votes)-quorum.Size(len(acq.votes)) {
		acq.kept = 0
		return
	}
	acq.kept++
}

// join lets the nodes call the acquisition. It is entered for that time, so that Close waits
// for it.
func (acq *acquisition) join(ctx context.Context) error {
	if acq.waiter != nil {
		return nil
	}
	if !acq.a.Enter() {
		return fault.ErrClosed
	}
	acq.waiter = acq.a.Sleepers.Get()
	acq.a.Queue.Attach(acq.name, acq.waiter)
	return acq.a.Presence.Join(ctx)
}

// stopWaiting ends what join began, but for finish.
func (acq *acquisition) stopWaiting() {
	if acq.waiter == nil {
		return
	}
	acq.a.Queue.Detach(acq.name, acq.waiter)
	acq.a.Presence.Quit()
	acq.a.Sleepers.Put(acq.waiter)
	acq.waiter, acq.joined = nil, true
}

// finish ends the acquisition. Close waits for it: a waiter that leaves, leaves nothing behind.
func (acq *acquisition) finish() {
	if acq.joined {
		acq.a.Settled()
	}
}

// rest waits for a hint, or until it is time to look without one.
func (acq *acquisition) rest(ctx context.Context) error {
	if acq.hints != 0 { // they came too late for the last attempt
		acq.splits = 0
		return nil
	}
	switch {
	case quorum.Count(acq.votes).Granted > 0:
		acq.splits++
	case acq.open == nil || !acq.open.Out(): // else the reply that is out may be the grant
		acq.splits = 0
	}
	next := quorum.RestAfter(acq.votes, acq.heard, acq.splits, acq.a.Presence.Subscribed(), acq.a.Share(acq.name.Key), acq.a.RetryMin, acq.a.RetryMax)
	next.Look = next.Look && acq.slot == nil // one node's word is not enough for a slot
	if next.Look {
		acq.a.Presence.Rest(acq.name, acq.votes, acq.heard, next)
		defer acq.a.Presence.Cancel(acq.name)
	} else {
		acq.waiter.Timer.Reset(next.After)
		defer acq.waiter.Timer.Stop()
	}
	for {
		if acq.open != nil {
			acq.placed(acq.open)
		}
		hints, due := acq.a.Queue.Called(acq.name)
		if hints != 0 {
			acq.hints, acq.splits = hints, 0
		}
		if hints != 0 || due || acq.open != nil && acq.open.GoesOn() {
			return nil
		}
		select {
		case <-acq.waiter.Wake:
		case <-acq.waiter.Timer.C:
			return nil
		case <-acq.a.Closing:
			return fault.ErrClosed
		case <-ctx.Done():
			return fault.OfContext(ctx)
		}
	}
}

// pause waits a random while between the retry bounds.
func (acq *acquisition) pause(ctx context.Context) error {
	return acq.a.Wait(ctx, quorum.Drawn(acq.a.Share(acq.name.Key), acq.a.RetryMin, acq.a.RetryMax))
}

// Wait blocks for d, or until ctx is done or the Locker is closed.
func (a *base) Wait(ctx context.Context, d time.Duration) error {
	t := a.Clock.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-a.Closing:
		return fault.ErrClosed
	case <-ctx.Done():
		return fault.OfContext(ctx)
	}
}

// Share draws where in its range a random duration for this name lies, in [0, 1).
func (a *base) Share(key string) float64 { return a.Chance.Share(int64(a.Clock.Early()), key) }

// giveUp ends an acquisition that failed: the next goroutine's begins, or the process
// leaves the queue, and the nodes wake the next in line if it was our turn.
func (acq *acquisition) giveUp() {
	key, open := acq.name.Key, acq.open
	if open != nil {
		open.Close()
		acq.a.Queue.Shut(acq.name, false)
		acq.open = nil
		acq.a.Releases.rollBack(open.Claim, acq.terms.TTL)
		acq.a.Queue.GoOn(acq.name.Key, open.Claim.Replacement())
		acq.a.Settled()
	}
	acq.a.Releases.leaveLine(key)
}

// leaveLine ends an acquisition that has no attempt any more.
func (a *Releases) leaveLine(key string) {
	stands := a.Queue.Standing(key)
	if a.Queue.Ending(key) == round.LeaveQueue {
		a.LeaveAs(key, stands)
	}
	a.passOn(key)
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
	c := a.newClaim(key, a.TTL, "", a.Clock.Early(), 0)
	c.Abandoned.Store(true)
	for _, n := range nodes {
		n.Release(a.releaseOf(c, a.TTL, round.LeaveQueue, nil))
	}
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

// crowdFor is how long a name counts as contended after the last wait for it: an acquisition
// then asks for its place in line at once.
const crowdFor = time.Second

// noteWaiting notes that key is waited for.
func (a *base) noteWaiting(key string) {
	a.waitedFor[stripeOf(key)].Store(int64(a.Clock.Early()) + 1)
}

// uncontended tells whether nobody was seen to wait for key lately.
func (a *base) uncontended(key string) bool {
	at := a.waitedFor[stripeOf(key)].Load()
	return at == 0 || a.Clock.Early().Sub(clock.Instant(at)) > crowdFor
}

func stripeOf(key string) int64 { return lua.StripeOf(key) % stripes }
