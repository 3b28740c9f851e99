package membership

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/fault"
)

// How a cluster's MaxTTL comes down.
//
// A node that forgot waits for the longest lease of any lock that may rest on it. The
// nodes of each lock say how long that may be: no lock that is valid has a longer
// lease than the record of a node that it rests on says, by its MaxTTL or by that of
// before (record.longest).
//
// lower.lua keeps that true in two steps. The first writes the new MaxTTL, keeps the
// old one beside it, and begins a new epoch: one who voted before reads the record
// again, and raises MaxTTL before it votes if it takes longer leases. When the old
// MaxTTL has passed since, every lease of before is over: the second step drops the
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
	epoch string        // since then; empty: the record has none (a retired node)
}

// lowerStep is what is to be done next on a node.
type lowerStep uint8

const (
	lowerDone lowerStep = iota // it allows no longer lease
	lowerNot                   // it can't be lowered now
	lowerBy                    // somebody else's doing stands against it
	lowerFirst
	lowerWait // for the leases of before
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
	case o.Record.Epoch != m.epoch && !o.Record.Gone && o.Record.Was != 0:
		return lowerBy, 0, fmt.Errorf("%s: another client lowers MaxTTL, too: leave it to one", name)
	case o.Record.Epoch != m.epoch: // it was installed meanwhile, or retired
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

// Lower does what can be done now. It returns how long to pause until there is more,
// and what stands against it; a pause of 0 is the end.
func (t *Tracker) Lower(ctx context.Context, w *Lowering) (time.Duration, error) {
	done, err := t.Alone(ctx)
	if err != nil {
		return 0, nil
	}
	defer done()
	for {
		t.LookAtAll(ctx, false)
		v := t.View()
		if w.cluster == "" {
			w.cluster = v.Cluster()
			if err := w.check(v); err != nil {
				return 0, err
			}
		}
		did, pause, left := t.lowerAll(ctx, w, v)
		if !did || ctx.Err() != nil {
			return pause, left
		}
	}
}

// lowerAll does the next step on every node. It returns whether one was done, and
// otherwise how long to pause (0: nothing is to be waited for), and which nodes can't
// be lowered.
func (t *Tracker) lowerAll(ctx context.Context, w *Lowering, v View) (did bool, pause time.Duration, left error) {
	now, ended := t.clock.Now(), false
	for i := range t.nodes {
		step, due, err := w.next(v, i, now)
		switch step {
		case lowerDone, lowerNot:
		case lowerBy:
			ended = true
		case lowerWait:
			if until := due.Sub(now); pause == 0 || until < pause {
				pause = max(until, time.Millisecond)
			}
		case lowerFirst, lowerSecond:
			if err = t.lowerOne(ctx, w, v, i, step); err == nil {
				did = true
			} else if errors.Is(err, ErrRefused) { // the next look tells what has changed
				pause = JoinPoll
			}
		}
		if err != nil {
			left = errors.Join(left, err)
		}
	}
	if ended {
		return false, 0, left
	}
	return did, min(pause, strayPoll), left
}

// lowerOne does one of the two steps on node i, whose epoch was read.
func (t *Tracker) lowerOne(ctx context.Context, w *Lowering, v View, i int, step lowerStep) error {
	p := Plan{Action: DoLower, Epoch: w.fresh(), Record: Record{Cluster: w.cluster, Epoch: v.Nodes[i].Record.Epoch, MaxTTL: w.to}}
	if step == lowerSecond {
		p.Record.MaxTTL = 0
	}
	if err := t.nodes[i].Do(ctx, p); err != nil {
		return fmt.Errorf("%s: %w", v.Names[i], err)
	}
	w.marks[i] = lowered{at: t.clock.Now()}
	if p.Record.Epoch != "" {
		w.marks[i].epoch = p.Epoch
	}
	return nil
}
