package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/membership"
)

const (
	// PoolSize is the most connections to one node: the writer needs one, and
	// what Inspect, Check and a verification do beside it a few more. It stands for the
	// clients that Open makes; a client that New is given keeps its own.
	PoolSize = 8
	// DialShare is how many node timeouts a connection may take to come up, with TLS, HELLO,
	// AUTH and the look at who answers (admit): it is several round trips. Rounds do not wait so
	// long: the node counts as one that was sent nothing, and the connection is there for a
	// later round (await).
	DialShare = 4
	// idleTime is how long a connection may lie in the pool. Networks forget one after
	// four to six minutes of silence, and the pool does not see that.
	idleTime = 3 * time.Minute
)

// URLForms are the ways to write a node, for messages that refuse another.
const URLForms = "redis://host:port (with user:password@ before the host), rediss://, unix:///path, or host:port"

// percentForms are for a password that a generator made. A comma ends the URL in a list.
const percentForms = "in a password write %40 for @, %2F for /, %23 for #, %3F for ?, %25 for %, %2C for a comma"

// The reasons for which a client is no node. New refuses it where it can see that. Inside a
// wrapper only the client's connection tells. No option admits Sentinel clients: a promoted
// server counts as blank, with all that it has, so each promotion would be a rejoin, which
// waits MaxTTL.
const (
	NotSentinel = "a Sentinel client: after a failover the node would be another server, which may lack the keys: give a client of the master itself"
	NotDatabase = "all databases of a server share its scripts, whose absence keeps a restarted server from voting: use database 0, and WithPrefix to keep names apart"
	notSeveral  = "a Ring or Cluster client: a node is one master, and these move keys to others: give a client of each master"

	// FailoverAddr is what go-redis has for the address of a Sentinel client.
	FailoverAddr = "FailoverClient"
)

// ParseURL reads one URL, or a bare host:port. No part of one that does not parse is
// in the error: it may hold a password.
func ParseURL(u string) (*redis.Options, error) {
	switch {
	case u == "":
		return nil, errors.New("it is empty: give " + URLForms)
	case !strings.Contains(u, "://"):
		host, port, err := net.SplitHostPort(u)
		if strings.Contains(u, "@") {
			return nil, errors.New("without a scheme it takes no password (not shown): give " + URLForms + "; " + percentForms)
		}
		if err != nil || host == "" {
			return nil, errors.New("without a scheme, give host:port")
		}
		return &redis.Options{Addr: u}, checkPort(port)
	}
	o, err := redis.ParseURL(u)
	if err != nil || strings.Contains(u, "#") { // the rest of a password, likely, and its first part a port
		return nil, errors.New("it does not parse (not shown, it may hold a password): give " + URLForms + "; " + percentForms)
	}
	if _, port, err := net.SplitHostPort(o.Addr); err == nil && o.Network != "unix" {
		return o, checkPort(port)
	}
	return o, nil
}

// checkPort refuses a number that is no port's, at once: else it shows as a node that is down.
// A name may be that of a service.
func checkPort(port string) error {
	if n, err := strconv.Atoi(port); err == nil && (n < 1 || n > 65535) {
		return errors.New("its port is out of range: give 1 to 65535")
	}
	return nil
}

// Harden sets what go-redis leaves open to a hung or refusing node: a command is
// sent once, and is bounded by the node timeout. A second try by go-redis would be a new
// command to us, of which nobody knows: the writer itself decides what goes again.
//
// Maintenance notifications and the library's name are commands at each dial that a lock does
// not need.
func Harden(o *redis.Options, timeout time.Duration) {
	o.MaxRetries = -1 // none; 0 would be go-redis's default of three
	o.DialerRetries = 1
	o.DialTimeout = DialShare * timeout
	o.ReadTimeout, o.WriteTimeout = timeout, timeout
	o.ContextTimeoutEnabled = true
	o.PoolSize = PoolSize
	// A command that waits for a connection waits no longer than one that waits for a reply.
	o.PoolTimeout, o.ConnMaxIdleTime = timeout, idleTime
	// Otherwise pipelines have a pool of their own, of ten more connections with
	// 256 KiB each; and one that can't be dialled is dialled again for the other
	// pool, so that a node that can't be reached takes twice as long to say so.
	o.PipelinePoolSize = -1
	o.DisableIdentity = true
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
}

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
	run   string     // of the server that the connections lead to; empty if not known yet
	conns []net.Conn // all that are open, as far as this side knows
}

// Identify makes a client's connections ask the provider for credentials, unless it is nil.
// The writer waits for it, so it is given no longer than the dial. Its failure is
// ErrNoCredentials, by which Classify knows that nothing was sent.
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

// Guard puts a ServerIdentity into a client's options. It takes part in each dial, of which it
// notes the connection, and in each connection's set-up, which it may refuse (admit).
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

// note keeps a new connection, and forgets those that were closed: the pool closes them
// without a word to us.
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

// admit lets a connection in that leads to the server of the others. If it leads to another
// server, admit closes all connections: those that lead to the old one would go on as if
// nothing had happened. The one that tells is refused too, since its server was not
// verified; the next one is admitted, by the identity noted here.
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
		_ = c.Close() // its user gets an error, which is all that is wanted
	}
	clear(s.conns)
	s.conns = s.conns[:0]
	return errExchanged
}

// closed tells whether this side closed the connection: Control then fails on its descriptor.
// That costs no system call, and says nothing of the other side.
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

// infoField is a field of INFO; empty if it is not there.
func infoField(info, name string) string {
	_, value, _ := strings.Cut(info, "\n"+name+":") // the first line is the section's name
	value, _, _ = strings.Cut(value, "\r\n")
	return value
}

const (
	// turnPoll is how often a command that found no connection tries to get one.
	turnPoll = time.Millisecond
	// turnGiven is how long the writer sends nothing where somebody waits for a
	// connection: time enough for a few tries.
	turnGiven = 4 * turnPoll
)

// turnstile makes commands wait for a connection of a pool that has no more. A pool
// with MaxActiveConns refuses at once what it has no connection for, and nothing was
// sent then, so a second try is no second command. It is a hook of the node's own
// copy of the client, not of the program's, and only where MaxActiveConns is set: any
// other pool opens a connection, or lets a command wait by itself (PoolTimeout).
type turnstile struct {
	longest time.Duration // that a command waits; the node timeout bounds it all
	clock   *clock.Clock
	waiting atomic.Int64 // commands that wait now: for them the writer gives way
}

// DialHook changes nothing: the pool refuses before it dials.
func (*turnstile) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook makes one command wait its turn.
func (t *turnstile) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return t.pass(ctx, func() error { return next(ctx, cmd) }, cmd)
	}
}

// ProcessPipelineHook makes a pipeline wait its turn. The refusal is in each of its commands,
// so pass clears them all before another try.
func (t *turnstile) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		return t.pass(ctx, func() error { return next(ctx, cmds) }, cmds...)
	}
}

// pass sends as soon as there is a connection. Out of time, the pool's refusal stays. It
// polls, since nothing tells when a connection comes back.
func (t *turnstile) pass(ctx context.Context, send func() error, cmds ...redis.Cmder) error {
	err := send()
	if !errors.Is(err, redis.ErrPoolExhausted) {
		return err
	}
	t.waiting.Add(1)
	defer t.waiting.Add(-1)
	until := t.clock.Early().Add(t.longest)
	for errors.Is(err, redis.ErrPoolExhausted) && t.clock.Early() < until && t.pause(ctx, turnPoll) {
		for _, c := range cmds {
			c.SetErr(nil)
		}
		err = send()
	}
	return err
}

// pause blocks for d. It returns false when ctx was done first.
func (t *turnstile) pause(ctx context.Context, d time.Duration) bool {
	timer := t.clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// careful makes an error of a reply that go-redis panics at, as it does where a list is of -1
// items. Most calls are made by goroutines of ours, which no program can recover for: one
// broken server would end all clients. go-redis has closed the connection by then.
type careful struct{}

// DialHook changes nothing: what a dial says is read by a call as well.
func (careful) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook is for one command.
func (careful) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) (err error) {
		defer spare(&err, cmd)
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook is for several, of which some may have had their replies.
func (careful) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) (err error) {
		defer spare(&err, cmds...)
		return next(ctx, cmds)
	}
}

// spare is deferred: it makes an error of a panic, also of the commands that have none. What
// was sent may have been carried out, as with any reply that is lost.
func spare(err *error, cmds ...redis.Cmder) {
	cause := recover()
	if cause == nil {
		return
	}
	*err = fmt.Errorf("what it says can't be read: %v", cause)
	for _, cmd := range cmds {
		if cmd.Err() == nil {
			cmd.SetErr(*err)
		}
	}
}

// NameOf is a node's name by its address. Of the same server on this machine it is one.
func NameOf(addr string) string {
	if port, local := strings.CutPrefix(addr, "localhost:"); local {
		return "127.0.0.1:" + port
	}
	return addr
}
