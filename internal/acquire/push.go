package acquire

import (
	"context"
	"time"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/fault"
	"github.com/quorumkit/redlock/internal/grant"
	"github.com/quorumkit/redlock/internal/queue"
	"github.com/quorumkit/redlock/internal/quorum"
	"github.com/quorumkit/redlock/internal/round"
)

// alone is the acquisition of an exclusive hold: by a grant of the release before it, if it
// takes pushes, else by bids.
type alone struct{ *acquisition }

// try makes the attempt that is due. A lock that was handed on is taken. Where nobody was seen
// to wait, the first attempt is a plain one. Else it asks for a ticket, and then by the place
// that the ticket gives.
func (acq alone) try(ctx context.Context, given *queue.Transfer) (Success, interval, *Failure) {
	position := acq.a.Queue.Position(acq.name)
	switch {
	case given != nil && given.Open != nil:
		g, f := acq.takeOver(ctx, given)
		if acq.a.Queue.Position(acq.name) == quorum.NoTicket { // too few nodes said one: it asks for it
			return g, atOnce, f
		}
		return g, untilCalled, f
	case given != nil:
		g, f := acq.receive(ctx, given)
		return g, atOnce, f
	case acq.terms.Barging:
		return acq.barge(ctx)
	case position == quorum.NoTicket && acq.a.uncontended(acq.name.Key):
		g, f := acq.a.attempts.attempt(ctx, acq.name.Key, &acq.terms, acq.floor, nil)
		if f != nil && f.Sentinel == fault.ErrNotAcquired { //nolint:errorlint // it is one of two
			acq.a.noteWaiting(acq.name.Key)
			return g, atOnce, f
		}
		return g, afterPause, f
	}
	if f := acq.enterLine(ctx); f != nil {
		return Success{}, atOnce, f
	}
	if position == quorum.NoTicket {
		return acq.askPlace(ctx)
	}
	acq.recallFirst()
	if acq.terms.acceptsPushes() {
		g, f := acq.stand(ctx, position)
		return g, untilCalled, f
	}
	g, f := acq.bid(ctx, position)
	return g, untilCalled, f
}

// askPlace asks for a place in line, and stands there.
func (acq alone) askPlace(ctx context.Context) (Success, interval, *Failure) {
	g, f := acq.bid(ctx, quorum.NoTicket)
	if f == nil {
		return g, atOnce, nil
	}
	if position, ok := quorum.PositionOf(acq.votes, acq.heard); ok {
		acq.a.Queue.Stand(acq.name, position)
		return Success{}, atOnce, f
	}
	return Success{}, afterPause, f
}

// stand makes the attempt by the place in line that releases may grant, or goes on with
// it. An attempt that all nodes refused stays open: its entries stand on the nodes.
func (acq alone) stand(ctx context.Context, position int64) (Success, *Failure) {
	if acq.open == nil {
		if !acq.a.Enter() {
			return Success{}, acq.a.attempts.ended(acq.name.Key, fault.ErrClosed)
		}
		acq.begin(position)
	}
	r := acq.open
	if !r.Asks.Handed {
		r.Again(acq.hints == 0 && !r.Granted())
	}
	began := acq.a.Clock.Early()
	step, err := acq.gatherOpen(ctx, r)
	for err == nil && acq.rests(r, step) {
		votes, heard, causes := r.SaidSoFar()
		if acq.votes, acq.heard = votes, heard; !r.Asks.Handed {
			return Success{}, acq.refused(ctx, r, began, causes)
		}
		if err = acq.rest(ctx); err == nil { // it stands in line, and was not refused: it is not tried again
			r.Again(acq.hints == 0 && !r.Granted())
			began, acq.called = acq.a.Clock.Early(), false
			step, err = acq.gatherOpen(ctx, r)
		}
	}
	s := round.Finished
	if err != nil || step != grant.Hold && step != grant.Raise {
		s = round.Open
	}
	acq.a.Queue.Shut(acq.name, s == round.Finished)
	acq.open = nil
	if err == nil {
		acq.ask(r, r.Others())
	}
	g, f := acq.a.attempts.conclude(ctx, r, acq.terms.TTL, acq.waiter, s, err)
	acq.hints |= r.Unanswered()
	acq.votes, acq.heard = r.Votes, r.Asks.Heard
	g.Asked = began
	if f != nil {
		acq.a.Queue.GoOn(acq.name.Key, r.Claim.Replacement)
	}
	acq.noteForeign()
	acq.countKept()
	return g, f
}

// rests tells whether the attempt stays open, and waits: a quorum has answered, and no
// node granted.
func (acq alone) rests(r *round.Round, step grant.Step) bool {
	return step == grant.Rest && quorum.Count(r.SoFar()).Taken >= r.List.Quorum(len(acq.a.Nodes))
}

// takeOver goes on with the attempt that the release before put in line.
func (acq alone) takeOver(ctx context.Context, given *queue.Transfer) (Success, *Failure) {
	acq.open = given.Open
	if !acq.a.Enter() { // as in join
		return Success{}, acq.a.attempts.ended(acq.name.Key, fault.ErrClosed)
	}
	acq.waiter = given.Sleeper
	acq.a.Queue.Attach(acq.name, acq.waiter)
	if err := acq.a.Presence.Join(ctx); err != nil {
		return Success{}, acq.a.attempts.ended(acq.name.Key, err)
	}
	acq.a.noteWaiting(acq.name.Key)
	return acq.stand(ctx, quorum.NoTicket)
}

// begin opens the attempt.
func (acq alone) begin(position int64) {
	start := acq.a.Clock.Start()
	claim := acq.a.newClaim(acq.name.Key, acq.terms.TTL, acq.terms.Label, start, acq.floor)
	before := acq.a.Queue.Standing(acq.name.Key)
	if before != nil && acq.a.labelOf(before) == acq.terms.Label { // its entries stand already
		before.Hint, before.TTL = claim.Hint, claim.TTL
		before.Rounds = 1
		before.Stand(start, 0)
		claim, before = before, nil
	}
	r := round.New(claim, len(acq.a.Nodes), start, acq.waiter.Ready())
	r.Asks = &round.Asks{Position: position, Heard: make([]quorum.Hearing, len(acq.a.Nodes))}
	r.AcceptPushes()
	acq.open = r
	acq.a.Queue.Open(acq.name, r)
	if before != nil { // another's, with a label that is not ours: ours comes for it
		before.Replacement = claim
		acq.a.Releases.discard(before, acq.terms.TTL, before.Rollback(), nil)
	}
}

// refused tells that the nodes have refused the attempt, which stays open.
func (acq alone) refused(ctx context.Context, r *round.Round, began clock.Instant, causes []error) *Failure {
	acq.noteForeign()
	acq.countKept()
	waits := r.Unanswered()
	acq.hints |= waits &^ acq.begun // the reply that is out may be older than the call, and long in coming
	acq.begun = waits
	f := &Failure{Sentinel: fault.ErrNotAcquired, Votes: acq.votes, Causes: causes, List: r.List}
	acq.a.Door.Polled(acq.votes)
	f.Words = acq.a.Door.Refused(ctx, acq.name.Key, began, 1, f)
	return f
}

// gatherOpen asks, and takes in what comes, until the attempt has a verdict (internal/grant).
func (acq alone) gatherOpen(ctx context.Context, r *round.Round) (grant.Step, error) {
	w, bound, waits := acq.waiter, acq.a.Bound(acq.terms.TTL), nothing
	defer w.Timer.Stop()
	for {
		more, _ := acq.a.Queue.Called(acq.name)
		if more |= acq.hints; more != 0 {
			r.Hint(more)
			acq.hints, acq.called = 0, true
		}
		if lost := acq.placed(r); lost {
			return grant.GiveBack, nil
		}
		step, nodes, granted, all := r.Next(acq.permit.held)
		switch {
		case step != grant.Hold && r.List != acq.a.Tracker.List():
			return grant.GiveBack, nil // it begins anew, by the list of now
		case step == grant.Ask && nodes == 0 && acq.mayAsk(w):
			continue
		case step == grant.Ask && nodes == 0: // it waits until it may, or for the rest of a grant
		case step == grant.Ask:
			acq.ask(r, nodes)
			waits = nothing // the new ask has the whole time again
			continue
		case step == grant.Rest && r.Unplaced():
			continue // all nodes have said its place by now, or that they have none
		case step != grant.Wait:
			return step, nil
		case (all || r.Asks.Handed) && r.Refused(): // the other nodes may answer while we rest
			return grant.Rest, nil
		}
		next := forReplies
		switch {
		case step == grant.Ask:
			next = forPermit
		case r.Asks.Handed && !granted: // the replies to the release say the place
		case !all:
			next = toGather
		case granted && !r.Out():
			next = forPushes
		}
		if next != waits {
			waits = next
			w.Timer.Reset([...]time.Duration{forReplies: bound, toGather: quorum.GatherAfter, forPushes: grant.LastPushes, forPermit: bound}[next])
		}
		select {
		case <-w.Wake:
		case <-w.Timer.C:
			if waits == forReplies {
				return grant.GiveBack, nil
			}
			r.AskAll(waits == forPushes)
		case <-acq.a.Closing:
			return step, fault.ErrClosed
		case <-ctx.Done():
			return step, fault.OfContext(ctx)
		}
	}
}

// What an attempt waits for.
const (
	nothing    = iota
	forReplies // to its asks
	toGather   // what the other nodes say by themselves, once one has
	forPushes  // that are on their way still
	forPermit  // to ask; all nodes, if it is long in coming
)
