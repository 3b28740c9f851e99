package membership

import (
	"context"
	"errors"
	"fmt"
	"time"
)

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
