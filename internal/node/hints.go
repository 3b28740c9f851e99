package node

import (
	"sync/atomic"
	"time"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/quorum"
)

// HintLead is how far a hint may be ahead of the nodes' clocks, so that a client
// whose clock is years ahead does not use the tokens up.
//
// The bound is the median of the nodes' clocks, and one hint goes to all nodes. A bound by
// each node's own clock would give each node another hint, and so another counter: one
// client in the future would cost everybody a second round trip. If a majority's clocks
// are far ahead, tokens are large, and still unique and growing.
const HintLead = time.Minute

// Hints are the tokens that one Locker suggests to its nodes.
type Hints struct {
	clock *clock.Clock
	lead  atomic.Int64 // how far a hint may be ahead of the Clock, in microseconds; 0: no sample yet
	last  atomic.Int64 // the largest token seen, or hint given
}

// NewHints are hints that no node's clock bounds yet.
func NewHints(c *clock.Clock) *Hints { return &Hints{clock: c} }

// bound takes in by how many microseconds the nodes' clocks are ahead of ours.
func (h *Hints) bound(offset int64) { h.lead.Store(offset + HintLead.Microseconds()) }

// Hint suggests a token: the client's clock in microseconds, so that the nodes
// stay in step through crashes too, or one more than the last token seen. Each
// hint is given once.
func (h *Hints) Hint() int64 {
	for {
		last := h.last.Load()
		next := last + 1
		if lead := h.lead.Load(); lead != 0 {
			next = max(next, min(h.clock.Wall().UnixMicro(), int64(h.clock.Early())/1000+lead))
		}
		if h.last.CompareAndSwap(last, next) {
			return next
		}
	}
}

// Seen notes a token, so that the next hint is above it. One that is further
// ahead than a hint may be is some node's damage, or some name's past: it must not
// carry all other names along.
func (h *Hints) Seen(t quorum.Token) {
	if lead := h.lead.Load(); lead != 0 && int64(t) > int64(h.clock.Early())/1000+lead { //nolint:gosec // below 2^53
		return
	}
	for {
		last := h.last.Load()
		if t := int64(t); t <= last || h.last.CompareAndSwap(last, t) { //nolint:gosec // below 2^53
			return
		}
	}
}
