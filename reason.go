package redlock

import (
	"errors"

	"github.com/quorumkit/redlock/internal/clock"
)

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
