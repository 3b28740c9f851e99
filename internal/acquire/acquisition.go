package acquire

import (
	"context"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/fault"
	"github.com/quorumkit/redlock/internal/grant"
	"github.com/quorumkit/redlock/internal/queue"
	"github.com/quorumkit/redlock/internal/quorum"
	"github.com/quorumkit/redlock/internal/round"
	"github.com/quorumkit/redlock/internal/slots"
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
	permit permit   // to ask the nodes
}

// slotWay is what an acquisition of a slot knows besides.
type slotWay struct {
	name   string // the name with the slots
	caller slots.Caller
}

// interval is how an acquisition waits between two attempts. It is no function: a method
// value of the acquisition would move it to the heap, in acquisitions that never wait too.
type interval uint8

const (
	atOnce      interval = iota // not at all
	afterPause                  // for a pause of random length
	untilCalled                 // until a node calls, or it is time to look without a call
)

// enterLine makes the acquisition wait where the nodes can call it.
func (acq *acquisition) enterLine(ctx context.Context) *Failure {
	if err := acq.join(ctx); err != nil {
		return acq.a.attempts.ended(acq.name.Key, err)
	}
	acq.a.noteWaiting(acq.name.Key)
	acq.withdraw()
	return nil
}

// withdraw cancels our claim that stands on the nodes, if the goroutine that leads now takes no
// pushes: it would not hear of a grant to that claim, and the name would stay with the claim
// for a lease.
func (acq *acquisition) withdraw() {
	if acq.terms.acceptsPushes() {
		return
	}
	if stands := acq.a.Queue.Standing(acq.name.Key); stands != nil {
		acq.a.Queue.GoOn(acq.name.Key, nil)
		acq.a.Releases.discard(stands, max(acq.terms.TTL, grant.Lease), stands.Rollback(), nil)
	}
}

// barge asks past the line.
func (acq *acquisition) barge(ctx context.Context) (Success, interval, *Failure) {
	if f := acq.enterLine(ctx); f != nil {
		return Success{}, atOnce, f
	}
	g, f := acq.bid(ctx, quorum.Barging)
	return g, afterPause, f
}

// bid makes one attempt by the place in line: it asks the nodes that called, or all nodes.
// Unlike attempt it learns from each refusal what stands before us in line.
func (acq *acquisition) bid(ctx context.Context, position int64) (Success, *Failure) {
	start := acq.a.Clock.Start()
	claim := acq.a.newClaim(acq.name.Key, acq.terms.TTL, acq.terms.Label, start, acq.floor)
	switch {
	case acq.terms.Shared:
		claim.Share(position)
	case position > 0:
		claim.KeepPlace()
	}
	return acq.bidFor(ctx, claim, start, position)
}

// bidFor asks for the claim by the hints that have come, or at all nodes. Unlike those of
// attempt, each refusal also says how the line stands.
func (acq *acquisition) bidFor(ctx context.Context, claim *round.Claim, start clock.Instant, position int64) (Success, *Failure) {
	if !acq.a.Enter() {
		return Success{}, acq.a.attempts.ended(acq.name.Key, fault.ErrClosed)
	}
	r := round.New(claim, len(acq.a.Nodes), start, acq.waiter.Ready())
	r.Asks = &round.Asks{Position: position, Heard: make([]quorum.Hearing, len(acq.a.Nodes))}
	s, err := acq.gather(ctx, r)
	if err == nil {
		acq.ask(r, r.Others())
	}
	g, f := acq.a.attempts.conclude(ctx, r, acq.terms.TTL, acq.waiter, s, err)
	acq.hints |= r.Unanswered()
	acq.votes, acq.heard = r.Votes, r.Asks.Heard
	acq.noteForeign()
	acq.countKept()
	return g, f
}

// gather asks, and blocks until the round has a verdict: first it asks the nodes that have
// called, each at once when it calls, and soon all of them.
func (acq *acquisition) gather(ctx context.Context, r *round.Round) (round.Stage, error) {
	w := acq.waiter
	hints, all := acq.hints, acq.hints == 0
	acq.hints = 0
	pause := quorum.GatherAfter
	if all {
		pause = acq.a.Bound(acq.terms.TTL)
	}
	w.Timer.Reset(pause)
	defer w.Timer.Stop()
	for extended, freed := false, false; ; {
		more, _ := acq.a.Queue.Called(acq.name)
		if hints |= more; freed {
			acq.hints |= hints // for the next attempt: a grant that was given back must not count in this one
		} else {
			acq.ask(r, r.Due(hints, all))
		}
		hints = 0
		s := r.Judged(round.AcquireStage)
		switch {
		case s == round.Finished:
			return s, nil
		case s == round.Patient && !extended:
			extended = true
			took := acq.a.Clock.Early().Sub(r.Start)
			w.Timer.Reset(max(min(took, acq.a.Bound(acq.terms.TTL)-took), 0))
		case s == round.Hopeless && !freed:
			freed = true
			acq.a.Releases.rollBackGranted(r, acq.terms.TTL)
		}
		select {
		case <-w.Wake:
		case <-w.Timer.C:
			if all || s != round.Open {
				return r.Judged(round.AcquireStage), nil
			}
			all = true
			w.Timer.Reset(acq.a.Bound(acq.terms.TTL))
		case <-acq.a.Closing:
			return s, fault.ErrClosed
		case <-ctx.Done():
			return s, fault.OfContext(ctx)
		}
	}
}

// ask sends the round's acquire to these nodes.
func (acq *acquisition) ask(r *round.Round, nodes uint64) {
	for i, n := range acq.a.Nodes {
		if nodes&(1<<i) != 0 {
			n.SubmitAcquire(r)
		}
	}
}

// receive takes what HandOn gave.
func (acq *acquisition) receive(ctx context.Context, given *queue.Transfer) (Success, *Failure) {
	defer acq.a.Sleepers.Put(given.Sleeper)
	r := given.Handover.Round
	s, err := r.Await(ctx, acq.a.Clock, acq.a.Bound(acq.terms.TTL), round.AcquireStage, func() { acq.a.Releases.rollBackGranted(r, acq.terms.TTL) })
	return acq.a.attempts.conclude(ctx, r, acq.terms.TTL, given.Sleeper, s, err)
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

// countKept takes in whether the last attempt found the name free, and kept, on nodes
// without which those that granted are no quorum. One may be enough, where others are down.
func (acq *acquisition) countKept() {
	kept, granted := 0, quorum.Count(acq.votes).Granted
	for i, v := range acq.votes {
		if v.Outcome == quorum.Taken && acq.heard[i].Free && !acq.heard[i].Head {
			kept++
		}
	}
	if kept == 0 || kept+granted < quorum.Needed(acq.votes) {
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

// stopWaiting gives the permit back, and ends what join began, but for finish.
func (acq *acquisition) stopWaiting() {
	acq.permit.end()
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
	if t := quorum.Count(acq.votes); t.Granted+t.Taken >= quorum.Needed(acq.votes) {
		acq.permit.end()
	}
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
	if acq.terms.Barging { // nothing failed: it asks again and again
		acq.permit.end()
	}
	return acq.a.Wait(ctx, quorum.Drawn(acq.a.Share(acq.name.Key), acq.a.RetryMin, acq.a.RetryMax))
}

// giveUp ends an acquisition that failed: the next goroutine's begins, or the process
// leaves the queue, and the nodes wake the next in line if it was our turn.
func (acq *acquisition) giveUp() {
	key, open := acq.name.Key, acq.open
	if open != nil {
		open.Close()
		acq.a.Queue.Shut(acq.name, false)
		acq.open = nil
		acq.a.Releases.rollBack(open.Claim, acq.terms.TTL)
		acq.a.Queue.GoOn(acq.name.Key, open.Claim.Replacement)
		acq.a.Settled()
	}
	acq.a.Releases.leaveLine(key)
}

// placed takes in what the nodes said of the place in line, and tells it to those that
// said another. It returns true if too few nodes say one.
func (acq *acquisition) placed(r *round.Round) (lost bool) {
	place, tell, lost := r.Placed()
	if place != quorum.NoTicket && acq.a.Queue.Position(acq.name) != place {
		acq.a.Queue.Stand(acq.name, place)
	}
	acq.ask(r, tell)
	return lost
}

// noteForeign notes that the last attempt met a holder whose value is not one of ours.
func (acq *acquisition) noteForeign() {
	for _, h := range acq.heard {
		if h.Foreign {
			acq.a.foreignOn[stripeOf(acq.name.Key)].Store(int64(acq.a.Clock.Early()) + 1)
			return
		}
	}
}
