// Package loopback finds TCP ports on 127.0.0.1 that a server can come back to.
package loopback

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
)

// The range lies below the ports that Linux (32768), macOS and Windows (49152)
// give to outgoing connections. A port from ":0" comes out of that pool, so
// while its server is down any client's connection may sit on it, and the
// server can't return to its address.
const (
	firstPort = 15000
	lastPort  = 31999
	block     = 500 // ports that a process has to itself, but for the first, on which it listens
	attempts  = 2 * block
)

// Listen returns a TCP listener on 127.0.0.1 on a free port that no outgoing
// connection of this machine will take while the listener is closed for a
// moment, nor Listen in another process, as long as there are not many. Any other
// server may: one who closes the listener to hand the port to a child process must
// be ready to try again with another port.
func Listen() (net.Listener, error) {
	last := errors.New("all are kept")
	for range attempts {
		port := own.next()
		if kept.has(port) {
			continue
		}
		l, err := ListenPort(port)
		if err == nil {
			return l, nil
		}
		last = err
	}
	return nil, fmt.Errorf("loopback: no free port from %d to %d: %w", firstPort, lastPort, last)
}

// ports are those of this process, from the first time that it needs one until it ends.
type ports struct {
	mu    sync.Mutex // guards the rest
	claim net.Listener
	first int // zero if none was asked for yet
	given int // so far
}

var own ports

// next is the port of this process that was given least lately: who still knows its last
// server must not meet the next one. Where all blocks are taken, it is any port.
func (p *ports) next() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.first == 0 {
		p.take()
	}
	if p.claim == nil {
		return firstPort + rand.IntN(lastPort-firstPort+1)
	}
	p.given++
	return p.first + 1 + p.given%(block-1)
}

// take takes a block of ports that no other process has, if there is one.
func (p *ports) take() {
	const blocks = (lastPort - firstPort + 1) / block
	for _, i := range rand.Perm(blocks) {
		p.first = firstPort + i*block
		if l, err := ListenPort(p.first); err == nil {
			p.claim = l
			return
		}
	}
}

// ListenPort returns a TCP listener on that port of 127.0.0.1: to come back to
// one that [Listen] gave.
func ListenPort(port int) (net.Listener, error) {
	return net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
}

// Relisten returns a TCP listener on the address of an earlier one.
func Relisten(addr string) (net.Listener, error) {
	tcp, err := net.ResolveTCPAddr("tcp4", addr)
	if err != nil {
		return nil, err
	}
	return ListenPort(tcp.Port)
}

// Port returns a port that was free a moment ago; see [Listen] for the race
// that remains.
func Port() (int, error) {
	l, err := Listen()
	if err != nil {
		return 0, err
	}
	addr, ok := l.Addr().(*net.TCPAddr)
	if !ok {
		return 0, errors.Join(fmt.Errorf("loopback: %s is no TCP address", l.Addr()), l.Close())
	}
	return addr.Port, l.Close()
}

// keeper is a set of ports.
type keeper struct {
	mu    sync.Mutex // guards ports
	ports map[int]bool
}

// kept are the ports of servers that may be down at times.
var kept = keeper{ports: map[int]bool{}}

func (k *keeper) has(port int) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.ports[port]
}

// Keep has [Listen] and [Port] not give the port to anybody else in this process,
// while its server is down, until [Drop]. Other processes have other ports.
func Keep(port int) {
	kept.mu.Lock()
	defer kept.mu.Unlock()
	kept.ports[port] = true
}

// Drop ends [Keep].
func Drop(port int) {
	kept.mu.Lock()
	defer kept.mu.Unlock()
	delete(kept.ports, port)
}

// PortOf returns the port of a listener that [Listen] gave.
func PortOf(l net.Listener) int {
	if addr, ok := l.Addr().(*net.TCPAddr); ok {
		return addr.Port
	}
	return 0
}
