package chaos

import (
	"context"
	"net"
	"syscall"

	"github.com/redis/go-redis/v9"
)

// ears are what is told of a client's connections: what they send, and what comes from
// the node of that index; nil: nothing.
type ears struct {
	sent func(data []byte)
	came func(node int, data []byte)
}

// overhear tells of all that these clients' connections carry from now on.
// Not by a hook of go-redis: a client's WithTimeout leaves hooks behind, and redlock
// uses that.
func overhear(nodes []redis.UniversalClient, to ears) {
	for i, node := range nodes {
		c, ok := node.(*redis.Client)
		if !ok || c.Options().Dialer == nil {
			continue
		}
		opts := c.Options()
		dial := opts.Dialer
		opts.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := dial(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			wrapped := &heardConn{conn, i, to}
			if raw, ok := conn.(syscall.Conn); ok {
				return &heardSocket{wrapped, raw}, nil
			}
			return wrapped, nil
		}
	}
}

// heardConn is a connection that somebody listens to.
type heardConn struct {
	net.Conn

	node int
	to   ears
}

// Write is [net.Conn]'s.
func (c *heardConn) Write(b []byte) (int, error) {
	if c.to.sent != nil {
		c.to.sent(b)
	}
	return c.Conn.Write(b)
}

// Read is [net.Conn]'s.
func (c *heardConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 && c.to.came != nil {
		c.to.came(c.node, b[:n])
	}
	return n, err
}

// heardSocket is one over a socket: go-redis looks there whether it still lives.
type heardSocket struct {
	*heardConn

	raw syscall.Conn
}

// SyscallConn is [syscall.Conn]'s.
func (s *heardSocket) SyscallConn() (syscall.RawConn, error) { return s.raw.SyscallConn() }
