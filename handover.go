package redlock

import (
	"context"
	"errors"
	"time"
)

// transfer is a handover as the goroutine takes it that it goes to.
type transfer struct {
	handover handover
	waiter   *waiter
}

// handOn ends a claim that was held: it goes to the next goroutine of this Locker,
// or back to the nodes. r, if any, collects that it is gone.
func (l *Locker) handOn(c *claim, lease time.Duration, cause error, r *round) {
	if (errors.Is(cause, ErrReleased) || errors.Is(cause, ErrMaxHold)) && l.enter() {
		if p, recorded := l.lines.next(c.key); p != nil {
			l.handTo(p, c, lease, recorded, r)
			return
		}
		l.attempts.Done()
	}
	l.discard(c, lease, l.lines.ending(c.key), r)
	l.passOn(c.key)
}

// handTo passes the lock to p, whose attempt has been entered.
func (l *Locker) handTo(p *place, old *claim, lease time.Duration, recorded bool, r *round) {
	old.stays = recorded
	old.over.Store(true)
	start := l.clock.Start()
	c := l.newClaim(old.key, p.ttl, start, 0)
	c.stays = recorded
	w := l.waiters.Get().(*waiter).ready()
	given := &transfer{
		handover: handover{old: l.cleanup(old, lease, old.rollback(), r), round: newRound(c, len(l.nodes), start, w)}, waiter: w,
	}
	for _, n := range l.nodes {
		n.submitPass(&given.handover)
	}
	p.given = given
	close(p.ready)
}

// receive takes what handTo gave.
func (c *acquisition) receive(ctx context.Context, given *transfer) (*Lock, error) {
	l := c.locker
	defer l.attempts.Done()
	defer l.waiters.Put(given.waiter)
	r := given.handover.round
	s, err := r.await(ctx, l.clock, l.cfg.bound(c.t.ttl), acquireStage, func() { l.rollBackGranted(r, c.t.ttl) })
	return l.conclude(ctx, c.resource, r, c.t, given.waiter, s, err)
}
