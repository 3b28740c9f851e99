package node

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/round"
)

const (
	// unpinAfter is how long a connection may idle before its pool checks it.
	unpinAfter = 100 * time.Millisecond
	// repinAfter is how long it stays with us under traffic. Of a connection that its
	// pool has not seen for five seconds, a client that speaks RESP3 looks at the
	// socket before each command and behind it: two system calls more for each flush.
	repinAfter = 4 * time.Second
)

// connection is what a node's flushes go out on: while there is traffic, one
// connection of the client's pool, which is pinned. It is the writer's own. Nothing relies
// on the order between two connections: a late acquire meets a tombstone.
type connection struct {
	clock *clock.Clock
	calls redis.UniversalClient // the client, bounded by the node timeout where it can be
	pins  *redis.Client         // the same, where it is go-redis's own: connections of it are pinned
	keeps bool                  // the writer may keep one: its pool has others
	gate  *turnstile            // of a pool that may have no connection left; nil: it opens another
	other *other                // of a client that is not go-redis's own; nil: it is

	timeout time.Duration
	busy    func() bool           // whether the Locker holds or waits for anything
	looks   redis.UniversalClient // the client, with less than the node timeout where it can be
	asking  sync.WaitGroup        // looks that are out
	waits   atomic.Bool           // for a connection of a pool that has none left

	pinned   *redis.Conn // nil if none
	pipeline redis.Pipeliner
	idler    *time.Timer
	lastUse  clock.Instant // of the pinned one
	pinnedAt clock.Instant // it was taken from its pool
	proven   clock.Instant // when the node was last seen to be the one verified, on this connection; 0: not yet
}

// init makes it a connection of this client, of which none is pinned.
func (c *connection) init(client redis.UniversalClient, timeout time.Duration, t *clock.Clock, busy func() bool) {
	c.clock, c.timeout, c.busy, c.calls, c.looks = t, timeout, busy, client, client
	own, ok := client.(*redis.Client)
	if !ok {
		c.other = new(other)
		return
	}
	bounded, looks, o := own.WithTimeout(timeout), own.WithTimeout(timeout/lastLook), own.Options()
	c.calls, c.looks, c.keeps = bounded, looks, o.PoolSize > 1 && o.MaxActiveConns != 1
	if o.MaxActiveConns > 0 {
		c.gate = &turnstile{longest: timeout / 2, clock: t} // what waits in vain is known to have failed in time
		bounded.AddHook(c.gate)
		looks.AddHook(c.gate)
	}
	c.pins = pinnable(bounded, timeout)
}

// load loads scripts over any connection.
func (c *connection) load(scripts []*lua.Script) error {
	c.unpin() // the pool may have no other connection
	_, err := c.calls.Pipelined(context.Background(), func(p redis.Pipeliner) error {
		for _, s := range scripts {
			p.ScriptLoad(context.Background(), s.Body)
		}
		return nil
	})
	return err
}

// exec sends the commands: by itself where there is one, otherwise in a
// pipeline. Each command keeps its own error.
func (c *connection) exec(cmds []redis.Cmder) {
	w := c.pin()
	err := c.send(w, cmds)
	if errors.Is(err, errUndialled) {
		c.unpin()
		for _, cmd := range cmds {
			cmd.SetErr(nil)
		}
		err = c.send(c.calls, cmds)
	}
	// go-redis keeps the error from the commands where a pinned connection was
	// bad before they were sent, and what made it bad was an error reply.
	for _, cmd := range cmds {
		if cmd.Err() == nil && !answered(cmd) {
			cmd.SetErr(fmt.Errorf("%w (%v)", ErrNoReply, err)) //nolint:errorlint // it is an earlier command's error
		}
	}
}

// send sends the commands over w. It returns the first of their errors.
func (c *connection) send(w wire, cmds []redis.Cmder) error {
	ctx := context.Background()
	if len(cmds) == 1 && c.keeps { // else all goes through one pool, which was looked at
		return w.Process(ctx, cmds[0])
	}
	p := c.pipeline
	if p == nil {
		p = w.Pipeline()
	}
	_ = p.BatchProcess(ctx, cmds...) // queues only
	_, err := p.Exec(ctx)
	return err
}

// wire is what flushes go out on.
type wire interface {
	Process(ctx context.Context, cmd redis.Cmder) error
	Pipeline() redis.Pipeliner
}

// pin returns the connection for the next flush. While there is traffic it is
// always the same one, which saves the pool's work and its look at the socket;
// after a pause, and every few seconds, the pool looks again whether the connection
// still lives. A pool that has no other would give it to those who wait.
func (c *connection) pin() wire {
	if !c.keeps {
		return c.calls
	}
	now := c.clock.Early()
	if c.pinned != nil && (now.Sub(c.lastUse) > unpinAfter || now.Sub(c.pinnedAt) > repinAfter) && !c.usedUp() {
		c.unpin()
	}
	if c.pinned == nil {
		c.pinned, c.pinnedAt, c.proven = c.pins.Conn(), now, 0
		c.pipeline = c.pinned.Pipeline()
	}
	c.lastUse = now
	return c.pinned
}

// unpin gives the connection back to its pool, which drops it if it failed.
func (c *connection) unpin() {
	if c.pinned != nil {
		_ = c.pinned.Close() // always nil for a connection of a pool
		c.pinned, c.pipeline = nil, nil
	}
}

// rest blocks until one of the two is ready. A pinned connection is given back when
// that takes long: an idle Locker keeps none of its user's pool. One that holds or waits
// keeps it: the program may use up its pool, and a renewal must not wait for that.
func (c *connection) rest(wake, stop <-chan struct{}) {
	if c.pinned != nil && c.idler == nil {
		c.idler = c.clock.NewTimer(unpinAfter)
	}
	for pause := unpinAfter; c.pinned != nil; pause = repinAfter {
		c.idler.Reset(pause)
		select {
		case <-wake:
			c.idler.Stop()
			return
		case <-stop:
			c.idler.Stop()
			return
		case <-c.idler.C:
			if !c.busy() {
				c.unpin()
			}
		}
	}
	select {
	case <-wake:
	case <-stop:
	}
}

// giveWay lets those have the connection that wait for one: the writer would take it
// again before they look.
func (c *connection) giveWay() {
	if c.gate == nil || c.gate.waiting.Load() == 0 {
		return
	}
	c.unpin()
	c.gate.pause(context.Background(), turnGiven)
}

// errNoConnection is a pool whose connections are all in use. Nothing was sent.
var errNoConnection = errors.New("the client's pool has no connection left, the program uses them all: raise its PoolSize, or give redlock a client of its own")

// usedUp tells whether all connections that the pool may have are in use.
func (c *connection) usedUp() bool {
	if c.pins == nil {
		return false
	}
	o, s := c.pins.Options(), c.calls.PoolStats()
	most := o.PoolSize
	if o.MaxActiveConns > 0 {
		most = min(most, o.MaxActiveConns)
	}
	return s.IdleConns == 0 && int(s.TotalConns) >= most
}

// claim takes a connection for the next flush where the pool may have none left. A flush
// that waits in vain says nothing of the node, and its votes would be unknown. So the
// cheapest command goes first, for three quarters of the node timeout at most.
func (c *connection) claim() error {
	if c.pinned != nil || !c.usedUp() {
		return nil
	}
	c.waits.Store(true)
	defer c.waits.Store(false)
	ctx, cancel := context.WithTimeout(context.Background(), 3*c.timeout/4) // the turnstile gives up before
	defer cancel()
	err := c.askOver(ctx, c.pin())
	if errors.Is(err, errUndialled) { // its flush goes another way
		return nil
	}
	if err != nil {
		c.unpin()
	}
	return err
}

// blame names the pool where a wait for one of its connections was in vain.
func (c *connection) blame(err error) error {
	if errors.Is(err, context.DeadlineExceeded) && c.usedUp() {
		return fmt.Errorf("%w (%v)", errNoConnection, err) //nolint:errorlint // it would read as no reply
	}
	return err
}

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
func (n *writer) quiet() bool {
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
			return round.ErrTimeout
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
