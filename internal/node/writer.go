package node

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/fault"
	"github.com/quorumkit/redlock/internal/lua"
)

// Write is the writer: it sleeps until there is something to send, and sends it.
func (n *Node) Write() {
	defer close(n.Stopped)
	for n.sleep() {
		n.flush()
	}
	n.conn.unpin()
	n.conn.asking.Wait()
	n.failQueued(fault.ErrClosed)
}

// sleep blocks until there is work that may be sent now. It returns false when the
// node was closed, and is owed nothing that is still to be tried.
func (n *Node) sleep() bool {
	for {
		n.mu.Lock()
		now := n.Clock.Early()
		work := n.queue.len() > 0 || n.queue.owes()
		pause := n.pause(now)
		if n.closed {
			if !n.tries(now) {
				n.ended = true
				n.mu.Unlock()
				return false
			}
			pause = min(pause, n.until.Sub(now))
		}
		if work && pause <= 0 {
			n.mu.Unlock()
			return true
		}
		n.idle = true
		closed := n.closed
		n.mu.Unlock()
		if work {
			n.doze(pause, closed)
			continue
		}
		n.conn.rest(n.wake, n.stop)
	}
}

// tries tells whether a node that was closed is sent something more: what it was
// never sent, and for as long as Close has time what it did not take; mu is held.
func (n *Node) tries(now clock.Instant) bool {
	if n.down.cause == nil && len(n.queue.releases)+len(n.queue.passes) > 0 {
		return true
	}
	return n.queue.owes() && now < n.until
}

// pause is how long the node is left alone: between two probes of one that is
// down, and between two tries of rollbacks that it refuses; mu is held.
func (n *Node) pause(now clock.Instant) time.Duration {
	switch {
	case n.down.cause != nil:
		return n.down.until.Sub(now)
	case n.queue.len() == 0 && len(n.queue.releases) == 0:
		return n.queue.retryAt.Sub(now)
	default:
		return 0
	}
}

// doze waits out a pause between two probes of a node that is owed releases.
func (n *Node) doze(pause time.Duration, closed bool) {
	t := n.Clock.NewTimer(pause)
	defer t.Stop()
	stop := n.stop
	if closed {
		stop = nil // it was seen
	}
	select {
	case <-t.C:
	case <-n.wake:
	case <-stop:
	}
}

// probe asks a node that was down for its TIME: the cheapest thing to lose.
func (n *Node) probe() error {
	n.conn.unpin() // the pool may have no other connection
	cmd := TimeCall{redis.NewTimeCmd(context.Background(), "TIME")}
	sent := n.Clock.Now()
	err := n.Calls.Process(context.Background(), cmd)
	if errors.Is(err, errExchanged) { // the next connection is let in
		cmd.SetErr(nil)
		sent = n.Clock.Now()
		err = n.Calls.Process(context.Background(), cmd)
	}
	switch {
	case saysFirst(err, "NOPERM"):
		return nil // it answers; whether it votes is asked with the next sample
	case err != nil:
		return err
	}
	n.sample(sent, cmd.Val())
	return nil
}

// prepare makes sure that the scripts are there and that it is known whether the
// node votes. It returns an error if the node can't be talked to.
func (n *Node) prepare() error {
	if !n.loaded {
		if err := n.conn.load(lua.KeepingScripts); err != nil {
			return err
		}
		n.loaded = true
	}
	if n.Tracker.Outdated(n.Index) || n.met != n.turn() {
		n.verifyAgain()
	}
	if n.epoch != "" {
		return nil
	}
	if !n.due {
		if why := n.Tracker.WhyNot(n.Index); why != nil {
			n.abstains = why
			return nil //nolint:nilerr // it abstains, which is no failure to talk to it
		}
	}
	n.conn.unpin()
	epoch, abstains, err := n.verify()
	if err != nil {
		return err
	}
	switch {
	case abstains != nil && n.abstains == nil:
		n.observer.Abstains(n.Index, abstains)
	case abstains == nil && n.abstains != nil:
		n.observer.Votes(n.Index)
	}
	if abstains != nil {
		n.rechecks = 0 // what was asked again has its answer
	}
	n.epoch, n.abstains, n.due = epoch, abstains, false
	if epoch != "" {
		n.voted = epoch
	}
	return nil
}

// verifyAgain has the node verified before it votes again.
func (n *Node) verifyAgain() {
	n.epoch, n.due = "", true
	n.Tracker.Void(n.Index)
}
