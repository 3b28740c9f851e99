package redlock

import (
	"context"
	"errors"
	"time"

	"github.com/quorumkit/redlock/internal/node"
)

// transfer is a handover as the goroutine takes it that it goes to.
type transfer struct {
	handover node.Handover
	waiter   *node.Sleeper
}

// handOn ends a claim that was held: it goes to the next goroutine of this Locker,
// or back to the nodes. r, if any, collects that it is gone.
func (l *Locker) handOn(c *node.Claim, lease time.Duration, cause error, r *node.Round) {
	if (errors.Is(cause, ErrReleased) || errors.Is(cause, ErrMaxHold)) && l.enter() {
		if p, recorded := l.lines.next(c.Key); p != nil {
			l.handTo(p, c, lease, recorded, r)
			return
		}
		l.attempts.Done()
	}
	l.discard(c, lease, l.lines.ending(c.Key), r)
	l.passOn(c.Key)
}

// handTo passes the lock to p, whose attempt has been entered.
func (l *Locker) handTo(p *place, old *node.Claim, lease time.Duration, recorded bool, r *node.Round) {
	old.Stays = recorded
	old.Over.Store(true)
	start := l.clock.Start()
	c := l.newClaim(old.Key, p.ttl, start, 0)
	c.Stays = recorded
	w := l.sleepers.Get().(*node.Sleeper).Ready()
	given := &transfer{
		handover: node.Handover{Old: l.releaseOf(old, lease, old.Rollback(), r), Round: node.NewRound(c, len(l.nodes), start, w)}, waiter: w,
	}
	for _, n := range l.nodes {
		n.SubmitPass(&given.handover)
	}
	p.given = given
	close(p.ready)
}

// receive takes what handTo gave.
func (c *acquisition) receive(ctx context.Context, given *transfer) (*Lock, error) {
	l := c.locker
	defer l.attempts.Done()
	defer l.sleepers.Put(given.waiter)
	r := given.handover.Round
	s, err := r.Await(ctx, l.clock, l.cfg.bound(c.t.ttl), node.AcquireStage, func() { l.rollBackGranted(r, c.t.ttl) })
	return l.conclude(ctx, c.resource, r, c.t, given.waiter, s, err)
}
