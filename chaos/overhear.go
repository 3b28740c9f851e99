package chaos

import (
	"bytes"
	"context"
	"net"
	"syscall"

	"github.com/redis/go-redis/v9"
)

// shortestOwner is the length from which on an argument may be an owner value:
// what is shorter would not be random enough.
const shortestOwner = 16

// overhear has the witness, if there is one, note what a client's connections
// send from now on. Not by a hook of go-redis: a client's WithTimeout leaves
// hooks behind, and redlock uses that.
func (w *witness) overhear(client string, nodes []redis.UniversalClient) {
	if w == nil {
		return
	}
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
			heard := &heardConn{conn, w, client}
			if raw, ok := conn.(syscall.Conn); ok {
				return &heardSocket{heard, raw}, nil
			}
			return heard, nil
		}
	}
}

// heard notes what a client sends: the words of a command stand on lines of
// their own.
func (w *witness) heard(client string, sent []byte) {
	now := w.history.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	for word := range bytes.SplitSeq(sent, []byte("\r\n")) {
		if len(word) < shortestOwner {
			continue
		}
		if _, known := w.senders[string(word)]; !known {
			w.senders[string(word)] = sender{client, now}
		}
	}
}

// heardConn is a connection that a witness listens to.
type heardConn struct {
	net.Conn

	witness *witness
	client  string
}

// Write is [net.Conn]'s.
func (c *heardConn) Write(b []byte) (int, error) {
	c.witness.heard(c.client, b)
	return c.Conn.Write(b)
}

// heardSocket is one over a socket: go-redis looks there whether it still lives.
type heardSocket struct {
	*heardConn

	raw syscall.Conn
}

// SyscallConn is [syscall.Conn]'s.
func (s *heardSocket) SyscallConn() (syscall.RawConn, error) { return s.raw.SyscallConn() }
