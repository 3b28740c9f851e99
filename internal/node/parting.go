package node

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// alert begins what a TLS server says to who does not speak it: a record of that type, of
// any version of the protocol (RFC 8446, 5.1).
var alert = []byte{21, 3}

// parting is what the first bytes that a server says mean, where they are all that it says.
func parting(first []byte) error {
	switch {
	case bytes.HasPrefix(first, []byte("-DENIED")):
		return ErrProtected
	case bytes.HasPrefix(first, []byte("-ERR max number of clients")):
		return ErrFull
	case bytes.HasPrefix(first, alert):
		return ErrSpeaksTLS
	}
	return nil
}

// Listen has a client's connections keep what a server says before it closes one. go-redis
// reads it as the reply to its HELLO, takes it for that of an old server, and tells only
// that the next command was not sent: a refusal looks like a network that is dead.
func Listen(o *redis.Options) {
	o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := redis.NewDialer(o)(ctx, network, addr)
		if s, ok := c.(syscall.Conn); ok && err == nil {
			return &listening{Conn: c, raw: s}, nil
		}
		return c, err // TLS says by itself what is wrong
	}
}

// lastWords bounds how long what a server has said is read for, after a command was not
// sent. It is there: the server said it before it closed.
const lastWords = 20 * time.Millisecond

// listening is a connection that names what its server said first, when it ends.
type listening struct {
	net.Conn

	raw   syscall.Conn
	spoke atomic.Bool  // the server has said something
	words atomic.Value // an error: what that meant, if it was parting
}

// SyscallConn is the connection's own: the pool looks by it whether it is closed.
func (c *listening) SyscallConn() (syscall.RawConn, error) { return c.raw.SyscallConn() }

// Read reads, and names why there is no more.
func (c *listening) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 && !c.spoke.Load() && c.spoke.CompareAndSwap(false, true) {
		if words := parting(p[:n]); words != nil {
			c.words.Store(words)
		}
	}
	return n, c.named(err)
}

// Write writes, and names why it can't.
func (c *listening) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if err != nil && !c.spoke.Load() {
		ctx, cancel := context.WithTimeout(context.Background(), lastWords)
		defer cancel()
		if until, bounded := ctx.Deadline(); bounded {
			_ = c.SetReadDeadline(until)
		}
		_, _ = c.Read(make([]byte, 64))
	}
	return n, c.named(err)
}

func (c *listening) named(err error) error {
	words, told := c.words.Load().(error)
	switch {
	case err == nil:
		return nil
	case told:
		return fmt.Errorf("%w: %w", words, err)
	case errors.Is(err, io.EOF) && !c.spoke.Load():
		return fmt.Errorf("%w: %w", errWordless, err)
	}
	return err
}

// Misdialled asks what listens where no connection came up, since a server says nothing of
// it. One without TLS waits for the end of the line that a handshake looks like to it, as
// if it hung; one with TLS closes at once. It returns ErrSpeaksPlain or ErrSpeaksTLS before
// err, or err where neither is so. It blocks for the node timeout at most.
func (n *Node) Misdialled(ctx context.Context, err error) error {
	c, ok := n.Client.(*redis.Client)
	if !ok || err == nil || IsReply(err) {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, n.Timeout)
	defer cancel()
	if what := Speaks(ctx, c.Options()); what != nil {
		return fmt.Errorf("%w: %w", what, err)
	}
	return err
}

// Speaks asks a server at a client's address whether it speaks what the client does, TLS or
// not: nil if it does, or is not there.
func Speaks(ctx context.Context, o *redis.Options) error {
	switch {
	case o.TLSConfig != nil && answersPlain(ctx, o):
		return ErrSpeaksPlain
	case o.TLSConfig == nil && shakesHands(ctx, o):
		return ErrSpeaksTLS
	}
	return nil
}

// shakesHands tells whether TLS comes up. Nothing is said over it, so it does not matter
// whose the certificate is.
func shakesHands(ctx context.Context, o *redis.Options) bool {
	d := tls.Dialer{Config: &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true}} //nolint:gosec // G402: see above
	conn, err := d.DialContext(ctx, o.Network, o.Addr)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

// answersPlain tells whether a PING has an answer without TLS.
func answersPlain(ctx context.Context, o *redis.Options) bool {
	conn, err := new(net.Dialer).DialContext(ctx, o.Network, o.Addr)
	if err != nil {
		return false
	}
	defer conn.Close()
	if until, bounded := ctx.Deadline(); bounded {
		_ = conn.SetDeadline(until)
	}
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		return false
	}
	first := make([]byte, 1)
	k, _ := conn.Read(first)
	return k == 1 && (first[0] == '+' || first[0] == '-')
}
