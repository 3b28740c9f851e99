package membership

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// Plans returns the next step to what an operator wants (NewChange), by a look at all nodes.
func (t *Tracker) Plans(ctx context.Context, w Wanted) (Change, error) {
	t.LookAtAll(ctx, false)
	c, err := NewChange(t.View(), w)
	switch {
	case err != nil:
	case len(c.Steps) == 0:
		t.follow(c.To.Names)
	case len(c.Wanted.Names) > len(c.From.Names): // its wait begins now
		t.follow(c.Wanted.Names)
	default:
		t.follow(c.From.Names)
	}
	return c, err
}

// follow has this client go by the list in force, or about to be, which its nodes include: so
// it takes in a node that is added, while another is still to be. What voted by another list is verified.
func (t *Tracker) follow(list []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if slices.Equal(t.config.sorted, list) {
		return
	}
	t.config.sorted = list
	for i := range t.stale {
		t.stale[i].Store(true)
	}
}

// Change does of the change what can be done now, and returns what there is to wait for.
// Its error is what the last actions failed with. fresh makes epochs.
func (t *Tracker) Change(ctx context.Context, c *Change, fresh func() string) (Turn, error) {
	done, err := t.Alone(ctx)
	if err != nil {
		return Turn{}, err
	}
	defer done()
	for {
		t.LookAtAll(ctx, true)
		next, turn := c.Next(t.View(), t.clock.Now())
		*c = next
		if turn.Stage >= Joined {
			t.follow(turn.To.Names)
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
