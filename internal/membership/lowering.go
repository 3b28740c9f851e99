package membership

import (
	"fmt"
	"time"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/fault"
)

// How a cluster's MaxTTL comes down.
//
// A node that forgot waits for the longest lease of any lock that may rest on it. The
// nodes of each lock say how long that may be: no lock that is valid has a longer
// lease than the record of a node that it rests on says, by its MaxTTL or by the
// earlier one (Record.Longest).
//
// lower.lua keeps that true in two steps. The first writes the new MaxTTL, keeps the
// old one beside it, and begins a new epoch: one who voted before reads the record
// again, and raises MaxTTL before it votes if it takes longer leases. When the old
// MaxTTL has passed since, every earlier lease is over: the second step drops the
// old one. It begins an epoch as well, so that every client reads of it. What ends
// between the two, a node or who lowers, leaves the waits as they were.

// Lowering is a MaxTTL on its way down.
type Lowering struct {
	to      time.Duration
	vouched bool          // nobody holds a longer lease: nothing is waited for
	marks   []lowered     // by node
	cluster string        // whose it is
	fresh   func() string // epochs
}

// NewLowering brings MaxTTL down to that, on so many nodes; vouched: nothing is waited
// for. fresh makes epochs.
func NewLowering(to time.Duration, vouched bool, nodes int, fresh func() string) *Lowering {
	to = time.Duration(clock.Milliseconds(to)) * time.Millisecond
	return &Lowering{to: to, vouched: vouched, marks: make([]lowered, nodes), fresh: fresh}
}

// lowered is the first step, as it was done on a node.
type lowered struct {
	at    clock.Instant // its reply was here; 0: not done
	epoch string        // since then
}

// lowerStep is what is to be done next on a node.
type lowerStep uint8

const (
	lowerDone lowerStep = iota // it allows no longer lease
	lowerNot                   // it can't be lowered now
	lowerBy                    // somebody else's doing stands against it
	lowerFirst
	lowerWait // for the earlier leases
	lowerSecond
)

// next is what is to be done on node i at now, until when to wait, or why it can't be
// lowered.
func (w *Lowering) next(v View, i int, now clock.Instant) (lowerStep, clock.Instant, error) {
	o, m := v.Nodes[i], w.marks[i]
	name, due := v.Names[i], m.at.Add(o.Record.Was)
	switch {
	case o.Recorded && o.Record.Cluster == w.cluster && o.Record.Longest() <= w.to:
		return lowerDone, 0, nil
	case !o.Answered:
		return lowerNot, 0, fmt.Errorf("%s is unreachable: %s", name, o.Cause)
	case o.Refused:
		return lowerNot, 0, fmt.Errorf("%w: %s: %s", fault.ErrMisconfigured, name, o.Cause)
	case !o.Recorded: // it gets what the others say
		return lowerDone, 0, nil
	case o.Record.Cluster != w.cluster:
		return lowerNot, 0, fmt.Errorf("%w: %s has the record of another cluster", fault.ErrMisconfigured, name)
	case m.at == 0:
		return lowerFirst, 0, nil
	case o.Record.Epoch != m.epoch && o.Record.Was != 0:
		return lowerBy, 0, fmt.Errorf("%s: meanwhile another client lowers MaxTTL, too, or the list of nodes changes: run this again when that is over", name)
	case o.Record.Epoch != m.epoch: // it was installed meanwhile
		return lowerFirst, 0, nil
	case o.Record.MaxTTL > w.to:
		return lowerBy, 0, fmt.Errorf("%w: %s: a client raised MaxTTL again, to %v: stop it, or give it no more than %v",
			fault.ErrMisconfigured, name, o.Record.MaxTTL, w.to)
	case now < due && !w.vouched:
		return lowerWait, due, nil
	default:
		return lowerSecond, 0, nil
	}
}

// check refuses what can't be lowered to, by what the nodes say.
func (w *Lowering) check(v View) error {
	if w.cluster == "" {
		return fmt.Errorf("%w: no quorum of the nodes carries one cluster's id", fault.ErrNoQuorum)
	}
	most := time.Duration(0)
	for _, o := range v.Nodes {
		if o.Recorded && o.Record.Cluster == w.cluster {
			most = max(most, o.Record.Longest())
		}
	}
	if w.to > most {
		return fmt.Errorf("%w: the cluster's MaxTTL is %v: give less than that, not %v", fault.ErrInvalidTTL, most, w.to)
	}
	return nil
}
