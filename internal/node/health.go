package node

import (
	"fmt"
	"slices"
	"time"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/quorum"
)

// ConfirmSpread is within what time a node that votes again gets each held lock: ten
// thousand holders must not call at one instant.
const ConfirmSpread = 500 * time.Millisecond

// failed notes that the node can't be talked to, and fails all that waits for it
// but the rollbacks.
func (n *Node) failed(err error) {
	err = Explain(err)
	n.observer.Erred(n.Index)
	n.Tracker.Missed(n.Index, n.Clock.Now(), err)
	n.markDown(err)
	n.failQueued(fmt.Errorf("not sent: %w", err))
}

// markDown starts, or lengthens, the pause before the next probe. The first
// failure has none: a connection may have been stale, and no more.
func (n *Node) markDown(err error) {
	now := n.Clock.Early()
	n.mu.Lock()
	first := n.down == nil
	n.down = err
	if first {
		n.failures, n.downUntil, n.downSince = 0, now, now
	} else {
		pause := min(FirstBackoff<<min(n.failures, 10), lastBackoff)
		n.failures++
		n.downUntil = now.Add(pause)
	}
	n.mu.Unlock()
	n.peers.forget(n.Index)
	if first {
		n.observer.Down(n.Index, err)
	}
}

func (n *Node) recovered() {
	now := n.Clock.Early()
	n.mu.Lock()
	n.down, n.failures = nil, 0
	down := now.Sub(n.downSince)
	n.mu.Unlock()
	n.away = n.away || down > ConfirmSpread // a connection that broke is no absence
	n.observer.Up(n.Index, down)
}

func (n *Node) failQueued(err error) {
	n.mu.Lock()
	q, now := n.queue, n.Clock.Early()
	past := func(c Release) bool { return c.Until <= now }
	n.queue = pending{
		releases: slices.DeleteFunc(q.releases, past), refused: slices.DeleteFunc(q.refused, past), retryAt: q.retryAt, held: q.held,
	}
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
		n.Release(h.Old)
		h.Round.deliver(n.Index, quorum.Vote{Outcome: quorum.Failed}, err)
	}
	for _, k := range q.polls {
		k.Answer(n.Index, false, nil, err)
	}
}

// sample takes in a reading of the node's clock that was asked for at sent. A
// step beyond the drift allowed makes the node abstain for MaxTTL from now, for
// this client: until then leases of before it may still be trusted elsewhere.
func (n *Node) sample(sent clock.Instant, server time.Time) {
	now := n.Clock.Now()
	next, last := clock.SampleOf(sent, now, server), n.reading
	n.ReadAt.Store(int64(now))
	n.reading = next
	var slips []clock.Step
	if n.shared == 0 || now.Sub(n.shared) > sampleEvery {
		n.shared, slips = now, n.peers.sampled(n.Index, next)
	}
	if last.At == 0 || n.Cfg.TrustClocks {
		return
	}
	if by := last.StepTo(next, n.Cfg.Drift); by != 0 {
		n.stepBy(by)
	} else {
		n.reading = last.Narrow(next, n.Cfg.Drift)
	}
	for _, s := range slips { // of other nodes, too
		n.peers.Nodes[s.Node].stepBy(s.By)
	}
}

// DoubtedSince is why nothing counts that the node vouched for in a round that was
// sent at t; nil: it does.
func (n *Node) DoubtedSince(t clock.Instant) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.doubted == 0 || n.doubted < t {
		return nil
	}
	return n.doubtedBy
}
