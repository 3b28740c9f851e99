package acquire

import (
	"context"
	"time"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/fault"
	"github.com/quorumkit/redlock/internal/quorum"
	"github.com/quorumkit/redlock/internal/round"
)

// Answer is what one round for several names brought of one of them.
type Answer struct {
	Success Success
	Err     error    // why there is none; nil if it was granted
	Failure *Failure // the attempt that brought none; nil if none was made
}

// AskAll makes one attempt for each of these names: one round for all, in which each
// node gets one batch. It waits for no holder and in no line. A name that this Locker
// holds, or queues for, counts as taken, and nothing is sent for it.
//
// It blocks for at most as long as a lock of this TTL waits for a node, and as long again
// where tokens have to be raised. What was not granted is rolled back in the background;
// a grant is the caller's, to hold or to Return.
func (a *Acquirer) AskAll(ctx context.Context, keys []string, t Terms) []Answer {
	waiter := a.Sleepers.Get()
	defer a.Sleepers.Put(waiter)
	s := multiAttempt{
		a: a, terms: t, waiter: waiter, start: a.Clock.Start(), parts: make([]part, len(keys)),
	}
	s.send(keys)
	s.gather(ctx)
	s.raise()
	answers := make([]Answer, len(keys))
	for i := range s.parts {
		answers[i] = s.conclude(ctx, &s.parts[i], keys[i])
	}
	return answers
}

// LookAgain looks at the nodes again before a set is refused because some were seen not to
// vote. It tells whether such a node may vote by now.
func (a *Acquirer) LookAgain(ctx context.Context, f *Failure) bool {
	return f != nil && a.lookAgain(ctx, f)
}

// WaitFor is Acquire of a name that was just found taken.
func (a *Acquirer) WaitFor(ctx context.Context, key string, t Terms) (Success, error) {
	a.noteWaiting(key)
	return a.Acquire(ctx, key, t)
}

// Return gives back a grant that nobody holds yet.
func (a *Acquirer) Return(g *Success, lease time.Duration) {
	a.Releases.GiveBack(g.Claim, lease)
	a.Settled()
}

// multiAttempt is an attempt for several names at once. Its rounds share a Sleeper: each
// wake-up looks at them all.
type multiAttempt struct {
	a      *Acquirer
	terms  Terms
	waiter *round.Sleeper
	start  clock.Instant
	parts  []part
}

// part is one name of a multiAttempt.
type part struct {
	refused error        // nothing was sent: the name is this Locker's already, or the Locker is closed
	round   *round.Round // nil if nothing was sent
	stage   round.Stage
	err     error // the caller's context ended before the round did
	freed   bool  // the grants of a lost round are given back
	token   quorum.Token
	raise   *round.Round // of a token that the nodes have to settle on; nil if none
	why     error        // why there is no token
}

// send takes each name's line in this Locker where it is free, and hands each node its
// acquires at once.
func (s *multiAttempt) send(keys []string) {
	rounds := make([]*round.Round, 0, len(keys))
	for i, key := range keys {
		p := &s.parts[i]
		if !s.mayAsk(key) {
			p.refused = errBusy
			continue
		}
		if !s.a.Enter() {
			s.done(key)
			p.refused = fault.ErrClosed
			continue
		}
		claim := s.a.newClaim(key, s.terms.TTL, s.terms.Label, s.start, 0)
		if s.terms.Shared {
			claim.Share(quorum.NoTicket)
		}
		p.round = round.New(claim, len(s.a.Nodes), s.start, s.waiter)
		rounds = append(rounds, p.round)
	}
	if len(rounds) == 0 {
		return
	}
	for _, n := range s.a.Nodes {
		n.SubmitAcquires(rounds)
	}
}

// mayAsk takes the turn for one name, if no goroutine of this Locker has it. A shared hold
// takes no turn.
func (s *multiAttempt) mayAsk(key string) bool {
	if s.terms.Shared {
		return s.a.Queue.MayShare(key)
	}
	_, ok := s.a.Queue.Try(key)
	return ok
}

// done ends an attempt for one name: the next in this Locker's line goes on.
func (s *multiAttempt) done(key string) {
	if !s.terms.Shared {
		s.a.Releases.passOn(key)
	}
}

// gather blocks until every round is decided, as long as one waits for a node, or ctx is
// done. Rounds that are won and wait for a straggler to settle their token are given as
// much time again, together, as all have taken so far.
func (s *multiAttempt) gather(ctx context.Context) {
	w, bound := s.waiter, s.a.Bound(s.terms.TTL)
	w.Timer.Reset(bound)
	defer w.Timer.Stop()
	for extended := false; ; {
		undecided, patient := s.judgeAll()
		switch {
		case !undecided && !patient:
			return
		case !undecided && !extended:
			extended = true
			took := s.a.Clock.Early().Sub(s.start)
			w.Timer.Reset(max(min(took, bound-took), 0))
		}
		select {
		case <-w.Wake:
		case <-w.Timer.C:
			s.judgeAll()
			return
		case <-ctx.Done():
			for i := range s.parts {
				if p := &s.parts[i]; p.stage != round.Finished {
					p.err = fault.OfContext(ctx)
				}
			}
			return
		}
	}
}

// judgeAll looks how far the rounds are, and gives back the grants of lost ones.
func (s *multiAttempt) judgeAll() (undecided, patient bool) {
	for i := range s.parts {
		p := &s.parts[i]
		if p.round == nil || p.stage == round.Finished {
			continue
		}
		switch p.stage = p.round.Judged(round.AcquireStage); p.stage {
		case round.Finished:
		case round.Patient:
			patient = true
		case round.Hopeless:
			undecided = true
			if !p.freed {
				p.freed = true
				s.a.Releases.rollBackGranted(p.round, s.terms.TTL)
			}
		case round.Open:
			undecided = true
		}
	}
	return undecided, patient
}

// raise closes the rounds, and makes the nodes raise all tokens that they have to settle on.
func (s *multiAttempt) raise() {
	for i := range s.parts {
		p := &s.parts[i]
		if p.round == nil {
			continue
		}
		s.a.attempts.closeRound(p.round, p.stage)
		if p.err == nil {
			p.token, p.raise, p.why = s.a.attempts.settle(p.round.Claim, p.round.Votes, s.waiter)
		}
	}
}

// conclude is the answer of one name. All raises have the same time.
func (s *multiAttempt) conclude(ctx context.Context, p *part, key string) Answer {
	if p.round == nil {
		return Answer{Err: s.a.Door.Ended(key, p.refused)}
	}
	var g Success
	var f *Failure
	if p.err != nil {
		s.a.Releases.rollBack(p.round.Claim, s.terms.TTL)
		f = &Failure{Cause: p.err}
	} else {
		if p.raise != nil {
			left := p.raise.Start.Add(s.a.Bound(s.terms.TTL)).Sub(s.a.Clock.Early())
			p.token, p.why = s.a.attempts.raised(ctx, p.raise, p.token, max(left, 0))
		}
		g, f = s.a.attempts.succeed(ctx, p.round, s.terms.TTL, p.token, p.why)
	}
	if f == nil {
		g.Turn = First
		return Answer{Success: g}
	}
	f.List = p.round.List
	f.Words = s.a.Door.Refused(ctx, key, p.round.Start, p.round.Claim.Rounds, f)
	s.a.Settled()
	s.done(key)
	return Answer{Err: f.Words, Failure: f}
}
