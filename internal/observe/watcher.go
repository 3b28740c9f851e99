// Package observe looks at names for those who observe them: once a second at each node,
// all names in few calls, and at once where a leader hints at itself. What the looks mean
// is decided elsewhere (internal/election).
package observe

import (
	"context"
	"sync"
	"time"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/election"
	"github.com/quorumkit/redlock/internal/fault"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/node"
)

const (
	// gatherAfter is how long a look that is due at once waits for more of them: a leader
	// publishes on all nodes, and that should bring one look at each.
	gatherAfter = 2 * time.Millisecond
	// judgeEvery is how often an observer that hears nothing checks whether its knowledge
	// is too old.
	judgeEvery = election.LookEvery / 2
)

// Config is the part of its Locker that a Watcher knows.
type Config struct {
	Nodes   []*node.Node
	Clock   *clock.Clock
	Go      func(func()) // starts a goroutine that Close waits for
	Closing <-chan struct{}
}

// Watcher looks at the names that one Locker observes. While nobody does, nothing runs.
type Watcher struct {
	cfg Config

	mu    sync.Mutex // guards the fields below, and those of every name and Observer
	names map[string]*name
	round *round // nil: nobody observes anything
}

// New is a Watcher of no names.
func New(c Config) *Watcher { return &Watcher{cfg: c, names: make(map[string]*name)} }

// name is one name that is observed.
type name struct {
	key       string
	observers int
	view      *election.View
	causes    []error       // why each node said nothing when it was last looked at
	due       uint64        // nodes that are to be looked at at once, one bit each
	changed   chan struct{} // closed when there is something new
}

// tellLocked wakes the name's observers.
func (n *name) tellLocked() {
	close(n.changed)
	n.changed = make(chan struct{})
}

// round is the work while there are observers: for each node a goroutine that looks, and a
// subscription.
type round struct {
	end  context.CancelFunc
	wake []chan struct{} // of the goroutines that look
}

// Observer is one observer of a name.
type Observer struct {
	watcher *Watcher
	name    *name
	heard   *election.Observer
}

// Join begins to observe a name. Leave ends it.
func (w *Watcher) Join(key string) *Observer {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := w.names[key]
	if n == nil {
		nodes := len(w.cfg.Nodes)
		n = &name{key: key, view: election.NewView(nodes), causes: make([]error, nodes), due: 1<<nodes - 1, changed: make(chan struct{})}
		w.names[key] = n
	}
	n.observers++
	if w.round == nil {
		w.beginLocked() // and looks at all there is
	} else {
		w.wakeLocked(n.due)
	}
	return &Observer{watcher: w, name: n, heard: election.NewObserver(w.cfg.Clock.Now())}
}

// beginLocked starts a round.
func (w *Watcher) beginLocked() {
	ctx, end := context.WithCancel(context.Background())
	r := &round{end: end}
	for i, n := range w.cfg.Nodes {
		wake := make(chan struct{}, 1)
		r.wake = append(r.wake, wake)
		sub := node.NewSubscription(n, w.hear, w.renewed)
		w.cfg.Go(func() { w.run(ctx, i, wake, sub) })
	}
	w.cfg.Go(func() { // a loop whose body does not return keeps nothing running
		select {
		case <-w.cfg.Closing:
			end()
		case <-ctx.Done():
		}
	})
	w.round = r
}

// Leave ends a Join. The round ends by itself when the last observer has left.
func (o *Observer) Leave() {
	w := o.watcher
	w.mu.Lock()
	defer w.mu.Unlock()
	if o.name.observers--; o.name.observers > 0 {
		return
	}
	delete(w.names, o.name.key)
	if len(w.names) == 0 {
		w.round.end()
		w.round = nil
		return
	}
	w.wakeLocked(1<<len(w.cfg.Nodes) - 1) // they drop its channel
}

// wakeLocked wakes these nodes' goroutines, which then do the due looks.
func (w *Watcher) wakeLocked(nodes uint64) {
	if w.round == nil {
		return
	}
	for i, c := range w.round.wake {
		if nodes&(1<<i) == 0 {
			continue
		}
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

// Next blocks until there is something new to tell, and returns it; causes are why the
// nodes said nothing that did not. It fails with ctx's cause, or when the Locker closes.
func (o *Observer) Next(ctx context.Context) (s election.Sight, causes []error, err error) {
	w := o.watcher
	t := w.cfg.Clock.NewTimer(judgeEvery)
	defer t.Stop()
	for {
		if err := fault.OfContext(ctx); err != nil {
			return s, nil, err
		}
		w.mu.Lock()
		s, isNew := o.heard.Next(w.viewLocked(o.name), w.cfg.Clock.Now())
		changed := o.name.changed
		causes = append(causes[:0], o.name.causes...)
		w.mu.Unlock()
		if isNew {
			return s, causes, nil
		}
		t.Reset(judgeEvery)
		select {
		case <-changed:
		case <-t.C:
		case <-ctx.Done():
		case <-w.cfg.Closing:
			return s, nil, fault.ErrClosed
		}
	}
}

// viewLocked returns what was seen of a name, by the list that the Locker goes by.
func (w *Watcher) viewLocked(n *name) *election.View {
	n.view.GoBy(w.cfg.Nodes[0].Tracker.List())
	return n.view
}

// hear takes in a hint that node i passed on.
func (w *Watcher) hear(i int, channel, message string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := w.names[channel[min(len(lua.LeaderChannel), len(channel)):]]
	if n == nil {
		return
	}
	if h, ok := election.ParseHint(message); ok {
		w.viewLocked(n).Hint(i, h)
	}
	n.due = 1<<len(w.cfg.Nodes) - 1
	w.wakeLocked(n.due)
}

// renewed has everything looked at on node i: hints may have been missed before.
func (w *Watcher) renewed(i int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, n := range w.names {
		n.due |= 1 << i
	}
	w.wakeLocked(1 << i)
}
