package acquire

import (
	"context"
	"fmt"
	"time"

	"github.com/quorumkit/redlock/internal/fault"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/node"
	"github.com/quorumkit/redlock/internal/queue"
	"github.com/quorumkit/redlock/internal/quorum"
	"github.com/quorumkit/redlock/internal/round"
	"github.com/quorumkit/redlock/internal/slots"
)

// A slot is acquired as a lock is, except that all slots of a name have one line
// (internal/slots says how that goes). Goroutines of this Locker go to the nodes one at a
// time, until they hold or give up: then the next stands in line anew. The one whose turn it
// is may also be handed a slot by another of them, and then leaves the line.

// forSlot is an acquisition of one of a name's slots.
type forSlot struct{ *acquisition }

// slotWay is what an acquisition of a slot knows besides.
type slotWay struct {
	name   string // the name with the slots
	caller slots.Caller
}

// acquireSlot is Acquire of a slot.
func (a *Acquirer) acquireSlot(ctx context.Context, key string, t Terms) (Grant, error) {
	name, _, err := a.Queue.Take(ctx, lua.SlotsKey(key), t.TTL, t.Label, false)
	if err != nil {
		return Grant{}, a.Door.Ended(key, fmt.Errorf("%w: %w", errBusy, err))
	}
	acq := acquisition{a: a, name: name, terms: t, slot: &slotWay{name: key, caller: slots.New(t.Limit, a.lastSlot(key))}}
	slot := forSlot{&acq}
	slot.offer()
	g, err := acq.run(ctx, nil)
	slot.decline(a.Queue.Withdraw(name))
	acq.stopWaiting()
	g.Failed = acq.failed
	slot.leaveLine(g.Claim)
	a.Releases.passOn(name.Key)
	acq.finish()
	return g, err
}

// leaveLine leaves the slots' line: a holder at its head would keep the next waiter from
// another slot. Asks of the claim that are still to be sent then go past the line (Left).
func (acq forSlot) leaveLine(won *round.Claim) {
	if won != nil {
		won.Slot().Left.Store(true)
	}
	if place := acq.a.Queue.Depart(acq.name); place != quorum.NoTicket {
		acq.a.Releases.leaveSlots(acq.slot.name, acq.terms.Limit, place, acq.a.Nodes)
	}
}

// leaveSlots takes the process's entry for one of so many slots of a name off these nodes:
// that of this place, or of one before.
func (a *Releases) leaveSlots(name string, limit int, place int64, nodes []*node.Node) {
	c := a.newClaim(lua.SlotsKey(name), a.TTL, "", a.Clock.Early(), 0)
	c.TakeSlot(&round.Slot{Name: name, Line: c.Key, Number: slots.None, Limit: limit, Place: place})
	c.Abandoned.Store(true)
	for _, n := range nodes {
		n.Release(a.releaseOf(c, a.TTL, round.LeaveQueue, nil))
	}
}

// standForSlot makes the process wait at this place in the slots' line, or behind all its
// earlier places: a leave of one of those may come late, or twice.
func (acq forSlot) standForSlot(place int64) {
	last := &acq.a.stood[stripeOf(acq.slot.name)]
	place = max(place, last.Load()+1)
	acq.a.Queue.Stand(acq.name, place)
	for before := last.Load(); before < place && !last.CompareAndSwap(before, place); before = last.Load() {
	}
}

// try makes the attempt that is due. Where nobody waits the first ask brings a slot, and else
// a ticket in the same round trip.
func (acq forSlot) try(ctx context.Context, given *queue.Transfer) (Grant, interval, *Failure) {
	caller, position := &acq.slot.caller, acq.a.Queue.Position(acq.name)
	switch {
	case given != nil:
		g, f := acq.receive(ctx, given)
		return g, atOnce, f
	case acq.terms.Barging:
		g, r, f := acq.a.attempts.attemptSlot(ctx, acq.slot.name, &acq.terms, caller.Pick(acq.drawRandom()), acq.floor)
		if r != nil && caller.Ended(r.Votes, r.Asks.Heard, acq.drawRandom()) == slots.Again {
			return g, atOnce, f
		}
		return g, afterPause, f
	case position == quorum.NoTicket:
		return acq.drawPlace(ctx)
	}
	acq.recallFirst()
	acq.noteCalls()
	g, f := acq.bidSlot(ctx, position)
	if f == nil {
		return g, atOnce, nil
	}
	acq.noteCalls()
	if caller.Ended(acq.votes, acq.heard, acq.drawRandom()) == slots.Again {
		return g, atOnce, f
	}
	return g, untilCalled, f
}

// offer lets another goroutine of this Locker hand this one a slot, also while it asks, which
// it does most of the time.
func (acq forSlot) offer() {
	if !acq.terms.Barging {
		acq.a.Queue.Offer(acq.name, &queue.Waiter{TTL: acq.terms.TTL, Label: acq.terms.Label, Slots: acq.terms.Limit})
	}
}

// await is acquisition.await for a slot. It returns a slot that was handed on, also while the
// last ask was out. The offer stands all the time, so that no release passes it by, except
// during a pause, which nothing cuts short.
func (acq forSlot) await(ctx context.Context, i interval) (given *queue.Transfer, err error) {
	collect := acq.a.Queue.Collect
	if i == afterPause {
		collect = acq.a.Queue.Withdraw
	}
	if given = collect(acq.name); given != nil {
		return given, nil
	}
	switch i {
	case afterPause:
		err = acq.pause(ctx)
	case untilCalled:
		acq.offer()
		err = acq.rest(ctx)
	case atOnce:
	}
	if err != nil {
		collect = acq.a.Queue.Withdraw
	}
	if given = collect(acq.name); given != nil {
		return given, nil
	}
	if err == nil {
		acq.offer()
	}
	return nil, err
}

// decline gives back a slot that was handed on to a goroutine that does not take it: the
// nodes call the first in line.
func (acq forSlot) decline(given *queue.Transfer) {
	if given == nil {
		return
	}
	r := given.Handover.Round
	acq.a.attempts.closeRound(r, round.Open)
	acq.a.Releases.discard(r.Claim, acq.terms.TTL, round.LeaveNothing, nil)
	acq.a.Sleepers.Put(given.Sleeper)
	acq.a.Settled()
}

// drawRandom is a number at random, in [0, 1).
func (acq forSlot) drawRandom() float64 { return acq.a.Share(acq.slot.name) }

// noteCalls takes in that nodes have called since the last ask.
func (acq forSlot) noteCalls() {
	if acq.hints != 0 {
		acq.slot.caller.Hear(acq.a.Queue.Freed(acq.name))
	}
}

// drawPlace asks for a slot without a place, and stands in line where that is refused.
func (acq forSlot) drawPlace(ctx context.Context) (Grant, interval, *Failure) {
	caller := &acq.slot.caller
	g, r, f := acq.a.attempts.attemptSlot(ctx, acq.slot.name, &acq.terms, caller.Pick(acq.drawRandom()), acq.floor)
	if f == nil || f.Sentinel == nil {
		return g, atOnce, f
	}
	switch caller.Ended(r.Votes, r.Asks.Heard, acq.drawRandom()) {
	case slots.Again:
		return g, atOnce, f
	case slots.Take: // that came to nothing
		return g, afterPause, f
	case slots.Rest:
	}
	if acq.a.Queue.Given(acq.name) {
		return g, atOnce, f // it needs no place
	}
	position, ok := quorum.PositionOf(r.Votes, r.Asks.Heard)
	if !ok {
		return g, afterPause, f
	}
	if err := acq.join(ctx); err != nil {
		return g, atOnce, acq.a.attempts.ended(acq.slot.name, err)
	}
	acq.standForSlot(position)
	return g, atOnce, f
}

// slotClaim is a fresh attempt to hold a slot.
func (a *attempter) slotClaim(r *round.Round, name string, t *Terms, slot int, floor quorum.Token) *round.Claim {
	c := a.newClaim(lua.SlotKey(name, slot), t.TTL, t.Label, r.Start, floor)
	c.TakeSlot(&round.Slot{Name: name, Line: lua.SlotsKey(name), Number: slot, Limit: t.Limit})
	return c
}

// attemptSlot is attempt for a slot, without a place in line. It returns no round where it
// sent none.
func (a *attempter) attemptSlot(ctx context.Context, name string, t *Terms, slot int, floor quorum.Token) (Grant, *round.Round, *Failure) {
	if !a.Enter() {
		return Grant{}, nil, a.ended(name, fault.ErrClosed)
	}
	w := a.Sleepers.Get()
	defer a.Sleepers.Put(w)
	r := round.New(nil, len(a.Nodes), a.Clock.Start(), w)
	r.Claim = a.slotClaim(r, name, t, slot, floor)
	r.Asks = &round.Asks{Position: quorum.NoTicket, Heard: make([]quorum.Hearing, len(a.Nodes))}
	if t.Barging {
		r.Asks.Position = quorum.Barging
	}
	g, f := a.acquireRound(ctx, r, t.TTL, w)
	return g, r, f
}

// slotStage is AcquireStage for a slot. If the ask was refused, and the replies that are out
// decide whether another slot is free, they have as much time again.
func slotStage(r *round.Round) func([]quorum.Vote) round.Stage {
	return func(votes []quorum.Vote) round.Stage {
		s := round.AcquireStage(votes)
		if s == round.Finished && quorum.Count(votes).Verdict() == quorum.Contended && slots.Undecided(votes, r.Asks.Heard, r.Claim.Slot().Limit) {
			return round.Patient
		}
		return s
	}
}

// bidSlot is bid for a slot.
func (acq forSlot) bidSlot(ctx context.Context, position int64) (Grant, *Failure) {
	if !acq.a.Enter() {
		return Grant{}, acq.a.attempts.ended(acq.slot.name, fault.ErrClosed)
	}
	r := round.New(nil, len(acq.a.Nodes), acq.a.Clock.Start(), acq.waiter.Ready())
	r.Claim = acq.a.attempts.slotClaim(r, acq.slot.name, &acq.terms, acq.slot.caller.Pick(acq.drawRandom()), acq.floor)
	r.Claim.KeepPlace()
	r.Asks = &round.Asks{Position: position, Heard: make([]quorum.Hearing, len(acq.a.Nodes))}
	s, err := acq.gather(ctx, r)
	if err == nil {
		acq.ask(r, r.Others())
	}
	g, f := acq.a.attempts.conclude(ctx, r, acq.terms.TTL, acq.waiter, s, err)
	acq.hints |= r.Unanswered()
	acq.votes, acq.heard = r.Votes, r.Asks.Heard
	acq.countKept()
	return g, f
}

// tryToHoldSlot is Try of a slot: one attempt, and one more for as long as the refusals show
// that another slot is free on a quorum, and that nobody waits. Several that try at one
// moment may ask for the same slots one after another; the caller's own bound is as many
// attempts more as there are slots.
func (a *Acquirer) tryToHoldSlot(ctx context.Context, key string, t Terms) (Grant, error) {
	return a.retryAfterLook(ctx, func() (Grant, *Failure) {
		caller := slots.New(t.Limit, a.lastSlot(key))
		for {
			g, r, f := a.attempts.attemptSlot(ctx, key, &t, caller.Pick(a.Share(key)), 0)
			if f == nil || r == nil || caller.Ended(r.Votes, r.Asks.Heard, a.Share(key)) != slots.Again {
				return g, f
			}
		}
	})
}

// lastSlot takes the slot that this Locker released last of such a name; slots.None if it was
// taken already.
func (a *base) lastSlot(key string) int {
	return int(a.released[stripeOf(key)].Swap(0)) + slots.None
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
		return a.handover(c, start, a.releaseOf(old, lease, old.Rollback(), r))
	})
	if !handed {
		a.Settled()
	}
	return handed
}
