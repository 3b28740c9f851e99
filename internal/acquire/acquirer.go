// Package acquire takes a lock on the nodes: attempts and the tokens they settle,
// rollbacks, waiting in turn, and the hand-over to the next goroutine.
package acquire

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumkit/redlock/internal/chance"
	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/fault"
	"github.com/quorumkit/redlock/internal/grant"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/membership"
	"github.com/quorumkit/redlock/internal/node"
	"github.com/quorumkit/redlock/internal/queue"
	"github.com/quorumkit/redlock/internal/quorum"
	"github.com/quorumkit/redlock/internal/round"
	"github.com/quorumkit/redlock/internal/slots"
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
	Bound    func(ttl time.Duration) time.Duration // how long a round for a lock of this TTL waits for the nodes
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

// acceptsPushes tells whether a release may grant the lock: for grant.Lease at first, and
// its full lease comes with an extension.
func (t *Terms) acceptsPushes() bool {
	return !t.Fixed && !t.Barging && !t.Shared && t.TTL >= grant.Lease
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

// Success is a claim that a quorum granted. Close waits until it is Settled.
type Success struct {
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
	Causes   []error     // of the votes; nil if none has one
	Words    error       // what the Door made of it
	List     quorum.List // that the attempt went by
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
	listed := f.List.Indexes(len(f.Votes))
	return fault.Hopeless(len(listed), quorum.Size(len(listed)), func(k int) error { return f.cause(listed[k]) })
}

// stripes is how many stripes the names have for what is remembered of them.
const stripes = 256

// base is what the parts of an Acquirer share: its configuration, what is remembered of
// names, and the calls that Close waits for.
type base struct {
	Config

	waitedFor [stripes]atomic.Int64  // when a name of that stripe was last waited for; 0 if never
	foreignOn [stripes]atomic.Int64  // when a holder of such a name was last seen whose value is not ours
	released  [stripes]atomic.Int32  // one more than the slot of such a name that was released last; 0 if none
	stood     [stripes]atomic.Int64  // the last place in line at which this process waited for a slot of such a name; 0 if none
	handed    [stripes]atomic.Uint64 // releases of such names that granted, or might have
	firsts    permits                // to ask for the first time
	asks      permits                // to ask once refused
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

// Settled ends an Enter, and a Success.
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

// Wait blocks for d, or until ctx is done or the Locker is closed.
func (a *base) Wait(ctx context.Context, d time.Duration) error {
	t := a.Clock.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-a.Closing:
		return fault.ErrClosed
	case <-ctx.Done():
		return fault.OfContext(ctx)
	}
}

// Share draws where in its range a random duration for this name lies, in [0, 1).
func (a *base) Share(key string) float64 { return a.Chance.Share(int64(a.Clock.Early()), key) }

// crowdFor is how long a name counts as contended after the last wait for it: an acquisition
// then asks for its place in line at once.
const crowdFor = time.Second

// noteWaiting notes that key is waited for.
func (a *base) noteWaiting(key string) {
	a.waitedFor[stripeOf(key)].Store(int64(a.Clock.Early()) + 1)
}

// uncontended tells whether nobody was seen to wait for key lately.
func (a *base) uncontended(key string) bool {
	at := a.waitedFor[stripeOf(key)].Load()
	return at == 0 || a.Clock.Early().Sub(clock.Instant(at)) > crowdFor
}

// lastSlot takes the slot that this Locker released last of such a name; slots.None if it was
// taken already.
func (a *base) lastSlot(key string) int {
	return int(a.released[stripeOf(key)].Swap(0)) + slots.None
}

// calls tells whether a release calls the first waiter instead of granting (grant.Calls).
func (a *base) calls(key string) bool {
	s := stripeOf(key)
	at := a.foreignOn[s].Load()
	foreign := at != 0 && a.Clock.Early().Sub(clock.Instant(at)) < a.TTL
	return grant.Calls(a.handed[s].Add(1)-1, foreign)
}

// newClaim is a fresh attempt: its owner value was never used before. label is the
// hold's own.
func (a *base) newClaim(key string, ttl time.Duration, label string, start clock.Instant, floor quorum.Token) *round.Claim {
	var room [len(lua.TombstoneKey) + 100]byte // so that nothing but the result is allocated
	dead := string(a.Chance.AppendName(append(append(append(room[:0], lua.TombstoneKey...), a.Holder...), label...)))
	c := &round.Claim{
		Key: key, Owner: dead[len(lua.TombstoneKey):], Dead: dead, Stripe: lua.StripeOf(key),
		TTL: clock.Milliseconds(ttl), Hint: max(a.Hints.Hint(), int64(floor)), //nolint:gosec // below 2^53
	}
	c.Rounds = 1
	c.GoBy(a.Tracker.List())
	c.Stand(start, 0)
	c.MarkNodes(len(a.Nodes))
	return c
}

// quorum is the size of one, of the list that the Locker goes by.
func (a *base) quorum() int { return a.Tracker.List().Quorum(len(a.Nodes)) }

// labelOf is the label that newClaim was given for a claim.
func (a *base) labelOf(c *round.Claim) string {
	return c.Owner[len(a.Holder) : len(c.Owner)-lua.RandomLength]
}

func stripeOf(key string) int64 { return lua.StripeOf(key) % stripes }
