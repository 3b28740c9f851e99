package queue

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/fault"
	"github.com/quorumkit/redlock/internal/grant"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/node"
	"github.com/quorumkit/redlock/internal/quorum"
)

// Presence is what a Locker does while goroutines of it wait for the nodes: it says
// every so often that it lives, hears the nodes' calls, and looks now and then
// whether the names are still held. One goroutine and one subscription for each
// node, no matter the number of names; none before the first wait.
type Presence struct {
	cfg   Config
	queue *Queue
	subs  []*node.Subscription
	wake  chan struct{}
	done  chan struct{} // closed when run has ended

	mu         sync.Mutex // guards the fields below, and the schedule of every Name
	started    bool
	closed     bool
	waiting    int // goroutines
	hangUp     context.CancelFunc
	resting    pollHeap
	beats      []clock.Instant // when each node's next sign of life is due; never if none is
	nextLooks  clock.Instant   // no looks before
	turn       int             // the node that the next look goes to
	everything []asking        // by node: whether it is being asked about every name
}

// asking is the state of askAll at a node.
type asking uint8

const (
	askNone  asking = iota
	askOut          // its looks are out
	askAgain        // and it is to ask again then
)

// Config is what waiting knows of its Locker.
type Config struct {
	Process string // the waiting process, to the nodes
	Nodes   []*node.Node
	Clock   *clock.Clock
	Timeout time.Duration // of a node
	Closing <-chan struct{}
	Watch   func()                                            // starts the clock watch, which runs while anybody waits
	Leave   func(key string, shared bool, nodes []*node.Node) // takes the process's entry for a name off these nodes, of that kind
	// GiveBack releases what a node granted to an attempt of ours that is over.
	GiveBack func(key, owner string, n *node.Node)
	Asked    func(message string) bool // takes in a message that asks for a hold; false if it is none, or of no hold; nil if none ever comes
}

// NewPresence makes the presence of a Locker; nothing runs before the first wait.
func NewPresence(c Config, queue *Queue) *Presence {
	w := &Presence{cfg: c, queue: queue, wake: make(chan struct{}, 1), done: make(chan struct{}), everything: make([]asking, len(c.Nodes))}
	for _, n := range c.Nodes {
		w.beats = append(w.beats, clock.Never)
		w.subs = append(w.subs, node.NewSubscription(n, func(i int, _, key string) { w.Hear(i, key) }, w.renewed, lua.WakeChannel+c.Process))
	}
	return w
}

// Join counts a goroutine that waits, and returns when the nodes can call it: a node
// that is asked earlier would take its entry for that of a dead process.
func (w *Presence) Join(ctx context.Context) error {
	w.mu.Lock()
	w.waiting++
	first := w.waiting == 1
	for i, at := range w.beats {
		if at == clock.Never {
			w.beats[i] = w.cfg.Clock.Early()
		}
	}
	w.openLocked() //nolint:contextcheck // it outlives the first waiter
	closed := w.closed
	w.mu.Unlock()
	if closed {
		return fault.ErrClosed
	}
	w.cfg.Watch()
	if first {
		w.signal()
	}
	return w.settled(ctx)
}

// openLocked subscribes, the first time.
func (w *Presence) openLocked() {
	if w.started || w.closed {
		return
	}
	w.started = true
	var inner context.Context
	inner, w.hangUp = context.WithCancel(context.Background())
	for _, s := range w.subs {
		go s.Run(inner)
	}
	go w.run()
}

// settled waits until every node has said that it will call, or a node timeout
// has passed.
func (w *Presence) settled(ctx context.Context) error {
	var limit *time.Timer
	for _, s := range w.subs {
		select {
		case <-s.Settled():
			continue
		default:
		}
		if limit == nil {
			limit = w.cfg.Clock.NewTimer(w.cfg.Timeout)
			defer limit.Stop()
		}
		select {
		case <-s.Settled():
		case <-limit.C:
			return nil
		case <-w.cfg.Closing:
			return fault.ErrClosed
		case <-ctx.Done():
			return fault.OfContext(ctx)
		}
	}
	return nil
}

// Quit takes back a join.
func (w *Presence) Quit() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting--
}

// Busy tells whether any goroutine waits.
func (w *Presence) Busy() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.waiting > 0
}

// Subscribed is how many nodes can call us.
func (w *Presence) Subscribed() int {
	n := 0
	for _, s := range w.subs {
		if s.Up() {
			n++
		}
	}
	return n
}

func (w *Presence) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// Hear takes in a node's hint. A process without waiters for that name leaves
// that node's queue, so that the next in line is called.
func (w *Presence) Hear(i int, key string) {
	if p, ok := grant.ParsePush(key); ok {
		switch {
		case w.queue.ended.before(p.Owner, p.Token):
			w.cfg.GiveBack(p.Name, p.Owner, w.cfg.Nodes[i])
		case w.queue.push(w.cfg.Nodes[i], p):
			return
		}
		key = p.Name
	} else if w.asked(key) {
		return
	}
	key = w.queue.freed(key)
	if len(key) <= lua.MaxKeyLength {
		w.queue.hint(key, i, func(shared bool) { w.cfg.Leave(key, shared, w.cfg.Nodes[i:i+1]) })
	}
}

// renewed tells one node at once that we live, and asks it about everything: it may have
// called in vain.
func (w *Presence) renewed(i int) {
	w.mu.Lock()
	if now := w.cfg.Clock.Early(); w.beats[i] > now && w.waiting > 0 {
		w.beats[i] = now
		w.signal()
	}
	w.mu.Unlock()
	w.askAll(i)
}

// askAll asks one node about every name. A name that a goroutine is asking for now is asked
// for there once more. While the looks of the last time are out, it only notes that they are to
// follow again: each of them may call it, so that their number would grow with its square.
func (w *Presence) askAll(i int) {
	w.mu.Lock()
	if w.everything[i] != askNone {
		w.everything[i] = askAgain
		w.mu.Unlock()
		return
	}
	resting := slices.Clone(w.resting)
	looks := w.pollsOfLocked(slices.Clone(resting)) // a clone of its own: Wanted filters it in place
	if len(looks) > 0 {
		w.everything[i] = askOut
		looks[len(looks)-1].(*poll).last = true
	}
	w.mu.Unlock()
	for _, k := range looks {
		w.cfg.Nodes[i].SubmitPoll(k)
	}
	w.queue.recall(i, resting)
}

// askedAll ends askAll, and begins it again if it was called meanwhile.
func (w *Presence) askedAll(i int) {
	w.mu.Lock()
	again := w.everything[i] == askAgain
	w.everything[i] = askNone
	w.mu.Unlock()
	if again {
		w.askAll(i)
	}
}

// run sends the signs of life and the looks when they are due.
func (w *Presence) run() {
	defer close(w.done)
	t := w.cfg.Clock.NewTimer(time.Hour)
	defer t.Stop()
	for {
		if pause := w.step(w.cfg.Clock.Early()); pause >= 0 {
			t.Reset(pause)
		} else {
			t.Stop()
		}
		select {
		case <-w.wake:
		case <-t.C:
		case <-w.cfg.Closing:
			return
		}
	}
}

// step does what is due, and returns how long until the next; negative if nothing is planned.
func (w *Presence) step(now clock.Instant) time.Duration {
	w.mu.Lock()
	beats := w.dueBeatsLocked(now)
	looks, first := w.dueLooksLocked(now)
	next := slices.Min(w.beats)
	if len(w.resting) > 0 {
		next = min(next, max(w.resting[0].polls.at, w.nextLooks))
	}
	w.mu.Unlock()
	for _, i := range beats {
		w.cfg.Nodes[i].SubmitPoll(&poll{presence: w})
	}
	for i, k := range looks {
		w.cfg.Nodes[(first+i)%len(w.cfg.Nodes)].SubmitPoll(k)
	}
	if next == clock.Never {
		return -1
	}
	return max(next.Sub(now), 0)
}

// dueBeatsLocked takes the signs of life that are due, and says when the next ones are. The
// one that is due when nobody waits any more is still sent.
func (w *Presence) dueBeatsLocked(now clock.Instant) (nodes []int) {
	for i, at := range w.beats {
		if at > now {
			continue
		}
		nodes = append(nodes, i)
		w.beats[i] = nextBeat(now, i, len(w.beats))
		if w.waiting == 0 {
			w.beats[i] = clock.Never
		}
	}
	return nodes
}

// nextBeat is when node i of n is told again that we live: at its own times, and never
// later than BeatEvery from now. The nodes' times are spread, so that what a caller
// sends in the same moment waits for one node's reply at most.
func nextBeat(now clock.Instant, i, n int) clock.Instant {
	own := quorum.BeatEvery * time.Duration(i) / time.Duration(n)
	left := own - time.Duration(now)%quorum.BeatEvery
	if left <= 0 {
		left += quorum.BeatEvery
	}
	return now.Add(left)
}

// Close ends the signs of life and the subscriptions; Await returns when they have ended.
func (w *Presence) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	if w.hangUp != nil {
		w.hangUp()
	}
}

// Await blocks until everything that Close ended has stopped.
func (w *Presence) Await() {
	w.mu.Lock()
	started := w.started
	w.mu.Unlock()
	if !started {
		return
	}
	<-w.done
	for _, s := range w.subs {
		<-s.Stopped()
	}
}
