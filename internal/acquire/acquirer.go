// Package acquire takes a lock on the nodes: attempts and the tokens they settle,
// rollbacks, waiting in turn, and the hand-over to the next goroutine.
package acquire

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumkit/redlock/internal/chance"
	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/fault"
	"github.com/quorumkit/redlock/internal/membership"
	"github.com/quorumkit/redlock/internal/node"
	"github.com/quorumkit/redlock/internal/queue"
	"github.com/quorumkit/redlock/internal/quorum"
	"github.com/quorumkit/redlock/internal/round"
)

// Config is what an Acquirer knows of its Locker.
type Config struct {
	Nodes    []*node.Node
	Clock    *clock.Clock
	Hints    *round.Hints
	Tracker  *membership.Tracker
	Queue    *queue.Queue
	Presence *queue.Presence
	Sleepers *round.Sleepers
	Chance   *chance.Source
	Holder   string                                // begins every owner value
	TTL      time.Duration                         // of a claim that stands for no lock
	Timeout  time.Duration                         // of a node
	Bound    func(ttl time.Duration) time.Duration // how long a lock of this TTL waits for a node
	Drift    float64
	RetryMin time.Duration
	RetryMax time.Duration
	Closing  <-chan struct{}
	Door     Door
}

// Door hears of attempts, and puts into words why they failed. Each of its methods is called
// at most once for an attempt.
type Door interface {
	// Polled tells what the nodes had answered when an attempt was decided.
	Polled(votes []quorum.Vote)
	// Refused tells that an attempt failed which was sent at start, and returns its error.
	Refused(ctx context.Context, key string, start clock.Instant, rounds int, f *Failure) error
	// Ended returns the error of an acquisition that ended for this cause.
	Ended(key string, cause error) error
}

// Terms are what an acquisition is made on.
type Terms struct {
	TTL     time.Duration
	Barging bool
	Fixed   bool   // the lease is not lengthened
	Shared  bool   // beside others who share the name
	Limit   int    // how many may hold the name at once, by slots; 0 if it has none
	Label   string // of this hold, behind the Locker's in the owner value
}

// Turn is the way in which a lock came that others may have waited for as well.
type Turn uint8

// The ways, with the numbers of the public ones.
const (
	First      Turn = iota + 1 // the first attempt brought it
	HandedOver                 // another goroutine of this Locker handed it on
	Called                     // a node said that it was our turn
	Found                      // no call came
	Granted                    // the release before granted it
)

// Grant is a claim that a quorum granted. Close waits until it is Settled.
type Grant struct {
	Claim  *round.Claim
	Start  clock.Instant // since when its leases count
	Asked  clock.Instant // when the round was sent that brought it, or the first push came
	Valid  clock.Validity
	Turn   Turn
	Failed int  // attempts before it; also where none brought it
	Short  bool // a release gave part of it, for less than its TTL
}

// Failure is an attempt that brought no lock.
type Failure struct {
	Sentinel error // ErrNotAcquired or ErrNoQuorum; nil if Cause ended it, and not the nodes
	Cause    error // nil if the votes say it all
	Votes    []quorum.Vote
	Causes   []error // of the votes; nil if none has one
	Words    error   // what the Door made of it
}

// cause is why node i voted as it did; nil if that is not known.
func (f *Failure) cause(i int) error {
	if f.Causes == nil {
		return nil
	}
	return f.Causes[i]
}

// hopeless tells whether so many nodes refuse for good that waiting can't bring the
// lock.
func (f *Failure) hopeless() bool {
	return fault.Hopeless(len(f.Votes), quorum.Size(len(f.Votes)), f.cause)
}

// stripes is how many stripes the names have for what is remembered of them.
const stripes = 256

// base is what the parts of an Acquirer share: its configuration, what is remembered of
// names, and the calls that Close waits for.
type base struct {
	Config
	quorum int

	waitedFor [stripes]atomic.Int64  // when a name of that stripe was last waited for; 0 if never
	foreignOn [stripes]atomic.Int64  // when a holder of such a name was last seen whose value is not ours
	released  [stripes]atomic.Int32  // one more than the slot of such a name that was released last; 0 if none
	stood     [stripes]atomic.Int64  // the last place in line at which this process waited for a slot of such a name; 0 if none
	handed    [stripes]atomic.Uint64 // releases of such names that granted, or might have
	gate      sync.RWMutex           // closed changes under it, and attempts are entered
	closed    atomic.Bool
	entered   sync.WaitGroup // calls that Close waits for before it releases anything
}

// Acquirer makes the acquisitions of one Locker.
type Acquirer struct {
	*base
	Releases *Releases
	attempts *attempter

	leaveShared func(key string, place int64) // Releases.LeaveShared of all nodes; made once
}

// Releases ends claims on the nodes: a hold is released or handed on, an attempt is rolled
// back, and a process leaves the line.
type Releases struct{ *base }

// attempter makes single attempts: a round, and another where the nodes have to settle on a
// token. One that fails is rolled back.
type attempter struct {
	*base
	releases *Releases
}

// New makes an Acquirer; it sends nothing.
func New(c Config) *Acquirer {
	b := &base{Config: c, quorum: quorum.Size(len(c.Nodes))}
	r := &Releases{b}
	return &Acquirer{
		base: b, Releases: r, attempts: &attempter{b, r},
		leaveShared: func(key string, place int64) { r.LeaveShared(key, place, c.Nodes) },
	}
}

// Enter counts a call, so that Close waits for what it may have to roll back. It
// returns false once the Acquirer is closed.
func (a *base) Enter() bool {
	a.gate.RLock()
	defer a.gate.RUnlock()
	if a.closed.Load() {
		return false
	}
	a.entered.Add(1)
	return true
}

// Settled ends an Enter, and a Grant.
func (a *base) Settled() { a.entered.Done() }

// Closed tells whether Close was called.
func (a *base) Closed() bool { return a.closed.Load() }

// Close lets nobody enter any more. It tells whether it was called before.
func (a *base) Close() (already bool) {
	a.gate.Lock()
	defer a.gate.Unlock()
	return a.closed.Swap(true)
}

// Await blocks until every call that entered is settled.
func (a *base) Await() { a.entered.Wait() }

// Acquire takes the lock on key, and waits for it until ctx is done. Where it fails,
// everything is rolled back, in the background, and the name is the next goroutine's.
func (a *Acquirer) Acquire(ctx context.Context, key string, t Terms) (Grant, error) {
	switch {
	case t.Limit > 0:
		return a.acquireSlot(ctx, key, t)
	case t.Shared:
		return a.acquireShared(ctx, key, t)
	}
	name, given, err := a.Queue.Take(ctx, key, t.TTL, t.Label, t.acceptsPushes())
	if err != nil {
		return Grant{}, a.Door.Ended(key, fmt.Errorf("%w: %w", errBusy, err))
	}
	acq := acquisition{a: a, name: name, terms: t}
	g, err := acq.run(ctx, given)
	acq.stopWaiting()
	g.Failed = acq.failed
	if err != nil {
		acq.giveUp()
	}
	acq.finish()
	return g, err
}

var errBusy = fmt.Errorf("%w: this Locker holds it, or queues for it", fault.ErrNotAcquired)

// Try makes one attempt to take the lock on key, or two if nodes that were seen not
// to vote may do so by then.
func (a *Acquirer) Try(ctx context.Context, key string, t Terms) (Grant, error) {
	switch {
	case t.Limit > 0:
		return a.tryToHoldSlot(ctx, key, t)
	case t.Shared && !t.Barging && !a.Queue.MayShare(key):
		return Grant{}, a.Door.Ended(key, errBusy)
	case t.Shared:
		return a.retryAfterLook(ctx, func() (Grant, *Failure) { return a.attempts.tryShared(ctx, key, t) })
	}
	name, ok := a.Queue.Try(key)
	if !ok {
		return Grant{}, a.Door.Ended(key, errBusy)
	}
	g, err := a.retryAfterLook(ctx, func() (Grant, *Failure) { return a.tryOnce(ctx, name, t) })
	if err != nil {
		a.Releases.passOn(key)
	}
	return g, err
}

// retryAfterLook makes Try's attempts.
func (a *Acquirer) retryAfterLook(ctx context.Context, attempt func() (Grant, *Failure)) (Grant, error) {
	g, f := attempt()
	failed := 0
	if f != nil {
		if failed = 1; a.lookAgain(ctx, f) {
			if g, f = attempt(); f != nil {
				failed = 2
			}
		}
	}
	g.Turn, g.Failed = First, failed
	if f != nil {
		return g, f.Words
	}
	return g, nil
}

// tryOnce is Try's attempt of an exclusive hold.
func (a *Acquirer) tryOnce(ctx context.Context, name *queue.Name, t Terms) (Grant, *Failure) {
	if !t.Barging {
		return a.attempts.attempt(ctx, name.Key, &t, 0)
	}
	acq := acquisition{a: a, name: name, terms: t, waiter: a.Sleepers.Get()}
	defer a.Sleepers.Put(acq.waiter)
	return acq.bid(ctx, quorum.Barging)
}

// lookAgain looks at the nodes before an acquisition is refused because some were seen not to
// vote. It tells whether another attempt would end otherwise, since such a node may vote by
// now. A refusal for any other reason stands as it is.
func (a *Acquirer) lookAgain(ctx context.Context, f *Failure) bool {
	if f.Sentinel != fault.ErrNoQuorum { //nolint:errorlint // it is one of two
		return false
	}
	var seen *membership.AbstentionError
	judged := func(i int) bool {
		return f.Votes[i].Outcome == quorum.Abstained && errors.As(f.cause(i), &seen)
	}
	for i := range f.Votes {
		if judged(i) {
			return a.Tracker.LookAgain(ctx, a.Timeout) && a.standingChanged(f, judged)
		}
	}
	return false
}

// standingChanged tells whether a judged node may vote by now, or is known by now not to
// vote for good, which its refusal is to say.
func (a *Acquirer) standingChanged(f *Failure, judged func(i int) bool) bool {
	for i := range f.Votes {
		if !judged(i) {
			continue
		}
		now := a.Tracker.WhyNot(i)
		if a.Tracker.MayVote(i) || errors.Is(now, fault.ErrMisconfigured) && !errors.Is(f.cause(i), fault.ErrMisconfigured) {
			return true
		}
	}
	return false
}
