package chaos

import (
	"context"
	"net"
	"slices"
	"sync"
	"time"
)

// linkLatency is the least that a message takes; the most is twice that, to the
// nanosecond: no two arrive at one moment, and so a run is the same each time.
const linkLatency = 100 * time.Microsecond

// link is the way of one client to one node, for all its connections: in
// memory, with latencies from a seed, by the bubble's clock. Whatever is due on a
// connection is done by that connection's one timer: a request is executed where
// it arrives, and its reply sets out.
type link struct {
	seed  uint64
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
	gone     bool // the stage is closed
}

func newLink(seed uint64, nodes []*virtualNode, home int) *link {
	l := &link{seed: seed, nodes: nodes, home: home, leads: home, changed: make(chan struct{})}
	l.settle()
	return l
}

// dialer is a client's Dialer. A connection can't be made while either direction
// is held or lost, nor once the link is gone; it gives up after dialFor. As long
// as nothing is wrong with the link, a new connection costs no time, and neither
// does go-redis's greeting: of two goroutines that want one at one moment it must
// not matter which gets the one that is there.
func (l *link) dialer(ctx context.Context, _, _ string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialFor)
	defer cancel()
	c := &linkConn{link: l, arrived: make(chan struct{}, 1)}
	for {
		l.mu.Lock()
		if l.gone {
			l.mu.Unlock()
			return nil, net.ErrClosed
		}
		blocked, changed, wait := l.requests.mode != flow || l.replies.mode != flow, l.changed, l.requests.onDial()+l.replies.onDial()
		l.mu.Unlock()
		if !blocked && wait == 0 {
			return c.connect()
		}
		timer := time.NewTimer(wait)
		arrived := timer.C
		if blocked {
			arrived = nil
		}
		select {
		case <-arrived:
			return c.connect()
		case <-changed:
			timer.Stop()
		case <-ctx.Done():
			timer.Stop()
			return nil, ctx.Err()
		}
	}
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
