package membership

import (
	"context"
	"errors"
	"fmt"
)

// Plans returns the next step to what an operator wants (NewChange), by a look at all nodes.
func (t *Tracker) Plans(ctx context.Context, w Wanted) (Change, error) {
	t.LookAtAll(ctx, false)
	return NewChange(t.View(), w)
}

// await makes the nodes that are coming wait from now on.
func (t *Tracker) await(coming []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.config.coming = coming
}

// Change does of the change what can be done now, and returns what there is to wait for.
// Its error is what the last actions failed with. fresh makes epochs.
func (t *Tracker) Change(ctx context.Context, c *Change, fresh func() string) (Turn, error) {
	done, err := t.Alone(ctx)
	if err != nil {
		return Turn{}, err
	}
	defer done()
	if len(c.Steps) == 0 {
		t.await(nil)
	} else if c.Ballot == 0 {
		t.await(c.Fresh())
	}
	for {
		t.LookAtAll(ctx, true)
		next, turn := c.Next(t.View(), t.clock.Now())
		*c = next
		if turn.Stage >= Joined {
			t.await(without(c.Fresh(), turn.To.Names))
		}
		var faults []error
		did := false
		for _, task := range turn.Do {
			if task.Plan.Action == DoSettle { // noted before it is sent: its reply may be lost
				task.Plan.Epoch = fresh()
				c.Marks[task.Node] = task.Plan.Epoch
			}
			switch err := t.nodes[task.Node].Do(ctx, task.Plan); {
			case err == nil:
				did = true
			case !errors.Is(err, ErrRefused): // a matter of order: the next look tells
				faults = append(faults, fmt.Errorf("%s: %w", t.View().Names[task.Node], err))
			}
		}
		if !did || ctx.Err() != nil {
			return turn, errors.Join(append(faults, turn.Err)...)
		}
	}
}
