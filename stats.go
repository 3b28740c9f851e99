package redlock

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/dispatch"
	"github.com/quorumkit/redlock/internal/fault"
	"github.com/quorumkit/redlock/internal/hold"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/node"
	"github.com/quorumkit/redlock/internal/quorum"
)

// Stats is what a Locker has done since it was made, and what it has under way.
// Counters only grow. They come from the same events as WithObserver's, and are
// kept whether anybody observes or not.
//
// A snapshot is taken while the Locker works, and its sums agree all the same.
// Every lock that was Acquired is Held, Released or Lost. Every call that began is
// Acquiring, or Acquired, Reentered or in one of the failures.
type Stats struct {
	Held      int // locks that are held now
	Acquiring int // calls of Acquire, TryAcquire and Do, or for a set, that want a lock now, the waiting included

	Acquired      uint64 // locks, each name of a set for itself
	NotAcquired   uint64 // calls without a lock: a quorum answered, and it was not to be had
	NoQuorum      uint64 // calls without a lock: fewer than a quorum answered
	Misconfigured uint64 // calls without a lock: nodes refuse for good
	Cancelled     uint64 // calls without a lock, for another reason: mostly, the context ended before more was known
	Reentered     uint64 // calls that were given a handle on a hold that there was (WithReentry)

	Rollbacks    uint64 // attempts that brought no lock and were rolled back; Acquire makes many
	SecondRounds uint64 // attempts that took a second round trip, for the token

	Extended     uint64 // extensions and renewals that a quorum confirmed
	ExtendFailed uint64 // and those that none confirmed, while the lock was held on

	Released     uint64 // holds that ended otherwise than by a loss: by Release, WithMaxHold or Close
	MaxHeld      uint64 // those of them that WithMaxHold ended
	Lost         uint64 // holds that were lost: the sum of the three below
	Lapsed       uint64 // no quorum confirmed a renewal in time, or there was none
	Gone         uint64 // nodes that answered no longer had the lock
	ClockStepped uint64 // the clocks of too many nodes stepped

	Confirmed   uint64 // releases that a quorum confirmed
	Unconfirmed uint64 // releases that no quorum confirmed within their bound

	AcquireTime  time.Duration // how long the calls took that brought a lock, summed up
	WaitTime     time.Duration // the part of it before the attempts that brought them
	ExtendTime   time.Duration // how long the extensions took that were confirmed
	ReleaseTime  time.Duration // how long the releases took that were confirmed
	HoldTime     time.Duration // how long the locks were held that have ended
	ValidityLeft time.Duration // what was left of the validity of the locks that have ended

	EventsDropped uint64 // events that no observer was told: WithObserver's was too slow

	Nodes []NodeStats // in the order given to New or Open
}

// NodeStats is one node's part of Stats. The six counters of votes are of rounds
// that asked for a lock: what the node had answered when the round was decided.
type NodeStats struct {
	Name     string
	Down     bool // it does not answer, or refuses, as far as is known
	Abstains bool // it answers and does not vote, as far as is known
	Refuses  bool // it answers and refuses to write, or lacks a right for what each lock does, as far as is known

	Granted   uint64
	Taken     uint64
	Abstained uint64
	Unknown   uint64 // sent, and no reply in time
	Failed    uint64 // not sent, or refused
	Late      uint64 // decided without it: a quorum of others was faster

	Calls  uint64        // round trips; one carries what has gathered for the node
	Errors uint64        // round trips without a reply, or with an error for one
	Time   time.Duration // how long they took, summed up
}

// Stats returns a snapshot. It blocks for nobody, sends nothing, and costs about a
// microsecond; it may be called from an observer, and after Close.
func (l *Locker) Stats() Stats {
	c := &l.recorder.counters
	s := Stats{
		HoldTime: duration(&c.held), ValidityLeft: duration(&c.left), AcquireTime: duration(&c.acquiring), WaitTime: duration(&c.waited),
		ExtendTime: duration(&c.extending), ReleaseTime: duration(&c.releasing),
		Rollbacks: c.failed.Load(), SecondRounds: c.second.Load(), Extended: c.extended.Load(), ExtendFailed: c.stalled.Load(),
		Confirmed: c.freed.Load(), Unconfirmed: c.unfreed.Load(), EventsDropped: c.dropped.Load(),
	}
	s.count(c)
	for i, n := range l.nodes {
		s.Nodes = append(s.Nodes, statsOf(n, &c.nodes[i]))
	}
	return s
}

// count takes in what must add up. What ends is read before what it began with,
// because each is counted in the other order.
func (s *Stats) count(c *counters) {
	for r := range c.ended {
		n := c.ended[r].Load()
		switch Reason(r) { //nolint:exhaustive // the others end no hold
		case ReasonLapsed:
			s.Lapsed = n
		case ReasonGone:
			s.Gone = n
		case ReasonClockStepped:
			s.ClockStepped = n
		case ReasonMaxHold:
			s.MaxHeld = n
			s.Released += n
		default:
			s.Released += n
		}
	}
	s.Lost = s.Lapsed + s.Gone + s.ClockStepped
	failed := uint64(0)
	for r := range c.refused {
		n := c.refused[r].Load()
		failed += n
		switch Reason(r) { //nolint:exhaustive // the others are rare
		case ReasonNotAcquired:
			s.NotAcquired = n
		case ReasonNoQuorum:
			s.NoQuorum = n
		case ReasonMisconfigured:
			s.Misconfigured = n
		default:
			s.Cancelled += n
		}
	}
	s.Acquired, s.Reentered = c.acquired.Load(), c.entered.Load()
	s.Held = int(s.Acquired - s.Released - s.Lost)                        //nolint:gosec // as many as fit into memory
	s.Acquiring = int(c.calls.Load() - s.Acquired - s.Reentered - failed) //nolint:gosec // the same
}

func duration(nanoseconds *atomic.Int64) time.Duration { return time.Duration(nanoseconds.Load()) }

// statsOf are the figures of one node.
func statsOf(n *node.Node, c *nodeCounters) NodeStats {
	return NodeStats{
		Name: n.Name, Down: c.down.Load(), Abstains: c.abstains.Load() || n.Stepped(),
		Refuses: c.refuses.Load(),
		Granted: c.votes[quorum.Granted].Load(), Taken: c.votes[quorum.Taken].Load(), Abstained: c.votes[quorum.Abstained].Load(),
		Unknown: c.votes[quorum.Unknown].Load(), Failed: c.votes[quorum.Failed].Load(), Late: c.votes[quorum.Pending].Load(),
		Calls: c.calls.Load(), Errors: c.errors.Load(), Time: duration(&c.time),
	}
}

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

// counters is what Stats is made of: the events, counted. Each is an atomic of its
// own; in which order Stats reads them makes its figures agree.
type counters struct {
	calls    atomic.Uint64 // of Acquire, TryAcquire and Do, that began
	acquired atomic.Uint64
	entered  atomic.Uint64
	refused  [len(reasonNames)]atomic.Uint64 // calls that brought no lock
	failed   atomic.Uint64                   // attempts
	second   atomic.Uint64                   // attempts of two round trips
	extended atomic.Uint64
	stalled  atomic.Uint64                   // extensions without a confirmation
	ended    [len(reasonNames)]atomic.Uint64 // holds
	freed    atomic.Uint64                   // releases that were confirmed
	unfreed  atomic.Uint64                   // and those that were not
	dropped  atomic.Uint64                   // events

	acquiring, waited, extending, held, left, releasing atomic.Int64 // nanoseconds, summed up

	nodes []nodeCounters
}

// nodeCounters is what NodeStats is made of.
type nodeCounters struct {
	down, abstains atomic.Bool
	refuses        atomic.Bool
	votes          [quorum.Outcomes]atomic.Uint64
	calls          atomic.Uint64
	errors         atomic.Uint64
	time           atomic.Int64 // nanoseconds, summed up
}

// take counts an event.
func (c *counters) take(e *Event) {
	switch e.Kind {
	case EventLockAcquired:
		c.acquiring.Add(int64(e.Duration))
		c.waited.Add(int64(e.Waited))
		c.round(e)
		c.acquired.Add(1)
	case EventLockReentered:
		c.entered.Add(1)
	case EventAcquireFailed:
		c.refused[e.Reason].Add(1)
	case EventAttemptFailed:
		c.round(e)
		c.failed.Add(1)
	case EventLockExtended:
		c.extending.Add(int64(e.Duration))
		c.extended.Add(1)
	case EventExtendFailed:
		c.stalled.Add(1)
	case EventLockReleased, EventLockLost:
		c.held.Add(int64(e.Held))
		c.left.Add(int64(e.Validity))
		c.ended[e.Reason].Add(1)
	case EventReleaseConfirmed:
		c.releasing.Add(int64(e.Duration))
		c.freed.Add(1)
	case EventReleaseUnconfirmed:
		c.unfreed.Add(1)
	case EventNodeDown, EventNodeUp:
		c.nodes[e.Node].down.Store(e.Kind == EventNodeDown)
	case EventNodeAbstains, EventNodeVotes:
		c.nodes[e.Node].abstains.Store(e.Kind == EventNodeAbstains)
	case EventNodeRefusesWrites, EventNodeTakesWrites:
		c.nodes[e.Node].refuses.Store(e.Kind == EventNodeRefusesWrites)
	case EventClusterFounded, EventNodeClockStepped:
	}
}

func (c *counters) round(e *Event) {
	if e.Rounds > 1 {
		c.second.Add(1)
	}
}

// poll counts what the nodes had answered when a round of an attempt was decided.
func (c *counters) poll(votes []quorum.Vote) {
	for i, v := range votes {
		c.nodes[i].votes[v.Outcome].Add(1)
	}
}

// called counts a round trip to node i.
func (c *counters) called(i int, took time.Duration) {
	c.nodes[i].calls.Add(1)
	c.nodes[i].time.Add(int64(took))
}

// mostNamed is how many names of one node the error of Close spells out.
const mostNamed = 5

// unreleasedError is what the nodes were not seen to release when Close's time was
// over.
type unreleasedError struct{ nodes []unreleased }

// unreleased is what one node did not confirm the release of.
type unreleased struct {
	name  string
	names []string
	left  time.Duration // of the longest lease
	cause error
}

// Error names the nodes, the names on each, and the cause.
func (e *unreleasedError) Error() string {
	var b strings.Builder
	b.WriteString("redlock: close: not released")
	for i, u := range e.nodes {
		if i > 0 {
			b.WriteString(";")
		}
		fmt.Fprintf(&b, " on %s: %s: %s; blocked there for up to %v", u.name, listed(u.names),
			fault.Unnamed(u.cause.Error()), max(u.left, time.Second).Round(time.Second))
	}
	return b.String()
}

// listed are names in a message, the first of them.
func listed(names []string) string {
	first := make([]string, min(len(names), mostNamed))
	for i := range first {
		first[i] = fault.Printable(names[i])
	}
	text := strings.Join(first, ", ")
	if more := len(names) - mostNamed; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// Unwrap returns the causes.
func (e *unreleasedError) Unwrap() []error {
	causes := make([]error, len(e.nodes))
	for i, u := range e.nodes {
		causes[i] = u.cause
	}
	return causes
}

// unconfirmed returns what Close says of the holds that it ended; nil if nothing.
func (l *Locker) unconfirmed(c hold.Closing) (err error) {
	if c.Failed > 0 {
		err = fault.Errorf("redlock: close: %d of %d releases not confirmed, the first: %w", c.Failed, c.Held, c.First)
	}
	if len(c.Worked) > 0 {
		names := slices.Compact(slices.Sorted(slices.Values(c.Worked)))
		err = errors.Join(fault.Errorf("redlock: close: released before their functions returned: %s: %w", listed(names), fault.WaitedError(l.cfg.workTimeout())), err)
	}
	return err
}

// unreleased is what is left on the nodes; nil: nothing. A key whose lease is over
// has ended by itself.
func (l *Locker) unreleased() error {
	var e unreleasedError
	for _, n := range l.nodes {
		u := unreleased{name: n.Name}
		if u.names, u.left, u.cause = n.Unreleased(l.clock.Early()); len(u.names) == 0 {
			continue
		}
		for k, name := range u.names {
			u.names[k] = strings.TrimPrefix(lua.NameOf(name), l.cfg.prefix)
		}
		u.names = slices.Compact(slices.Sorted(slices.Values(u.names))) // several slots of one name
		e.nodes = append(e.nodes, u)
	}
	if len(e.nodes) == 0 {
		return nil
	}
	return &e
}
