package redlock

import (
	"context"
	"errors"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/dispatch"
	"github.com/quorumkit/redlock/internal/node"
)

// recorder records what happens to a Locker: each event is counted, and told to the
// observers.
type recorder struct {
	clock     *clock.Clock
	counters  counters
	observers *dispatch.Dispatcher[Event]
}

func newRecorder(c *clock.Clock, observers []func(Event), nodes int) *recorder {
	r := &recorder{clock: c, observers: dispatch.New(observers)}
	r.counters.nodes = make([]nodeCounters, nodes)
	return r
}

// tell takes in an event. It blocks for nobody, and may be called under any mutex.
func (r *recorder) tell(e Event) {
	r.counters.take(&e)
	if !r.observers.Observed() {
		return
	}
	e.Time = r.clock.Wall()
	if !r.observers.Send(e, e.Kind.routine()) {
		r.counters.dropped.Add(1)
	}
}

// begin counts a call that wants a lock.
func (l *Locker) begin() call {
	l.cfg.recorder.counters.calls.Add(1)
	return call{began: l.clock.Early(), turn: TurnFirst}
}

// tellFailure tells that a call brought no lock.
func (l *Locker) tellFailure(ctx context.Context, resource string, t *terms, err error) {
	l.cfg.recorder.tell(Event{
		Kind: AcquireFailed, Node: -1, Resource: resource, Err: err, Reason: refusal(err),
		Duration: l.clock.Early().Sub(t.call.began), Attempts: t.call.failed, Context: ctx,
	})
}

// tellAttempt tells that an attempt brought no lock.
func (l *Locker) tellAttempt(ctx context.Context, resource string, r *node.Round, err error) {
	l.cfg.recorder.tell(Event{
		Kind: AttemptFailed, Node: -1, Resource: resource, Err: err, Reason: refusal(err),
		Duration: l.clock.Early().Sub(r.Start), Rounds: r.Claim.Rounds, Context: ctx,
	})
}

// begun is the event of a hold that begins: start is when the attempt was sent.
func (l *Lock) begun(t terms, start clock.Instant) Event {
	return Event{
		Kind: LockAcquired, Duration: l.since.Sub(t.call.began), Waited: start.Sub(t.call.began),
		Validity: l.valid.Remaining(l.since),
		Attempts: t.call.failed + 1, Rounds: l.claim.Rounds, Turn: t.call.turn,
	}
}

// tellEnd tells why the hold ended; mu is held.
func (l *Lock) tellEnd(now clock.Instant) {
	e := Event{Kind: LockReleased, Reason: ending(l.cause), Held: now.Sub(l.since), Validity: l.valid.Remaining(now)}
	if errors.Is(l.cause, ErrLost) {
		e.Kind, e.Err = LockLost, l.cause
	}
	l.tell(e)
}

// tellExtension tells what became of an extension of a lock that is held; failure is
// nil where a quorum confirmed it. A fixed lease that the Locker itself confirms is
// not extended.
func (l *Lock) tellExtension(x *node.Extension, failure *QuorumError) {
	if l.fixed && x.Renewal {
		return
	}
	now := l.locker.clock.Early()
	l.mu.Lock()
	e := Event{Kind: LockExtended, Duration: now.Sub(x.Start), Validity: l.valid.Remaining(now), Renewal: x.Renewal}
	l.mu.Unlock()
	if failure != nil {
		e.Kind, e.Err, e.Reason = ExtendFailed, failure, ReasonNoQuorum
	}
	l.tell(e)
}

// tell tells an event of this lock.
func (l *Lock) tell(e Event) {
	e.Node, e.Resource, e.Token, e.Context = -1, l.resource, l.Token(), l.values
	l.locker.cfg.recorder.tell(e)
}
