package chaos

import (
	"context"
	"net"
	"slices"
	"sync"
	"time"
)

const (
	// linkLatency is the least that a message takes; the most is twice that.
	linkLatency = 100 * time.Microsecond
	// linkGrid is how far apart the instants of one connection are at which anything
	// befalls it. Each has a place of its own on that grid: what is due at one instant
	// is done in any order, and so nothing may be due at one instant on two
	// connections.
	linkGrid = 2048 * time.Nanosecond
	// linkPlaces is how many places a link has: more than it has connections at once.
	linkPlaces = 8
)

// link is the way of one client to one node, for all its connections: in
// memory, with latencies from a seed, by the bubble's clock. Whatever is due on a
// connection is done by that connection's one timer: a request is executed where
// it arrives, and its reply sets out.
type link struct {
	seed  uint64
	place int            // the first of its connections' places
	nodes []*virtualNode // of the stage
	home  int            // the node that the client's list has in this place

	mu       sync.Mutex // guards the rest; taken before the node's
	faults   []Fault    // that are not mended
	requests weather
	replies  weather
	refuses  bool          // new connections
	leads    int           // to which node: home, unless the list is another one
	changed  chan struct{} // closed and replaced when a weather changes
	conns    []*linkConn
	dials    int  // so far
	gone     bool // the stage is closed
}

// newLink returns the nth link of a stage.
func newLink(nth int, seed uint64, nodes []*virtualNode, home int) *link {
	l := &link{place: nth * linkPlaces, seed: seed, nodes: nodes, home: home, leads: home, changed: make(chan struct{})}
	l.settle()
	return l
}

// dialer is a client's Dialer. A connection can't be made while either direction
// is held or lost, nor once the link is gone; it gives up after dialFor. As long
// as nothing is wrong with the link, a new connection costs no time, and neither
// does go-redis's greeting: of two goroutines that want one at one moment it must
// not matter which gets the one that is there. That there is none takes a message's
// time to learn.
func (l *link) dialer(ctx context.Context, _, _ string) (net.Conn, error) {
	c := l.newConn()
	limit := c.own(time.Now().Add(dialFor))
	for {
		l.mu.Lock()
		gone, changed := l.gone, l.changed
		blocked, wait := l.requests.mode != flow || l.replies.mode != flow, l.requests.onDial()+l.replies.onDial()
		l.mu.Unlock()
		switch {
		case gone:
			return nil, net.ErrClosed
		case !blocked && wait == 0:
			return c.connect(ctx)
		}
		until := limit
		if there := c.own(time.Now().Add(wait)); !blocked && there.Before(limit) {
			until = there
		}
		timer := time.NewTimer(time.Until(until))
		select {
		case <-timer.C:
			if until.Equal(limit) {
				return nil, context.DeadlineExceeded
			}
			return c.connect(ctx)
		case <-changed:
			timer.Stop()
		case <-ctx.Done():
			timer.Stop()
			return nil, ctx.Err()
		}
	}
}

// newConn is a connection that is not made yet.
func (l *link) newConn() *linkConn {
	l.mu.Lock()
	defer l.mu.Unlock()
	place := l.place + l.dials%linkPlaces
	l.dials++
	return &linkConn{link: l, place: time.Duration(place) % linkGrid, arrived: make(chan struct{}, 1)}
}

// change begins a fault, or mends it; others stand. What was held back arrives
// as if it were sent now.
func (l *link) change(f Fault, broken bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if broken {
		l.faults = append(l.faults, f)
	} else if i := slices.Index(l.faults, f); i >= 0 {
		l.faults = slices.Delete(l.faults, i, i+1)
	}
	l.settle()
}

// reset breaks all connections: what is under way is lost.
func (l *link) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.breakAll()
}

// breakAll is reset; mu is held.
func (l *link) breakAll() {
	for _, c := range l.conns {
		c.broken = true
		c.queue = nil
		c.session.Close()
		c.wake()
	}
	l.conns = nil
}

// close ends the link for good.
func (l *link) close() {
	l.reset()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gone = true
	close(l.changed)
	l.changed = make(chan struct{})
}
