package node

import (
	"fmt"
	"time"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/quorum"
)

// ConfirmSpread is within what time a node that votes again gets each held lock: ten
// thousand holders must not call at one instant.
const ConfirmSpread = 500 * time.Millisecond

const (
	// FirstBackoff is the pause after a failed probe; it doubles up to the last.
	FirstBackoff = 20 * time.Millisecond
	lastBackoff  = 500 * time.Millisecond
)

// backoff is the pause after so many failures in a row, behind the first.
func backoff(failures int) time.Duration { return min(FirstBackoff<<min(failures, 10), lastBackoff) }

// outage is why a node is not talked to, and until when. The node's mu guards it.
type outage struct {
	cause    error // nil: the node is talked to
	since    clock.Instant
	until    clock.Instant // not even a probe before
	failures int           // failed probes in a row
}

// fail starts, or lengthens, the pause before the next probe. The first failure has
// none: a connection may have been stale, and no more.
func (o *outage) fail(cause error, now clock.Instant) (first bool) {
	if o.cause == nil {
		*o = outage{cause: cause, since: now, until: now}
		return true
	}
	o.cause, o.until = cause, now.Add(backoff(o.failures))
	o.failures++
	return false
}

// end has the node talked to, and returns how long it was not.
func (o *outage) end(now clock.Instant) time.Duration {
	lasted := now.Sub(o.since)
	*o = outage{}
	return lasted
}

// failed notes that the node can't be talked to, and fails all that waits for it
// but the rollbacks.
func (n *Node) failed(err error) {
	err = Explain(n.conn.blame(err))
	n.observer.Erred(n.Index)
	n.Tracker.Missed(n.Index, n.Clock.Now(), err)
	n.markDown(err)
	n.failQueued(fmt.Errorf("not sent: %w", err))
}

// markDown notes that the node failed, and tells the first time.
func (n *Node) markDown(err error) {
	n.mu.Lock()
	first := n.down.fail(err, n.Clock.Early())
	n.mu.Unlock()
	n.siblings.forget(n.Index)
	if first {
		n.observer.Down(n.Index, err)
	}
}

func (n *Node) recovered() {
	now := n.Clock.Early()
	n.mu.Lock()
	lasted := n.down.end(now)
	n.mu.Unlock()
	n.away = n.away || lasted > ConfirmSpread || n.wasGivenLocks(now.Add(-lasted)) // else a connection that broke is no absence
	n.observer.Up(n.Index, lasted)
}

// wasGivenLocks tells whether a call that failed at that time may have been one of those
// that give the held locks to a node that votes again.
func (n *Node) wasGivenLocks(failed clock.Instant) bool {
	voted := clock.Instant(n.Returned.Load())
	return voted != 0 && failed <= voted.Add(ConfirmSpread+2*n.Timeout)
}

// failQueued fails all that waits for the node but the rollbacks.
func (n *Node) failQueued(err error) {
	n.mu.Lock()
	q := n.queue.empty(n.Clock.Early())
	n.mu.Unlock()
	for _, rounds := range [][]*Round{q.probes, q.raises, q.acquires} {
		for _, r := range rounds {
			r.deliver(n.Index, quorum.Vote{Outcome: quorum.Failed}, err)
		}
	}
	for _, g := range q.groups {
		g.answer(g, n.Index, quorum.Failed, nil, err)
	}
	for _, h := range q.passes {
		n.keep(h, quorum.Vote{Outcome: quorum.Failed}, err)
	}
	for _, k := range q.polls {
		k.Answer(n.Index, false, nil, err)
	}
}
