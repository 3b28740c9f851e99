package node

import (
	"errors"
	"slices"
	"time"
)

// A grant counts only with a reading of the node's clock behind it (ADR 13). The scripts that
// grant by a place in line, that share and that pass read it, and it is the last of their
// reply: a batch whose last grant came by such a script needs no TIME. Those for plain acquires
// do not: TIME behind them costs a node less than a call of it inside a script.

// errNoReading is a reply without the reading: its user may not use TIME.
var errNoReading = errors.New("its clock was not read behind the grant")

// readingSize is how many integers a reading is: seconds and microseconds.
const readingSize = 2

// replies is how many integers a script that reads the clock returns before the reading; 0 if
// the call's script reads no clock.
func (c *call) replies() int {
	switch {
	case c.pass != nil:
		return 1
	case c.bids, c.shares:
		return 2 * len(c.acquires)
	default:
		return 0
	}
}

// lastGranter is the last call that may grant; nil if none may.
func (b *batch) lastGranter() *call {
	for i := range slices.Backward(b.calls) {
		if c := &b.calls[i]; c.acquires != nil || c.pass != nil {
			return c
		}
	}
	return nil
}

// readsClock tells whether the last call that may grant reads the clock behind it.
func (n *writer) readsClock() bool {
	c := n.batch.lastGranter()
	return c != nil && c.replies() > 0 && !n.unreadable
}

// takeReadings takes the readings out of the replies. That of the last call that may grant is
// taken in where the batch has no TIME (alone).
func (n *writer) takeReadings(alone bool) {
	b := &n.batch
	last := b.lastGranter()
	for i := range b.calls {
		c := &b.calls[i]
		size := c.replies()
		if size == 0 || c.cmd.Err() != nil {
			continue
		}
		cmd := c.cmd.(intsCall)
		val := cmd.Val()
		read := len(val) == size+readingSize
		switch {
		case read:
			cmd.SetVal(val[:size])
		case len(val) == size && val[0] != 0:
			n.unreadable = true
		}
		if c == last && alone && read {
			n.sample(b.sent, time.Unix(val[size], val[size+1]*int64(time.Microsecond)))
		} else if c == last && alone {
			b.unread = errNoReading
		}
	}
	if alone && last.cmd.Err() != nil {
		b.unread = Explain(last.cmd.Err())
	}
}
