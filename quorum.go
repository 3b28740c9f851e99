package redlock

import (
	"errors"
	"fmt"
	"strings"

	"github.com/quorumkit/redlock/internal/fault"
	"github.com/quorumkit/redlock/internal/node"
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

// deed groups the outcomes as a message says them. Whether something may have happened where a
// node failed is for programs: they have the Outcome.
type deed uint8

const (
	deedFailed deed = iota
	deedMute
	deedRefused
	deedGranted
	deedLate
	deeds = iota
)

// deed returns what the node did. Of one that was not waited for it may be known that it does
// not vote.
func (n *NodeResult) deed() deed {
	switch n.Outcome {
	case OutcomeGranted:
		return deedGranted
	case OutcomeTaken:
		return deedRefused
	case OutcomeAbstained:
		return deedMute
	case OutcomePending:
		if n.Err != nil {
			return deedMute
		}
		return deedLate
	case OutcomeUnknown, OutcomeFailed:
	}
	return deedFailed
}

// verb says the deed of so many nodes.
func (e *QuorumError) verb(d deed, nodes int) string {
	refused, granted := "refused", "answered"
	switch e.Op {
	case "extend":
		refused, granted = "no longer have it", "confirmed it"
	case "release":
		granted = "confirmed it"
	case "acquire":
		granted = "granted it"
	}
	verb := [deeds]string{"failed", "do not vote", refused, granted, "were not waited for"}[d]
	if nodes == 1 {
		verb = singular.Replace(verb)
	}
	return verb
}

var singular = strings.NewReplacer("do not", "does not", "have", "has", "were", "was")

// order is which deeds a message tells, those that decided the round first. Who was not waited
// for changes nothing where the lock is lost.
func (e *QuorumError) order() []deed {
	switch {
	case errors.Is(e.sentinel, ErrNoQuorum):
		return []deed{deedFailed, deedMute, deedRefused, deedGranted, deedLate}
	case errors.Is(e.sentinel, ErrLost):
		return []deed{deedRefused, deedFailed, deedMute, deedGranted}
	}
	return []deed{deedRefused, deedFailed, deedMute, deedGranted, deedLate}
}

// because is the cause of what a node did, behind a colon; empty if the verb says it.
func (e *QuorumError) because(n *NodeResult) string {
	if n.Err == nil || e.Op == "extend" && errors.Is(n.Err, node.ErrGone) {
		return ""
	}
	return ": " + fault.Reason(n.Err)
}

// Error says what happened, then how many nodes did what, which, and why: what several did for
// the same cause, once.
func (e *QuorumError) Error() string {
	var counts [deeds]int
	var who [deeds]fault.Grouped
	for i := range e.Nodes {
		n := &e.Nodes[i]
		d, name := n.deed(), n.Name
		if d == deedMute && n.Outcome == OutcomePending {
			name += " (not waited for)"
		}
		counts[d]++
		who[d].Add(name, e.because(n))
	}
	what := fault.Unnamed(e.sentinel.Error())
	if e.sentinel != ErrLost && e.reason() == ReasonMisconfigured { //nolint:errorlint // it is one of a few
		what += ", and waiting does not help"
	}
	var said []string
	if e.cause != nil {
		said = append(said, fault.Unnamed(e.cause.Error()))
	}
	of := fmt.Sprintf(" of %d nodes", len(e.Nodes)) // with the first number
	for _, d := range e.order() {
		if counts[d] == 0 {
			continue
		}
		var names []string
		who[d].Each(func(group string, _ int, cause string) { names = append(names, group+cause) })
		text := fmt.Sprintf("%d%s %s", counts[d], of, e.verb(d, counts[d]))
		switch d {
		case deedGranted: // they are not concerned
		case deedLate:
			text = strings.Join(names, "; ") + " " + e.verb(d, counts[d])
		case deedFailed, deedMute, deedRefused:
			text += ": " + strings.Join(names, "; ")
		}
		said, of = append(said, text), ""
	}
	// Of an even number of nodes, half are too few.
	if n := counts[deedGranted]; n < e.Quorum && (n > 0 || len(e.Nodes)%2 == 0) {
		said = append(said, fmt.Sprintf("it takes %d", e.Quorum))
	}
	return fmt.Sprintf("redlock: %s %s: %s: %s", e.Op, fault.Printable(e.Resource), what, strings.Join(said, "; "))
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
