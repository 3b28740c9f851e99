package redlock

import (
	"errors"
	"fmt"
	"strings"

	"github.com/quorumkit/redlock/internal/fault"
)

// Sentinels, for errors.Is.
var (
	// ErrNotAcquired: a quorum of nodes answered, and the lock was not ours to
	// take: somebody holds it, or the attempt brought no usable lock.
	ErrNotAcquired = fault.ErrNotAcquired
	// ErrNoQuorum: fewer than a quorum of nodes answered, so nobody can say.
	ErrNoQuorum = fault.ErrNoQuorum
	// ErrNotHeld: the lock had already ended. It is joined with the cause.
	ErrNotHeld = errors.New("redlock: not held")
	// ErrLost: the lock ended because its validity did, or because the nodes that
	// answered no longer hold it for us.
	ErrLost = errors.New("redlock: lost")
	// ErrReleased: the lock ended because it was released.
	ErrReleased = errors.New("redlock: released")
	// ErrMaxHold: the lock ended because WithMaxHold's bound passed.
	ErrMaxHold = errors.New("redlock: held for its maximum")
	// ErrClosed: the Locker was closed.
	ErrClosed = fault.ErrClosed
	// ErrInvalidTTL: a TTL that is not positive, above MaxTTL, too short for the
	// node timeout, or below what remains of the lock that is to be extended.
	ErrInvalidTTL = fault.ErrInvalidTTL
	// ErrInvalidResource: a resource name that is empty, too long, or one of the
	// library's own keys.
	ErrInvalidResource = errors.New("redlock: invalid resource")
	// ErrInvalidOption: an option, or a relation of two, that can't work.
	ErrInvalidOption = errors.New("redlock: invalid option")
	// ErrInvalidNode: a client or URL that can't be a node.
	ErrInvalidNode = fault.ErrInvalidNode
	// ErrMisconfigured: a node refuses for a reason that waiting does not mend:
	// credentials, rights, certificates, a server without INFO or in cluster
	// mode, one server listed twice.
	ErrMisconfigured = fault.ErrMisconfigured
)

// NodeResult is what one node did in a round.
type NodeResult struct {
	Name    string
	Outcome Outcome
	Err     error // the cause, where there is one
}

// QuorumError is a round that brought no quorum: what each node did, and why. It
// unwraps to its sentinel (ErrNotAcquired, ErrNoQuorum or ErrLost) and to the
// causes.
type QuorumError struct {
	Op       string // acquire, extend, release, open, inspect, check
	Resource string
	Quorum   int // how many nodes it takes
	Nodes    []NodeResult

	sentinel error
	cause    error // why a quorum that granted was not enough
}

// Error says what happened, then what each node did.
func (e *QuorumError) Error() string {
	var b strings.Builder
	granted := 0
	for _, n := range e.Nodes {
		if n.Outcome == Granted {
			granted++
		}
	}
	fmt.Fprintf(&b, "redlock: %s %s: %s: %d/%d granted, quorum %d",
		e.Op, fault.Printable(e.Resource), fault.Unnamed(e.sentinel.Error()), granted, len(e.Nodes), e.Quorum)
	if e.cause != nil {
		fmt.Fprintf(&b, ": %s", fault.Unnamed(e.cause.Error()))
	}
	for i, n := range e.Nodes {
		fmt.Fprintf(&b, "; node %d (%s) %s", i, n.Name, n.Outcome)
		if n.Err != nil {
			fmt.Fprintf(&b, ": %s", fault.Unnamed(n.Err.Error()))
		}
	}
	return b.String()
}

// Unwrap returns the sentinel and the causes.
func (e *QuorumError) Unwrap() []error {
	errs := []error{e.sentinel}
	if e.cause != nil {
		errs = append(errs, e.cause)
	}
	for _, n := range e.Nodes {
		if n.Err != nil {
			errs = append(errs, n.Err)
		}
	}
	return errs
}

// quorumError puts a round's votes and their causes into words.
func quorumError(op, resource string, sentinel, cause error, names []string, votes []vote, causes []error) *QuorumError {
	e := &QuorumError{
		Op: op, Resource: resource, Quorum: quorumOf(len(names)),
		Nodes: make([]NodeResult, len(names)), sentinel: sentinel, cause: cause,
	}
	for i, name := range names {
		e.Nodes[i] = NodeResult{Name: name, Outcome: votes[i].outcome}
		if causes != nil {
			e.Nodes[i].Err = causes[i]
		}
	}
	return e
}

// hopeless tells whether so many nodes refuse for good that waiting can't bring
// a quorum.
func (e *QuorumError) hopeless() bool {
	usable := 0
	for _, n := range e.Nodes {
		if !errors.Is(n.Err, ErrMisconfigured) {
			usable++
		}
	}
	return usable < e.Quorum
}

// ended is the error of an operation on a lock that is over.
func ended(op, resource string, cause error) error {
	return fault.Errorf("redlock: %s %s: %w: %w", op, fault.Printable(resource), ErrNotHeld, cause)
}
