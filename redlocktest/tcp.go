package redlocktest

import (
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/quorumkit/redlock/internal/testkit/loopback"
)

// rebindFor bounds the attempts to get back the port of a stopped node.
const rebindFor = 2 * time.Second

// tcpFront carries connections of a loopback port to the node's connections in
// memory, so that a hang or a stop looks the same by both ways.
type tcpFront struct {
	node *Node
	addr string

	mu       sync.Mutex // guards all below
	listener net.Listener
	open     map[net.Conn]struct{}
	running  sync.WaitGroup
}

func newTCPFront(n *Node) (*tcpFront, error) {
	l, err := loopback.Listen()
	if err != nil {
		return nil, err
	}
	return &tcpFront{node: n, addr: l.Addr().String(), listener: l, open: map[net.Conn]struct{}{}}, nil
}

// start listens again after stop and wait.
func (f *tcpFront) start() error {
	var last error
	for deadline := time.Now().Add(rebindFor); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		l, err := loopback.Relisten(f.addr)
		if err == nil {
			f.mu.Lock()
			f.listener = l
			f.mu.Unlock()
			f.serve()
			return nil
		}
		last = err
	}
	return fmt.Errorf("the port was taken while the node was down: %w", last)
}

// serve takes connections from the listener until it is closed.
func (f *tcpFront) serve() {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := f.listener
	f.running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			f.running.Go(func() { f.carry(c) })
		}
	})
}

// carry connects c to the node and copies until either side ends.
func (f *tcpFront) carry(c net.Conn) {
	defer c.Close()
	if !f.admit(c) {
		return
	}
	defer f.dismiss(c)
	inner, err := f.node.dial(nil) // ends when the node stops
	if err != nil {
		return
	}
	var requests sync.WaitGroup
	requests.Go(func() {
		_, _ = io.Copy(inner, c)
		_ = inner.Close() // ends the copy below
	})
	_, _ = io.Copy(c, inner)
	_ = c.Close() // ends the copy above
	requests.Wait()
}

// admit reports false when the front was stopped after c was accepted.
func (f *tcpFront) admit(c net.Conn) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.listener == nil {
		return false
	}
	f.open[c] = struct{}{}
	return true
}

func (f *tcpFront) dismiss(c net.Conn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.open, c)
}

// stop refuses and resets connections; wait must follow.
func (f *tcpFront) stop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.listener != nil {
		_ = f.listener.Close()
		f.listener = nil
	}
	for c := range f.open {
		if t, ok := c.(*net.TCPConn); ok {
			_ = t.SetLinger(0) // a reset, as of a process that was killed
		}
		_ = c.Close()
	}
}

// wait returns when all goroutines have ended.
func (f *tcpFront) wait() { f.running.Wait() }

// Addr returns the node's host and port. It panics unless the cluster was
// started [WithTCP].
func (n *Node) Addr() string {
	if n.tcp == nil {
		panic("redlocktest: Addr of a node without WithTCP")
	}
	return n.tcp.addr
}
