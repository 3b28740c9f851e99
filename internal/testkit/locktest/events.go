package locktest

import (
	"slices"
	"sync"

	"github.com/quorumkit/redlock"
)

// Events collects what a Locker tells.
type Events struct {
	mu  sync.Mutex // guards the field below
	all []redlock.Event
}

// Observe takes an event down.
func (e *Events) Observe(ev redlock.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, ev)
}

// Option makes a Locker tell it.
func (e *Events) Option() redlock.Option { return redlock.WithObserver(e.Observe) }

// All are the events so far, in order.
func (e *Events) All() []redlock.Event {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.all)
}

// Forget empties it.
func (e *Events) Forget() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = nil
}

// Of are the events of one kind, in order.
func (e *Events) Of(k redlock.EventKind) []redlock.Event {
	return slices.DeleteFunc(e.All(), func(ev redlock.Event) bool { return ev.Kind != k })
}

// Nodes are the nodes that events of one kind named.
func (e *Events) Nodes(k redlock.EventKind) (nodes []int) {
	for _, ev := range e.Of(k) {
		nodes = append(nodes, ev.Node)
	}
	slices.Sort(nodes)
	return slices.Compact(nodes)
}
