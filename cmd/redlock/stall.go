package main

import (
	"context"
	"net"
	"sync"
)

// dial is how go-redis connects.
type dial func(ctx context.Context, network, addr string) (net.Conn, error)

// stall makes a node's connections fall silent while it lasts: what is written is lost,
// as it is to a node that hangs, and the reader waits.
type stall struct {
	mu    sync.Mutex
	lasts bool
	owed  map[net.Conn]struct{} // those that lost something, on which no reply will come
}

// begin has what is written be lost from now on.
func (s *stall) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lasts, s.owed = true, make(map[net.Conn]struct{})
}

// end closes the connections that lost something: nobody waits for a timeout on them.
func (s *stall) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lasts = false
	for c := range s.owed {
		_ = c.Close()
	}
	s.owed = nil
}

// loses tells whether what is written to c now is lost.
func (s *stall) loses(c net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lasts {
		s.owed[c] = struct{}{}
	}
	return s.lasts
}

// of has connections be subject to the stall.
func (s *stall) of(base dial) dial {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := base(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return stalledConn{c, s}, nil
	}
}

// stalledConn is a connection that may fall silent.
type stalledConn struct {
	net.Conn

	stall *stall
}

// Write sends p, or loses it.
func (c stalledConn) Write(p []byte) (int, error) {
	if c.stall.loses(c.Conn) {
		return len(p), nil
	}
	return c.Conn.Write(p)
}
