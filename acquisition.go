package redlock

import (
	"context"
	"errors"
	"time"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/fault"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/node"
	"github.com/quorumkit/redlock/internal/quorum"
)

// acquisition is one goroutine's way to a lock that it may have to wait for.
type acquisition struct {
	locker   *Locker
	resource string
	line     *line
	t        terms
	floor    quorum.Token
	waiter   *node.Sleeper // nil until it waits for the nodes, and after
	joined   bool          // it has waited
	hints    uint64        // nodes that called it, and were not asked yet
	splits   int           // attempts in a row that some nodes granted
	kept     int           // attempts in a row that found the name free, and kept for another
	votes    []quorum.Vote // of the last bid
	heard    []quorum.Hearing
}

// run makes attempts until one succeeds, waiting does not help, or ctx ends.
func (c *acquisition) run(ctx context.Context, given *transfer) (*Lock, error) {
	var last *QuorumError
	for {
		if err := fault.OfContext(ctx); err != nil && given == nil {
			return nil, fault.Errorf("redlock: acquire %s: %w", fault.Printable(c.resource), joined(err, last))
		}
		c.t.call.turn = c.turn(given)
		lock, next, err := c.try(ctx, given)
		given = nil
		if err == nil {
			return lock, nil
		}
		c.t.call.failed++
		var failed *QuorumError
		switch {
		case !errors.As(err, &failed):
			if !errors.Is(err, fault.ErrClosed) {
				err = joined(err, last)
			}
			return nil, err
		case (c.t.call.failed == 1 || failed.hopeless()) && c.locker.lookAgain(ctx, failed):
			continue // at once: one that abstained may vote by now
		case failed.hopeless():
			return nil, failed
		}
		last = failed
		var race *raceError
		if errors.As(failed, &race) {
			c.floor = race.above + 1
			continue // at once
		}
		if err := c.await(ctx, next); err != nil {
			return nil, fault.Errorf("redlock: acquire %s: %w", fault.Printable(c.resource), joined(err, last))
		}
	}
}

// turn is how the attempt that is due came about.
func (c *acquisition) turn(given *transfer) Turn {
	switch {
	case given != nil:
		return TurnHandedOver
	case c.t.call.failed == 0:
		return TurnFirst
	case c.hints != 0:
		return TurnCalled
	default:
		return TurnFound
	}
}

// interval is how an acquisition waits between two attempts. It is no function: a method
// value of the acquisition would move it to the heap, in acquisitions that never wait too.
type interval uint8

const (
	atOnce      interval = iota // it does not
	afterPause                  // as long as a pause that is drawn
	untilCalled                 // until it is called, or has to look without that
)

// await waits the interval, or until ctx is done or the Locker is closed.
func (c *acquisition) await(ctx context.Context, i interval) error {
	switch i {
	case afterPause:
		return c.pause(ctx)
	case untilCalled:
		return c.rest(ctx)
	case atOnce:
	}
	return nil
}

// try makes the attempt that is due, and says how to wait if it fails: one that
// was handed the lock takes it; where nobody was seen to wait, the first attempt
// is a plain one; else a ticket is asked for, and then the place that it gives.
func (c *acquisition) try(ctx context.Context, given *transfer) (*Lock, interval, error) {
	l := c.locker
	position := l.lines.rank(c.line)
	switch {
	case given != nil:
		lock, err := c.receive(ctx, given)
		return lock, atOnce, err
	case !c.t.barging && position == quorum.NoTicket && l.uncontended(c.line.key):
		lock, err := l.attempt(ctx, c.resource, c.line.key, c.t, c.floor)
		if errors.Is(err, fault.ErrNotAcquired) {
			l.noteWaiting(c.line.key)
			return lock, atOnce, err
		}
		return lock, afterPause, err
	}
	if err := c.join(ctx); err != nil {
		return nil, atOnce, fault.Errorf("redlock: acquire %s: %w", fault.Printable(c.resource), err)
	}
	l.noteWaiting(c.line.key)
	switch {
	case c.t.barging:
		lock, err := c.bid(ctx, quorum.Barging)
		return lock, afterPause, err
	case position == quorum.NoTicket:
		lock, err := c.bid(ctx, quorum.NoTicket)
		if err == nil {
			return lock, atOnce, nil
		}
		if position, ok := quorum.PositionOf(c.votes, c.heard); ok {
			l.lines.ranks(c.line, position)
			return nil, atOnce, err
		}
		return nil, afterPause, err
	default:
		c.recallFirst()
		lock, err := c.bid(ctx, position)
		return lock, untilCalled, err
	}
}

// recallAfter is how many attempts in a row may find the name free and kept for
// another, who has been called, before that one is called again: some 2.5 s.
const recallAfter = 10

// recallFirst has the first in line called again. It may be a process that lives and
// does not want the name any more: its leave was lost in an outage, or a late look
// put it back. A call makes it leave; asks call nobody, so one has to leave and
// come back, at the same place: that calls the first in line.
func (c *acquisition) recallFirst() {
	if c.kept < recallAfter {
		return
	}
	c.kept = 0
	c.locker.leave(c.line.key, c.locker.nodes)
}

// countKept takes in whether the last attempt found the name free, and kept, on so
// many nodes that the others are no quorum.
func (c *acquisition) countKept() {
	kept := 0
	for i, v := range c.votes {
		if v.Outcome == quorum.Taken && c.heard[i].Free && !c.heard[i].Head {
			kept++
		}
	}
	if kept <= len(c.votes)-quorum.Size(len(c.votes)) {
		c.kept = 0
		return
	}
	c.kept++
}

// join makes the acquisition one whom the nodes can call.
func (c *acquisition) join(ctx context.Context) error {
	if c.waiter != nil {
		return nil
	}
	l := c.locker
	if !l.enter() {
		return fault.ErrClosed
	}
	c.waiter = l.sleepers.Get().(*node.Sleeper).Ready()
	l.lines.lead(c.line, c.waiter)
	return l.presence.join(ctx)
}

// stopWaiting ends what join began, but for finish.
func (c *acquisition) stopWaiting() {
	if c.waiter == nil {
		return
	}
	l := c.locker
	l.lines.follow(c.line, c.waiter)
	l.presence.quit()
	l.sleepers.Put(c.waiter)
	c.waiter, c.joined = nil, true
}

// finish ends the acquisition. Close waits for it: who leaves, leaves nothing behind.
func (c *acquisition) finish() {
	if c.joined {
		c.locker.attempts.Done()
	}
}

// rest waits for a hint, or until it is time to look without one.
func (c *acquisition) rest(ctx context.Context) error {
	l := c.locker
	if c.hints != 0 { // they came too late for the last attempt
		c.splits = 0
		return nil
	}
	c.splits++
	if quorum.Count(c.votes).Granted == 0 {
		c.splits = 0
	}
	next := quorum.RestAfter(c.votes, c.heard, c.splits, l.presence.subscribed(), l.share(c.line.key), l.cfg.retryMin, l.cfg.retryMax)
	if next.Look {
		l.presence.rest(c.line, c.votes, c.heard, next)
		defer l.presence.cancel(c.line)
	} else {
		c.waiter.Timer.Reset(next.After)
		defer c.waiter.Timer.Stop()
	}
	for {
		hints, due := l.lines.called(c.line)
		if hints != 0 {
			c.hints, c.splits = hints, 0
		}
		if hints != 0 || due {
			return nil
		}
		select {
		case <-c.waiter.Wake:
		case <-c.waiter.Timer.C:
			return nil
		case <-l.closing:
			return fault.ErrClosed
		case <-ctx.Done():
			return fault.OfContext(ctx)
		}
	}
}

// giveUp ends an acquisition that failed: the next goroutine's begins, or the process
// leaves the queue, and whoever is next there is woken if it was our turn.
func (l *Locker) giveUp(key string) {
	if l.lines.ending(key) == node.LeaveQueue {
		l.leave(key, l.nodes)
	}
	l.passOn(key)
}

// passOn gives the turn for key to the next goroutine, if one is in line.
func (l *Locker) passOn(key string) {
	l.lines.pass(key, func() { l.leave(key, l.nodes) })
}

// leave takes the process's entry for a name off these nodes.
func (l *Locker) leave(key string, nodes []*node.Node) {
	c := l.newClaim(key, l.cfg.ttl, l.clock.Early(), 0)
	c.Over.Store(true)
	for _, n := range nodes {
		n.Release(l.releaseOf(c, l.cfg.ttl, node.LeaveQueue, nil))
	}
}

// crowdFor is for how long after a name was waited for an acquisition of it asks
// for its place in line at once.
const crowdFor = time.Second

// noteWaiting notes that key is waited for.
func (l *Locker) noteWaiting(key string) {
	l.waitedFor[lua.StripeOf(key)%int64(len(l.waitedFor))].Store(int64(l.clock.Early()) + 1)
}

// uncontended tells whether nobody was seen to wait for key lately.
func (l *Locker) uncontended(key string) bool {
	at := l.waitedFor[lua.StripeOf(key)%int64(len(l.waitedFor))].Load()
	return at == 0 || l.clock.Early().Sub(clock.Instant(at)) > crowdFor
}
