package redlock

import (
	"context"

	"github.com/quorumkit/redlock/internal/fault"
	"github.com/quorumkit/redlock/internal/node"
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
	claim.Stays = position > 0
	r := node.NewRound(claim, len(l.nodes), start, c.waiter.Ready())
	r.Asks = &node.Asks{Position: position, Heard: make([]quorum.Hearing, len(l.nodes))}
	s, err := c.gather(ctx, r)
	if err == nil {
		c.ask(r, r.Others())
	}
	lock, err := l.conclude(ctx, c.resource, r, c.t, c.waiter, s, err)
	c.hints |= r.Unanswered()
	c.votes, c.heard = r.Votes, r.Asks.Heard
	c.countKept()
	return lock, err
}

// gather asks, and waits for the verdict as await does: first the nodes that have
// called, at once when each does, and soon all of them.
func (c *acquisition) gather(ctx context.Context, r *node.Round) (node.Stage, error) {
	l, w := c.locker, c.waiter
	hints, all := c.hints, c.hints == 0
	c.hints = 0
	pause := quorum.GatherAfter
	if all {
		pause = l.cfg.bound(c.t.ttl)
	}
	w.Timer.Reset(pause)
	defer w.Timer.Stop()
	for extended, freed := false, false; ; {
		more, _ := l.lines.called(c.line)
		if hints |= more; freed {
			c.hints |= hints // for the next attempt: what was given back must not count in this one
		} else {
			c.ask(r, r.Due(hints, all))
		}
		hints = 0
		s := r.Judged(node.AcquireStage)
		switch {
		case s == node.Finished:
			return s, nil
		case s == node.Patient && !extended:
			extended = true
			took := l.clock.Early().Sub(r.Start)
			w.Timer.Reset(max(min(took, l.cfg.bound(c.t.ttl)-took), 0))
		case s == node.Hopeless && !freed:
			freed = true
			l.rollBackGranted(r, c.t.ttl)
		}
		select {
		case <-w.Wake:
		case <-w.Timer.C:
			if all || s != node.Open {
				return r.Judged(node.AcquireStage), nil
			}
			all = true
			w.Timer.Reset(l.cfg.bound(c.t.ttl))
		case <-l.closing:
			return s, fault.ErrClosed
		case <-ctx.Done():
			return s, fault.OfContext(ctx)
		}
	}
}

// ask sends the round's acquire to these nodes.
func (c *acquisition) ask(r *node.Round, nodes uint64) {
	for i, n := range c.locker.nodes {
		if nodes&(1<<i) != 0 {
			n.SubmitAcquire(r)
		}
	}
}
