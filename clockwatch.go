package redlock

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumkit/redlock/internal/clock"
)

const (
	// watchEvery is how old the last look at a node's clock and identity may get while the
	// Locker holds or waits for anything: as long as a client that never saw the node
	// may hold what a step took from us.
	watchEvery = 250 * time.Millisecond
	// watchTogether is how much earlier a node is looked at because another one is.
	watchTogether = 25 * time.Millisecond
)

// clockWatch has every node's clock read, and its identity looked at, at
// least every watchEvery, while the Locker holds or waits for anything. It is one timer
// for each Locker, whatever the number of locks; what traffic reads counts, and an idle
// Locker sends nothing. A step that a reading shows ends at once what leans on it (see
// stepBy).
//
// The timer is not set back when the last hold ends: it finds nothing to do, and
// stops. So a hold that begins costs one atomic read where there was one before.
type clockWatch struct {
	locker *Locker
	armed  atomic.Bool // the timer runs

	mu     sync.Mutex // guards the fields below, and setting armed
	timer  *time.Timer
	closed bool
}

// rouse starts the watch: something is held, or waited for.
func (w *clockWatch) rouse() {
	if cfg := &w.locker.cfg; !w.armed.Load() && (!cfg.trustClocks || !cfg.unprotected) {
		w.arm(watchEvery)
	}
}

func (w *clockWatch) arm(after time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.closed || w.armed.Swap(true):
	case w.timer == nil:
		w.timer = w.locker.clock.AfterFunc(after, w.tick)
	default:
		w.timer.Reset(after)
	}
}

// tick has the nodes looked at whose last reading is old enough.
func (w *clockWatch) tick() {
	w.armed.Store(false) // before it is asked who is busy: whoever begins after that starts it again
	l := w.locker
	if !l.scheduler.busy() && !l.presence.busy() {
		return
	}
	now, next := l.clock.Early(), watchEvery
	for _, n := range l.nodes {
		left := clock.Instant(n.ReadAt.Load()).Add(watchEvery).Sub(now)
		if left <= watchTogether {
			n.SubmitSample(now)
			left = watchEvery
		}
		next = min(next, left)
	}
	w.arm(next)
}

// close ends the watch.
func (w *clockWatch) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	if w.timer != nil {
		w.timer.Stop()
	}
}
