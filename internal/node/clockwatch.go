package node

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumkit/redlock/internal/clock"
)

const (
	// WatchEvery is how old the last look at a node's clock and identity may get while the
	// Locker holds or waits for anything: as long as a client that never saw the node
	// may hold what a step took from us. The odd part keeps a look from the moment at which
	// a node timeout ends, 250 ms by default: what is due at one moment comes in any order,
	// and a run in virtual time could not be repeated.
	WatchEvery = 250*time.Millisecond - 7*time.Microsecond
	// leastPause is between two looks of one that is late.
	leastPause = time.Millisecond
)

// ClockWatch has every node's clock read, and its identity looked at, at
// least every WatchEvery, while the Locker holds or waits for anything. It is one timer
// for each Locker, no matter the number of locks; what traffic reads counts, and an idle
// Locker sends nothing. A step that a reading shows ends at once what leans on it (see
// stepBy).
//
// Renewals alone would read the clocks at a third of the TTL. When a quorum's clocks had
// stepped, a client that had just begun was granted what was held, and both held for 0.6 to
// 2.8 s. A process that only waited had no reading for minutes, and missed a step of 3.3 s.
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
		w.arm(WatchEvery / time.Duration(len(w.nodes)))
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

// tick has the nodes looked at whose last reading is old enough. It looks at one after
// another, spread over WatchEvery, some of them early: what a caller sends in the same
// moment waits for one node's reply at most, and not for all of them.
func (w *ClockWatch) tick() {
	w.armed.Store(false) // before it is asked who is busy: one who begins after that starts it again
	if !w.busy() {
		return
	}
	now := w.clock.Early()
	left := make([]timeLeft, len(w.nodes))
	for i, n := range w.nodes {
		left[i] = timeLeft{clock.Instant(n.ReadAt.Load()).Add(WatchEvery).Sub(now), n}
	}
	for range left {
		if dueIn(left) > 0 {
			break
		}
		left[0].node.SubmitSample(now) // the oldest
		left[0].left = WatchEvery
	}
	w.arm(max(dueIn(left), leastPause))
}

// timeLeft is until a node's reading is as old as it may get.
type timeLeft struct {
	left time.Duration
	node *Node
}

// dueIn is when the next look is due, so that with a pause of WatchEvery/N before each of
// the others none comes late. It sorts them by what they have left.
func dueIn(nodes []timeLeft) time.Duration {
	slices.SortStableFunc(nodes, func(x, y timeLeft) int { return cmp.Compare(x.left, y.left) })
	next, pause := WatchEvery, WatchEvery/time.Duration(len(nodes))
	for rank, n := range nodes {
		next = min(next, n.left-time.Duration(rank)*pause)
	}
	return next
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
