package node

import "github.com/quorumkit/redlock/internal/clock"

// doubt is why what the node answers in this batch does not count, though it was
// asked; nil: it does.
func (n *Node) doubt() error {
	switch {
	case n.met != n.turn():
		return errExchanged
	case n.batch.doubt != nil:
		return n.batch.doubt
	case n.timeless != nil:
		return n.timeless
	}
	if d := n.distrust.Load(); d != nil {
		return d
	}
	return nil
}

// ungranted is why what the node granted in this batch does not count; nil: it does.
func (n *Node) ungranted() error {
	if doubt := n.doubt(); doubt != nil {
		return doubt
	}
	return n.batch.unread
}

// disown has nothing count that the node vouched for in rounds since then, in
// attempts that are under way neither.
func (n *Node) disown(since clock.Instant, why error) {
	n.mu.Lock()
	n.doubted, n.doubtedBy = n.Clock.Now(), why
	n.mu.Unlock()
	n.observer.Disowned(n.Index, since, why)
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
