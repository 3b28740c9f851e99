package main

import (
	"context"
	"net"
	"sync/atomic"
)

// dial is how go-redis connects.
type dial func(ctx context.Context, network, addr string) (net.Conn, error)

// stallable makes connections that fall silent while the gate is shut: what is
// written is lost, as it is to a node that hangs, and the reader waits.
func stallable(base dial, gate *atomic.Bool) dial {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := base(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return stalledConn{c, gate}, nil
	}
}

// stalledConn is a connection that may fall silent.
type stalledConn struct {
	net.Conn

	gate *atomic.Bool
}

// Write sends p, or loses it.
func (c stalledConn) Write(p []byte) (int, error) {
	if c.gate.Load() {
		return len(p), nil
	}
	return c.Conn.Write(p)
}
