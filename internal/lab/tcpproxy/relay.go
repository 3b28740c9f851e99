package tcpproxy

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/quorumkit/redlock/internal/lab/simnet"
)

// laneLimit is how many bytes one direction of one connection holds.
const laneLimit = 4 << 20

// relay is one connection through a proxy.
type relay struct {
	client, server *net.TCPConn
	recorder       *recorder // nil: nobody listens
	requests       *lane
	replies        *lane
	dying          sync.Once
	dead           chan struct{} // closed when both sockets are
	over           chan struct{} // closed when all goroutines have ended
	severing       sync.Once
	severed        chan struct{} // closed when the server's end is gone, unknown to the client
}

func newRelay(p *Proxy, client, server *net.TCPConn) *relay {
	r := &relay{
		client:  client,
		server:  server,
		dead:    make(chan struct{}),
		over:    make(chan struct{}),
		severed: make(chan struct{}),
	}
	r.requests = newLane(p, r, Requests, client, server)
	r.replies = newLane(p, r, Replies, server, client)
	return r
}

// run relays until both directions have ended, or the relay died.
func (r *relay) run() {
	defer close(r.over)
	var pulls, feeds sync.WaitGroup
	for _, l := range []*lane{r.requests, r.replies} {
		pulls.Go(l.pull)
		feeds.Go(l.feed)
	}
	feeds.Wait()
	r.die()
	pulls.Wait()
}

// die resets both ends.
func (r *relay) die() {
	r.dying.Do(func() {
		reset(r.client)
		reset(r.server)
		close(r.dead)
	})
}

// sever resets the server's end only.
func (r *relay) sever() {
	r.severing.Do(func() {
		close(r.severed)
		reset(r.server)
	})
}

func (r *relay) isSevered() bool {
	select {
	case <-r.severed:
		return true
	default:
		return false
	}
}

// message is what one read gave: bytes, or the end.
type message struct {
	data   []byte
	end    error // io.EOF, or why the connection broke
	at     time.Time
	spread float64 // its share of the jitter
	odd    bool    // one of those that an uneven line makes late
}

// lane is one direction of a relay. Reading and writing are apart, so that a
// delay holds up messages and not the reading of further ones.
type lane struct {
	proxy    *Proxy
	relay    *relay
	dir      Direction
	src, dst *net.TCPConn

	copies simnet.Copies // of feed's own

	mu    sync.Mutex // guards queue and size
	queue []message
	size  int
	more  chan struct{} // room for one: something was queued
	room  chan struct{} // room for one: something was taken
}

func newLane(p *Proxy, r *relay, dir Direction, src, dst *net.TCPConn) *lane {
	return &lane{
		proxy: p, relay: r, dir: dir, src: src, dst: dst,
		more: make(chan struct{}, 1), room: make(chan struct{}, 1),
	}
}

// pull reads until the source ends.
func (l *lane) pull() {
	buf := make([]byte, 32<<10)
	for {
		n, err := l.src.Read(buf)
		if l.dir == Replies && l.relay.recorder != nil {
			l.relay.recorder.came(buf[:n])
		}
		if n > 0 && !l.push(message{data: append([]byte(nil), buf[:n]...), at: time.Now(), spread: rand.Float64(), odd: rand.N(2) == 0}) {
			return
		}
		if err != nil {
			l.push(message{end: err, at: time.Now()})
			return
		}
	}
}

// push reports false when the relay died meanwhile.
func (l *lane) push(m message) bool {
	for {
		l.mu.Lock()
		fits := l.size < laneLimit
		if fits {
			l.queue = append(l.queue, m)
			l.size += len(m.data)
		}
		l.mu.Unlock()
		if fits {
			select {
			case l.more <- struct{}{}:
			default:
			}
			return true
		}
		select {
		case <-l.room:
		case <-l.relay.dead:
			return false
		}
	}
}

// pop waits for the next message; it reports false when the relay died.
func (l *lane) pop() (message, bool) {
	for {
		l.mu.Lock()
		if len(l.queue) > 0 {
			m := l.queue[0]
			l.queue = l.queue[1:]
			l.size -= len(m.data)
			l.mu.Unlock()
			select {
			case l.room <- struct{}{}:
			default:
			}
			return m, true
		}
		l.mu.Unlock()
		select {
		case <-l.more:
		case <-l.relay.dead:
			return message{}, false
		}
	}
}

// feed delivers each message in its time, until the end of the direction.
func (l *lane) feed() {
	for {
		m, ok := l.pop()
		if !ok {
			return
		}
		lost, ok := l.await(m)
		switch {
		case !ok:
			return
		case m.end != nil:
			l.finish(m.end)
			return
		case lost || l.relay.isSevered():
			continue
		}
		if l.dir == Requests && l.relay.recorder != nil {
			l.relay.recorder.sent(m.data)
		}
		s, _ := l.proxy.state(l.dir) // as it is before the server answers: that may be told, and the state change
		if _, err := l.dst.Write(m.data); err != nil && !l.relay.isSevered() {
			l.relay.die()
			return
		}
		l.again(m.data, s)
	}
}

// again delivers what the server was delivered a second time, where that is the state.
func (l *lane) again(data []byte, s simnet.State) {
	if !s.Twice {
		l.copies = simnet.Copies{}
	} else if data = l.copies.Of(data); data != nil {
		l.proxy.again(data, l.dst.RemoteAddr().String(), s.Later)
	}
}

// await returns when the message is due, by the state as it then is, or is
// lost. The end of a connection is held where bytes are dropped: a partition
// does not tell of it either. It reports false when the relay died.
func (l *lane) await(m message) (lost, ok bool) {
	for {
		s, changed := l.proxy.state(l.dir)
		var due <-chan time.Time
		switch {
		case s.Mode == simnet.Drop && m.end == nil, s.Mute && calls(m.data):
			return true, true
		case s.Mode == simnet.Flow:
			wait := s.Late(m.spread, m.odd) - time.Since(m.at)
			if wait <= 0 {
				return false, true
			}
			timer := time.NewTimer(wait)
			defer timer.Stop() // few: one more only when the state changes
			due = timer.C
		}
		select {
		case <-due:
			return false, true
		case <-changed:
		case <-l.relay.dead:
			return false, false
		}
	}
}

// calls tells whether data are what a server says unasked, to a subscriber: such a
// connection carries little else.
func calls(data []byte) bool {
	return bytes.HasPrefix(data, []byte("*3\r\n$7\r\nmessage\r\n")) || bytes.HasPrefix(data, []byte(">3\r\n$7\r\nmessage\r\n"))
}

// finish hands on the end of a direction.
func (l *lane) finish(end error) {
	switch {
	case l.relay.isSevered() && l.dir == Replies:
		<-l.relay.dead // the client is not told
	case l.relay.isSevered(), !errors.Is(end, io.EOF):
		l.relay.die()
	default:
		_ = l.dst.CloseWrite()
	}
}
