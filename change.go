package redlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quorumkit/redlock/internal/fault"
	"github.com/quorumkit/redlock/internal/membership"
)

// ChangeOptions are for Add, Shrink and Settle. The zero value is fine.
//
// Experimental: it may change before v1.
type ChangeOptions struct {
	DryRun   bool                 // look whether it could be done, and change nothing
	Progress func(ChangeProgress) // called about once a second, from the caller's goroutine; nil: nobody

	// EndStragglers begins at once, and ends the locks of clients that have the list before. Else
	// a change waits until each that holds a lock has left its name, MaxTTL/3 and 2 s from when
	// the list came into force. Where there is one, nothing is changed, unless a quorum has begun.
	EndStragglers bool
}

// ChangeProgress is how far a change of the list of nodes is.
//
// Experimental: it may change before v1.
type ChangeProgress struct {
	Stage    string        // in a word or two
	List     []string      // the next list; nil if it is not known yet
	Done, Of int           // nodes that have done this stage, and how many must
	Left     time.Duration // of its wait; 0 if none is known
	Err      error         // what the last attempt failed with; nil if nothing did

	// Stragglers are of one call, before the change begins: their locks end with it, if they
	// have any.
	Stragglers []Straggler
}

// Add adds a node to the cluster's list while clients run. This Locker has the next list:
// the cluster's nodes, and the new one, which is named and empty. Clients of the list as it
// was go on until the next change begins. Give them the next list before that.
//
// It takes MaxTTL and a few seconds, soon after another change a third more, and blocks until
// the new node votes, or ctx is done. Where it ends early, call it again, from any client: it
// finishes what was begun. Of a node that is in the list, it returns nil once enough nodes know.
//
// ErrInvalidNode: name is none of this Locker's nodes, or was always in the list.
// ErrStragglers: clients have the list before the cluster's (ChangeOptions.EndStragglers).
// ErrMisconfigured: the new node has data, is a replica, is of another
// cluster, or this Locker's nodes are not the list and the new one. ErrNoQuorum: too few nodes
// answer. With these nothing is changed. ErrContested: another operator changes
// the list at the same time, or an earlier one's change to another list had to be finished first.
//
// Experimental: it may change before v1.
func (c *Cluster) Add(ctx context.Context, name string, o ChangeOptions) error {
	return c.change(ctx, "add", membership.Adding, name, o)
}

// Shrink takes a node out of the cluster's list while clients run, dead or alive. This
// Locker's nodes are the list, the one to take out included. All else is as for Add. Keep the
// node as it is, or stop it, until no client has a list with it: emptied and started again it
// may vote for them.
//
// ErrNoQuorum: too few of the nodes that would be left are members.
//
// Experimental: it may change before v1.
func (c *Cluster) Shrink(ctx context.Context, name string, o ChangeOptions) error {
	return c.change(ctx, "shrink", membership.Shrinking, name, o)
}

// Settle refuses all clients that have the list before this Locker's, which is the
// cluster's. Their locks end with their validity. The next change does so too, so it is
// for those who want no old list at work. It takes one MaxTTL.
//
// Experimental: it may change before v1.
func (c *Cluster) Settle(ctx context.Context, o ChangeOptions) error {
	return c.change(ctx, "settle", membership.Closing, "", o)
}

func (c *Cluster) change(ctx context.Context, verb string, kind membership.Kind, name string, o ChangeOptions) error {
	l, what := c.locker, strings.TrimSpace("redlock: "+verb+" "+name)
	if err := l.usable(ctx, verb); err != nil {
		return err
	}
	i := slices.Index(l.names, name)
	if i < 0 && kind != membership.Closing {
		return fault.Errorf("%s: %w: this client has no such node", what, ErrInvalidNode)
	}
	ch, err := l.tracker.Plans(ctx, kind, name)
	if err == nil && kind == membership.Adding && !ch.Begun() {
		err = l.nodes[i].Empty(ctx)
	}
	if ended := fault.OfContext(ctx); err == nil || ended != nil {
		err = ended
	}
	if err != nil {
		return fault.Errorf("%s: %w", what, err)
	}
	if o.Progress == nil {
		o.Progress = func(ChangeProgress) {}
	}
	if err := l.spare(ctx, ch, o); err != nil {
		return fault.Errorf("%s: %w", what, err)
	}
	if o.DryRun {
		return nil
	}
	for {
		l.tracker.Settle(ctx, l.tracker.Proposal()) // the new node's wait goes on meanwhile
		turn, left := l.tracker.Change(ctx, &ch, l.cfg.chance.Name)
		pause := membership.JoinPoll
		p := ChangeProgress{Stage: turn.Stage.String(), List: turn.List, Done: turn.Done, Of: turn.Of, Err: left}
		if turn.Until != 0 {
			p.Left = max(turn.Until.Sub(l.clock.Now()), 0)
			pause = min(pause, p.Left+time.Millisecond)
		}
		if turn.Of > 0 { // else there is an error alone
			o.Progress(p)
		}
		switch {
		case turn.Stage == membership.Changed && !slices.Equal(turn.List, ch.Wanted):
			return fault.Errorf("%s: %w: it had begun one to %s, which is finished now: run this again", what, ErrContested, strings.Join(turn.List, ", "))
		case turn.Stage == membership.Changed:
			return nil
		case errors.Is(left, ErrContested):
			return fault.Errorf("%s: %w", what, left)
		}
		if err := l.acquirer.Wait(ctx, pause); err != nil {
			return fault.Errorf("%s: not done, %s (%d of %d): run it again: %w", what, p.Stage, p.Done, p.Of, errors.Join(err, left))
		}
	}
}

// spare is why a change must not begin yet: it would end the locks of clients that have the list
// before the cluster's. Those that hold a lock leave their names when they meet the cluster's
// list: so it waits until all have. A name that was left long ago holds nothing up, since its
// client may have the cluster's list by now.
func (l *core) spare(ctx context.Context, ch membership.Change, o ChangeOptions) error {
	for began := l.clock.Now(); ; {
		v := l.tracker.View()
		if !ch.Spares(v) {
			return nil
		}
		seen := l.stragglers(ctx, v, ch.Gen)
		left, named := v.Unsigned(ch, l.clock.Now().Sub(began)), v.AtWork(seen)
		switch {
		case o.EndStragglers, left <= 0 && named == nil:
			if seen != nil {
				o.Progress(ChangeProgress{Stage: membership.Settling.String(), Stragglers: stragglersOf(seen)})
			}
			return nil
		case named != nil && (left <= 0 || o.DryRun):
			return fmt.Errorf("%w: %s (redlock status KEY shows whether one of them holds it): give them the cluster's list, and run this again %v after the last of them has ended; EndStragglers (--yes) ends their locks",
				ErrStragglers, membership.Named(named), v.UntilIdle().Round(time.Second))
		case o.DryRun:
			return fmt.Errorf("%w: it is not yet known which clients have it, for %v more", ErrStragglers, left.Round(time.Second))
		}
		o.Progress(ChangeProgress{Stage: "not yet known which clients have the list before", Left: left})
		if err := l.acquirer.Wait(ctx, min(left, membership.JoinPoll)); err != nil {
			return err
		}
		l.tracker.LookAtAll(ctx, false)
	}
}
