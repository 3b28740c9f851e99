package acquire

import (
	"context"
	"errors"
	"time"

	"github.com/quorumkit/redlock/internal/fault"
	"github.com/quorumkit/redlock/internal/node"
	"github.com/quorumkit/redlock/internal/quorum"
)

// A shared hold stands beside others of its name. So its attempts go past the line of this
// Locker's goroutines, and it is handed to nobody: its release frees the nodes.

const (
	// mostRaises is how often the token of a shared hold is raised before the attempt is
	// given up. In a lab with four very busy names on one counter four did.
	mostRaises = 5
	// raiseLead is how far a repeated raise is ahead of the clock, in microseconds: other
	// names move the counter to the clock meanwhile.
	raiseLead = 2000
)

// acquireShared is Acquire of a shared hold. It waits by looking again, with no place in
// line.
func (a *Acquirer) acquireShared(ctx context.Context, key string, t Terms) (Grant, error) {
	var last *Failure
	for failed := 0; ; {
		if err := fault.OfContext(ctx); err != nil {
			return Grant{Failed: failed}, a.Door.Ended(key, joined(err, last))
		}
		g, f := a.attemptShared(ctx, key, t)
		if f == nil {
			if g.Turn, g.Failed = First, failed; failed > 0 {
				g.Turn = Found
			}
			return g, nil
		}
		failed++
		var race *raceError
		switch {
		case f.Sentinel == nil:
			if errors.Is(f.Cause, fault.ErrClosed) {
				last = nil
			}
			return Grant{Failed: failed}, joined(f.Words, last)
		case (failed == 1 || f.hopeless()) && a.lookAgain(ctx, f):
			continue // at once: one that abstained may vote by now
		case f.hopeless():
			return Grant{Failed: failed}, f.Words
		case errors.As(f.Cause, &race):
			last = f
			continue // at once
		}
		last = f
		if err := a.Wait(ctx, quorum.Drawn(a.Share(key), a.RetryMin, a.RetryMax)); err != nil {
			return Grant{Failed: failed}, a.Door.Ended(key, joined(err, last))
		}
	}
}

// attemptShared is attempt for a shared hold.
func (a *Acquirer) attemptShared(ctx context.Context, key string, t Terms) (Grant, *Failure) {
	if !a.Enter() {
		return Grant{}, a.ended(key, fault.ErrClosed)
	}
	start := a.Clock.Start()
	c := a.newClaim(key, t.TTL, t.Label, start, 0)
	c.Shared = true
	w := a.Sleepers.Get()
	defer a.Sleepers.Put(w)
	r := node.NewRound(c, len(a.Nodes), start, w)
	if t.Barging {
		r.Asks = &node.Asks{Position: quorum.Barging, Heard: make([]quorum.Hearing, len(a.Nodes))}
	}
	return a.acquireRound(ctx, r, t.TTL, w)
}

// raisedShared is raised for a shared hold. Each reply is the number that the name has on
// that node now, and one that a quorum shows is the token. While there is none it raises
// again: to the clock and a little more, as often as there is time for.
func (a *Acquirer) raisedShared(ctx context.Context, r *node.Round, t quorum.Token, bound time.Duration) (quorum.Token, error) {
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
// the claim of the last one; nil: they are no quorum.
func (a *Acquirer) raiseAgain(last *node.Round, t quorum.Token, w *node.Sleeper) *node.Round {
	r := node.NewRound(last.Claim, len(a.Nodes), a.Clock.Early(), w.Ready())
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
