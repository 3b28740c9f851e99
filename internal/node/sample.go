package node

import (
	"time"

	"github.com/quorumkit/redlock/internal/clock"
)

// sampleEvery is how old the last sample of a node's TIME may get while there is
// traffic, of any kind; grants have one of their own.
const sampleEvery = 100 * time.Millisecond

// SubmitSample has the node's clock read. It does nothing where the node is not
// talked to now: the next look comes soon, and a node that is down is sampled before
// it is believed again.
func (n *Node) SubmitSample(now clock.Instant) {
	n.mu.Lock()
	if n.refusal(now) == nil {
		n.queue.sample = true
	}
	n.nudge()
}

// sampleIsOld tells whether other traffic carries a sample along.
func (n *Node) sampleIsOld() bool {
	return n.sampled.At == 0 || n.Clock.Early().Sub(n.sampled.At) > sampleEvery
}

// sample takes in a reading of the node's clock that was asked for at sent. A
// step beyond the drift allowed makes the node abstain for MaxTTL from now, for
// this client: until then leases of before it may still be trusted elsewhere.
func (n *Node) sample(sent clock.Instant, server time.Time) {
	now := n.Clock.Now()
	next, last := clock.SampleOf(sent, now, server), n.sampled
	n.ReadAt.Store(int64(now))
	n.sampled = next
	var steps []clock.Step
	if n.shared == 0 || now.Sub(n.shared) > sampleEvery {
		n.shared, steps = now, n.siblings.sampled(n.Index, next)
	}
	if last.At == 0 || n.Cfg.TrustClocks {
		return
	}
	if by := last.StepTo(next, n.Cfg.Drift); by != 0 {
		n.stepBy(by)
	} else {
		n.sampled = last.Narrow(next, n.Cfg.Drift)
	}
	n.siblings.tell(steps) // it may be another node's
}

// stepBy takes note that the node's clock has stepped; any node's writer may
// find that out. The node is verified before its next flush: the wait is for the
// MaxTTL that its record says now.
func (n *Node) stepBy(by time.Duration) {
	now := n.Clock.Now()
	why := &clock.StepError{By: by, At: now, Clock: n.Clock, Longest: n.Tracker.LongestLease}
	n.distrust.Store(why)
	n.Tracker.Outdate(n.Index)
	n.observer.Stepped(n.Index, why)
	n.disown(0, why)
}

// Stepped tells whether it abstains since its clock stepped.
func (n *Node) Stepped() bool {
	d := n.distrust.Load()
	return d != nil && n.Clock.Early() < d.Until()
}
