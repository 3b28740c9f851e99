package redlock

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/quorumkit/redlock/internal/acquire"
	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/fault"
	"github.com/quorumkit/redlock/internal/hold"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/quorum"
)

// begin counts a call that wants a lock. A nil ctx panics before that: where the program
// recovers, the call is over.
func (l *Locker) begin(ctx context.Context) call {
	_ = ctx.Done()
	l.recorder.counters.calls.Add(1)
	return call{began: l.clock.Early(), turn: TurnFirst}
}

// tellFailure tells that a call brought no lock.
func (l *Locker) tellFailure(ctx context.Context, resource string, t *terms, err error) {
	l.recorder.tell(Event{
		Kind: EventAcquireFailed, Node: -1, Resource: resource, Err: err, Reason: refusal(err),
		Duration: l.clock.Early().Sub(t.call.began), Attempts: t.call.failed, Context: ctx,
	})
}

// holdEvents makes events of what becomes of holds, and puts it into words.
type holdEvents struct{ *core }

// tell tells an event of a hold.
func (o *holdEvents) tell(h *hold.Hold, e Event) {
	e.Node, e.Resource, e.Token = -1, h.Resource, Token(h.Claim.Token) //nolint:gosec // positive
	if e.Context == nil {
		e.Context = h.Values
	}
	o.recorder.tell(e)
}

// Began tells EventLockAcquired.
func (o *holdEvents) Began(h *hold.Hold, began clock.Instant, g acquire.Success, valid time.Duration) {
	o.tell(h, Event{
		Kind: EventLockAcquired, Duration: h.Since.Sub(began), Waited: g.Asked.Sub(began),
		Validity: valid, Attempts: g.Failed + 1, Rounds: g.Claim.Rounds, Turn: Turn(g.Turn),
	})
}

// Entered tells EventLockReentered.
func (o *holdEvents) Entered(ctx context.Context, h *hold.Hold) {
	o.tell(h, Event{Kind: EventLockReentered, Context: ctx})
}

// Extended tells EventLockExtended, and observers of the name's leader, or EventExtendFailed. A fixed
// lease that the Locker itself confirms is not extended.
func (o *holdEvents) Extended(h *hold.Hold, start clock.Instant, valid time.Duration, renewal bool, refusal *hold.Refusal) error {
	e := Event{Kind: EventLockExtended, Duration: o.clock.Early().Sub(start), Validity: valid, Renewal: renewal}
	if refusal != nil {
		e.Kind, e.Err, e.Reason = EventExtendFailed, o.refused("extend", h, ErrNoQuorum, refusal), ReasonNoQuorum
	}
	if !h.Fixed || !renewal {
		o.tell(h, e)
	}
	if h.Leads && refusal == nil {
		o.announce(h.Values, h.Claim)
	}
	return e.Err
}

// Ended tells EventLockReleased, or EventLockLost.
func (o *holdEvents) Ended(h *hold.Hold, cause error, held, valid time.Duration) {
	e := Event{Kind: EventLockReleased, Reason: ending(cause), Held: held, Validity: valid}
	if errors.Is(cause, ErrLost) {
		e.Kind, e.Err = EventLockLost, cause
	}
	o.tell(h, e)
}

// Released tells EventReleaseConfirmed, or EventReleaseUnconfirmed.
func (o *holdEvents) Released(h *hold.Hold, took time.Duration, refusal *hold.Refusal) error {
	e := Event{Kind: EventReleaseConfirmed, Duration: took}
	if refusal != nil {
		e.Kind, e.Err, e.Reason = EventReleaseUnconfirmed, o.refused("release", h, ErrNoQuorum, refusal), ReasonNoQuorum
	}
	o.tell(h, e)
	return e.Err
}

// refused puts into words that a round found no quorum for a hold.
func (o *holdEvents) refused(op string, h *hold.Hold, sentinel error, r *hold.Refusal) error {
	return quorumError(op, h.Resource, sentinel, nil, o.names, r.Votes, r.Causes)
}

// NotHeld is ErrNotHeld.
func (o *holdEvents) NotHeld(h *hold.Hold, cause error) error {
	return ended("extend", h.Resource, cause)
}

// Gone is ErrLost.
func (o *holdEvents) Gone(h *hold.Hold, said *hold.Refusal) error {
	return o.refused("extend", h, ErrLost, said)
}

// Doubted is ErrLost.
func (o *holdEvents) Doubted(left int, cause error) error {
	return fmt.Errorf("%w: %d nodes are left that vouch for it, quorum %d: %w", ErrLost, left, o.quorum(), cause)
}

// attemptEvents makes events of what becomes of attempts, and puts into words why they
// failed.
type attemptEvents struct{ locker *core }

// Polled counts what the nodes had answered.
func (o *attemptEvents) Polled(votes []quorum.Vote) { o.locker.recorder.counters.poll(votes) }

// Refused tells EventAttemptFailed.
func (o *attemptEvents) Refused(ctx context.Context, key string, start clock.Instant, rounds int, f *acquire.Failure) error {
	var err error
	resource := o.resource(key)
	if f.Sentinel == nil {
		err = o.Ended(key, f.Cause)
	} else {
		cause := f.Cause
		if cause == nil && errors.Is(f.Sentinel, ErrNotAcquired) {
			cause = o.locker.keeper.Holds(key)
		}
		err = quorumError("acquire", resource, f.Sentinel, cause, o.locker.names, f.Votes, o.causes(f))
	}
	o.locker.tellAttempt(ctx, resource, start, rounds, err)
	return err
}

// causes are those of the votes. Where no quorum was found, a node whose reply was not there
// yet may be the one that tells why: what was seen of it last stands for its cause.
func (o *attemptEvents) causes(f *acquire.Failure) []error {
	if f.Sentinel != ErrNoQuorum || o.locker.cfg.unprotected { //nolint:errorlint // it is one of two
		return f.Causes
	}
	causes := make([]error, len(f.Votes))
	copy(causes, f.Causes)
	for i, v := range f.Votes {
		if v.Outcome == quorum.Pending && causes[i] == nil {
			causes[i] = o.locker.tracker.WhyNot(i)
		}
	}
	return causes
}

// Ended names what was to be acquired, once: what the last attempt met names it as well.
func (o *attemptEvents) Ended(key string, cause error) error {
	resource := fault.Printable(o.resource(key))
	return fault.Errorf("redlock: acquire %s: %w", resource, fault.Once(cause, "acquire "+resource+": "))
}

func (o *attemptEvents) resource(key string) string {
	return strings.TrimPrefix(lua.NameOf(key), o.locker.cfg.prefix)
}

// nodeEvents makes events of what the nodes notice, and has the Locker draw its
// conclusions.
type nodeEvents struct {
	locker *core
	names  []string
}

func (o *nodeEvents) tell(node int, e Event) {
	e.Node, e.Name = node, o.names[node]
	o.locker.recorder.tell(e)
}

// Called counts a round trip.
func (o *nodeEvents) Called(node int, took time.Duration) {
	o.locker.recorder.counters.called(node, took)
}

// Erred counts a round trip without a reply, or with an error.
func (o *nodeEvents) Erred(node int) { o.locker.recorder.counters.nodes[node].errors.Add(1) }

// Down tells EventNodeDown.
func (o *nodeEvents) Down(node int, cause error) {
	o.tell(node, Event{Kind: EventNodeDown, Err: cause})
}

// Up tells EventNodeUp.
func (o *nodeEvents) Up(node int, after time.Duration) {
	o.tell(node, Event{Kind: EventNodeUp, Duration: after})
}

// Abstains tells EventNodeAbstains.
func (o *nodeEvents) Abstains(node int, cause error) {
	o.tell(node, Event{Kind: EventNodeAbstains, Err: cause})
}

// Votes tells EventNodeVotes.
func (o *nodeEvents) Votes(node int) { o.tell(node, Event{Kind: EventNodeVotes}) }

// RefusesWrites tells EventNodeRefusesWrites.
func (o *nodeEvents) RefusesWrites(node int, cause error) {
	o.tell(node, Event{Kind: EventNodeRefusesWrites, Err: cause})
}

// TakesWrites tells EventNodeTakesWrites.
func (o *nodeEvents) TakesWrites(node int, after time.Duration) {
	o.tell(node, Event{Kind: EventNodeTakesWrites, Duration: after})
}

// Stepped tells EventNodeClockStepped.
func (o *nodeEvents) Stepped(node int, cause error) {
	o.tell(node, Event{Kind: EventNodeClockStepped, Err: cause})
}

// Founded tells EventClusterFounded.
func (o *nodeEvents) Founded(node int, cause error) {
	o.tell(node, Event{Kind: EventClusterFounded, Err: cause})
}

// Disowned takes the node out of what every held lock stands on.
func (o *nodeEvents) Disowned(node int, since clock.Instant, cause error) {
	o.locker.keeper.Distrust(node, since, cause)
}

// Returned makes the keeper confirm the held locks on the node.
func (o *nodeEvents) Returned(node int) { o.locker.keeper.ConfirmOn(node) }

// logEvery is the least time between two lines about the same thing: one node's
// coming and going, or failures of one kind. The log ends on the last word all the
// same.
const logEvery = 10 * time.Second

// WithLogger has what the Locker does and notices written to a log. Without it, or
// with nil, a Locker is silent.
//
// A lost lock is an Error. A node that fails, abstains, refuses writes or whose clock steps is a
// Warn, and so are releases and renewals that no quorum confirms, acquisitions that
// fail for want of a quorum, and a lock that WithMaxHold ended. A node that comes
// back, and a cluster that was founded, is an Info; all else is a Debug. Of one
// node's comings and goings, and of failures of one kind, there is one line in ten
// seconds; the next one says how many were left out. Close, unless its time is up
// before, writes the last word on each.
//
// A line has the names of resources and nodes, reasons and errors; never a
// password or an owner value. Its time is the event's, and the handler is given the
// context of the acquisition. The logger is called as WithObserver's function is.
func WithLogger(l *slog.Logger) Option {
	return lockerOption(func(c *config) {
		if l != nil {
			lines := &eventLogger{handler: l.Handler(), topics: make(map[topic]*entry)}
			WithObserver(lines.observe).applyLocker(c)
			c.lastWords = append(c.lastWords[:len(c.lastWords):len(c.lastWords)], lines.finish)
		}
	})
}

// eventLogger makes lines of events. One goroutine calls it.
type eventLogger struct {
	handler slog.Handler
	topics  map[topic]*entry
	waiting int // entries that hold an event back
}

// topic is what lines are about whose rate is limited.
type topic struct {
	about aspect
	node  int
}

type aspect uint8

const (
	anything  aspect = iota // not limited
	reachable               // a node is down, or up
	voting                  // it abstains, or votes
	writing                 // it refuses writes, or takes them
	timing                  // its clock stepped
	releasing
	renewing
	acquiring
)

// entry is what was last written about a topic.
type entry struct {
	at   time.Time
	held *Event // the last one that was not written; nil if none
	left int    // events that were not written since, without it
}

func (l *eventLogger) observe(e Event) {
	about, level := placed(&e)
	if about == anything {
		l.write(&e, level, 0)
	} else {
		l.limit(topic{about, e.Node}, &e)
	}
	if l.waiting == 0 {
		return
	}
	for _, n := range l.topics {
		if n.held != nil && e.Time.Sub(n.at) >= logEvery {
			l.release(n, e.Time)
		}
	}
}

// limit writes the event, or holds it back until it is time.
func (l *eventLogger) limit(t topic, e *Event) {
	n := l.topics[t]
	if n == nil {
		n = &entry{}
		l.topics[t] = n
	}
	if n.held == nil {
		l.waiting++
	} else {
		n.left++
	}
	kept := *e
	n.held = &kept
	if n.at.IsZero() || e.Time.Sub(n.at) >= logEvery {
		l.release(n, e.Time)
	}
}

// finish writes what is held back, when all events were told: the last word on a node is the truth.
func (l *eventLogger) finish() {
	rest := slices.DeleteFunc(slices.Collect(maps.Values(l.topics)), func(n *entry) bool { return n.held == nil })
	slices.SortFunc(rest, func(x, y *entry) int { return x.held.Time.Compare(y.held.Time) })
	for _, n := range rest {
		l.release(n, n.held.Time)
	}
}

// release writes what was held back last.
func (l *eventLogger) release(n *entry, now time.Time) {
	_, level := placed(n.held)
	l.write(n.held, level, n.left)
	n.at, n.held, n.left = now, nil, 0
	l.waiting--
}

// places is what events are about, and how much they matter; of others see placed.
var places = map[EventKind]struct {
	about aspect
	level slog.Level
}{
	EventLockLost:           {anything, slog.LevelError},
	EventNodeDown:           {reachable, slog.LevelWarn},
	EventNodeUp:             {reachable, slog.LevelInfo},
	EventNodeAbstains:       {voting, slog.LevelWarn},
	EventNodeVotes:          {voting, slog.LevelInfo},
	EventNodeRefusesWrites:  {writing, slog.LevelWarn},
	EventNodeTakesWrites:    {writing, slog.LevelInfo},
	EventNodeClockStepped:   {timing, slog.LevelWarn},
	EventClusterFounded:     {anything, slog.LevelInfo},
	EventReleaseUnconfirmed: {releasing, slog.LevelWarn},
	EventExtendFailed:       {renewing, slog.LevelWarn},
}

// placed says what an event is about, and how much it matters.
func placed(e *Event) (aspect, slog.Level) {
	place, known := places[e.Kind]
	switch {
	case known:
		return place.about, place.level
	case e.Kind == EventAcquireFailed && (e.Reason == ReasonNoQuorum || e.Reason == ReasonMisconfigured):
		return acquiring, slog.LevelWarn
	case e.Kind == EventLockReleased && e.Reason == ReasonMaxHold:
		return anything, slog.LevelWarn
	}
	return anything, slog.LevelDebug
}

// write writes one line.
func (l *eventLogger) write(e *Event, level slog.Level, left int) {
	ctx := e.Context
	if ctx == nil {
		ctx = context.Background()
	}
	if !l.handler.Enabled(ctx, level) {
		return
	}
	r := slog.NewRecord(e.Time, level, "redlock: "+e.Kind.String(), 0)
	if e.Node >= 0 {
		r.AddAttrs(slog.String("node", e.Name))
	} else {
		r.AddAttrs(slog.String("resource", fault.Printable(e.Resource)))
	}
	if e.Token != 0 {
		r.AddAttrs(slog.Uint64("token", uint64(e.Token)))
	}
	if e.Reason != NoReason {
		r.AddAttrs(slog.String("reason", e.Reason.String()))
	}
	for _, d := range []struct {
		name string
		took time.Duration
	}{{"duration", e.Duration}, {"waited", e.Waited}, {"held", e.Held}, {"validity", e.Validity}} {
		if d.took != 0 {
			r.AddAttrs(slog.Duration(d.name, d.took))
		}
	}
	if e.Err != nil {
		key := "error"
		if e.Kind == EventClusterFounded {
			key = "detail" // it says what was done
		}
		r.AddAttrs(slog.String(key, e.Err.Error()))
	}
	if left > 0 {
		r.AddAttrs(slog.Int("left_out", left))
	}
	_ = l.handler.Handle(ctx, r) // a log that can't be written can't be told of
}
