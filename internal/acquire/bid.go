package acquire

import (
	"context"

	"github.com/quorumkit/redlock/internal/fault"
	"github.com/quorumkit/redlock/internal/quorum"
	"github.com/quorumkit/redlock/internal/round"
)

// bid makes one attempt by the place in line: it asks the nodes that called, or all nodes.
// Unlike attempt it learns from each refusal what stands before us in line.
func (acq *acquisition) bid(ctx context.Context, position int64) (Grant, *Failure) {
	if !acq.a.Enter() {
		return Grant{}, acq.a.attempts.ended(acq.name.Key, fault.ErrClosed)
	}
	start := acq.a.Clock.Start()
	claim := acq.a.newClaim(acq.name.Key, acq.terms.TTL, acq.terms.Label, start, acq.floor)
	switch {
	case acq.terms.Shared:
		claim.Share(position)
	case position > 0:
		claim.KeepPlace()
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
