package chaos

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"
)

const (
	// A message takes from linkLatency to twice that, to the nanosecond: no two
	// arrive at one moment, and so a run is the same each time.
	linkLatency = 100 * time.Microsecond
	// linkBuffer is how much one read takes off the node's end.
	linkBuffer = 4 << 10
)

// link is the way of one client to one node, for all its connections: in
// memory, with latencies from one random source, by the bubble's clock.
type link struct {
	seed uint64
	dial func(context.Context) (net.Conn, error)

	mu       sync.Mutex // guards the rest
	faults   []Fault    // that are not mended
	requests weather
	replies  weather
	changed  chan struct{} // closed and replaced when a weather changes
	conns    map[*linkConn]struct{}
	gone     bool // the stage is closed
}

func newLink(seed uint64, dial func(context.Context) (net.Conn, error)) *link {
	return &link{
		seed: seed, dial: dial, changed: make(chan struct{}), conns: map[*linkConn]struct{}{},
	}
}

// dialer is a client's Dialer. A connection can't be made while either direction
// is held or lost, nor once the link is gone; it gives up after dialFor.
func (l *link) dialer(ctx context.Context, _, _ string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialFor)
	defer cancel()
	for {
		l.mu.Lock()
		if l.gone {
			l.mu.Unlock()
			return nil, net.ErrClosed
		}
		blocked, changed, wait := l.requests.mode != flow || l.replies.mode != flow, l.changed, l.latency(l.requests, dialling, nil)+l.replies.delay
		l.mu.Unlock()
		timer := time.NewTimer(wait)
		arrived := timer.C
		if blocked {
			arrived = nil
		}
		select {
		case <-arrived:
			return l.connect(ctx)
		case <-changed:
			timer.Stop()
		case <-ctx.Done():
			timer.Stop()
			return nil, ctx.Err()
		}
	}
}

func (l *link) connect(ctx context.Context) (net.Conn, error) {
	inner, err := l.dial(ctx)
	if err != nil {
		return nil, err
	}
	c := &linkConn{Conn: inner, link: l, closed: make(chan struct{}), arrived: make(chan struct{}, 1)}
	l.mu.Lock()
	l.conns[c] = struct{}{}
	l.mu.Unlock()
	go c.receive() // ends with the node's end, which Close, reset or the node closes
	return c, nil
}

// latency is that of a message which is handed over now. It follows from the
// seed, the time and what the message has beside random values, not from a
// source that is drawn from: two goroutines that send at one moment would draw
// in any order.
func (l *link) latency(w weather, way uint64, data []byte) time.Duration {
	content := uint64(len(data))
	for _, b := range data {
		if b > 'f' || b == '$' || b == '*' {
			content += uint64(b) * uint64(b) // in whatever order: a hash's fields have none
		}
	}
	sum := l.seed<<2 | way
	for _, n := range []uint64{uint64(time.Now().UnixNano()), content} {
		sum = (sum*fnvPrime ^ n) * fnvPrime
		sum ^= sum >> 29
	}
	return linkLatency + time.Duration(sum%uint64(linkLatency)) + w.delay
}

// The ways of a message, for its latency.
const (
	dialling uint64 = iota
	requesting
	replying
)

// fnvPrime is that of FNV-1a, 64 bits.
const fnvPrime = 1099511628211

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
	l.requests, l.replies = weather{}, weather{}
	for _, f := range l.faults {
		f.blow(&l.requests, &l.replies)
	}
	close(l.changed)
	l.changed = make(chan struct{})
	for c := range l.conns {
		c.postpone()
	}
}

// reset breaks all connections: what is under way is lost.
func (l *link) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		c.broken = true
		c.queue = nil
		c.shut()
		_ = c.Conn.Close()
	}
	clear(l.conns)
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

// parcel is a message that is under way.
type parcel struct {
	data []byte
	due  time.Time
}

// linkConn is a client's end of a connection. Close lets what was written
// arrive, as TCP does: also when it is held back until much later.
type linkConn struct {
	net.Conn // the way to the node, without latency
	link     *link
	closed   chan struct{}
	arrived  chan struct{} // room for one: a reader has to look again

	// Guarded by link.mu.
	queue   []parcel // to the node
	inbox   []parcel // to the client
	end     error    // of what comes from the node
	endDue  time.Time
	broken  bool
	done    bool      // closed by the client
	read    time.Time // deadline
	write   time.Time // deadline
	sending *time.Timer
}

var errReset = &net.OpError{Op: "read", Net: "chaos", Err: syscall.ECONNRESET}

// Write hands data to the link, which has room for all of it.
func (c *linkConn) Write(data []byte) (int, error) {
	l := c.link
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case c.broken:
		return 0, errReset
	case c.done:
		return 0, net.ErrClosed
	case !c.write.IsZero() && !time.Now().Before(c.write):
		return 0, os.ErrDeadlineExceeded
	case l.requests.mode == drop:
		return len(data), nil
	}
	due := time.Now().Add(l.latency(l.requests, requesting, data))
	if n := len(c.queue); n > 0 && due.Before(c.queue[n-1].due) {
		due = c.queue[n-1].due // one connection keeps its order
	}
	c.queue = append(c.queue, parcel{append([]byte(nil), data...), due})
	if len(c.queue) == 1 {
		c.arm()
	}
	return len(data), nil
}

// arm sets the timer for the first parcel; link.mu is held.
func (c *linkConn) arm() {
	wait := max(time.Until(c.queue[0].due), 0)
	if c.sending == nil {
		c.sending = time.AfterFunc(wait, c.send)
	} else {
		c.sending.Reset(wait)
	}
}

// postpone gives what waits a new latency from now, in its order; link.mu is held.
func (c *linkConn) postpone() {
	later := func(parcels []parcel, due time.Time) {
		for i := range parcels {
			if parcels[i].due.Before(due) {
				parcels[i].due = due
			}
		}
	}
	now := time.Now()
	later(c.inbox, now.Add(c.link.latency(c.link.replies, replying, nil)))
	if len(c.queue) > 0 {
		later(c.queue, now.Add(c.link.latency(c.link.requests, requesting, c.queue[0].data)))
		c.arm()
	}
}

// send delivers what is due.
func (c *linkConn) send() {
	l := c.link
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(c.queue) > 0 && l.requests.mode != hold {
		if time.Now().Before(c.queue[0].due) {
			c.arm()
			return
		}
		if l.requests.mode == flow {
			_, _ = c.Conn.Write(c.queue[0].data) // a node that is gone gets nothing
		}
		c.queue = c.queue[1:]
	}
	if c.done && len(c.queue) == 0 {
		delete(l.conns, c)
		_ = c.Conn.Close()
	}
}

// receive takes in what the node sends. All that it sends at one moment has one
// latency, so that a reader finds it together, however many writes it was.
func (c *linkConn) receive() {
	l := c.link
	for {
		buf := make([]byte, linkBuffer)
		n, err := c.Conn.Read(buf)
		l.mu.Lock()
		due := time.Now().Add(l.latency(l.replies, replying, nil))
		if k := len(c.inbox); k > 0 && due.Before(c.inbox[k-1].due) {
			due = c.inbox[k-1].due
		}
		if n > 0 && l.replies.mode != drop {
			c.inbox = append(c.inbox, parcel{buf[:n], due})
		}
		if err != nil {
			c.end, c.endDue = err, due
		}
		l.mu.Unlock()
		c.look()
		if err != nil {
			return
		}
	}
}

// look has a reader look again.
func (c *linkConn) look() {
	select {
	case c.arrived <- struct{}{}:
	default:
	}
}

// Read returns what has arrived. The news that the node's end is closed takes as
// long as a reply, and does not come while replies are held or lost.
func (c *linkConn) Read(p []byte) (int, error) {
	for {
		n, due, changed, err := c.take(p)
		if n > 0 || err != nil {
			return n, err
		}
		c.wait(due, changed)
	}
}

// take moves what is due to p; else it says when to look again at the latest,
// and what closes when the weather changes.
func (c *linkConn) take(p []byte) (n int, due time.Time, changed <-chan struct{}, err error) {
	l := c.link
	l.mu.Lock()
	defer l.mu.Unlock()
	now, flows := time.Now(), l.replies.mode == flow
	switch {
	case c.broken:
		return 0, due, nil, errReset
	case c.done:
		return 0, due, nil, net.ErrClosed
	case !c.read.IsZero() && !now.Before(c.read):
		return 0, due, nil, os.ErrDeadlineExceeded
	case flows && len(c.inbox) == 0 && c.end != nil && !now.Before(c.endDue):
		return 0, due, nil, c.end
	}
	for flows && n < len(p) && len(c.inbox) > 0 && !now.Before(c.inbox[0].due) {
		k := copy(p[n:], c.inbox[0].data)
		n += k
		if c.inbox[0].data = c.inbox[0].data[k:]; len(c.inbox[0].data) == 0 {
			c.inbox = c.inbox[1:]
		}
	}
	due = c.read
	sooner := func(t time.Time) {
		if flows && (due.IsZero() || t.Before(due)) {
			due = t
		}
	}
	if len(c.inbox) > 0 {
		sooner(c.inbox[0].due)
	} else if c.end != nil {
		sooner(c.endDue)
	}
	return n, due, l.changed, nil
}

// wait returns when there may be something to read.
func (c *linkConn) wait(due time.Time, changed <-chan struct{}) {
	var late <-chan time.Time
	if !due.IsZero() {
		timer := time.NewTimer(time.Until(due))
		defer timer.Stop()
		late = timer.C
	}
	select {
	case <-late:
	case <-changed:
	case <-c.arrived:
	case <-c.closed:
	}
}

// Close ends the client's end.
func (c *linkConn) Close() error {
	l := c.link
	l.mu.Lock()
	defer l.mu.Unlock()
	c.done = true
	c.shut()
	if len(c.queue) > 0 {
		return nil
	}
	delete(l.conns, c)
	return c.Conn.Close()
}

// shut wakes a reader for good; link.mu is held.
func (c *linkConn) shut() {
	select {
	case <-c.closed:
	default:
		close(c.closed)
	}
}

func (c *linkConn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

func (c *linkConn) SetReadDeadline(t time.Time) error {
	c.link.mu.Lock()
	c.read = t
	c.link.mu.Unlock()
	c.look()
	return nil
}

func (c *linkConn) SetWriteDeadline(t time.Time) error {
	c.link.mu.Lock()
	defer c.link.mu.Unlock()
	c.write = t
	return nil
}

// SyscallConn lets go-redis see that an idle connection of its pool is dead.
func (c *linkConn) SyscallConn() (syscall.RawConn, error) {
	c.link.mu.Lock()
	dead := c.broken || len(c.inbox) > 0 || (c.end != nil && !time.Now().Before(c.endDue))
	c.link.mu.Unlock()
	if inner, ok := c.Conn.(syscall.Conn); ok && !dead {
		return inner.SyscallConn()
	}
	return nil, io.EOF
}
