package acquire

import (
	"context"
	"fmt"
	"time"

	"github.com/quorumkit/redlock/internal/fault"
	"github.com/quorumkit/redlock/internal/node"
	"github.com/quorumkit/redlock/internal/queue"
	"github.com/quorumkit/redlock/internal/quorum"
	"github.com/quorumkit/redlock/internal/round"
)

// A shared hold stands beside others of its name. So the goroutines that want to share go
// together (quorum.Group says which, and when), and no hold is handed on: its release frees
// the nodes.

const (
	// mostRaises is how often the token of a shared hold is raised before the attempt is
	// given up. In a lab with four very busy names on one counter four did.
	mostRaises = 5
	// raiseLead is how far a repeated raise is ahead of the clock, in microseconds: other
	// names move the counter to the clock meanwhile.
	raiseLead = 2000
)

// sharing is the acquisition of a shared hold: one of a group of this process's goroutines
// leads, and asks for all.
type sharing struct{ *acquisition }

// try makes the attempt that is due. A follower takes what its leader asked for it. Else it
// asks for a ticket, and then by the place that the ticket gives.
func (acq sharing) try(ctx context.Context, given *queue.Transfer) (Grant, interval, *Failure) {
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
		return Grant{}, atOnce, f
	}
	acq.recallFirst()
	g, f := acq.bid(ctx, position)
	return g, untilCalled, f
}

// acquireShared is Acquire of a shared hold. The goroutines of this Locker that want to share
// the name, and whose turn has come, are a group: each asks by itself at first, and once the
// nodes have refused, one of them waits for all.
func (a *Acquirer) acquireShared(ctx context.Context, key string, t Terms) (Grant, error) {
	if t.Barging {
		return a.bargeShared(ctx, key, t)
	}
	name, given, leads, err := a.Queue.Share(ctx, key, t.TTL, t.Label)
	if err != nil {
		return Grant{}, a.Door.Ended(key, fmt.Errorf("%w: %w", errBusy, err))
	}
	acq := acquisition{a: a, name: name, terms: t, leads: leads}
	g, err := acq.run(ctx, given)
	acq.stopWaiting()
	g.Failed = acq.failed
	if err == nil && acq.leads {
		sharing{&acq}.serveFollowers(g.Turn)
		acq.leads = false
	}
	byPlace := err == nil && *g.Claim.Place() == a.Queue.Position(name)
	a.Queue.Decided(name, acq.leads, byPlace, a.leaveShared)
	acq.finish()
	return g, err
}

// bargeShared is acquireShared past the line. It is of no group: the others would wait for an
// attempt that has no place, and may starve.
func (a *Acquirer) bargeShared(ctx context.Context, key string, t Terms) (Grant, error) {
	acq := acquisition{a: a, name: queue.Apart(key), terms: t}
	g, err := acq.run(ctx, nil)
	acq.stopWaiting()
	g.Failed = acq.failed
	acq.finish()
	return g, err
}

// take comes before an attempt: a goroutine that was refused leads its group from then on, or
// waits until the leader has been granted. A leader that has a ticket stands in line by it.
func (acq sharing) take(ctx context.Context, given *queue.Transfer) (*queue.Transfer, error) {
	if acq.terms.Barging || given != nil || acq.failed == 0 && !acq.leads {
		return given, nil
	}
	if !acq.leads {
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
func (acq sharing) askTicket(ctx context.Context) (Grant, interval, *Failure) {
	if acq.leads {
		acq.a.Queue.Gather(acq.name) // the place will be theirs too
	}
	asks := round.NewSharedAsks(quorum.NoTicket, len(acq.a.Nodes))
	g, f := acq.a.attempts.attemptShared(ctx, acq.name.Key, &acq.terms, asks)
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
func (acq sharing) followLeader(ctx context.Context, given *queue.Transfer) (Grant, *Failure) {
	r := given.Open
	if r == nil {
		return Grant{}, acq.a.attempts.ended(acq.name.Key, fault.ErrClosed)
	}
	defer acq.a.Sleepers.Put(given.Sleeper)
	s, err := r.Await(ctx, acq.a.Clock, acq.a.Bound(acq.terms.TTL), round.AcquireStage, func() { acq.a.Releases.rollBackGranted(r, acq.terms.TTL) })
	g, f := acq.a.attempts.conclude(ctx, r, acq.terms.TTL, given.Sleeper, s, err)
	if r.Asks.Position == quorum.NoTicket {
		acq.noteTicket(f, r.Asks.Heard)
	}
	return g, f
}

// tryShared is Try's attempt of a shared hold.
func (a *attempter) tryShared(ctx context.Context, key string, t Terms) (Grant, *Failure) {
	if !t.Barging {
		return a.attemptShared(ctx, key, &t, nil)
	}
	return a.attemptShared(ctx, key, &t, round.NewSharedAsks(quorum.Barging, len(a.Nodes)))
}

// attemptShared is attempt for a shared hold that has no place in line.
func (a *attempter) attemptShared(ctx context.Context, key string, t *Terms, asks *round.Asks) (Grant, *Failure) {
	if !a.Enter() {
		return Grant{}, a.ended(key, fault.ErrClosed)
	}
	start := a.Clock.Start()
	c := a.newClaim(key, t.TTL, t.Label, start, 0)
	c.Share(quorum.NoTicket)
	w := a.Sleepers.Get()
	defer a.Sleepers.Put(w)
	r := round.New(c, len(a.Nodes), start, w)
	r.Asks = asks
	return a.acquireRound(ctx, r, t.TTL, w)
}

// endShared releases a shared hold, or gives it back. Its process's place goes with it, unless
// others of the group still wait by that place.
func (a *Releases) endShared(c *round.Claim, lease time.Duration, r *round.Round) {
	entry := [...]round.Leaving{
		quorum.EntryNot: round.LeaveNothing, quorum.EntryGoes: round.LeaveQueue, quorum.EntryStays: round.LeaveEntry,
	}[a.Queue.EntryAt(c.Key, *c.Place())]
	a.discard(c, lease, entry, r)
}

// anyPlace is no lower than any place in line.
const anyPlace = int64(quorum.MaxToken)

// LeaveShared takes the process's entry in the line of sharers for a name off these nodes: the
// entry at this place, or at an earlier one.
func (a *Releases) LeaveShared(key string, place int64, nodes []*node.Node) {
	c := a.newClaim(key, a.TTL, "", a.Clock.Early(), 0)
	c.Share(place)
	c.Abandoned.Store(true)
	for _, n := range nodes {
		n.Release(a.releaseOf(c, a.TTL, round.LeaveQueue, nil))
	}
}

// raisedShared is raised for a shared hold. Each reply is the number that the name has on
// that node now, and one that a quorum shows is the token. While there is none it raises
// again: to the clock and a little more, as often as there is time for.
func (a *attempter) raisedShared(ctx context.Context, r *round.Round, t quorum.Token, bound time.Duration) (quorum.Token, error) {
	until := a.Clock.Early().Add(bound)
	for tries := 1; ; tries++ {
		w := r.Caller
		_, err := r.Await(ctx, a.Clock, max(until.Sub(a.Clock.Early()), 0), node.SharedRaiseStage, nil)
		r.Close()
		verdict, token := quorum.Settle(r.Votes)
		if err == nil && verdict == quorum.Settled {
			return token, nil
		}
		for _, v := range r.Votes {
			a.Hints.Seen(v.Token)
			t = max(t, v.Token)
		}
		next := max(t, quorum.Token(a.Hints.Hint())) + raiseLead //nolint:gosec // positive
		if err != nil || tries == mostRaises || next > quorum.MaxToken || a.Clock.Early() >= until {
			return 0, &raceError{above: t}
		}
		t = next
		if r = a.raiseAgain(r, t, w); r == nil {
			return 0, &raceError{above: t}
		}
	}
}

// raiseAgain sends a further raise round, to t, to the nodes that may share the name with
// the claim of the last one; nil if they are no quorum.
func (a *attempter) raiseAgain(last *round.Round, t quorum.Token, w *round.Sleeper) *round.Round {
	r := round.New(last.Claim, len(a.Nodes), a.Clock.Early(), w.Ready())
	r.Raise = int64(t) //nolint:gosec // below 2^53
	for i, v := range last.Votes {
		switch v.Outcome {
		case quorum.Granted, quorum.Pending, quorum.Unknown:
		case quorum.Taken, quorum.Abstained, quorum.Failed:
			r.Votes[i].Outcome = quorum.Failed
		}
	}
	if quorum.Count(r.Votes).Pending < a.quorum {
		return nil
	}
	r.Claim.Rounds++
	for i, n := range a.Nodes {
		if r.Votes[i].Outcome == quorum.Pending {
			n.SubmitRaise(r)
		}
	}
	return r
}
