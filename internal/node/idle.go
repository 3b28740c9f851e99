package node

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock/internal/clock"
)

// A network may forget an idle connection, and tell neither end: a NAT, a firewall, a
// load balancer. A pool takes such a connection for a good one, since it looks at the
// socket only. What is sent on it is lost, and an attempt with it. So after a silence
// the writer asks for a reply first.

const (
	// trustIdle is how old a node's last reply may be before its connections are looked
	// at. The networks' limits are a minute to six, seldom less, and a program that locks
	// every few seconds is spared the look.
	trustIdle = 15 * time.Second
	// A look at one idle connection gives way to a look at all, and at a new one, after
	// the firstLook-th part of the node timeout. What is silent for the lastLook-th part
	// is closed: a pool that is full of such dials only then.
	firstLook, lastLook = 8, 3
)

// quiet tells whether the node's last reply is too old to trust its idle connections.
// A node that never told its time was not talked to yet.
func (n *Node) quiet() bool {
	heard := n.ReadAt.Load()
	return heard != 0 && n.Clock.Early().Sub(clock.Instant(heard)) > trustIdle
}

// look blocks until one of the pool's idle connections, or a new one, has brought a
// reply, and that one is the pool's next. It returns an error if none did in time;
// what is silent is closed.
func (c *connection) look() error {
	c.unpin()
	idle := c.idle()
	if idle == 0 {
		return nil
	}
	ctx, end := context.WithCancel(context.Background())
	defer end() // has none wait for a connection any more
	answers, asked := make(chan error, idle+1), 1
	c.ask(ctx, answers)
	next := c.clock.NewTimer(c.timeout / firstLook)
	defer next.Stop()
	late := c.clock.NewTimer(3 * c.timeout / 4) // the rest is for the attempt
	defer late.Stop()
	all := func() {
		for ; asked <= idle; asked++ { // the last one is dialled if the others are taken
			c.ask(ctx, answers)
		}
	}
	for failed := 0; ; {
		select {
		case err := <-answers:
			if err == nil {
				return nil
			}
			if failed++; failed > idle || undialled(err) {
				return err
			}
			all()
		case <-next.C:
			all()
		case <-late.C:
			return ErrTimeout
		}
	}
}

// idle is how many connections lie in the pool that flushes go out on.
func (c *connection) idle() int {
	s := c.calls.PoolStats()
	if !c.keeps && s.PipelineStats != nil {
		return int(s.PipelineStats.IdleConns)
	}
	return int(s.IdleConns)
}

// ask has one connection of the pool looked at.
func (c *connection) ask(ctx context.Context, answers chan<- error) {
	c.asking.Go(func() { answers <- c.askOver(ctx, c.looks) })
}

// askOver sends the cheapest command, the way that flushes go. It returns nil if that
// brought a reply.
func (c *connection) askOver(ctx context.Context, w wire) error {
	var err error
	if cmd := (TimeCall{redis.NewTimeCmd(ctx, "TIME")}); c.keeps {
		err = w.Process(ctx, cmd)
	} else {
		_, err = w.Pipeline().Pipelined(ctx, func(p redis.Pipeliner) error { return p.Process(ctx, cmd) })
	}
	if IsReply(err) || errors.Is(err, errExchanged) { // which is seen again
		return nil
	}
	return err
}
