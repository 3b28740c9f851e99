// Package simnet is the network of virtual stages: connections in memory from a
// client to simulated nodes, with latencies from a seed, by the clock of the bubble.
package simnet

import (
	"context"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/quorumkit/redlock/internal/lab/simnode"
)

const (
	// latency is the least that a message takes; the most is twice that.
	latency = 100 * time.Microsecond
	// grid is how far apart the instants of one connection are at which anything
	// befalls it. Each has a place of its own on that grid: what is due at one instant
	// is done in any order, and so nothing may be due at one instant on two
	// connections.
	grid = 2048 * time.Nanosecond
	// places is how many places a link has: more than it has connections at once.
	places = 8
	// dialFor bounds how long a new connection is tried for.
	dialFor = time.Second
)

// Link is the way of one client to one node, for all its connections: in
// memory, with latencies from a seed, by the bubble's clock. What is due on a
// connection is done by that connection's one timer: a request is executed where
// it arrives, and its reply sets out.
type Link struct {
	seed  uint64
	place int             // the first of its connections' places
	nodes []*simnode.Node // of the stage

	mu      sync.Mutex // guards the rest; taken before the node's
	is      Condition
	changed chan struct{} // closed and replaced when the condition changes
	conns   []*conn
	shapes  bool // latencies follow from the shape of messages, not from what they say
	dials   int  // so far
	gone    bool // the stage is closed
}

// Condition is what a link's faults make of it.
type Condition struct {
	Requests, Replies State
	Refuses           bool // new connections
	Leads             int  // the node to which they go
}

// New returns the nth link of a stage.
func New(nth int, seed uint64, nodes []*simnode.Node, is Condition) *Link {
	return &Link{place: nth * places, seed: seed, nodes: nodes, is: is, changed: make(chan struct{})}
}

// Dial is a client's Dialer. A connection can't be made while either direction
// is held or lost, nor once the link is gone; it gives up after dialFor. As long
// as nothing is wrong with the link, a new connection costs no time, and neither
// does go-redis's greeting: of two goroutines that want one at one moment it must
// not matter which gets the one that is there. That there is none takes a message's
// time to learn.
//
// As net.Dialer, it dials nobody for a context that has ended: go-redis connects a broken
// subscription again with a mutex held, and is kept from that so (internal/node).
func (l *Link) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c := l.newConn()
	limit := c.own(time.Now().Add(dialFor))
	for {
		l.mu.Lock()
		gone, changed := l.gone, l.changed
		blocked, wait := l.is.Requests.Mode != Flow || l.is.Replies.Mode != Flow, l.is.Requests.OnDial()+l.is.Replies.OnDial()
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
func (l *Link) newConn() *conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	place := l.place + l.dials%places
	l.dials++
	return &conn{link: l, place: time.Duration(place) % grid, arrived: make(chan struct{}, 1)}
}

// Set changes the link's condition. What was held back arrives as if it were sent
// now. All connections break when it leads elsewhere.
func (l *Link) Set(is Condition) {
	l.mu.Lock()
	defer l.mu.Unlock()
	elsewhere := is.Leads != l.is.Leads
	if l.is = is; elsewhere {
		l.breakAllLocked()
	}
	close(l.changed)
	l.changed = make(chan struct{})
	for _, c := range l.conns {
		c.postpone()
	}
}

// node is where new connections lead, or why there are none.
func (l *Link) node() (*simnode.Node, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.is.Refuses {
		return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
	}
	return l.nodes[l.is.Leads], nil
}

// ByShape makes latencies follow from the shape of messages from now on: how long their
// words are, not what they say. That is for a client whose library has random values of its
// own, in letters of any kind: its runs would follow from them.
func (l *Link) ByShape() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.shapes = true
}

// Sever ends the node's ends of all connections, unknown to the client: what is
// under way is lost, and what is sent from now on too.
func (l *Link) Sever() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.conns {
		c.severed = true
		c.queue, c.inbox, c.end = nil, nil, nil
		c.session.Close()
	}
}

// Reset breaks all connections: what is under way is lost.
func (l *Link) Reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.breakAllLocked()
}

// breakAllLocked is Reset.
func (l *Link) breakAllLocked() {
	for _, c := range l.conns {
		c.broken = true
		c.queue = nil
		c.session.Close()
		c.wake()
	}
	l.conns = nil
}

// Close ends the link for good.
func (l *Link) Close() {
	l.Reset()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gone = true
	close(l.changed)
	l.changed = make(chan struct{})
}
