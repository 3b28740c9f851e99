package acquire

import (
	"context"

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
func (acq forSlot) try(ctx context.Context, given *queue.Transfer) (Success, interval, *Failure) {
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
func (acq forSlot) drawPlace(ctx context.Context) (Success, interval, *Failure) {
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

// bidSlot is bid for a slot.
func (acq forSlot) bidSlot(ctx context.Context, position int64) (Success, *Failure) {
	start := acq.a.Clock.Start()
	claim := acq.a.attempts.slotClaim(start, acq.slot.name, &acq.terms, acq.slot.caller.Pick(acq.drawRandom()), acq.floor)
	claim.KeepPlace()
	return acq.bidFor(ctx, claim, start, position)
}
