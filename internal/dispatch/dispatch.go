// Package dispatch hands events to observers from a goroutine of its own, so that a slow
// one holds nobody up.
package dispatch

import "sync"

// Bound is how many events may wait for an observer that is slow. Those that do not
// come with every operation may be twice as many: a flood of acquisitions must not
// drown the loss of a lock.
const Bound = 4096

// Dispatcher hands events to observers, in the order in which they came.
type Dispatcher[E any] struct {
	observers []func(E)
	wake      chan struct{}
	done      chan struct{} // closed when run has ended; nil: nobody observes

	mu     sync.Mutex // guards the fields below; nothing else is taken under it
	queue  []E
	idle   bool // run sleeps
	closed bool
}

// New is a Dispatcher to observers; Close ends its goroutine. There is none where
// nobody observes.
func New[E any](observers []func(E)) *Dispatcher[E] {
	d := &Dispatcher[E]{observers: observers}
	if len(observers) > 0 {
		d.wake, d.done = make(chan struct{}, 1), make(chan struct{})
		go d.run()
	}
	return d
}

// Observed tells whether anybody is told.
func (d *Dispatcher[E]) Observed() bool { return len(d.observers) > 0 }

// Send takes in an event, and reports whether it will be told: not where too many wait,
// or after Close. routine events come with every operation. Send blocks for nobody,
// and may be called under any mutex.
func (d *Dispatcher[E]) Send(e E, routine bool) bool {
	bound := Bound
	if !routine {
		bound *= 2
	}
	d.mu.Lock()
	kept := !d.closed && len(d.queue) < bound
	if kept {
		d.queue = append(d.queue, e)
	}
	asleep := d.idle
	d.idle = false
	d.mu.Unlock()
	if asleep {
		d.signal()
	}
	return kept
}

func (d *Dispatcher[E]) signal() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// run tells the observers, until the Dispatcher is closed and all is told.
func (d *Dispatcher[E]) run() {
	defer close(d.done)
	var events []E
	for {
		d.mu.Lock()
		events, d.queue = d.queue, events[:0]
		over := d.closed
		d.idle = len(events) == 0
		d.mu.Unlock()
		for i := range events {
			for _, f := range d.observers {
				f(events[i])
			}
		}
		switch {
		case len(events) > 0:
			clear(events)
		case over:
			return
		default:
			<-d.wake
		}
	}
}

// Close waits until the observers are told of the remaining events.
func (d *Dispatcher[E]) Close() {
	if d.done == nil {
		return
	}
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	d.signal()
	<-d.done
}
