package redlock

import (
	"context"

	"github.com/quorumkit/redlock/internal/fault"
	"github.com/quorumkit/redlock/internal/quorum"
)

// bid makes one attempt by the place in line: by the hints that have come, or at
// all nodes. It is attempt, but that its refusals tell more.
func (c *acquisition) bid(ctx context.Context, position int64) (*Lock, error) {
	l := c.locker
	if !l.enter() {
		return nil, fault.Errorf("redlock: acquire %s: %w", fault.Printable(c.resource), fault.ErrClosed)
	}
	defer l.attempts.Done()
	start := l.clock.Start()
	claim := l.newClaim(c.line.key, c.t.ttl, start, c.floor)
	claim.stays = position > 0
	r := newRound(claim, len(l.nodes), start, c.waiter.ready())
	r.asks = &asks{position: position, heard: make([]quorum.Hearing, len(l.nodes))}
	s, err := c.gather(ctx, r)
	if err == nil {
		c.ask(r, r.others())
	}
	lock, err := l.conclude(ctx, c.resource, r, c.t, c.waiter, s, err)
	c.hints |= r.unanswered()
	c.votes, c.heard = r.votes, r.asks.heard
	c.countKept()
	return lock, err
}

// gather asks, and waits for the verdict as await does: first the nodes that have
// called, at once when each does, and soon all of them.
func (c *acquisition) gather(ctx context.Context, r *round) (stage, error) {
	l, w := c.locker, c.waiter
	hints, all := c.hints, c.hints == 0
	c.hints = 0
	pause := quorum.GatherAfter
	if all {
		pause = l.cfg.bound(c.t.ttl)
	}
	w.timer.Reset(pause)
	defer w.timer.Stop()
	for extended, freed := false, false; ; {
		more, _ := l.lines.called(c.line)
		if hints |= more; freed {
			c.hints |= hints // for the next attempt: what was given back must not count in this one
		} else {
			c.ask(r, r.due(hints, all))
		}
		hints = 0
		s := r.judged(acquireStage)
		switch {
		case s == finished:
			return s, nil
		case s == patient && !extended:
			extended = true
			took := l.clock.Early().Sub(r.start)
			w.timer.Reset(max(min(took, l.cfg.bound(c.t.ttl)-took), 0))
		case s == hopeless && !freed:
			freed = true
			l.rollBackGranted(r, c.t.ttl)
		}
		select {
		case <-w.wake:
		case <-w.timer.C:
			if all || s != open {
				return r.judged(acquireStage), nil
			}
			all = true
			w.timer.Reset(l.cfg.bound(c.t.ttl))
		case <-l.closing:
			return s, fault.ErrClosed
		case <-ctx.Done():
			return s, fault.OfContext(ctx)
		}
	}
}

// ask sends the round's acquire to these nodes.
func (c *acquisition) ask(r *round, nodes uint64) {
	for i, n := range c.locker.nodes {
		if nodes&(1<<i) != 0 {
			n.submitAcquire(r)
		}
	}
}
