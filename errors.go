package redlock

import (
	"errors"
	"fmt"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/fault"
	"github.com/quorumkit/redlock/internal/membership"
)

// Sentinels, for errors.Is. A round that brought no quorum is a *QuorumError as well, for
// errors.As: what each node did, and why.
var (
	// ErrNotAcquired: a quorum of nodes answered, and the lock was not ours to
	// take: somebody holds it, or the attempt brought no usable lock. Wait, or leave the
	// work to the holder.
	ErrNotAcquired = fault.ErrNotAcquired
	// ErrNoQuorum: fewer than a quorum of nodes answered, so nobody can say. Look at the
	// nodes.
	ErrNoQuorum = fault.ErrNoQuorum
	// ErrNotHeld: the lock had already ended. It is joined with the cause. Of Revoke: nobody
	// holds the lock.
	ErrNotHeld = errors.New("redlock: not held")
	// ErrLost: the lock ended because its validity did, or because the nodes that
	// answered no longer hold it for us. Stop: what is under way may meet the next holder.
	ErrLost = errors.New("redlock: lost")
	// ErrReleased: the lock ended because it was released.
	ErrReleased = errors.New("redlock: released")
	// ErrUpgrade: an exclusive hold was asked for inside a shared one of the same name
	// (WithReentry on both). Two who do that would wait for each other for ever: release,
	// acquire, and read again.
	ErrUpgrade = errors.New("redlock: inside a shared hold")
	// ErrMaxHold: the lock ended because WithMaxHold's bound passed. Find out who forgot it.
	ErrMaxHold = errors.New("redlock: held for its maximum")
	// ErrClosed: the Locker was closed.
	ErrClosed = fault.ErrClosed
	// ErrInvalidTTL: a TTL that is not positive, above WithMaxTTL, too short for the
	// node timeout, or below what remains of the lock that is to be extended.
	ErrInvalidTTL = fault.ErrInvalidTTL
	// ErrInvalidResource: a resource name that is empty, too long, or one of the
	// library's own keys; or a set of names that is empty, too large, or has one twice.
	ErrInvalidResource = errors.New("redlock: invalid resource")
	// ErrInvalidOption: an option, or a relation of two, that can't work.
	ErrInvalidOption = errors.New("redlock: invalid option")
	// ErrInvalidNode: a client or URL that can't be a node.
	ErrInvalidNode = fault.ErrInvalidNode
	// ErrContested: another operator changes the list of nodes, or had begun to.
	ErrContested = membership.ErrContested
	// ErrStragglers: a change of the list of nodes would end locks of clients that have the list
	// before the cluster's, or may: give them the cluster's list first.
	ErrStragglers = errors.New("redlock: clients may have the list before")
	// ErrForeign: under the name of an election stands what no client of this library
	// wrote: another lock client's value, or another program's data. Use another name, or
	// see who wrote it.
	ErrForeign = errors.New("redlock: held by no client of this library")
	// ErrNotRevocable: somebody holds the lock who can't be asked to give it up: it was taken
	// without WithRevocation, or by no client of this library.
	ErrNotRevocable = errors.New("redlock: can't be asked for")
	// ErrMisconfigured: a node refuses for a reason that waiting does not mend:
	// credentials, rights, certificates, a server without INFO or in cluster
	// mode, one server listed twice; inside a wrapper, a Ring, a Sentinel client or another
	// database. Fix the node.
	ErrMisconfigured = fault.ErrMisconfigured
)

var errLapsed = fmt.Errorf("%w: its validity ended", ErrLost)

// ended is the error of an operation on a lock that is over.
func ended(op, resource string, cause error) error {
	return fault.Errorf("redlock: %s %s: %w: %w", op, fault.Printable(resource), ErrNotHeld, cause)
}

// Reason is why an acquisition failed, or a hold ended, in one word: for branching
// on an Event, and for the label of a metric.
type Reason uint8

const (
	// NoReason is that of an event that needs none.
	NoReason Reason = iota
	// ReasonNotAcquired means that a quorum answered, and the lock was not to be had.
	ReasonNotAcquired
	// ReasonNoQuorum means that fewer than a quorum of nodes answered.
	ReasonNoQuorum
	// ReasonMisconfigured means that nodes refuse for a reason that waiting does not mend.
	ReasonMisconfigured
	// ReasonCancelled means that the context ended before anything was known of the nodes.
	ReasonCancelled
	// ReasonReleased means that the holder released the lock.
	ReasonReleased
	// ReasonMaxHold means that the lock was held for the longest that WithMaxHold allows.
	ReasonMaxHold
	// ReasonClosed means that the Locker was closed.
	ReasonClosed
	// ReasonLapsed means that the validity ended before a quorum confirmed a renewal.
	ReasonLapsed
	// ReasonGone means that nodes that answered no longer had the lock.
	ReasonGone
	// ReasonClockStepped means that the clocks of too many nodes stepped.
	ReasonClockStepped
)

var reasonNames = [...]string{
	"", "not_acquired", "no_quorum", "misconfigured", "cancelled", "released", "max_hold", "closed", "lapsed", "gone", "clock_stepped",
}

// String returns the reason as a metric's label has it: in lower case, with
// underscores; nothing for NoReason.
func (r Reason) String() string {
	if int(r) < len(reasonNames) {
		return reasonNames[r]
	}
	return "invalid"
}

// refusal is why a call failed. Where its context ended, what its last attempt had
// met is the reason, if there was one.
func refusal(err error) Reason {
	if failed, ok := err.(*QuorumError); ok { //nolint:errorlint // most are; errors.As would allocate
		return failed.reason()
	}
	var failed *QuorumError
	switch {
	case errors.As(err, &failed):
		return failed.reason()
	case errors.Is(err, ErrClosed):
		return ReasonClosed
	case errors.Is(err, ErrNotHeld): // the hold that was to be entered
		return ending(err)
	case errors.Is(err, ErrNotAcquired): // behind another goroutine of this Locker
		return ReasonNotAcquired
	default:
		return ReasonCancelled
	}
}

func (e *QuorumError) reason() Reason {
	switch {
	case errors.Is(e.sentinel, ErrNotAcquired):
		return ReasonNotAcquired
	case e.hopeless():
		return ReasonMisconfigured
	default:
		return ReasonNoQuorum
	}
}

// ending is why a hold ended.
func ending(cause error) Reason {
	switch {
	case errors.Is(cause, ErrReleased):
		return ReasonReleased
	case errors.Is(cause, ErrMaxHold):
		return ReasonMaxHold
	case errors.Is(cause, ErrClosed):
		return ReasonClosed
	case isStep(cause):
		return ReasonClockStepped
	case errors.Is(cause, errLapsed):
		return ReasonLapsed
	default:
		return ReasonGone
	}
}

// isStep tells a hold that ended because clocks stepped.
func isStep(cause error) bool {
	var step *clock.StepError
	return errors.As(cause, &step)
}
