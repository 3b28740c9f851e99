// Package tcpproxy stands between a client and a server: it delays, loses and holds back what
// they say, and heals on the very connections that it broke.
package tcpproxy

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/quorumkit/redlock/internal/lab/simnet"
	"github.com/quorumkit/redlock/internal/testkit/loopback"
)

// A proxy of our own, since Toxiproxy brings 17 modules into what imports it. Nor can it
// heal a partition on the same connections, or lose a reply after its effect, which
// matters most to a lock: the command ran, and the client does not know.

// Direction is a way through a [Proxy].
type Direction int

// The directions. Both is two faults, one each way.
const (
	Requests Direction = 1 << iota // from the client to the server
	Replies                        // from the server to the client
	Both     = Requests | Replies
)

// dialFor bounds the dial of the target: a client waits for it unknowingly.
const dialFor = time.Second

// Proxy is a TCP proxy on loopback in front of one server. It starts out
// transparent; faults hold for the connections that there are and for new
// ones, until another fault of the same kind or [Proxy.Heal] replaces them.
//
// What it can't imitate by itself: a server that refuses connections. While the
// target is down, the proxy accepts and resets; use [Proxy.Refuse] along with it.
//
// Its methods may be called from several goroutines at once.
type Proxy struct {
	addr    string
	port    int
	running sync.WaitGroup // the accept loop and all connections
	over    chan struct{}  // closed when it is

	mu       sync.Mutex // guards the rest
	target   string
	closed   bool
	listener net.Listener // nil while refusing
	requests simnet.State
	replies  simnet.State
	changed  chan struct{} // closed and replaced when a state changes
	relays   map[*relay]struct{}
	answered func(args [][]byte) // is told what the server answers to new connections; nil: nobody is
}

// New starts a proxy in front of the server at target, a host:port. It
// does not need the server to be up. The caller closes it.
func New(target string) (*Proxy, error) {
	l, err := loopback.Listen()
	if err != nil {
		return nil, fmt.Errorf("chaos: proxy of %s: %w", target, err)
	}
	loopback.Keep(loopback.PortOf(l)) // it comes back to it after Refuse
	p := &Proxy{
		target:  target,
		addr:    l.Addr().String(),
		port:    loopback.PortOf(l),
		over:    make(chan struct{}),
		changed: make(chan struct{}),
		relays:  map[*relay]struct{}{},
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.serveLocked(l)
	return p, nil
}

// serveLocked takes connections from l until it is closed.
func (p *Proxy) serveLocked(l net.Listener) {
	p.listener = l
	p.running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			if tcp, ok := c.(*net.TCPConn); ok {
				p.running.Go(func() { p.carry(tcp) })
			}
		}
	})
}

// carry relays one connection until it is over.
func (p *Proxy) carry(client *net.TCPConn) {
	p.mu.Lock()
	target, answered := p.target, p.answered
	p.mu.Unlock()
	dialer := net.Dialer{Timeout: dialFor}
	c, err := dialer.DialContext(context.Background(), "tcp", target)
	server, ok := c.(*net.TCPConn)
	if err != nil || !ok {
		reset(client)
		return
	}
	r := newRelay(p, client, server)
	if answered != nil {
		r.recorder = &recorder{answered: answered}
	}
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		r.die()
		return
	}
	p.relays[r] = struct{}{}
	p.mu.Unlock()
	r.run()
	p.mu.Lock()
	delete(p.relays, r)
	p.mu.Unlock()
}

// again delivers what the server there was delivered a second time: now, and then the
// connection's next message waits for that, or later.
func (p *Proxy) again(data []byte, server string, later time.Duration) {
	if later == 0 {
		p.repeat(data, server)
		return
	}
	p.running.Go(func() {
		select {
		case <-time.After(later):
			p.repeat(data, server)
		case <-p.over:
		}
	})
}

// repeat sends commands to the server there, on a connection of its own whose replies
// nobody gets, and returns when they are answered.
func (p *Proxy) repeat(data []byte, server string) {
	p.mu.Lock()
	listens := &recorder{answered: p.answered}
	p.mu.Unlock()
	if listens.answered == nil {
		listens.answered = func([][]byte) {}
	}
	dialer := net.Dialer{Timeout: dialFor}
	c, err := dialer.DialContext(context.Background(), "tcp", server)
	if err != nil {
		return
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(dialFor)) // a server that is stopped has them, and runs them
	listens.sent(data)
	_, err = c.Write(data)
	for buf := make([]byte, 4<<10); err == nil && !listens.idle(); {
		var n int
		n, err = c.Read(buf)
		listens.came(buf[:n])
	}
}

// Addr returns the host:port that clients connect to.
func (p *Proxy) Addr() string { return p.addr }

// Delay makes everything in the direction arrive later by d. It limits no
// throughput: as on a long line, any number of messages may be under way.
func (p *Proxy) Delay(dir Direction, d time.Duration) {
	p.change(dir, func(s *simnet.State) { s.Delay = d })
}

// Jitter adds to the delay a random time of up to d, another one for each
// message. Within a connection the order is kept, as TCP keeps it.
func (p *Proxy) Jitter(dir Direction, d time.Duration) {
	p.change(dir, func(s *simnet.State) { s.Jitter = d })
}

// Hold keeps back everything in the direction, the end of a connection
// included, as a partition does that TCP survives: on [Proxy.Heal] it arrives,
// in order, on the same connections. That holds for a connection that its
// client has given up and closed, too: its commands are executed late.
//
// A direction that takes more than 4 MiB a connection blocks its sender.
func (p *Proxy) Hold(dir Direction) {
	p.change(dir, func(s *simnet.State) { s.Mode = simnet.Hold })
}

// Drop loses everything in the direction for good. Dropped replies are replies
// lost after the effect; dropped requests never happen. The connection stays
// open. It serves again after [Proxy.Heal] unless half a command was lost, for
// which a client must give it up after the timeout it gets, as go-redis does.
func (p *Proxy) Drop(dir Direction) {
	p.change(dir, func(s *simnet.State) { s.Mode = simnet.Drop })
}

// change applies f to each direction that dir has.
func (p *Proxy) change(dir Direction, f func(*simnet.State)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if dir&Requests != 0 {
		f(&p.requests)
	}
	if dir&Replies != 0 {
		f(&p.replies)
	}
	p.notifyLocked()
}

// notifyLocked wakes all that wait for the state to change.
func (p *Proxy) notifyLocked() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// state returns the state of one direction, and what is closed when it
// changes.
func (p *Proxy) state(dir Direction) (simnet.State, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if dir == Requests {
		return p.requests, p.changed
	}
	return p.replies, p.changed
}

// Reset breaks all connections that there are, at both ends, by a TCP reset;
// what they held is lost. New ones are accepted. It waits until they are gone.
func (p *Proxy) Reset() {
	for _, r := range p.current() {
		r.die()
		<-r.over
	}
}

// HalfOpen resets the server's end of all connections that there are and lets
// the client's end stay as it is: open, taking everything, and silent, as when
// a machine has lost its power. New connections work.
func (p *Proxy) HalfOpen() {
	for _, r := range p.current() {
		r.sever()
	}
}

func (p *Proxy) current() []*relay {
	p.mu.Lock()
	defer p.mu.Unlock()
	relays := make([]*relay, 0, len(p.relays))
	for r := range p.relays {
		relays = append(relays, r)
	}
	return relays
}

// Refuse lets no new connection in; those that there are go on.
func (p *Proxy) Refuse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != nil {
		_ = p.listener.Close()
		p.listener = nil
	}
}

// Heal ends all faults: nothing is delayed, lost or refused any more, and what
// was held or delayed arrives now. Connections that were broken stay broken.
// It fails only if the proxy was refusing and another process has taken its
// port; all else is healed then.
func (p *Proxy) Heal() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests, p.replies = simnet.State{}, simnet.State{}
	p.notifyLocked()
	return p.relistenLocked()
}

// relistenLocked ends [Proxy.Refuse].
func (p *Proxy) relistenLocked() error {
	if p.listener != nil || p.closed {
		return nil
	}
	l, err := loopback.Relisten(p.addr)
	if err != nil {
		return fmt.Errorf("chaos: healing the proxy of %s: %w", p.target, err)
	}
	p.serveLocked(l)
	return nil
}

// Aim leads new connections to the server at target, as after a virtual IP has
// moved to another machine; those that there are go on: see [Proxy.Reset].
func (p *Proxy) Aim(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
}

// Admit lets new connections in again, to the server at target, as after an
// address has moved from one machine to another; all other faults stand.
func (p *Proxy) Admit(target string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
	return p.relistenLocked()
}

// Record calls f with every command that the server answers without an error, on
// connections that are new from now on.
func (p *Proxy) Record(f func(args [][]byte)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answered = f
}

// Set sets the state of both directions.
func (p *Proxy) Set(requests, replies simnet.State) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests, p.replies = requests, replies
	p.notifyLocked()
}

// Close breaks all connections and ends the proxy. It waits until its
// goroutines have ended, and may be called more than once.
func (p *Proxy) Close() {
	p.Refuse()
	p.mu.Lock()
	if !p.closed {
		close(p.over)
	}
	p.closed = true
	p.mu.Unlock()
	for _, r := range p.current() {
		r.die()
	}
	p.running.Wait()
	loopback.Drop(p.port)
}

// reset closes a connection so that its other end gets a reset, at once.
func reset(c *net.TCPConn) {
	_ = c.SetLinger(0)
	_ = c.Close()
}
