package node

import (
	"time"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/grant"
	"github.com/quorumkit/redlock/internal/quorum"
)

// push is a grant that this node told, and the round of the attempt that it grants.
type push struct {
	grant.Push
	round *Round
}

// SubmitPush has the node's writer take in a push. It counts as an answer of the node:
// while the node votes, and where its epoch is the one that we have of it.
func (n *Node) SubmitPush(p grant.Push, r *Round) {
	n.mu.Lock()
	n.queue.pushes = append(n.queue.pushes, push{p, r})
	n.nudge()
}

// settlePushes takes in what releases granted.
func (n *Node) settlePushes() {
	b := &n.batch
	for _, p := range b.pushes {
		if b.silent != nil || n.doubt() != nil || grant.MeaningOf(p.Push, n.epoch, p.round.Claim.Owner, false, true) != grant.Grants {
			continue // a look finds it, once the node votes
		}
		since := clock.Instant(p.Reading * int64(time.Millisecond))
		if now := n.Clock.Early(); since > now || now.Sub(since) > 2*grant.Lease {
			continue // of another clock
		}
		n.mu.Lock()
		p.round.Claim.Marks[n.Index] |= quorum.Present
		n.mu.Unlock()
		n.vouch(since)
		p.round.grant(n.Index, p.Token, lease{since, clock.ValidFrom(since, grant.Lease, n.Cfg.Drift).Until}, true)
	}
}

// reading is the sign of life of a process that takes pushes, in ms of its own clock.
func reading(now clock.Instant) int64 { return int64(now) / int64(time.Millisecond) }
