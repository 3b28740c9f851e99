package chaos

import (
	"context"
	"net"
	"syscall"

	"github.com/redis/go-redis/v9"
)

// overhear calls heard with all that these clients' connections send from now on.
// Not by a hook of go-redis: a client's WithTimeout leaves hooks behind, and redlock
// uses that.
func overhear(nodes []redis.UniversalClient, heard func(sent []byte)) {
	for _, node := range nodes {
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
			wrapped := &heardConn{conn, heard}
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

	heard func(sent []byte)
}

// Write is [net.Conn]'s.
func (c *heardConn) Write(b []byte) (int, error) {
	c.heard(b)
	return c.Conn.Write(b)
}

// heardSocket is one over a socket: go-redis looks there whether it still lives.
type heardSocket struct {
	*heardConn

	raw syscall.Conn
}

// SyscallConn is [syscall.Conn]'s.
func (s *heardSocket) SyscallConn() (syscall.RawConn, error) { return s.raw.SyscallConn() }
