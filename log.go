package redlock

import (
	"context"
	"log/slog"
	"time"

	"github.com/quorumkit/redlock/internal/fault"
)

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
// seconds; the next one says how many were left out.
//
// A line has the names of resources and nodes, reasons and errors; never a
// password or an owner value. Its time is the event's, and the handler is given the
// context of the acquisition. The logger is called as WithObserver's function is.
func WithLogger(l *slog.Logger) Option {
	return lockerOption(func(c *config) {
		if l != nil {
			WithObserver((&eventLogger{handler: l.Handler(), topics: make(map[topic]*entry)}).observe).applyLocker(c)
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
	held *Event // the last one that was not written; nil: none
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
	LockLost:           {anything, slog.LevelError},
	NodeDown:           {reachable, slog.LevelWarn},
	NodeUp:             {reachable, slog.LevelInfo},
	NodeAbstains:       {voting, slog.LevelWarn},
	NodeVotes:          {voting, slog.LevelInfo},
	NodeRefusesWrites:  {writing, slog.LevelWarn},
	NodeTakesWrites:    {writing, slog.LevelInfo},
	NodeClockStepped:   {timing, slog.LevelWarn},
	ClusterFounded:     {anything, slog.LevelInfo},
	MaxTTLRaised:       {anything, slog.LevelWarn},
	StrictRecoverySet:  {anything, slog.LevelWarn},
	ReleaseUnconfirmed: {releasing, slog.LevelWarn},
	ExtendFailed:       {renewing, slog.LevelWarn},
}

// placed says what an event is about, and how much it matters.
func placed(e *Event) (aspect, slog.Level) {
	place, known := places[e.Kind]
	switch {
	case known:
		return place.about, place.level
	case e.Kind == AcquireFailed && (e.Reason == ReasonNoQuorum || e.Reason == ReasonMisconfigured):
		return acquiring, slog.LevelWarn
	case e.Kind == LockReleased && e.Reason == ReasonMaxHold:
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
		if e.Kind == ClusterFounded || e.Kind == MaxTTLRaised || e.Kind == StrictRecoverySet {
			key = "detail" // it says what was done
		}
		r.AddAttrs(slog.String(key, e.Err.Error()))
	}
	if left > 0 {
		r.AddAttrs(slog.Int("left_out", left))
	}
	_ = l.handler.Handle(ctx, r) // a log that can't be written can't be told of
}
