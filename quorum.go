package redlock

import (
	"fmt"
	"strings"

	"github.com/quorumkit/redlock/internal/fault"
	"github.com/quorumkit/redlock/internal/quorum"
)

// Outcome is what one node did in one round. OutcomeUnknown and OutcomeFailed differ in what
// the caller must do next: an unknown command may have run, or may still run.
type Outcome uint8

const (
	// OutcomePending is no reply yet when the verdict was known.
	OutcomePending Outcome = iota
	// OutcomeGranted means that the node gave, confirmed or removed what was asked.
	OutcomeGranted
	// OutcomeTaken means that the node answered, and the name is somebody else's (or, to an
	// extension or a raise, no longer ours).
	OutcomeTaken
	// OutcomeAbstained means that the node answered and does not vote: it is no member, or it
	// would not be trusted with this vote.
	OutcomeAbstained
	// OutcomeUnknown means that it timed out, or its connection was lost: it may have happened.
	OutcomeUnknown
	// OutcomeFailed means that it did not happen: never sent, or refused before the first write.
	OutcomeFailed
)

// The rules count the same outcomes by the same numbers.
var _ = [1]struct{}{}[(OutcomePending-Outcome(quorum.Pending))|(OutcomeGranted-Outcome(quorum.Granted))|(OutcomeTaken-Outcome(quorum.Taken))|
	(OutcomeAbstained-Outcome(quorum.Abstained))|(OutcomeUnknown-Outcome(quorum.Unknown))|(OutcomeFailed-Outcome(quorum.Failed))]

// String returns the outcome in one word.
func (o Outcome) String() string { return quorum.Outcome(o).String() }

// NodeResult is what one node did in a round.
type NodeResult struct {
	Name    string
	Outcome Outcome
	Err     error // the cause, where there is one
}

// QuorumError is a round that brought no quorum: what each node did, and why. It
// unwraps to its sentinel (ErrNotAcquired, ErrNoQuorum or ErrLost; ErrMisconfigured of
// Revoke) and to the causes.
type QuorumError struct {
	Op       string // acquire, extend, release, open, inspect, check, revoke
	Resource string
	Quorum   int          // how many nodes it takes
	Nodes    []NodeResult // of the list that the Locker went by

	sentinel error
	cause    error // why a quorum that granted was not enough
}

// Error says what happened, then what each node did: what several did for the same cause,
// once.
func (e *QuorumError) Error() string {
	var b strings.Builder
	granted := 0
	for _, n := range e.Nodes {
		if n.Outcome == OutcomeGranted {
			granted++
		}
	}
	fmt.Fprintf(&b, "redlock: %s %s: %s: %d/%d granted, quorum %d",
		e.Op, fault.Printable(e.Resource), fault.Unnamed(e.sentinel.Error()), granted, len(e.Nodes), e.Quorum)
	if e.cause != nil {
		fmt.Fprintf(&b, ": %s", fault.Unnamed(e.cause.Error()))
	}
	var nodes fault.Grouped
	for i, n := range e.Nodes {
		cause := ""
		if n.Err != nil {
			cause = ": " + fault.Unnamed(n.Err.Error())
		}
		nodes.Add(fmt.Sprintf("node %d (%s) %s", i, n.Name, n.Outcome), cause)
	}
	nodes.Each(func(names string, _ int, cause string) { b.WriteString("; " + names + cause) })
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
func quorumError(op, resource string, sentinel, cause error, names []string, votes []quorum.Vote, causes []error) *QuorumError {
	e := &QuorumError{
		Op: op, Resource: resource, Quorum: quorum.Needed(votes),
		sentinel: sentinel, cause: cause,
	}
	for i, name := range names {
		if votes[i].Outcome == quorum.Unlisted {
			continue
		}
		n := NodeResult{Name: name, Outcome: Outcome(votes[i].Outcome)}
		if causes != nil {
			n.Err = causes[i]
		}
		e.Nodes = append(e.Nodes, n)
	}
	return e
}

// hopeless tells whether so many nodes refuse for good that waiting can't bring
// a quorum.
func (e *QuorumError) hopeless() bool {
	return fault.Hopeless(len(e.Nodes), e.Quorum, func(i int) error { return e.Nodes[i].Err })
}
