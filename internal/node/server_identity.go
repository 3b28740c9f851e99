package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock/internal/membership"
)

// errExchanged is what a connection is refused with. What it was opened for was
// not sent. (It wraps nothing: go-redis would hand out what is inside.)
var errExchanged = errors.New("another server answers at this address than the one that was verified")

// ServerIdentity keeps all connections of one of Open's clients on one server, by its
// identity. An address may come to lead to another server: a replica that took
// over, a virtual IP that moved. Where that server has the voting scripts and a
// copy of the record (it was a member once, and the other's replica since), no
// answer of a script tells the two apart. So each new connection asks for the
// identity. Where it is another than before, all connections are closed, those to
// the old server too, and the node is verified before it votes again.
//
// That costs one command for each connection, and one atomic read for a flush. A run_id
// in each vote would cost tens of microseconds a call. The clients that New is given are not
// hooked: there the look behind the votes tells (identity.go). A client that was not there
// when another server voted takes the first one, come back, for the member that its record
// says.
type ServerIdentity struct {
	turns atomic.Int64 // how often the server was seen to be another

	mu    sync.Mutex // guards the fields below
	run   string     // of the server that the connections lead to; empty: not known yet
	conns []net.Conn
}

// ErrNoCredentials is a provider of credentials that failed: nothing was sent.
var ErrNoCredentials = errors.New("no credentials for the connection")

// Identify makes a client's connections ask the provider who they are, unless it is nil.
// The writer waits for it, so it is given no longer than the dial.
func Identify(o *redis.Options, provider func(context.Context) (username, password string, err error)) {
	if provider == nil {
		return
	}
	o.CredentialsProviderContext = func(ctx context.Context) (username, password string, err error) {
		ctx, cancel := context.WithTimeout(ctx, o.DialTimeout)
		defer cancel()
		if username, password, err = provider(ctx); err != nil {
			err = fmt.Errorf("%w: %w", ErrNoCredentials, err)
		}
		return username, password, err
	}
}

// Guard puts a ServerIdentity into a client's options.
func Guard(o *redis.Options) *ServerIdentity {
	s, dial := &ServerIdentity{}, o.Dialer
	if dial == nil {
		dial = redis.NewDialer(o)
	}
	o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		if err == nil {
			s.note(c)
		}
		return c, err
	}
	o.OnConnect = s.admit
	return s
}

// note keeps a new connection, and forgets those that were closed.
func (s *ServerIdentity) note(c net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	live := s.conns[:0]
	for _, old := range s.conns {
		if !closed(old) {
			live = append(live, old)
		}
	}
	clear(s.conns[len(live):])
	s.conns = append(live, c)
}

// admit lets a connection in that leads to the server of the others.
func (s *ServerIdentity) admit(ctx context.Context, c *redis.Conn) error {
	info, err := c.Info(ctx, "server", "replication").Result()
	if err != nil && !IsReply(err) {
		return err
	}
	run := infoField(info, "run_id") // empty: the verification, which asks the same, says what is wrong
	if run != "" {
		run = membership.IdentityOf(run, infoField(info, "master_replid"))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.run
	s.run = run
	if before == run || before == "" {
		return nil
	}
	s.turns.Add(1)
	for _, c := range s.conns {
		_ = c.Close() // who uses it gets an error, which is all that is wanted
	}
	clear(s.conns)
	s.conns = s.conns[:0]
	return errExchanged
}

// closed tells whether this side closed the connection.
func closed(c net.Conn) bool {
	if t, ok := c.(interface{ NetConn() net.Conn }); ok { // TLS
		c = t.NetConn()
	}
	s, ok := c.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := s.SyscallConn()
	return err != nil || raw.Control(func(uintptr) {}) != nil
}

// turn is how often the node's server was seen to be another; without a
// ServerIdentity nobody looks.
func (n *Node) turn() int64 {
	if n.Server == nil {
		return 0
	}
	return n.Server.turns.Load()
}
