package redlock_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/testkit/testserver"
	"github.com/quorumkit/redlock/redlocktest"
)

// What the tests that break nodes share.

// separateLocker is a Locker with connections of its own: another process.
func separateLocker(t *testing.T, nodes *redlocktest.Cluster, opts ...redlock.Option) *redlock.Locker {
	t.Helper()
	return lockerWith(t, nodes.NewClients(), append([]redlock.Option{redlock.WithNodeNames(nodes.Names()...)}, opts...)...)
}

// lockerWith is a Locker over the clients, closed with the test.
func lockerWith(t *testing.T, clients []redis.UniversalClient, opts ...redlock.Option) *redlock.Locker {
	t.Helper()
	l, err := redlock.New(clients, opts...)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Logf("Close: %v", err)
		}
	})
	return l
}

// openServers is a Locker over real servers, through Open.
func openServers(t *testing.T, servers []*redisserver.Server, opts ...redlock.Option) *redlock.Locker {
	t.Helper()
	urls := make([]string, len(servers))
	for i, s := range servers {
		urls[i] = s.URL()
	}
	l, err := redlock.Open(t.Context(), urls, opts...)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Logf("Close: %v", err)
		}
	})
	admitted(t, l)
	return l
}

// needMasters starts real servers that are a cluster already, which anyone may
// use, no matter what they are called.
func needMasters(t *testing.T, n int, config redisserver.Config) []*redisserver.Server {
	t.Helper()
	servers := testserver.Need(t, n, config)
	must(t, openServers(t, servers).Close())
	return servers
}

// admitted takes new servers in at once: nothing was ever locked on them. A busy
// machine may let one miss its node timeout.
func admitted(tb testing.TB, l *redlock.Locker) {
	tb.Helper()
	err := l.Cluster().Admit(tb.Context())
	for deadline := time.Now().Add(10 * time.Second); err != nil && time.Now().Before(deadline); err = l.Cluster().Admit(tb.Context()) {
		pause(10 * time.Millisecond)
	}
	if err != nil {
		tb.Fatalf("Admit: %v", err)
	}
}

// defaultClients are clients as go-redis makes them: they retry, and read for
// five seconds.
func defaultClients(t *testing.T, addrs ...string) []redis.UniversalClient {
	t.Helper()
	clients := make([]redis.UniversalClient, len(addrs))
	for i, addr := range addrs {
		c := redis.NewClient(&redis.Options{Addr: addr})
		t.Cleanup(func() { _ = c.Close() })
		clients[i] = c
	}
	return clients
}

func addresses(servers []*redisserver.Server) []string {
	addrs := make([]string, len(servers))
	for i, s := range servers {
		addrs[i] = s.Addr()
	}
	return addrs
}

// mustRelease releases a lock, confirmed by a quorum.
func mustRelease(t *testing.T, lock *redlock.Lock) {
	t.Helper()
	if err := lock.Release(t.Context()); err != nil {
		t.Fatalf("Release(%q): %v", lock.Resource(), err)
	}
}

// warm makes every node of the Locker ready to vote.
func warm(t *testing.T, l *redlock.Locker) {
	t.Helper()
	for range 2 { // the first may win before the last node was verified
		mustRelease(t, mustAcquire(t, l, "warm"))
	}
}

// must fails the test on an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// pollUntil polls until the condition holds, outside of bubbles.
func pollUntil(t *testing.T, within time.Duration, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(within); !holds(); {
		if time.Now().After(deadline) {
			t.Fatalf("after %v: %s: still not so", within, what)
		}
		pause(time.Millisecond)
	}
}

// pause is a poll's interval.
func pause(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	<-timer.C
}

// locksOn are the keys on an in-process node that are not the library's own.
func locksOn(node *redlocktest.Node) []string {
	return slices.DeleteFunc(node.Keys(), func(key string) bool { return strings.HasPrefix(key, "redlock:") })
}

// wantNoLocks fails the test if a node still has a lock's key, or more of the
// library's own than the one hash.
func wantNoLocks(t *testing.T, nodes *redlocktest.Cluster, when string) {
	t.Helper()
	for _, n := range nodes.Nodes() {
		if left := locksOn(n); len(left) > 0 {
			t.Errorf("%s: %s has %q; want no lock", when, n.Name(), left)
		}
	}
}

// wantOnlyRecords is wantNoLocks once the tombstones are gone too.
func wantOnlyRecords(t *testing.T, nodes *redlocktest.Cluster, when string) {
	t.Helper()
	for _, n := range nodes.Nodes() {
		left := slices.DeleteFunc(n.Keys(), func(key string) bool { return key == lua.NodeKey })
		if len(left) > 0 {
			t.Errorf("%s: %s has %q; want only its record", when, n.Name(), left)
		}
	}
}

// wantError fails the test unless errors.Is(got, want).
func wantError(t *testing.T, what string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("%s: got %v; want %v", what, got, want)
	}
}

// causesWith counts the nodes of a failed round whose cause has the words: the message says
// what is the same of several once.
func causesWith(err error, words string) int {
	var failed *redlock.QuorumError
	if !errors.As(err, &failed) {
		return 0
	}
	n := 0
	for _, node := range failed.Nodes {
		if node.Err != nil && strings.Contains(node.Err.Error(), words) {
			n++
		}
	}
	return n
}

// events collects what a Locker tells.
type events struct {
	mu  sync.Mutex
	all []redlock.Event
}

func (e *events) option() redlock.Option {
	return redlock.WithObserver(func(ev redlock.Event) {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.all = append(e.all, ev)
	})
}

// of are the events of one kind, in order.
func (e *events) of(k redlock.EventKind) []redlock.Event {
	e.mu.Lock()
	defer e.mu.Unlock()
	var out []redlock.Event
	for _, ev := range e.all {
		if ev.Kind == k {
			out = append(out, ev)
		}
	}
	return out
}

// keyOn reads a key on a real server, over a connection of its own.
func keyOn(t *testing.T, s *redisserver.Server, key string) string {
	t.Helper()
	c := redis.NewClient(s.Options())
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	v, err := c.Get(ctx, key).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		t.Fatalf("GET %s on %s: %v", key, s.Addr(), err)
	}
	return v
}

// keysOn are the keys of a real server that are not the library's own.
func keysOn(t *testing.T, s *redisserver.Server) []string {
	t.Helper()
	c := redis.NewClient(s.Options())
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	all, err := c.Keys(ctx, "*").Result()
	if err != nil {
		t.Fatalf("KEYS on %s: %v", s.Addr(), err)
	}
	return slices.DeleteFunc(all, func(key string) bool { return strings.HasPrefix(key, "redlock:") })
}

// scriptOf names the script that an intercepted command runs; empty if none.
func scriptOf(args []string) string {
	if len(args) < 2 || args[0] != "EVALSHA" {
		return ""
	}
	for _, s := range slices.Concat(lua.VotingScripts, lua.KeepingScripts) {
		if s.Hash == args[1] {
			return s.Name
		}
	}
	return ""
}

// onScripts applies the verdict to every call of the scripts whose names begin
// so, and passes the rest.
func onScripts(prefix string, v redlocktest.Verdict) redlocktest.Interceptor {
	return func(args []string) redlocktest.Verdict {
		if name := scriptOf(args); name != "" && strings.HasPrefix(name, prefix) {
			return v
		}
		return redlocktest.Pass()
	}
}

// slowly has every call of the scripts whose names begin so take its time.
func slowly(prefix string, d time.Duration) redlocktest.Interceptor {
	return func(args []string) redlocktest.Verdict {
		if strings.HasPrefix(scriptOf(args), prefix) {
			time.Sleep(d)
		}
		return redlocktest.Pass()
	}
}

// firstOnScripts is onScripts for the first such call on each node.
func firstOnScripts(nodes *redlocktest.Cluster, prefix string, v redlocktest.Verdict) {
	for _, n := range nodes.Nodes() {
		var done atomic.Bool
		all := onScripts(prefix, v)
		n.Intercept(func(args []string) redlocktest.Verdict {
			if all(args) != redlocktest.Pass() && done.CompareAndSwap(false, true) {
				return v
			}
			return redlocktest.Pass()
		})
	}
}

// cable is the network between one process and the nodes. While it is cut, what
// is sent in either direction vanishes, and no connection breaks; what a client
// sent may be delivered later.
type cable struct {
	cut atomic.Bool

	mu   sync.Mutex // guards the field below
	held []segment
}

// segment is what was sent to a node while the cable was cut.
type segment struct {
	node  *redlocktest.Node
	bytes []byte
}

// deliver makes the nodes execute what was sent while the cable was cut, as a
// server does that was stopped, or a router with a long queue.
func (c *cable) deliver(t *testing.T) {
	t.Helper()
	c.mu.Lock()
	held := c.held
	c.held = nil
	c.mu.Unlock()
	for _, p := range held {
		conn, err := p.node.Dial(t.Context())
		must(t, err)
		_, err = conn.Write(p.bytes)
		must(t, err)
		_, err = conn.Read(make([]byte, 1024)) // it has been executed
		must(t, err)
		must(t, conn.Close())
	}
}

// clients are clients of all nodes by this cable.
func (c *cable) clients(t *testing.T, nodes *redlocktest.Cluster) []redis.UniversalClient {
	t.Helper()
	clients := make([]redis.UniversalClient, nodes.Len())
	for i, n := range nodes.Nodes() {
		o := n.Options()
		o.Dialer = func(ctx context.Context, _, _ string) (net.Conn, error) {
			conn, err := n.Dial(ctx)
			if err != nil {
				return nil, err
			}
			return cabled{conn, c, n}, nil
		}
		client := redis.NewClient(o)
		t.Cleanup(func() { _ = client.Close() })
		clients[i] = client
	}
	return clients
}

type cabled struct {
	net.Conn
	cable *cable
	node  *redlocktest.Node
}

func (c cabled) Write(p []byte) (int, error) {
	if !c.cable.cut.Load() {
		return c.Conn.Write(p)
	}
	c.cable.mu.Lock()
	defer c.cable.mu.Unlock()
	c.cable.held = append(c.cable.held, segment{c.node, slices.Clone(p)})
	return len(p), nil
}

func (c cabled) Read(p []byte) (int, error) {
	for {
		n, err := c.Conn.Read(p)
		if err != nil || !c.cable.cut.Load() {
			return n, err
		}
	}
}
