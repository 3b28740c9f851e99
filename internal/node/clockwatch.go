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
	// leastPause is the least pause between two ticks, even if a look is late: a tick that is
	// due at once, again and again, would take a core.
	leastPause = time.Millisecond
)

// ClockWatch reads every node's clock, and looks at its identity, at least every
// WatchEvery, while the Locker holds or waits for anything. It is one timer
// for each Locker, no matter the number of locks; what traffic reads counts, and an idle
// Locker sends nothing. A step that a reading shows ends at once what leans on it (see
// stepBy).
//
// Renewals alone would read the clocks at a third of the TTL. When a quorum's clocks had
// stepped, a client that had just begun was granted a held lock, and both held it for 0.6 to
// 2.8 s. A process that only waited had no reading for minutes, and missed a step of 3.3 s.
//
// The timer is not set back when the last hold ends: it finds nothing to do, and
// stops. So a hold that begins costs one atomic read where there was one before.
type ClockWatch struct {
	nodes []*Node
	clock *clock.Clock
	busy  func() bool // whether anything is held, or waited for
	armed atomic.Bool // the timer runs

	mu     sync.Mutex // guards the fields below, and setting armed; nothing else is taken under it
	timer  *time.Timer
	closed bool
}

// NewClockWatch makes the watch over all nodes of a Locker; busy tells whether it holds
// anything, or waits.
func NewClockWatch(nodes []*Node, c *clock.Clock, busy func() bool) *ClockWatch {
	return &ClockWatch{nodes: nodes, clock: c, busy: busy}
}

// Start starts the watch: something is held, or waited for. Each hold calls it, and nearly
// always it finds the timer armed. Without clocks to watch nor identities it does nothing.
func (w *ClockWatch) Start() {
	if !w.armed.Load() && (!w.nodes[0].Cfg.TrustClocks || !w.nodes[0].Cfg.Unprotected) {
		w.arm(WatchEvery / time.Duration(len(w.nodes)))
	}
}

// arm sets the timer, unless it runs or the watch is closed. The swap under mu decides between
// a tick that goes on and a Start of the same moment: only one of them sets it.
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

// tick looks at the nodes whose last reading is old enough. It looks at one after
// another, spread over WatchEvery, some of them early: a caller's commands of the same
// moment wait for one node's reply at most, and not for all of them.
func (w *ClockWatch) tick() {
	w.armed.Store(false) // before busy is asked: a hold that begins after that starts it again
	if !w.busy() {
		return
	}
	now := w.clock.Early()
	left := make([]timeLeft, len(w.nodes))
	for i, n := range w.nodes {
		left[i] = timeLeft{clock.Instant(n.ReadAt.Load()).Add(WatchEvery).Sub(now), n}
	}
	for range left { // at most one look for each node
		if dueIn(left) > 0 {
			break
		}
		left[0].node.SubmitSample(now) // the oldest
		left[0].left = WatchEvery
	}
	w.arm(max(dueIn(left), leastPause))
}

// timeLeft is how long until a node's reading is as old as it may get.
type timeLeft struct {
	left time.Duration
	node *Node
}

// dueIn is when the next look is due, so that with a pause of WatchEvery/N before each of
// the others none comes late. It sorts them by what they have left: the node of rank k gets
// its look k pauses after the first, so the first is due k pauses before that node is.
func dueIn(nodes []timeLeft) time.Duration {
	slices.SortStableFunc(nodes, func(x, y timeLeft) int { return cmp.Compare(x.left, y.left) })
	next, pause := WatchEvery, WatchEvery/time.Duration(len(nodes))
	for rank, n := range nodes {
		next = min(next, n.left-time.Duration(rank)*pause)
	}
	return next
}

// Close ends the watch. A tick that runs may still ask for a look, which a closed node refuses; it
// arms the timer no more.
func (w *ClockWatch) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	if w.timer != nil {
		w.timer.Stop()
	}
}

// sampleEvery is how old the last sample of a node's TIME may get while there is
// traffic, of any kind; grants have one of their own. The siblings get no more than that
// either: to compare all nodes' clocks takes a mutex that all writers share.
const sampleEvery = 100 * time.Millisecond

// SubmitSample queues a reading of the node's clock, and with it a look at its identity if the
// last one is old (identityIsOld). It does nothing where the node is not
// talked to now: the next look comes soon, and a node that is down is sampled before
// it is believed again.
func (n *Node) SubmitSample(now clock.Instant) {
	_ = n.enqueue(now, func(q *pending) { q.sample = true })
}

// sampleIsOld tells whether other traffic carries a sample along, so that the next grant's
// sample has an earlier one, close by, to show a step against.
func (n *writer) sampleIsOld() bool {
	return n.sampled.At == 0 || n.Clock.Early().Sub(n.sampled.At) > sampleEvery
}

// sample takes in a reading of the node's clock that was asked for at sent. A
// step beyond the drift allowed makes the node abstain for MaxTTL from now, for
// this client: until then earlier leases may still be trusted elsewhere (ADR 7).
//
// Without a step the readings are narrowed, not replaced: what is known of the clock is the
// intersection of all. Else a clock at twice the rate would hide in thousands of small
// steps, each within what one reading may be off (ADR 13). A first sample shows no step.
func (n *writer) sample(sent clock.Instant, server time.Time) {
	now := n.Clock.Now()
	next, last := clock.SampleOf(sent, now, server), n.sampled
	n.ReadAt.Store(int64(now))
	n.sampled = next
	var steps []clock.Step
	// The siblings judge also when this node's own samples show nothing: each may be a witness
	// of another's step.
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
// MaxTTL that its record says now. Votes of all times are revoked, not only those since the
// last sample: a step acts on every lease that runs, also one granted an hour ago.
func (n *Node) stepBy(by time.Duration) {
	now := n.Clock.Now()
	why := &clock.StepError{By: by, At: now, Clock: n.Clock, Longest: n.Tracker.LongestLease}
	n.distrust.Store(why)
	n.Tracker.Outdate(n.Index)
	n.observer.Stepped(n.Index, why)
	n.revokeVotes(0, why)
}

// Stepped tells whether the node abstains since its clock stepped.
func (n *Node) Stepped() bool {
	d := n.distrust.Load()
	return d != nil && n.Clock.Early() < d.Until()
}
