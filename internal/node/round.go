package node

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/fault"
	"github.com/quorumkit/redlock/internal/quorum"
)

// claim is one attempt to hold one resource: what every node is told. It is
// fresh for every attempt, so that a late command of an old one can't be taken
// for a newer one's.
type claim struct {
	key    string // on the nodes, prefix included
	owner  string
	dead   string // the key of its tombstone
	stripe int64
	ttl    int64 // of the first lease, in ms
	hint   int64
	token  int64         // once settled
	rounds int           // round trips so far, of the one goroutine that makes the attempt
	over   atomic.Bool   // nobody wants it any more: it is not put back anywhere
	stays  bool          // its process has a place in line, which a rollback keeps
	marks  []quorum.Mark // marks[i] is guarded by node i's mu
	room   [fewNodes]quorum.Mark

	vouchers
}

// fewNodes is up to how many nodes the votes of a round need no memory of their
// own.
const fewNodes = 9

// round is one command to every node, and the votes that came back.
type round struct {
	claim *claim
	start clock.Instant
	raise int64 // of a raise round: the token
	asks  *asks // of an attempt that asks by its place in line; nil: it has none

	mu     sync.Mutex // guards the fields below, and those of asks
	votes  []quorum.Vote
	causes []error // nil until there is one
	caller *waiter // nil once closed: from then on the votes stand
	room   [fewNodes]quorum.Vote
}

func newRound(c *claim, nodes int, start clock.Instant, w *waiter) *round {
	r := &round{claim: c, start: start, caller: w}
	if r.votes = r.room[:min(nodes, fewNodes)]; nodes > fewNodes {
		r.votes = make([]quorum.Vote, nodes)
	}
	return r
}

// waiter is what a caller sleeps on. Each Locker keeps its own pool of them: a
// timer must not wander between testing/synctest bubbles.
type waiter struct {
	timer *time.Timer
	wake  chan struct{}
}

func newWaiter(c *clock.Clock) *waiter {
	w := &waiter{timer: c.NewTimer(time.Hour), wake: make(chan struct{}, 1)}
	w.timer.Stop()
	return w
}

// ready takes away what an earlier use left behind.
func (w *waiter) ready() *waiter {
	select {
	case <-w.wake:
	default:
	}
	return w
}

// deliver records node i's vote, and wakes the caller when the votes may have
// decided something. A vote that comes late changes nothing.
func (r *round) deliver(i int, v quorum.Vote, cause error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.caller == nil || r.votes[i].Outcome != quorum.Pending {
		return
	}
	r.votes[i] = v
	r.blame(i, cause)
	again := false
	if r.asks != nil {
		r.asks.bid.Answered(i)
		again = r.asks.bid.Again(i)
	}
	if quorum.Count(r.votes).Verdict() == quorum.Undecided && !again {
		return
	}
	select {
	case r.caller.wake <- struct{}{}:
	default:
	}
}

// note keeps the cause of a try that will be repeated.
func (r *round) note(i int, cause error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.caller != nil && r.votes[i].Outcome == quorum.Pending {
		r.blame(i, cause)
	}
}

// blame notes a cause; mu is held.
func (r *round) blame(i int, cause error) {
	if r.causes == nil {
		if cause == nil {
			return
		}
		r.causes = make([]error, len(r.votes))
	}
	r.causes[i] = cause
}

// cause is what node i gave as the reason of its vote, once the round is closed;
// nil: none.
func (r *round) cause(i int) error {
	if r.causes == nil {
		return nil
	}
	return r.causes[i]
}

// soFar are the votes that have come, while more may.
func (r *round) soFar() []quorum.Vote {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]quorum.Vote(nil), r.votes...)
}

// stage is how far a round is.
type stage uint8

const (
	open     stage = iota // undecided
	patient               // won, and replies still out may make the tokens equal
	hopeless              // lost, and the reason is still open
	finished
)

// await blocks until judge calls the votes finished, limit has passed, or ctx is
// done. A patient round is given as much time again as it has taken so far.
// onHopeless, if any, runs once, as soon as the round is known to be lost.
func (r *round) await(ctx context.Context, c *clock.Clock, limit time.Duration, judge func([]quorum.Vote) stage, onHopeless func()) (stage, error) {
	w, extended := r.caller, false
	w.timer.Reset(limit)
	defer w.timer.Stop()
	for {
		s := r.judged(judge)
		switch {
		case s == finished:
			return s, nil
		case s == patient && !extended:
			extended = true
			took := c.Early().Sub(r.start)
			w.timer.Reset(min(took, limit-took))
		case s == hopeless && onHopeless != nil:
			onHopeless()
			onHopeless = nil
		}
		select {
		case <-w.wake:
		case <-w.timer.C:
			return r.judged(judge), nil
		case <-ctx.Done():
			return s, fault.OfContext(ctx)
		}
	}
}

func (r *round) judged(judge func([]quorum.Vote) stage) stage {
	r.mu.Lock()
	defer r.mu.Unlock()
	return judge(r.votes)
}

// close ends the round for its caller; from then on the votes stand. Where the
// verdict was known before the timers ended (decided), a node without a reply is
// pending. Otherwise one that was sent something is unknown, and one that was
// not has failed.
func (r *round) close(nodes []*node, decided bool) {
	r.mu.Lock()
	r.caller = nil
	r.mu.Unlock()
	if decided {
		return
	}
	for i := range r.votes {
		switch {
		case r.votes[i].Outcome != quorum.Pending:
		case nodes[i].sent(r.claim):
			r.votes[i].Outcome = quorum.Unknown
			if r.cause(i) == nil { // what a refused try brought says more
				r.blame(i, errTimeout)
			}
		default:
			r.votes[i].Outcome = quorum.Failed
			r.blame(i, errNotSent)
		}
	}
}

// acquireStage judges an acquisition: it is finished when the token is settled,
// or will have to be raised, or the reason of the loss is known.
func acquireStage(votes []quorum.Vote) stage {
	switch quorum.Count(votes).Verdict() {
	case quorum.Won:
		if r, _ := quorum.Settle(votes); r == quorum.Waiting {
			return patient
		}
		return finished
	case quorum.Lost:
		return hopeless
	case quorum.Contended, quorum.NoQuorum:
		return finished
	case quorum.Undecided:
	}
	return open
}

// raiseStage judges a raise: the votes count where they stand exactly at t.
func raiseStage(t quorum.Token) func([]quorum.Vote) stage {
	return func(votes []quorum.Vote) stage {
		at := quorum.SameToken(votes, t)
		if at >= quorum.Size(len(votes)) || at+quorum.Count(votes).Pending < quorum.Size(len(votes)) {
			return finished
		}
		return open
	}
}

// releaseStage judges a release: only confirmations count, and nothing but its
// bound ends the wait for them.
func releaseStage(votes []quorum.Vote) stage {
	if quorum.Count(votes).Verdict() == quorum.Won {
		return finished
	}
	return open
}
