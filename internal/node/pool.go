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

// claim has the next flush come by a connection where the pool may have none left. What
// is lost in that wait says nothing of the node, and a vote would be unknown; so the
// cheapest command goes first, and waits no longer than leaves its failure in time.
func (c *connection) claim() error {
	if c.pinned != nil || !c.usedUp() {
		return nil
	}
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
