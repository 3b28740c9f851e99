package node

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumkit/redlock/internal/clock"
)

const (
	// WatchEvery is how old the last look at a node's clock and identity may get while the
	// Locker holds or waits for anything: as long as a client that never saw the node
	// may hold what a step took from us.
	WatchEvery = 250 * time.Millisecond
	// watchTogether is how much earlier a node is looked at because another one is.
	watchTogether = 25 * time.Millisecond
)

// ClockWatch has every node's clock read, and its identity looked at, at
// least every WatchEvery, while the Locker holds or waits for anything. It is one timer
// for each Locker, whatever the number of locks; what traffic reads counts, and an idle
// Locker sends nothing. A step that a reading shows ends at once what leans on it (see
// stepBy).
//
// The timer is not set back when the last hold ends: it finds nothing to do, and
// stops. So a hold that begins costs one atomic read where there was one before.
type ClockWatch struct {
	nodes []*Node
	clock *clock.Clock
	busy  func() bool // whether anything is held, or waited for
	armed atomic.Bool // the timer runs

	mu     sync.Mutex // guards the fields below, and setting armed
	timer  *time.Timer
	closed bool
}

// NewClockWatch makes the watch over all nodes of a Locker; busy tells whether it holds
// anything, or waits.
func NewClockWatch(nodes []*Node, c *clock.Clock, busy func() bool) *ClockWatch {
	return &ClockWatch{nodes: nodes, clock: c, busy: busy}
}

// Start starts the watch: something is held, or waited for.
func (w *ClockWatch) Start() {
	if !w.armed.Load() && (!w.nodes[0].Cfg.TrustClocks || !w.nodes[0].Cfg.Unprotected) {
		w.arm(WatchEvery)
	}
}

func (w *ClockWatch) arm(after time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.closed || w.armed.Swap(true):
	case w.timer == nil:
		w.timer = w.clock.AfterFunc(after, w.tick)
	default:
		w.timer.Reset(after)
	}
}

// tick has the nodes looked at whose last reading is old enough.
func (w *ClockWatch) tick() {
	w.armed.Store(false) // before it is asked who is busy: whoever begins after that starts it again
	if !w.busy() {
		return
	}
	now, next := w.clock.Early(), WatchEvery
	for _, n := range w.nodes {
		left := clock.Instant(n.ReadAt.Load()).Add(WatchEvery).Sub(now)
		if left <= watchTogether {
			n.SubmitSample(now)
			left = WatchEvery
		}
		next = min(next, left)
	}
	w.arm(next)
}

// Close ends the watch.
func (w *ClockWatch) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	if w.timer != nil {
		w.timer.Stop()
	}
}
