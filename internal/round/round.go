// Package round is what one round asks of the nodes, gathers and judges: claims, their votes,
// and the nodes that vouch for them. It knows no connection.
package round

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/fault"
	"github.com/quorumkit/redlock/internal/grant"
	"github.com/quorumkit/redlock/internal/quorum"
)

// The reasons for which a command has no reply.
var (
	ErrNotSent = errors.New("not sent") // the cause of a Failed outcome: nothing reached the node
	ErrTimeout = errors.New("no reply within the node timeout")
)

// Round is one command to every node, and the votes that came back.
type Round struct {
	Claim *Claim
	Start clock.Instant
	Raise int64       // of a raise round: the token
	List  quorum.List // that the claim goes by: no other node is asked, or counted
	Asks  *Asks       // of an attempt that asks by its place in line; nil if it has none

	mu     sync.Mutex // guards the fields below, and those of asks
	Votes  []quorum.Vote
	Causes []error  // nil until there is one
	Caller *Sleeper // nil once closed: from then on the votes stand
	room   [FewNodes]quorum.Vote
}

// New is a round of c, of a client with so many nodes, sent at start; w is woken by each vote.
func New(c *Claim, nodes int, start clock.Instant, w *Sleeper) *Round {
	r := &Round{Claim: c, Start: start, List: c.List(), Caller: w}
	if r.Votes = r.room[:min(nodes, FewNodes)]; nodes > FewNodes {
		r.Votes = make([]quorum.Vote, nodes)
	}
	r.List.Leave(r.Votes)
	return r
}

// Sleeper is what a caller sleeps on. Each Locker keeps its own pool of them: a
// timer must not wander between testing/synctest bubbles.
type Sleeper struct {
	Timer *time.Timer
	Wake  chan struct{}
}

// NewSleeper is a Sleeper whose timer stands still.
func NewSleeper(c *clock.Clock) *Sleeper {
	w := &Sleeper{Timer: c.NewTimer(time.Hour), Wake: make(chan struct{}, 1)}
	w.Timer.Stop()
	return w
}

// Ready takes away what an earlier use left behind.
func (w *Sleeper) Ready() *Sleeper {
	select {
	case <-w.Wake:
	default:
	}
	return w
}

// Deliver records node i's vote, and wakes the caller when the votes may have
// decided something. A second vote of the node, or one after Close, changes nothing.
func (r *Round) Deliver(i int, v quorum.Vote, cause error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.Caller == nil || !r.List.Has(i) {
		return
	}
	if r.AcceptsPushes() {
		r.refuseLocked(i, v.Outcome, cause)
		return
	}
	if r.Votes[i].Outcome != quorum.Pending {
		return
	}
	r.Votes[i] = v
	r.blame(i, cause)
	again := false
	if r.Asks != nil {
		r.Asks.bid.Answered(i)
		again = r.Asks.bid.Again(i)
	}
	if quorum.Count(r.Votes).Verdict() == quorum.Undecided && !again {
		return
	}
	r.wakeLocked()
}

// Note keeps the cause of a try that will be repeated.
func (r *Round) Note(i int, cause error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.Caller != nil && r.Votes[i].Outcome == quorum.Pending {
		r.blame(i, cause)
	}
}

// blame notes the cause of node i's vote. Its caller holds mu, or has closed the round: the
// votes stand then, and only one goroutine reads them.
func (r *Round) blame(i int, cause error) {
	if r.Causes == nil {
		if cause == nil {
			return
		}
		r.Causes = make([]error, len(r.Votes))
	}
	r.Causes[i] = cause
}

// Cause is what node i gave as the reason of its vote, once the round is closed;
// nil if none.
func (r *Round) Cause(i int) error {
	if r.Causes == nil {
		return nil
	}
	return r.Causes[i]
}

// SoFar returns a copy of the votes that have come, while more may come.
func (r *Round) SoFar() []quorum.Vote {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]quorum.Vote(nil), r.Votes...)
}

// Stage is how far a round is.
type Stage uint8

// The stages, in their order.
const (
	Open     Stage = iota // undecided
	Patient               // decided, and replies still out may say more: as much time again
	Hopeless              // lost, and the reason is still open
	Finished
)

// Await blocks until judge calls the votes finished, limit has passed, or ctx is
// done. A patient round is given as much time again as it has taken so far.
// onHopeless, if any, runs once, as soon as the round is known to be lost.
func (r *Round) Await(ctx context.Context, c *clock.Clock, limit time.Duration, judge func([]quorum.Vote) Stage, onHopeless func()) (Stage, error) {
	w, extended := r.Caller, false
	w.Timer.Reset(limit)
	defer w.Timer.Stop()
	for {
		s := r.Judged(judge)
		switch {
		case s == Finished:
			return s, nil
		case s == Patient && !extended:
			extended = true
			took := c.Early().Sub(r.Start)
			w.Timer.Reset(min(took, limit-took))
		case s == Hopeless && onHopeless != nil:
			onHopeless()
			onHopeless = nil
		}
		select {
		case <-w.Wake:
		case <-w.Timer.C:
			return r.Judged(judge), nil
		case <-ctx.Done():
			return s, fault.OfContext(ctx)
		}
	}
}

// Judged returns the judgement of the votes so far. judge runs under mu: it must not keep
// them.
func (r *Round) Judged(judge func([]quorum.Vote) Stage) Stage {
	r.mu.Lock()
	defer r.mu.Unlock()
	return judge(r.Votes)
}

// Close ends the round for its caller; from then on the votes stand, and a node
// without a reply is pending.
func (r *Round) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Caller = nil
}

// Miss says of node i, once the round is closed, what it means that its time ended without
// a reply. If something was sent, the outcome is unknown: the command may still arrive, so
// the node is cleaned. Else why says what kept it from being sent.
func (r *Round) Miss(i int, sent bool, why error) {
	if !sent {
		r.Votes[i].Outcome = quorum.Failed
		r.blame(i, why)
		return
	}
	r.Votes[i].Outcome = quorum.Unknown
	if r.Cause(i) == nil { // what a refused try brought says more
		r.blame(i, ErrTimeout)
	}
}

// AcquireStage judges an acquisition: it is finished when the token is settled,
// or will have to be raised, or the reason of the loss is known.
func AcquireStage(votes []quorum.Vote) Stage {
	switch quorum.Count(votes).Verdict() {
	case quorum.Won:
		if r, _ := quorum.Settle(votes); r == quorum.Waiting {
			return Patient
		}
		return Finished
	case quorum.Lost:
		return Hopeless
	case quorum.Contended, quorum.NoQuorum:
		return Finished
	case quorum.Undecided:
	}
	return Open
}

// RaiseStage judges a raise: only votes with exactly the token t count. A node that has
// counted further is above t, and another attempt with a larger token must settle it.
func RaiseStage(t quorum.Token) func([]quorum.Vote) Stage {
	return func(votes []quorum.Vote) Stage {
		at := quorum.SameToken(votes, t)
		if at >= quorum.Needed(votes) || at+quorum.Count(votes).Pending < quorum.Needed(votes) {
			return Finished
		}
		return Open
	}
}

// ReleaseStage judges a release: only confirmations count, and nothing but the caller's
// limit ends the wait for them. A node that refuses may still take a later try.
func ReleaseStage(votes []quorum.Vote) Stage {
	if quorum.Count(votes).Verdict() == quorum.Won {
		return Finished
	}
	return Open
}

// Asks is what a round needs besides when it asks by a place in line. The round's mu guards
// bid and all that follows it: nodes' writers change that while the caller reads it.
type Asks struct {
	Position int64
	bid      quorum.Asked
	Heard    []quorum.Hearing
	attempt  *grant.Attempt   // of a claim that takes pushes, with its votes; nil if it takes none
	since    []clock.Instant  // its leases began no earlier, by node; until when they may be trusted is the attempt's
	Pushed   bool             // a release granted it on a node
	Handed   bool             // the release before put it in line, and nothing was asked since
	said     []grant.Standing // the replies to that release; nil if it asked for its place
	unsaid   uint64           // nodes whose reply to that release is out
}

// askedLocked is which nodes were asked: an attempt that takes pushes keeps that itself. The
// caller holds the round's mu.
func (a *Asks) askedLocked() *quorum.Asked {
	if a.attempt != nil {
		return &a.attempt.Asked
	}
	return &a.bid
}

// AcceptsPushes tells whether releases may grant the round's claim as well.
func (r *Round) AcceptsPushes() bool { return r.Asks != nil && r.Asks.attempt != nil }

// refuseLocked takes in the reply to an ask of a claim that takes pushes, if that granted
// nothing. A grant that came before it stays: it was pushed behind the ask.
func (r *Round) refuseLocked(i int, o quorum.Outcome, cause error) {
	a := r.Asks.attempt
	a.Answered(i)
	if a.Votes[i].Outcome != quorum.Granted {
		r.blame(i, cause)
	}
	a.Refused(i, o)
	r.wakeLocked()
}

// wakeLocked wakes the caller. A wake-up that was not taken yet serves for this one too: the
// caller judges all votes again when it wakes.
func (r *Round) wakeLocked() {
	select {
	case r.Caller.Wake <- struct{}{}:
	default:
	}
}

// Sleepers is a Locker's pool of Sleepers that no caller sleeps on.
type Sleepers struct{ pool sync.Pool }

// NewSleepers is an empty pool.
func NewSleepers(c *clock.Clock) *Sleepers {
	return &Sleepers{sync.Pool{New: func() any { return NewSleeper(c) }}}
}

// Get takes a Sleeper that is ready.
func (s *Sleepers) Get() *Sleeper { return s.pool.Get().(*Sleeper).Ready() }

// Put gives a Sleeper back.
func (s *Sleepers) Put(w *Sleeper) { s.pool.Put(w) }
