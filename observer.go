package redlock

import (
	"context"
	"time"

	"github.com/quorumkit/redlock/internal/acquire"
)

// EventKind says what an Event is about.
type EventKind uint8

const (
	// EventNodeDown says that a node stopped answering, or refuses; Err says why.
	EventNodeDown EventKind = iota + 1
	// EventNodeUp says that a node that was down answers again; Duration is for how long
	// it was down.
	EventNodeUp
	// EventNodeAbstains says that a node answers and does not vote; Err says why.
	EventNodeAbstains
	// EventNodeVotes says that a node votes that abstained: it has joined.
	EventNodeVotes
	// EventNodeRefusesWrites says that a node answers and refuses to write (its memory is
	// full, its disk failed, it lacks replicas, it is a replica itself), so that it grants no
	// lock, or that the user's ACL lacks a right to acquire, extend or release; Err says why.
	// It is told at the first refusal, not again at each.
	EventNodeRefusesWrites
	// EventNodeTakesWrites says that a node that refused to write has written again: it
	// granted a lock, a look proved it, or the right is there; Duration is for how long it refused.
	EventNodeTakesWrites
	// EventClusterFounded says that this client made a node a member beyond the table
	// of the ordinary way: a new cluster, or one whose majority lost its memory.
	// Tokens lean on the clocks there once; Err says where.
	EventClusterFounded
	// EventLockLost says that a lock ended without having been released; Err and Reason
	// say why, Held how long it was held.
	EventLockLost
	// EventNodeClockStepped says that a node's clock stepped, and that it abstains for
	// MaxTTL; Err says by how much.
	EventNodeClockStepped
	// EventReleaseUnconfirmed says that no quorum confirmed a release within its bound; Err is
	// the *QuorumError, Duration the bound. The hold is over all the same, and the
	// rollback goes on.
	EventReleaseUnconfirmed
	// EventLockAcquired says that a lock was taken. Duration is how long the call took,
	// Waited how much of that went by before the attempt that brought it, Attempts how
	// many it took, Rounds the round trips of the last one, Validity what the holder has.
	EventLockAcquired
	// EventAcquireFailed says that Acquire, TryAcquire or Do returned without a lock; Err and
	// Reason say why, Duration after how long. A call with faulty arguments, or to a
	// Locker that was closed already, is no event.
	EventAcquireFailed
	// EventAttemptFailed says that one attempt of an acquisition brought no lock and was
	// rolled back; Err and Reason say why. Acquire may go on to the next one.
	EventAttemptFailed
	// EventLockExtended says that a quorum confirmed a held lock, for Extend or for a renewal;
	// Duration is how long that took, Validity what the holder has since.
	EventLockExtended
	// EventExtendFailed says that Extend or a renewal brought no confirmation, and that the
	// lock is held all the same, for Validity; Err and Reason say why. A renewal is
	// tried again.
	EventExtendFailed
	// EventLockReleased says that a hold was ended by its holder (ReasonReleased), by
	// WithMaxHold (ReasonMaxHold) or by Close (ReasonClosed). Held is how long it was
	// held, Validity what was left of it: little means that the work took almost too
	// long for its lease.
	EventLockReleased
	// EventReleaseConfirmed says that a quorum confirmed that a lock's key is gone; Duration
	// is how long that took.
	EventReleaseConfirmed
	// EventLockReentered says that a call was given one more handle on a hold that its context
	// carries (WithReentry). The hold is the same one.
	EventLockReentered
)

var eventNames = [...]string{
	"",
	"node down", "node up", "node abstains", "node votes", "node refuses writes", "node takes writes", "cluster founded", "lock lost",
	"node clock stepped", "release unconfirmed",
	"lock acquired", "acquire failed", "attempt failed", "lock extended", "extend failed", "lock released", "release confirmed",
	"lock reentered",
}

// String returns the kind in words.
func (k EventKind) String() string {
	if int(k) < len(eventNames) && k > 0 {
		return eventNames[k]
	}
	return "invalid"
}

// routine tells whether events of this kind come with every operation. The others
// are worth more when there is no room for all.
func (k EventKind) routine() bool { return k >= EventLockAcquired }

// Turn is how a lock was come by that others may have waited for as well.
type Turn uint8

const (
	// NoTurn is that of an event that is not of an acquisition.
	NoTurn Turn = iota
	// TurnFirst means that the first attempt brought it.
	TurnFirst
	// TurnHandedOver means that another goroutine of this Locker handed it on, in one
	// round trip.
	TurnHandedOver
	// TurnCalled means that a node said that it was this Locker's turn.
	TurnCalled
	// TurnFound means that no call came, or that too few nodes had answered: it was
	// tried again.
	TurnFound
	// TurnGranted means that the release before granted it: the nodes said so by
	// themselves, and were not asked, or only those that had not.
	TurnGranted
)

// The attempts' own turns have the same numbers.
var _ = [1]struct{}{}[(TurnFirst-Turn(acquire.First))|(TurnHandedOver-Turn(acquire.HandedOver))|(TurnCalled-Turn(acquire.Called))|(TurnFound-Turn(acquire.Found))|(TurnGranted-Turn(acquire.Granted))]

var turnNames = [...]string{"", "first", "handed_over", "called", "found", "granted"}

// String returns the turn as a metric's label has it.
func (t Turn) String() string {
	if int(t) < len(turnNames) {
		return turnNames[t]
	}
	return "invalid"
}

// Event is something that the library did, or noticed by itself. Fields that do
// not apply are zero; kinds and fields may be added in later versions, so leave
// alone what you do not know.
type Event struct {
	Kind EventKind
	Time time.Time // when it happened, by the wall clock

	Node int    // index of the node in the list given to New or Open; -1 for a lock's event
	Name string // the node's name

	Resource string // of a lock's event
	Token    Token  // of a lock's event
	Err      error  // the cause
	Reason   Reason // the cause in one word

	Duration time.Duration // how long it took
	Waited   time.Duration // the part of it before the attempt that brought the lock
	Held     time.Duration // how long the lock was held, of an event that ends the hold
	Validity time.Duration // what was left of the lock's validity then
	Attempts int           // of an acquisition
	Rounds   int           // round trips of one attempt: 2 where a token had to be raised
	Turn     Turn          // of a lock that was acquired: how it was come by
	Renewal  bool          // of an extension: the Locker's own, not a call of Extend

	// Context is what the lock was acquired with, or what was to be acquired with:
	// for the values that it carries, such as a trace. It may be done.
	Context context.Context
}

// WithObserver has f told what the Locker does, and what it notices by itself.
// Given more than once, each f is told.
//
// f is called from one goroutine of the Locker's own, with one event after the
// other in the order in which they happened, soon after they did. It may take its
// time: nothing of the Locker waits for it, and no lock lapses because of it.
// Where f falls behind by more than 4,096 events, the newest are dropped and
// counted (Stats.EventsDropped), those of single operations first. Close waits for
// the last events, within its timeout; f must not call Close. A panic of f ends the
// program.
func WithObserver(f func(Event)) Option {
	return lockerOption(func(c *config) {
		if f != nil {
			c.observers = append(c.observers[:len(c.observers):len(c.observers)], f)
		}
	})
}
