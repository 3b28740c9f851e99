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
// old one beside it, and begins a new epoch: whoever voted before reads the record
// again, and raises MaxTTL before it votes if it takes longer leases. When the old
// MaxTTL has passed since, every lease of before is over: the second step drops the
// old one. It begins an epoch as well, so that every client reads of it. What ends
// between the two, a node or whoever lowers, leaves the waits as they were.

// lowering is a MaxTTL on its way down.
type lowering struct {
	to      time.Duration
	vouched bool          // nobody holds a longer lease: nothing is waited for
	marks   []lowered     // by node
	cluster string        // whose it is
	fresh   func() string // epochs
}

// newLowering brings MaxTTL down to that, on so many nodes; vouched: nothing is waited
// for. fresh makes epochs.
func newLowering(to time.Duration, vouched bool, nodes int, fresh func() string) *lowering {
	to = time.Duration(clock.Milliseconds(to)) * time.Millisecond
	return &lowering{to: to, vouched: vouched, marks: make([]lowered, nodes), fresh: fresh}
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
func (w *lowering) next(f fleet, i int, now clock.Instant) (lowerStep, clock.Instant, error) {
	s, m := f.sights[i], w.marks[i]
	name, due := f.names[i], m.at.Add(s.rec.was)
	switch {
	case s.recorded && s.rec.cluster == w.cluster && s.rec.longest() <= w.to:
		return lowerDone, 0, nil
	case !s.answered:
		return lowerNot, 0, fmt.Errorf("%s is unreachable: %s", name, s.cause)
	case s.refused:
		return lowerNot, 0, fmt.Errorf("%w: %s: %s", fault.ErrMisconfigured, name, s.cause)
	case !s.recorded: // it gets what the others say
		return lowerDone, 0, nil
	case s.rec.cluster != w.cluster:
		return lowerNot, 0, fmt.Errorf("%w: %s has the record of another cluster", fault.ErrMisconfigured, name)
	case m.at == 0:
		return lowerFirst, 0, nil
	case s.rec.epoch != m.epoch && !s.rec.gone && s.rec.was != 0:
		return lowerBy, 0, fmt.Errorf("%s: another client lowers MaxTTL, too: leave it to one", name)
	case s.rec.epoch != m.epoch: // it was installed meanwhile, or retired
		return lowerFirst, 0, nil
	case s.rec.maxTTL > w.to:
		return lowerBy, 0, fmt.Errorf("%w: %s: a client raised MaxTTL again, to %v: stop it, or give it no more than %v",
			fault.ErrMisconfigured, name, s.rec.maxTTL, w.to)
	case now < due && !w.vouched:
		return lowerWait, due, nil
	default:
		return lowerSecond, 0, nil
	}
}

// check refuses what can't be lowered to, by what the nodes say.
func (w *lowering) check(f fleet) error {
	if w.cluster == "" {
		return fmt.Errorf("%w: no quorum of the nodes carries one cluster's id", fault.ErrNoQuorum)
	}
	most := time.Duration(0)
	for _, s := range f.sights {
		if s.recorded && s.rec.cluster == w.cluster {
			most = max(most, s.rec.longest())
		}
	}
	if w.to > most {
		return fmt.Errorf("%w: the cluster's MaxTTL is %v: give less than that, not %v", fault.ErrInvalidTTL, most, w.to)
	}
	return nil
}

// lower does what can be done now. It returns how long to pause until there is more,
// and what stands against it; a pause of 0 is the end.
func (r *roster) lower(ctx context.Context, w *lowering) (time.Duration, error) {
	done, err := r.alone(ctx)
	if err != nil {
		return 0, nil //nolint:nilerr // the caller sees by ctx that nothing was done
	}
	defer done()
	for {
		r.lookAtAll(ctx, false)
		f := r.current()
		if w.cluster == "" {
			w.cluster = f.cluster()
			if err := w.check(f); err != nil {
				return 0, err
			}
		}
		did, pause, left := r.lowerAll(ctx, w, f)
		if !did || ctx.Err() != nil {
			return pause, left
		}
	}
}

// lowerAll does the next step on every node. It returns whether one was done, and
// otherwise how long to pause (0: nothing is to be waited for), and which nodes can't
// be lowered.
func (r *roster) lowerAll(ctx context.Context, w *lowering, f fleet) (did bool, pause time.Duration, left error) {
	now, ended := r.clock.Now(), false
	for i := range r.nodes {
		step, due, err := w.next(f, i, now)
		switch step {
		case lowerDone, lowerNot:
		case lowerBy:
			ended = true
		case lowerWait:
			if until := due.Sub(now); pause == 0 || until < pause {
				pause = max(until, time.Millisecond)
			}
		case lowerFirst, lowerSecond:
			if err = r.lowerOne(ctx, w, f, i, step); err == nil {
				did = true
			} else if errors.Is(err, errRefused) { // the next look tells what has changed
				pause = joinPoll
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
func (r *roster) lowerOne(ctx context.Context, w *lowering, f fleet, i int, step lowerStep) error {
	p := plan{do: doLower, epoch: w.fresh(), record: record{cluster: w.cluster, epoch: f.sights[i].rec.epoch, maxTTL: w.to}}
	if step == lowerSecond {
		p.record.maxTTL = 0
	}
	if err := r.nodes[i].Do(ctx, p); err != nil {
		return fmt.Errorf("%s: %w", f.names[i], err)
	}
	w.marks[i] = lowered{at: r.clock.Now()}
	if p.record.epoch != "" {
		w.marks[i].epoch = p.epoch
	}
	return nil
}
