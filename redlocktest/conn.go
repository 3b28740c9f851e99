package redlocktest

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// socketBuffer is how many unread bytes a client may send before its writes
// block, like the buffers of a real connection to a stopped server. Replies are
// not bounded, as they are not in Redis.
const socketBuffer = 1 << 20

// stream is one direction of a connection. Unlike net.Pipe it has a buffer: a
// client that writes to a stopped server, and then gives up and closes, leaves
// its commands behind, and they run when the server continues.
type stream struct {
	mu       sync.Mutex // guards the fields up to the channels
	buf      []byte     // can be read
	held     []byte     // written while frozen; can be read after thaw
	frozen   bool
	eof      bool // the writer closed: EOF after the bytes written
	broken   bool // the reader closed: writes fail
	limit    int  // of buf and held together; 0 if none
	readable chan struct{}
	writable chan struct{}
}

func newStream(limit int, frozen bool) *stream {
	return &stream{
		limit:    limit,
		frozen:   frozen,
		readable: make(chan struct{}, 1),
		writable: make(chan struct{}, 1),
	}
}

// signal wakes one waiter of a channel with room for one. A waiter that leaves
// something for another signals again, so that none sleeps through a change.
func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// take moves bytes to p. It reports false when the caller has to wait.
func (s *stream) take(p []byte) (n int, done bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.broken:
		signal(s.readable)
		return 0, true, net.ErrClosed
	case len(s.buf) > 0:
		n = copy(p, s.buf)
		s.buf = s.buf[n:]
		if len(s.buf) == 0 {
			s.buf = nil
		}
		if len(s.buf) > 0 || s.eof {
			signal(s.readable)
		}
		signal(s.writable)
		return n, true, nil
	case s.eof && !s.frozen:
		signal(s.readable)
		return 0, true, io.EOF
	}
	return 0, len(p) == 0, nil
}

// put accepts as many bytes of p as there is room for. It reports false when
// the caller has to wait for the rest.
func (s *stream) put(p []byte) (n int, done bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.eof {
		signal(s.writable)
		return 0, true, net.ErrClosed
	}
	if s.broken {
		signal(s.writable)
		return 0, true, syscall.EPIPE
	}
	n = len(p)
	if s.limit > 0 {
		n = min(n, s.limit-len(s.buf)-len(s.held))
	}
	if s.frozen {
		s.held = append(s.held, p[:n]...)
	} else if n > 0 {
		s.buf = append(s.buf, p[:n]...)
		signal(s.readable)
	}
	return n, n == len(p), nil
}

// freeze holds back all writes from now on, the writer's close included.
func (s *stream) freeze() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.frozen = true
}

// thaw delivers the bytes that were held back.
func (s *stream) thaw() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.frozen = false
	s.buf = append(s.buf, s.held...)
	s.held = nil
	signal(s.readable)
}

// finish is the writer's close: the reader gets the written bytes, then EOF.
func (s *stream) finish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.eof = true
	signal(s.readable)
	signal(s.writable)
}

// abandon is the reader's close: unread bytes are gone, and writes fail.
func (s *stream) abandon() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broken = true
	s.buf, s.held = nil, nil
	signal(s.readable)
	signal(s.writable)
}

// drop loses the bytes that were held back: their writer died before they were sent.
func (s *stream) drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.frozen = false
	s.held = nil
}

// idle tells a pool's health check whether nothing is wrong with a connection
// that waits for its next use: open, and without a reply that nobody asked for
// (a push message of RESP3, which begins with '>', is no reply).
func (s *stream) idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.buf) > 0 {
		return !s.broken && s.buf[0] == '>'
	}
	return !s.broken && (!s.eof || s.frozen)
}

// addr is a node's name as a network address.
type addr string

func (a addr) Network() string { return "redlocktest" }
func (a addr) String() string  { return string(a) }

// conn is one end of a connection in memory. It keeps its deadlines, by the
// clock of the synctest bubble where it is used in one.
type conn struct {
	in, out       *stream
	peer          addr
	readDeadline  deadline
	writeDeadline deadline
	closing       sync.Once
	onClose       func()
}

// newPipe returns the two ends of a connection to the named node. With frozen
// the node does not get, and does not give, anything before thaw.
func newPipe(node string, frozen bool) (client, server *conn) {
	requests, replies := newStream(socketBuffer, frozen), newStream(0, frozen)
	client = &conn{in: replies, out: requests, peer: addr(node)}
	server = &conn{in: requests, out: replies, peer: addr(node)}
	for _, c := range []*conn{client, server} {
		c.readDeadline.init()
		c.writeDeadline.init()
	}
	return client, server
}

func (c *conn) Read(p []byte) (int, error) {
	for {
		if c.readDeadline.expired() {
			return 0, c.opError("read", os.ErrDeadlineExceeded)
		}
		n, done, err := c.in.take(p)
		switch {
		case errors.Is(err, io.EOF):
			return 0, io.EOF
		case err != nil:
			return 0, c.opError("read", err)
		case done:
			return n, nil
		}
		select {
		case <-c.in.readable:
		case <-c.readDeadline.wait():
		}
	}
}

func (c *conn) Write(p []byte) (int, error) {
	written := 0
	for {
		if c.writeDeadline.expired() {
			return written, c.opError("write", os.ErrDeadlineExceeded)
		}
		n, done, err := c.out.put(p[written:])
		written += n
		if err != nil {
			return written, c.opError("write", err)
		}
		if done {
			return written, nil
		}
		select {
		case <-c.out.writable:
		case <-c.writeDeadline.wait():
		}
	}
}

// Close ends both directions. Bytes that this end wrote still arrive; bytes that it has
// not read are gone.
func (c *conn) Close() error {
	c.closing.Do(func() {
		c.in.abandon()
		c.out.finish()
		if c.onClose != nil {
			c.onClose()
		}
	})
	return nil
}

// kill is the close of a process that dies: nothing arrives any more, in
// either direction, but for replies that were on their way before a hang.
func (c *conn) kill() {
	c.out.drop()
	_ = c.Close()
}

func (c *conn) LocalAddr() net.Addr  { return addr("client") }
func (c *conn) RemoteAddr() net.Addr { return c.peer }

func (c *conn) SetDeadline(t time.Time) error {
	c.readDeadline.set(t)
	c.writeDeadline.set(t)
	return nil
}

func (c *conn) SetReadDeadline(t time.Time) error {
	c.readDeadline.set(t)
	return nil
}

func (c *conn) SetWriteDeadline(t time.Time) error {
	c.writeDeadline.set(t)
	return nil
}

func (c *conn) opError(op string, err error) error {
	return &net.OpError{Op: op, Net: c.peer.Network(), Addr: c.peer, Err: err}
}

// SyscallConn lets go-redis find out, as it does with a real socket, that an
// idle connection of its pool was closed by the server. Without it the first
// command after a node's restart would fail where it does not in production.
func (c *conn) SyscallConn() (syscall.RawConn, error) {
	if !c.in.idle() {
		return nil, io.EOF
	}
	return rawConn{}, nil
}

// rawConn is a socket with nothing to see: the check that uses it only wants
// to know whether an idle connection is alive.
type rawConn struct{}

func (rawConn) Control(func(fd uintptr)) error    { return errors.ErrUnsupported }
func (rawConn) Read(func(fd uintptr) bool) error  { return nil }
func (rawConn) Write(func(fd uintptr) bool) error { return errors.ErrUnsupported }

// deadline is a point in time that can be moved, as in net.Pipe.
type deadline struct {
	mu     sync.Mutex // guards all below
	timer  *time.Timer
	passed chan struct{} // closed when the deadline has passed
}

func (d *deadline) init() { d.passed = make(chan struct{}) }

func (d *deadline) set(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil && !d.timer.Stop() {
		<-d.passed // the timer fired: wait until it has closed the channel
	}
	d.timer = nil
	closed := isClosed(d.passed)
	if t.IsZero() {
		if closed {
			d.passed = make(chan struct{})
		}
		return
	}
	if left := time.Until(t); left > 0 {
		if closed {
			d.passed = make(chan struct{})
		}
		passed := d.passed
		d.timer = time.AfterFunc(left, func() { close(passed) })
		return
	}
	if !closed {
		close(d.passed)
	}
}

func (d *deadline) wait() chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.passed
}

func (d *deadline) expired() bool { return isClosed(d.wait()) }

func isClosed(ch chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}
