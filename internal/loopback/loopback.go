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
	attempts  = 100
)

// Listen returns a TCP listener on 127.0.0.1 on a free port that no outgoing
// connection of this machine will take while the listener is closed for a
// moment. Another server may: one who closes the listener to hand the port to
// a child process must be ready to try again with another port.
func Listen() (net.Listener, error) {
	last := errors.New("all are kept")
	for range attempts {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
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

// kept are the ports of servers of this process that may be down at times.
var kept = keeper{ports: map[int]bool{}}

func (k *keeper) has(port int) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.ports[port]
}

// Keep has [Listen] and [Port] not give the port to anybody else in this process,
// while its server is down, until [Drop]. Other processes do not know.
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
