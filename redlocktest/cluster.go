// Package redlocktest gives a test, or a demonstration, a handful of Redis
// masters inside its own process: no server to install, no port, no clean-up.
//
//	func TestMine(t *testing.T) {
//		nodes := redlocktest.Start(t, 5)
//		locker, err := redlock.New(nodes.Clients(), redlock.WithNodeNames(nodes.Names()...))
//		...
//		nodes.Node(0).Stop() // one of five is gone
//	}
//
// Each node is a miniredis whose TTLs run with the clock, and which answers
// what redlock asks of a real server: INFO with a run_id, and a restart that
// changes it and forgets the scripts. (A plain miniredis has neither, and
// redlock refuses it.) Connections live in memory and keep their deadlines, so
// everything works inside a testing/synctest bubble, where a lease of half a
// minute passes at once, as well as outside.
//
// Inside a bubble the cluster must be started in that bubble, and the default
// clients of go-redis must not be used: they look up host names and wait on
// timers that every bubble shares. [Cluster.Clients] are set up for it.
//
// What a node is not: a Redis for performance figures (a script costs it tens
// of microseconds), nor one for settings (CONFIG, ACL and replication are
// absent). Its Lua prints large integers exactly, where a real server's rounds
// them above 14 digits. Use real servers for these; a stage of chaos.NewReal has some.
package redlocktest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/quorumkit/redlock"
)

// Option changes how a cluster is started.
type Option interface{ apply(*settings) }

type settings struct{ tcp, unfounded bool }

type optionFunc func(*settings)

func (f optionFunc) apply(s *settings) { f(s) }

// WithTCP makes every node listen on a loopback port as well, so that it can
// be used by address ([Node.Addr], [Cluster.URLs]) and by other processes. The
// nodes are then named by these addresses. Sockets do not work in a
// testing/synctest bubble: don't use it there.
func WithTCP() Option { return optionFunc(func(s *settings) { s.tcp = true }) }

// WithoutFounding leaves the nodes as new servers are: no cluster, so that the
// first client waits MaxTTL before they vote, or calls Cluster.Admit. Without
// this option the nodes vote at once.
func WithoutFounding() Option { return optionFunc(func(s *settings) { s.unfounded = true }) }

// Cluster is a set of nodes that do not know of each other. All its methods
// may be called from several goroutines at once.
type Cluster struct {
	nodes   []*Node
	clients []redis.UniversalClient

	mu    sync.Mutex // guards extra
	extra []redis.UniversalClient
}

// Start starts n nodes and stops them, and closes their clients, when the test
// that tb stands for ends. A failure to start ends the test at once.
//
// In a testing/synctest bubble, tb must be the bubble's.
func Start(tb testing.TB, n int, opts ...Option) *Cluster {
	tb.Helper()
	c, err := Run(n, opts...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := c.Close(); err != nil {
			tb.Errorf("closing the nodes: %v", err)
		}
	})
	return c
}

// Run starts n nodes for a program that is not a test; the caller closes the
// cluster. It fails if n is not positive, or if a port is wanted and there is
// none.
func Run(n int, opts ...Option) (*Cluster, error) {
	if n < 1 {
		return nil, fmt.Errorf("redlocktest: %d nodes; at least 1 is needed", n)
	}
	var set settings
	for _, o := range opts {
		o.apply(&set)
	}
	c := &Cluster{}
	for i := range n {
		node, err := newNode(fmt.Sprintf("node-%d", i), set.tcp)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("redlocktest: node %d: %w", i, err), c.Close())
		}
		c.nodes = append(c.nodes, node)
	}
	for _, node := range c.nodes {
		c.clients = append(c.clients, redis.NewClient(node.Options()))
	}
	if !set.unfounded {
		if err := c.found(); err != nil {
			return nil, errors.Join(fmt.Errorf("redlocktest: %w", err), c.Close())
		}
	}
	return c, nil
}

// found makes the nodes a cluster that votes, as an operator would: nothing was
// ever locked here. No node hangs yet, and a busy machine is slow: they have longer
// to answer than a Locker gives them.
func (c *Cluster) found() error {
	l, err := redlock.New(c.Clients(), redlock.WithNodeNames(c.Names()...), redlock.WithNodeTimeout(clientTimeout))
	if err != nil {
		return err
	}
	return errors.Join(l.Cluster().Admit(context.Background()), l.Close())
}

// Node returns node i, counted from 0. It panics when there is none.
func (c *Cluster) Node(i int) *Node { return c.nodes[i] }

// Nodes returns all nodes in order.
func (c *Cluster) Nodes() []*Node { return append([]*Node(nil), c.nodes...) }

// Names returns the nodes' names in order.
func (c *Cluster) Names() []string {
	names := make([]string, len(c.nodes))
	for i, n := range c.nodes {
		names[i] = n.Name()
	}
	return names
}

// Clients returns a client for each node, in order, always the same ones. They
// work over connections in memory and are closed with the cluster.
func (c *Cluster) Clients() []redis.UniversalClient {
	return append([]redis.UniversalClient(nil), c.clients...)
}

// NewClients returns further clients, one for each node, with connections of
// their own: what another process would have. They are closed with the
// cluster; closing them earlier is allowed.
func (c *Cluster) NewClients() []redis.UniversalClient {
	fresh := make([]redis.UniversalClient, len(c.nodes))
	for i, n := range c.nodes {
		fresh[i] = redis.NewClient(n.Options())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.extra = append(c.extra, fresh...)
	return fresh
}

// URLs returns the nodes' addresses as redis:// URLs, in order. It panics
// unless the cluster was started [WithTCP].
func (c *Cluster) URLs() []string {
	urls := make([]string, len(c.nodes))
	for i, n := range c.nodes {
		urls[i] = "redis://" + n.Addr()
	}
	return urls
}

// Close closes the clients and stops the nodes for good. It waits until their
// goroutines have ended, and may be called more than once.
func (c *Cluster) Close() error {
	c.mu.Lock()
	clients := append(append([]redis.UniversalClient(nil), c.clients...), c.extra...)
	c.extra = nil
	c.mu.Unlock()
	var errs []error
	for _, client := range clients {
		if err := client.Close(); err != nil && !errors.Is(err, redis.ErrClosed) {
			errs = append(errs, err)
		}
	}
	for _, n := range c.nodes {
		n.close()
	}
	return errors.Join(errs...)
}

const (
	// poolSize is above any concurrency a test has. A caller of go-redis that
	// has to wait for a connection does so on a timer out of a pool that is
	// shared by the whole process, and the second synctest bubble that meets
	// such a timer dies. It is also the number of failed dials after which
	// go-redis refuses to dial for up to a second.
	poolSize = 1024

	// pipelineBuffer replaces 128 KiB a connection: a simulation has hundreds.
	pipelineBuffer = 16 << 10

	// clientTimeout bounds a call to a node that hangs, where the caller has
	// no bound of his own. It is well above the node timeout of a Locker, and above
	// the 2 s and more that a script's first load took, with -race, where a dozen
	// processes shared a core.
	clientTimeout = 5 * time.Second

	// dialTimeout bounds a dial to a node that is stopped: a longer one is a finding
	// of Cluster.Check.
	dialTimeout = 2 * time.Second
)

// Options returns the settings of a client of this node, over connections in
// memory: nothing is sent twice, no call outlives its context's deadline, and
// nothing breaks a synctest bubble. The caller may change what it got, and
// makes a client of it with redis.NewClient, which it closes itself.
//
// For a client as go-redis makes it by default, use only the Dialer (outside
// of bubbles).
func (n *Node) Options() *redis.Options {
	return &redis.Options{
		Addr: n.name,
		Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return n.Dial(ctx)
		},
		Protocol:                2, // RESP3 looks for push messages before each reply
		DisableIdentity:         true,
		MaxRetries:              -1,
		DialerRetries:           1,
		DialTimeout:             dialTimeout,
		ReadTimeout:             clientTimeout,
		WriteTimeout:            clientTimeout,
		ContextTimeoutEnabled:   true,
		PoolSize:                poolSize,
		PipelinePoolSize:        poolSize,
		ReadBufferSize:          pipelineBuffer,
		WriteBufferSize:         pipelineBuffer,
		PipelineReadBufferSize:  pipelineBuffer,
		PipelineWriteBufferSize: pipelineBuffer,
		// Otherwise it looks up the address to find out whose network it is.
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
}
