package redlock

import (
	"context"
	"sync"

	"github.com/quorumkit/redlock/internal/clock"
)

// eventBound is how many events may wait for an observer that is slow. Those that
// do not come with every operation may be twice as many: a flood of acquisitions
// must not drown the loss of a lock.
const eventBound = 4096

// journal is where a Locker writes down what happens: it is counted, and told to
// the observers by a goroutine of its own, so that none of them holds anybody up.
type journal struct {
	clock     *clock.Clock
	observers []func(Event)
	counters  counters
	wake      chan struct{}
	done      chan struct{} // closed when run has ended; nil: nobody observes

	mu     sync.Mutex // guards the fields below; nothing else is taken under it
	queue  []Event
	idle   bool // run sleeps
	closed bool
}

func newJournal(c *clock.Clock, observers []func(Event), nodes int) *journal {
	j := &journal{clock: c, observers: observers}
	j.counters.nodes = make([]nodeCounters, nodes)
	if len(observers) > 0 {
		j.wake, j.done = make(chan struct{}, 1), make(chan struct{})
		go j.run()
	}
	return j
}

// tell takes in an event. It blocks for nobody, and may be called under any mutex.
func (j *journal) tell(e Event) {
	j.counters.take(&e)
	if len(j.observers) == 0 {
		return
	}
	e.Time = j.clock.Wall()
	bound := eventBound
	if !e.Kind.routine() {
		bound *= 2
	}
	j.mu.Lock()
	kept := !j.closed && len(j.queue) < bound
	if kept {
		j.queue = append(j.queue, e)
	}
	asleep := j.idle
	j.idle = false
	j.mu.Unlock()
	if !kept {
		j.counters.dropped.Add(1)
	}
	if asleep {
		j.rouse()
	}
}

func (j *journal) rouse() {
	select {
	case j.wake <- struct{}{}:
	default:
	}
}

// run tells the observers, until the journal is closed and all is told.
func (j *journal) run() {
	defer close(j.done)
	var events []Event
	for {
		j.mu.Lock()
		events, j.queue = j.queue, events[:0]
		over := j.closed
		j.idle = len(events) == 0
		j.mu.Unlock()
		for i := range events {
			for _, f := range j.observers {
				f(events[i])
			}
		}
		switch {
		case len(events) > 0:
			clear(events)
		case over:
			return
		default:
			<-j.wake
		}
	}
}

// close has the rest told, and waits for that.
func (j *journal) close() {
	if j.done == nil {
		return
	}
	j.mu.Lock()
	j.closed = true
	j.mu.Unlock()
	j.rouse()
	<-j.done
}

// begin counts a call that wants a lock.
func (l *Locker) begin() call {
	l.cfg.journal.counters.calls.Add(1)
	return call{began: l.clock.Early(), turn: TurnFirst}
}

// tellFailure tells that a call brought no lock.
func (l *Locker) tellFailure(ctx context.Context, resource string, t *terms, err error) {
	l.cfg.journal.tell(Event{
		Kind: AcquireFailed, Node: -1, Resource: resource, Err: err, Reason: refusal(err),
		Duration: l.clock.Early().Sub(t.call.began), Attempts: t.call.failed, Context: ctx,
	})
}

// tellAttempt tells that an attempt brought no lock.
func (l *Locker) tellAttempt(ctx context.Context, resource string, r *round, err error) {
	l.cfg.journal.tell(Event{
		Kind: AttemptFailed, Node: -1, Resource: resource, Err: err, Reason: refusal(err),
		Duration: l.clock.Early().Sub(r.start), Rounds: r.claim.rounds, Context: ctx,
	})
}
