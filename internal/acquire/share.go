package acquire

import (
	"context"

	"github.com/quorumkit/redlock/internal/fault"
	"github.com/quorumkit/redlock/internal/queue"
	"github.com/quorumkit/redlock/internal/quorum"
	"github.com/quorumkit/redlock/internal/round"
)

// A shared hold stands beside others of its name. So the goroutines that want to share go
// together (quorum.Group says which, and when), and no hold is handed on: its release frees
// the nodes.

// sharing is the acquisition of a shared hold: one of a group of this process's goroutines
// leads, and asks for all.
type sharing struct{ *acquisition }

// try makes the attempt that is due. A follower takes what its leader asked for it. Else it
// asks for a ticket, and then by the place that the ticket gives.
func (acq sharing) try(ctx context.Context, given *queue.Transfer) (Success, interval, *Failure) {
	position := acq.a.Queue.Position(acq.name)
	switch {
	case given != nil:
		g, f := acq.followLeader(ctx, given)
		return g, atOnce, f
	case acq.terms.Barging:
		return acq.barge(ctx)
	case position == quorum.NoTicket || !acq.leads:
		return acq.askTicket(ctx) // a place may have come since: only the leader asks by it, for the nodes call it alone
	}
	if f := acq.enterLine(ctx); f != nil {
		return Success{}, atOnce, f
	}
	acq.recallFirst()
	g, f := acq.bid(ctx, position)
	return g, untilCalled, f
}

// take comes before an attempt: a goroutine that was refused leads its group from then on, or
// waits until the leader has been granted. A leader that has a ticket stands in line by it.
func (acq sharing) take(ctx context.Context, given *queue.Transfer) (*queue.Transfer, error) {
	if acq.terms.Barging || given != nil || acq.failed == 0 && !acq.leads {
		return given, nil
	}
	if !acq.leads {
		acq.permit.end()
		var err error
		if given, acq.leads, err = acq.a.Queue.Follow(ctx, acq.name, acq.terms.TTL, acq.terms.Label); err != nil || !acq.leads {
			return given, err
		}
	}
	if acq.ticket != quorum.NoTicket && acq.a.Queue.Position(acq.name) == quorum.NoTicket {
		acq.a.Queue.Stand(acq.name, acq.ticket)
	}
	return nil, nil //nolint:nilnil // it asks by itself
}

// askTicket makes an attempt without a place, which nodes grant unless somebody waits for an
// exclusive hold. A node that refuses also says a ticket.
func (acq sharing) askTicket(ctx context.Context) (Success, interval, *Failure) {
	if acq.leads {
		acq.a.Queue.Gather(acq.name) // the place will be theirs too
	}
	asks := round.NewSharedAsks(quorum.NoTicket, len(acq.a.Nodes))
	g, f := acq.a.attempts.attempt(ctx, acq.name.Key, &acq.terms, 0, asks)
	if acq.noteTicket(f, asks.Heard) {
		return g, atOnce, f
	}
	return g, afterPause, f
}

// noteTicket takes in the tickets that an attempt without a place got. It returns false where
// they give no place.
func (acq sharing) noteTicket(f *Failure, heard []quorum.Hearing) bool {
	acq.ticket = quorum.NoTicket
	if f == nil || f.Sentinel != fault.ErrNotAcquired { //nolint:errorlint // it is one of two
		return false
	}
	acq.a.noteWaiting(acq.name.Key)
	place, ok := quorum.PositionOf(f.Votes, heard)
	if ok {
		acq.ticket = place
	}
	return ok
}

// serveFollowers sends the followers' attempts, now that their leader was granted: all in one
// batch for each node, by the group's place.
func (acq sharing) serveFollowers(turn Turn) {
	place, follow := acq.a.Queue.Going(acq.name)
	start := acq.a.Clock.Start()
	given := make([]queue.Transfer, len(follow))
	var rounds []*round.Round
	for i, w := range follow {
		given[i].Turn = uint8(turn)
		if !acq.a.Enter() {
			continue // the Locker is closed, which it finds
		}
		c := acq.a.newClaim(acq.name.Key, w.TTL, w.Label, start, 0)
		c.Share(place)
		given[i].Sleeper = acq.a.Sleepers.Get()
		given[i].Open = round.New(c, len(acq.a.Nodes), start, given[i].Sleeper)
		given[i].Open.Asks = round.NewSharedAsks(place, len(acq.a.Nodes))
		rounds = append(rounds, given[i].Open)
	}
	if len(rounds) > 0 {
		for _, n := range acq.a.Nodes {
			n.SubmitAcquires(rounds)
		}
	}
	for i, w := range follow {
		w.Give(&given[i])
	}
}

// followLeader takes what serveFollowers sent.
func (acq sharing) followLeader(ctx context.Context, given *queue.Transfer) (Success, *Failure) {
	r := given.Open
	if r == nil {
		return Success{}, acq.a.attempts.ended(acq.name.Key, fault.ErrClosed)
	}
	defer acq.a.Sleepers.Put(given.Sleeper)
	s, err := r.Await(ctx, acq.a.Clock, acq.a.Bound(acq.terms.TTL), round.AcquireStage, func() { acq.a.Releases.rollBackGranted(r, acq.terms.TTL) })
	g, f := acq.a.attempts.conclude(ctx, r, acq.terms.TTL, given.Sleeper, s, err)
	if r.Asks.Position == quorum.NoTicket {
		acq.noteTicket(f, r.Asks.Heard)
	}
	return g, f
}
