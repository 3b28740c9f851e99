package redlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/fault"
	"github.com/quorumkit/redlock/internal/membership"
)

// Wanted is what an operator wants of the cluster's configuration. The zero value is a close: it
// refuses all clients that have the list before the cluster's.
//
// Experimental: it may change before v1.
type Wanted struct {
	Add    []string      // nodes of this Locker, by their names: empty servers
	Remove []string      // nodes of this Locker, dead or alive
	MaxTTL time.Duration // the longest lease that anyone may take, 10 ms to 24 h; 0: as it is
	Strict *bool         // strict recovery (WithStrictRecovery); nil: as it is
}

// ChangeOptions are for Change. The zero value is fine.
//
// Experimental: it may change before v1.
type ChangeOptions struct {
	DryRun   bool                 // tell Progress of the steps, and change nothing
	Progress func(ChangeProgress) // called about once a second, from the caller's goroutine; nil: nobody

	// EndStragglers begins at once, and ends the locks of clients that have the list before. Else
	// a step waits until each that holds a lock has left its name, MaxTTL/3 and 2 s from when
	// the list came into force. Where there is one, nothing is changed, unless a quorum has begun.
	EndStragglers bool

	// Wait is for how long a step waits for such clients at work, until they have ended, or held
	// no lock for a good minute; 0: it does not wait for them.
	Wait time.Duration
}

// ChangeProgress is how far a change is.
//
// Experimental: it may change before v1.
type ChangeProgress struct {
	Step, Steps int           // which step, from 1, and how many there are
	Words       string        // what the step changes
	Stage       string        // in a word or two; empty in a dry run
	List        []string      // the next list; nil if it is not known yet
	Done, Of    int           // nodes that have done this stage, and how many must
	Left        time.Duration // of its wait; 0 if none is known
	Err         error         // what the last attempt failed with; nil if nothing did

	// Stragglers are those waited for, while Left is not 0 (ChangeOptions.Wait). Else they are
	// of one call, before the step begins: their locks end with it, if they have any.
	Stragglers []Straggler
}

// Change changes the cluster's configuration while clients run: its list of nodes, by one at a
// time, additions first, its MaxTTL, and whether recovery is strict. This Locker has all nodes
// of the list, and those to add and to remove; it goes by the list in force until it ends, and
// then by that one: make another Locker for locks after a change.
//
// A step takes MaxTTL and a few seconds, soon after another a third more; a shorter MaxTTL, or
// nodes taken out, take one more, the close. Change blocks until all is done and a node that was
// added votes, or ctx is done. Where it ends early, call it again, from any client: it finishes
// what was begun. Of what is in force already it returns nil once enough nodes know. With a
// MaxTTL below some 16 node timeouts a node that hangs keeps it from being done: stop that node.
//
// A client goes by the cluster's list, if it has all nodes of it: give clients a longer list before
// the cluster has it. One that lacks a node goes on until the next step begins. Keep a node that
// was removed as it is, or stop it, until no client has a list with it: emptied and started again
// it may vote for them. A client with a longer lease than the new MaxTTL loses its locks when
// they would be renewed, and gets ErrMisconfigured; so does one with WithStrictRecovery in a cluster without.
//
// ErrInvalidNode: a name is none of this Locker's nodes, or is given twice, or none would be
// left. ErrInvalidTTL: MaxTTL is out of its range. ErrStragglers: clients have the list before
// the cluster's (ChangeOptions.EndStragglers). ErrMisconfigured: a node to add has data, is a
// replica, is of another cluster, or this Locker lacks nodes of the list. ErrNoQuorum: too few
// nodes answer. With these the step is not begun; the error says which step. ErrContested:
// another operator changes the configuration at the same time, or an earlier one's other
// change had to be finished first.
//
// Experimental: it may change before v1.
func (c *Cluster) Change(ctx context.Context, w Wanted, o ChangeOptions) error {
	l := c.locker
	if err := l.usable(ctx, "change"); err != nil {
		return err
	}
	if err := w.check(l.names); err != nil {
		return fault.Errorf("redlock: change: %w", err)
	}
	if o.Progress == nil {
		o.Progress = func(ChangeProgress) {}
	}
	for p, done := (ChangeProgress{Step: 1}), -2; ; p.Step++ { // done: the generation whose change this call ended
		ch, err := l.tracker.Plans(ctx, membership.Wanted(w))
		if ended := fault.OfContext(ctx); ended != nil {
			err = ended
		}
		if err == nil && len(ch.Steps) == 0 && ch.Gen == done {
			return nil
		}
		if p.Steps, p.Words = 0, ""; len(ch.Steps) > 0 {
			p.Steps, p.Words = p.Step-1+len(ch.Steps), ch.Words()
		}
		if err == nil {
			err = l.ready(ctx, ch, o, p)
		}
		if err == nil && o.DryRun {
			l.foretell(ch, o)
			return nil
		}
		if err == nil {
			err = l.step(ctx, ch, o, p)
		}
		switch {
		case err != nil && p.Steps > 1:
			return fault.Errorf("redlock: change: step %d of %d (%s) is not done: %w", p.Step, p.Steps, p.Words, err)
		case err != nil && p.Words != "":
			return fault.Errorf("redlock: change: %s: %w", p.Words, err)
		case err != nil:
			return fault.Errorf("redlock: change: %w", err)
		case len(ch.Steps) == 0:
			return nil
		}
		done = ch.Gen
	}
}

// check is what is wrong with what is wanted, as far as no node need be asked.
func (w Wanted) check(nodes []string) error {
	seen := map[string]bool{}
	for _, name := range slices.Concat(w.Add, w.Remove) {
		if !slices.Contains(nodes, name) {
			return fmt.Errorf("%w: this client has no node %s: give it among the Locker's nodes", ErrInvalidNode, name)
		}
		if seen[name] {
			return fmt.Errorf("%w: %s is to be added (--add) or removed (--remove) twice", ErrInvalidNode, name)
		}
		seen[name] = true
	}
	if w.MaxTTL != 0 && (w.MaxTTL < clock.MinTTL || w.MaxTTL > clock.MaxMaxTTL) {
		return fmt.Errorf("%w: MaxTTL %v: give %v to %v", ErrInvalidTTL, w.MaxTTL, clock.MinTTL, clock.MaxMaxTTL)
	}
	return nil
}

// ready is why a step can't begin: a server to add has data, or clients would lose their locks.
func (l *core) ready(ctx context.Context, ch membership.Change, o ChangeOptions, p ChangeProgress) error {
	for _, name := range ch.Fresh() {
		if err := l.nodes[slices.Index(l.names, name)].Empty(ctx); err != nil {
			return err
		}
	}
	return l.spare(ctx, ch, o, p)
}

// foretell tells of each step, and how long it waits at least.
func (l *core) foretell(ch membership.Change, o ChangeOptions) {
	for i, step := range ch.Foretold(l.tracker.View()) {
		o.Progress(ChangeProgress{Step: i + 1, Steps: len(ch.Steps), Words: step.Words, List: ch.Steps[i].Names, Left: step.Wait})
	}
}

// step does one step.
func (l *core) step(ctx context.Context, ch membership.Change, o ChangeOptions, p ChangeProgress) error {
	for {
		l.tracker.Settle(ctx, l.tracker.Proposal()) // the new node's wait goes on meanwhile
		turn, left := l.tracker.Change(ctx, &ch, l.cfg.chance.Name)
		pause := membership.JoinPoll
		p.Stage, p.List, p.Done, p.Of, p.Left, p.Err = turn.Stage.String(), turn.To.Names, turn.Done, turn.Of, 0, left
		if turn.Until != 0 {
			p.Left = max(turn.Until.Sub(l.clock.Now()), 0)
			pause = min(pause, p.Left+time.Millisecond)
		}
		if turn.Of > 0 { // else there is an error alone
			o.Progress(p)
		}
		switch {
		case turn.Stage == membership.Changed && !ch.Reached(turn):
			return fmt.Errorf("%w: it had begun one to %s, which is finished now: run this again", ErrContested, turn.To)
		case turn.Stage == membership.Changed:
			return nil
		case errors.Is(left, ErrContested):
			return left
		}
		if err := l.acquirer.Wait(ctx, pause); err != nil {
			return fmt.Errorf("%s (%d of %d): run it again: %w", p.Stage, p.Done, p.Of, errors.Join(err, left))
		}
	}
}

// spare is why a change must not begin yet: it would end the locks of clients that have the list
// before the cluster's. Those that hold a lock leave their names when they meet the cluster's
// list: so it waits until all have. A name that was left long ago holds nothing up, since its
// client may have the cluster's list by now.
func (l *core) spare(ctx context.Context, ch membership.Change, o ChangeOptions, p ChangeProgress) error {
	for began := l.clock.Now(); ; {
		v := l.tracker.View()
		if !ch.Spares(v) {
			return nil
		}
		seen := l.stragglers(ctx, v, ch.Gen)
		waited := l.clock.Now().Sub(began)
		left, named := v.Unsigned(ch, waited), v.AtWork(seen)
		p.Stage, p.Left, p.Stragglers = "not yet known which clients have the list before", left, nil
		switch {
		case o.EndStragglers, left <= 0 && named == nil:
			if seen != nil {
				p.Stage, p.Left, p.Stragglers = membership.Settling.String(), 0, stragglersOf(seen)
				o.Progress(p)
			}
			return nil
		case named != nil && left <= 0 && !o.DryRun && waited < o.Wait:
			p.Stage, p.Left, p.Stragglers = "waiting for clients that have the list before", o.Wait-waited, stragglersOf(named)
		case named != nil && (left <= 0 || o.DryRun):
			return fmt.Errorf("%w: %s (redlock status KEY shows whether one of them holds it): give them the cluster's list, and run this again %v after the last of them has ended; EndStragglers (--yes) ends their locks",
				ErrStragglers, membership.Named(named), v.UntilIdle().Round(time.Second))
		case o.DryRun:
			return fmt.Errorf("%w: it is not yet known which clients have it, for %v more", ErrStragglers, left.Round(time.Second))
		}
		o.Progress(p)
		if err := l.acquirer.Wait(ctx, min(p.Left, membership.JoinPoll)); err != nil {
			return err
		}
		l.tracker.LookAtAll(ctx, false)
	}
}
