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

// SubmitPush takes in a push: at once where the node's writer sleeps and has nothing to
// find out first, else in the writer's turn. It counts as an answer of the node: while the
// node votes, and where its epoch is the one that we have of it.
func (n *Node) SubmitPush(p grant.Push, r *Round) {
	n.mu.Lock()
	if n.idle && n.ready() {
		n.settlePush(push{p, r}, n.silence())
		n.mu.Unlock()
		return
	}
	n.queue.pushes = append(n.queue.pushes, push{p, r})
	n.nudge()
}

// ready tells whether prepare would do nothing; mu is held, and the writer sleeps.
func (n *Node) ready() bool {
	return n.loaded && n.epoch != "" && n.down.cause == nil && n.met == n.turn() && !n.Tracker.OutOfDate(n.Index)
}

// settlePushes takes in what releases granted.
func (n *Node) settlePushes() {
	b := &n.batch
	for _, p := range b.pushes {
		n.mu.Lock()
		n.settlePush(p, b.silent)
		n.mu.Unlock()
	}
}

// settlePush takes in one of them; silent is why the node does not vote. mu is held.
func (n *Node) settlePush(p push, silent error) {
	if silent != nil || n.doubt() != nil || !p.Grants(n.epoch, p.round.Claim.Owner) {
		return // a look finds it, once the node votes
	}
	since := clock.Instant(p.Reading * int64(time.Millisecond))
	if now := n.Clock.Early(); since > now || now.Sub(since) > 2*grant.Lease {
		return // of another clock
	}
	p.round.Claim.Marks[n.Index] |= quorum.Present
	n.batch.proven = false // that was said of the last batch
	n.vouch(since)
	p.round.grant(n.Index, p.Token, lease{since, clock.ValidFrom(since, grant.Lease, n.Cfg.Drift).Until}, true)
}

// reading is the sign of life of a process that takes pushes, in ms of its own clock.
func reading(now clock.Instant) int64 { return int64(now) / int64(time.Millisecond) }
