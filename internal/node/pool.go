package node

import (
	"context"
	"errors"
	"fmt"
)

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
