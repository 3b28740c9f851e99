package node

import (
	"fmt"
	"slices"
	"time"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/quorum"
)

// confirmSpread is within what time a node that votes again gets each held lock: ten
// thousand holders must not call at one instant.
const confirmSpread = 500 * time.Millisecond

// failed notes that the node can't be talked to, and fails all that waits for it
// but the rollbacks.
func (n *node) failed(err error) {
	err = explain(err)
	n.observer.Erred(n.index)
	n.tracker.Missed(n.index, n.clock.Now(), err)
	n.markDown(err)
	n.failQueued(fmt.Errorf("not sent: %w", err))
}

// markDown starts, or lengthens, the pause before the next probe. The first
// failure has none: a connection may have been stale, and no more.
func (n *node) markDown(err error) {
	now := n.clock.Early()
	n.mu.Lock()
	first := n.down == nil
	n.down = err
	if first {
		n.failures, n.downUntil, n.downSince = 0, now, now
	} else {
		pause := min(firstBackoff<<min(n.failures, 10), lastBackoff)
		n.failures++
		n.downUntil = now.Add(pause)
	}
	n.mu.Unlock()
	n.peers.forget(n.index)
	if first {
		n.observer.Down(n.index, err)
	}
}

func (n *node) recovered() {
	now := n.clock.Early()
	n.mu.Lock()
	n.down, n.failures = nil, 0
	down := now.Sub(n.downSince)
	n.mu.Unlock()
	n.away = n.away || down > confirmSpread // a connection that broke is no absence
	n.observer.Up(n.index, down)
}

func (n *node) failQueued(err error) {
	n.mu.Lock()
	q, now := n.queue, n.clock.Early()
	past := func(c cleanup) bool { return c.until <= now }
	n.queue = backlog{
		releases: slices.DeleteFunc(q.releases, past), refused: slices.DeleteFunc(q.refused, past), retryAt: q.retryAt, held: q.held,
	}
	n.mu.Unlock()
	for _, rounds := range [][]*round{q.probes, q.raises, q.acquires} {
		for _, r := range rounds {
			r.deliver(n.index, quorum.Vote{Outcome: quorum.Failed}, err)
		}
	}
	for _, g := range q.groups {
		g.answer(g, n.index, quorum.Failed, nil, err)
	}
	for _, h := range q.passes {
		n.release(h.old)
		h.round.deliver(n.index, quorum.Vote{Outcome: quorum.Failed}, err)
	}
	for _, k := range q.polls {
		k.Answer(n.index, false, nil, err)
	}
}

// sample takes in a reading of the node's clock that was asked for at sent. A
// step beyond the drift allowed makes the node abstain for MaxTTL from now, for
// this client: until then leases of before it may still be trusted elsewhere.
func (n *node) sample(sent clock.Instant, server time.Time) {
	now := n.clock.Now()
	next, last := clock.SampleOf(sent, now, server), n.reading
	n.readAt.Store(int64(now))
	n.reading = next
	var slips []clock.Step
	if n.shared == 0 || now.Sub(n.shared) > sampleEvery {
		n.shared, slips = now, n.peers.sampled(n.index, next)
	}
	if last.At == 0 || n.cfg.trustClocks {
		return
	}
	if by := last.StepTo(next, n.cfg.drift); by != 0 {
		n.stepBy(by)
	} else {
		n.reading = last.Narrow(next, n.cfg.drift)
	}
	for _, s := range slips { // of other nodes, too
		n.peers.nodes[s.Node].stepBy(s.By)
	}
}

// doubtedSince is why nothing counts that the node vouched for in a round that was
// sent at t; nil: it does.
func (n *node) doubtedSince(t clock.Instant) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.doubted == 0 || n.doubted < t {
		return nil
	}
	return n.doubtedBy
}
