package simnet

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/quorumkit/redlock/internal/lab/simnode"
)

// spareSegments is how many buffers a connection keeps for further messages.
const spareSegments = 4

// segment is a message that is under way.
type segment struct {
	data []byte
	read int // of data, by the client
	due  time.Time
}

// conn is a client's end of a connection. Close lets what was written
// arrive, as TCP does: also when it is held back until much later.
type conn struct {
	link    *Link
	place   time.Duration // on the grid
	node    *simnode.Node
	session *simnode.Session // the node's end
	arrived chan struct{}    // room for one: a reader has to look again

	// Guarded by link.mu.
	queue   []segment // to the node
	inbox   []segment // to the client
	copies  Copies
	twice   []segment // copies of what the node was delivered, on their way there
	spare   [][]byte  // of segments that have arrived
	end     error     // of what comes from the node
	endDue  time.Time
	broken  bool
	severed bool      // the node's end is gone, and the client not told
	done    bool      // closed by the client
	waiting bool      // a reader waits
	read    time.Time // deadline
	write   time.Time // deadline
	timer   *time.Timer
	set     time.Time // what timer is set to; zero: nothing

	pushing sync.Mutex // taken last; guards pushes
	pushes  [][]byte   // by the node, that have not set out
}

// network is what the connections' addresses say.
const network = "chaos"

var errReset = &net.OpError{Op: "read", Net: network, Err: syscall.ECONNRESET}

// own is the first instant after t that is the connection's own.
func (c *conn) own(t time.Time) time.Time {
	past := (time.Duration(t.UnixNano()) - c.place) % grid
	return t.Add(grid - past)
}

// connect connects to the node; the news of a failure takes as long as a reply.
func (c *conn) connect(ctx context.Context) (net.Conn, error) {
	conn, err := c.connectNow()
	if err == nil {
		return conn, nil
	}
	timer := time.NewTimer(time.Until(c.due(State{}, replying, nil)))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return nil, err
}

// connectNow connects at once: it takes no time.
func (c *conn) connectNow() (net.Conn, error) {
	node, err := c.link.node()
	if err != nil {
		return nil, err
	}
	session, err := node.Open(c.hungUp)
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: network, Err: err}
	}
	c.link.mu.Lock()
	defer c.link.mu.Unlock()
	c.node, c.session = node, session
	c.link.conns = append(c.link.conns, c)
	session.OnPush(c.pushed)
	return c, nil
}

// due is when a message arrives which is handed over now. Its latency follows from
// the seed, the time and what the message has beside random values, not from a
// source that is drawn from: two goroutines that send at one moment would draw
// in any order. Where there are data, link.mu is held.
func (c *conn) due(s State, way uint64, data []byte) time.Time {
	now, content := time.Now(), uint64(0)
	if way == requesting {
		data = withoutScripts(data)
	}
	switch {
	case len(data) == 0:
	case c.link.shapes:
		content = shape(data)
	default:
		content = letters(data)
	}
	sum := c.link.seed<<2 | way
	for _, n := range [...]uint64{uint64(now.UnixNano()), content} {
		sum = (sum*fnvPrime ^ n) * fnvPrime
		sum ^= sum >> 29
	}
	spread := float64(sum>>32) / (1 << 32)
	return c.own(now.Add(latency + time.Duration(sum%uint64(latency)) + s.Late(spread, sum&(1<<31) != 0)))
}

// withoutScripts is what a request has before the first text of a script: each new word
// in one would be another run of every seed. What begins in the middle of a command is the
// rest of such a text.
func withoutScripts(data []byte) []byte {
	if len(data) > 0 && data[0] != '*' {
		return nil
	}
	if i := bytes.Index(bytes.ToLower(data[:min(len(data), 64)]), []byte("script\r\n$4\r\nload\r\n")); i >= 0 {
		return data[:i]
	}
	return data
}

// letters is what a message of redlock's has beside random values, which are hexadecimal,
// or follow from the seed: in any order, since a hash's fields have none.
func letters(data []byte) uint64 {
	sum := uint64(len(data))
	for _, b := range data {
		if b > 'f' || b == '$' || b == '*' {
			sum += uint64(b) * uint64(b)
		}
	}
	return sum
}

// shape is what a message has beside what its words say: how long they are.
func shape(data []byte) uint64 {
	sum := uint64(len(data))
	for len(data) > 0 {
		line, rest, _ := bytes.Cut(data, []byte("\r\n"))
		length := len(line)
		if n, err := strconv.Atoi(string(bytes.TrimPrefix(line, []byte("$")))); err == nil && length > 0 && line[0] == '$' && n >= 0 {
			length, rest = n+1, rest[min(n+2, len(rest)):]
		}
		sum += uint64(length) * uint64(length)
		data = rest
	}
	return sum
}

// The ways of a message, for its latency.
const (
	requesting uint64 = iota
	replying
)

// fnvPrime is that of FNV-1a, 64 bits.
const fnvPrime = 1099511628211

// Write hands data to the link, which has room for all of it.
func (c *conn) Write(data []byte) (int, error) {
	l := c.link
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	switch {
	case c.broken:
		return 0, errReset
	case c.done:
		return 0, net.ErrClosed
	case !c.write.IsZero() && !now.Before(c.write):
		return 0, os.ErrDeadlineExceeded
	case l.is.Requests.Mode == Drop, c.severed:
		return len(data), nil
	}
	due := c.due(l.is.Requests, requesting, data)
	if greets(data) && l.is.Requests == (State{}) && l.is.Replies == (State{}) {
		c.inbox = append(c.inbox, segment{data: c.session.Feed(c.room(), data), due: now})
		return len(data), nil
	}
	if n := len(c.queue); n > 0 && due.Before(c.queue[n-1].due) {
		due = c.queue[n-1].due // one connection keeps its order
	}
	c.queue = append(c.queue, segment{data: append(c.room(), data...), due: due})
	c.arm()
	return len(data), nil
}

// greets tells whether data are go-redis's first words on a connection.
func greets(data []byte) bool { return bytes.HasPrefix(data, []byte("*2\r\n$5\r\nhello")) }

// room is a buffer for a segment; link.mu is held, here and in all that follows.
func (c *conn) room() []byte {
	n := len(c.spare)
	if n == 0 {
		return nil
	}
	buf := c.spare[n-1]
	c.spare = c.spare[:n-1]
	return buf[:0]
}

// shift removes the first segment.
func (c *conn) shift(from *[]segment) {
	if q := *from; len(c.spare) < spareSegments {
		c.spare = append(c.spare, q[0].data)
	}
	*from = slices.Delete(*from, 0, 1)
}

// arm sets the timer to the next thing that is due.
func (c *conn) arm() {
	var next time.Time
	sooner := func(t time.Time) {
		if !t.IsZero() && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	if len(c.queue) > 0 && c.link.is.Requests.Mode != Hold {
		sooner(c.queue[0].due)
	}
	if len(c.twice) > 0 {
		sooner(c.twice[0].due)
	}
	if c.waiting {
		sooner(c.read)
		switch {
		case c.link.is.Replies.Mode != Flow:
		case len(c.inbox) > 0:
			sooner(c.inbox[0].due)
		case c.end != nil:
			sooner(c.endDue)
		}
	}
	if next.IsZero() || next.Equal(c.set) {
		return
	}
	c.set = next
	if wait := max(time.Until(next), 0); c.timer == nil {
		c.timer = time.AfterFunc(wait, c.tick)
	} else {
		c.timer.Reset(wait)
	}
}

// postpone gives what waits a new latency from now, in its order.
func (c *conn) postpone() {
	later := func(segments []segment, due time.Time) {
		for i := range segments {
			if segments[i].due.Before(due) {
				segments[i].due = due
			}
		}
	}
	later(c.inbox, c.due(c.link.is.Replies, replying, nil))
	if len(c.queue) > 0 {
		later(c.queue, c.due(c.link.is.Requests, requesting, c.queue[0].data))
	}
	c.arm()
}

// tick does what is due.
func (c *conn) tick() {
	l := c.link
	l.mu.Lock()
	defer l.mu.Unlock()
	c.set = time.Time{}
	now := time.Now()
	c.deliver(now)
	c.deliverTwice(now)
	if c.done && len(c.queue)+len(c.twice) == 0 {
		c.leave()
	}
	if c.waiting && c.readable(now) {
		c.wake()
	}
	c.arm()
}

// deliver makes the node execute what has arrived there. All replies that set out
// at one moment have one latency, so that a reader finds them together.
func (c *conn) deliver(now time.Time) {
	var replies []byte
	for len(c.queue) > 0 && c.link.is.Requests.Mode != Hold && !now.Before(c.queue[0].due) {
		if c.link.is.Requests.Mode == Flow {
			if replies == nil {
				replies = c.room()
			}
			replies = c.session.Feed(replies, c.queue[0].data) // a node that is gone gets nothing
			c.again(c.queue[0].data)
		}
		c.shift(&c.queue)
	}
	if len(replies) == 0 || c.link.is.Replies.Mode == Drop {
		return
	}
	c.answer(replies, nil)
}

// answer has data set out to the client, as a message of that content; nil: of
// none.
func (c *conn) answer(data, content []byte) {
	due := c.due(c.link.is.Replies, replying, content)
	if k := len(c.inbox); k > 0 && due.Before(c.inbox[k-1].due) {
		due = c.inbox[k-1].due
	}
	c.inbox = append(c.inbox, segment{data: data, due: due})
}

// pushed takes a message that the node sends by itself, on its way as any reply
// is. The node, and perhaps another link, is in the middle of a command.
func (c *conn) pushed(data []byte) {
	c.pushing.Lock()
	defer c.pushing.Unlock()
	c.pushes = append(c.pushes, data)
	time.AfterFunc(latency/2, c.push)
}

// push sends the first of these messages: of several that are due at one
// instant any timer may be first.
func (c *conn) push() {
	c.link.mu.Lock()
	defer c.link.mu.Unlock()
	c.pushing.Lock()
	data := c.pushes[0]
	c.pushes = c.pushes[1:]
	c.pushing.Unlock()
	if c.link.is.Replies.Mode == Drop || c.link.is.Replies.Mute || c.broken || c.severed || c.done {
		return
	}
	c.answer(data, data)
	c.arm()
}

// hungUp is told that the node's process has ended. The news takes as long as a
// reply, and does not come while replies are held or lost.
func (c *conn) hungUp() {
	c.link.mu.Lock()
	defer c.link.mu.Unlock()
	c.end, c.endDue = io.EOF, c.due(c.link.is.Replies, replying, nil)
	if k := len(c.inbox); k > 0 && c.endDue.Before(c.inbox[k-1].due) {
		c.endDue = c.inbox[k-1].due
	}
	c.arm()
}

// readable tells whether a reader finds something, be it an error.
func (c *conn) readable(now time.Time) bool {
	due := func(t time.Time) bool { return !t.IsZero() && !now.Before(t) }
	switch {
	case c.broken, c.done, due(c.read):
		return true
	case c.link.is.Replies.Mode != Flow:
		return false
	case len(c.inbox) > 0:
		return due(c.inbox[0].due)
	}
	return c.end != nil && due(c.endDue)
}

// wake makes a reader look again.
func (c *conn) wake() {
	c.waiting = false
	select {
	case c.arrived <- struct{}{}:
	default:
	}
}

// Read returns what has arrived.
func (c *conn) Read(p []byte) (int, error) {
	for {
		if n, err := c.take(p); n > 0 || err != nil || len(p) == 0 {
			return n, err
		}
		<-c.arrived
	}
}

// take moves what is due to p; else the reader has to wait until it is woken.
func (c *conn) take(p []byte) (n int, err error) {
	l := c.link
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	switch {
	case c.broken:
		c.wake() // the next one, if there is one
		return 0, errReset
	case c.done:
		c.wake()
		return 0, net.ErrClosed
	case !c.read.IsZero() && !now.Before(c.read):
		return 0, os.ErrDeadlineExceeded
	case !c.readable(now):
		c.waiting = true
		c.arm()
		return 0, nil
	case len(c.inbox) == 0:
		return 0, c.end
	}
	for n < len(p) && len(c.inbox) > 0 && !now.Before(c.inbox[0].due) {
		first := &c.inbox[0]
		k := copy(p[n:], first.data[first.read:])
		n += k
		if first.read += k; first.read == len(first.data) {
			c.shift(&c.inbox)
		}
	}
	return n, nil
}

// Close ends the client's end.
func (c *conn) Close() error {
	l := c.link
	l.mu.Lock()
	defer l.mu.Unlock()
	c.done = true
	c.wake()
	if len(c.queue)+len(c.twice) == 0 {
		c.leave()
	}
	return nil
}

// leave ends the node's end.
func (c *conn) leave() {
	c.session.Close()
	if i := slices.Index(c.link.conns, c); i >= 0 {
		c.link.conns = slices.Delete(c.link.conns, i, i+1)
	}
}

func (c *conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

func (c *conn) SetReadDeadline(t time.Time) error {
	c.link.mu.Lock()
	defer c.link.mu.Unlock()
	if c.read = t; !t.IsZero() {
		c.read = c.own(t)
	}
	if c.waiting {
		c.arm()
	}
	return nil
}

func (c *conn) SetWriteDeadline(t time.Time) error {
	c.link.mu.Lock()
	defer c.link.mu.Unlock()
	c.write = t
	return nil
}

// address is an end's address.
type address struct{}

func (address) Network() string { return network }
func (address) String() string  { return "in memory" }

func (c *conn) LocalAddr() net.Addr  { return address{} }
func (c *conn) RemoteAddr() net.Addr { return address{} }

// SyscallConn lets go-redis see that an idle connection of its pool is dead, as
// it sees it of a socket.
func (c *conn) SyscallConn() (syscall.RawConn, error) {
	c.link.mu.Lock()
	defer c.link.mu.Unlock()
	if c.broken || len(c.inbox) > 0 || c.end != nil && !time.Now().Before(c.endDue) {
		return nil, io.EOF
	}
	return socket{}, nil
}

// socket is a socket with nothing to see.
type socket struct{}

func (socket) Control(func(fd uintptr)) error    { return errors.ErrUnsupported }
func (socket) Read(func(fd uintptr) bool) error  { return nil }
func (socket) Write(func(fd uintptr) bool) error { return errors.ErrUnsupported }
