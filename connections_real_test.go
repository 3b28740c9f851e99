package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/lab/tcpproxy"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/internal/testkit/testserver"
)

// What a program does to its Locker that uses up the connections of its clients.

// pooled are clients of the servers, of the program's.
func pooled(t *testing.T, servers []*redisserver.Server, change func(*redis.Options)) []redis.UniversalClient {
	t.Helper()
	clients := make([]redis.UniversalClient, len(servers))
	for i, s := range servers {
		o := &redis.Options{Addr: s.Addr(), PoolTimeout: time.Minute}
		change(o)
		c := redis.NewClient(o)
		t.Cleanup(func() { _ = c.Close() })
		clients[i] = c
	}
	return clients
}

// useUp asks for n connections of each client at once, as the program does, and keeps those
// that it gets. It returns when it has so many of them as it is to get.
func useUp(t *testing.T, clients []redis.UniversalClient, n, gets int) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	var asking sync.WaitGroup
	t.Cleanup(func() { stop(); asking.Wait() })
	for _, c := range clients {
		var got atomic.Int64
		for range n {
			asking.Go(func() {
				for ctx.Err() == nil {
					conn := c.(*redis.Client).Conn()
					if conn.Ping(ctx).Err() == nil {
						got.Add(1)
						<-ctx.Done()
					}
					_ = conn.Close()
				}
			})
		}
		pollUntil(t, 20*time.Second, "the program has its connections", func() bool { return got.Load() >= int64(gets) })
	}
}

// A lock is renewed on the connection that it was taken on, also where the program uses up
// the rest of its pool.
func TestAHeldLockDoesNotDependOnThePoolThatItsProgramUsesUp(t *testing.T) {
	t.Parallel()
	const ttl = 3 * time.Second
	servers := needMasters(t, 3, redisserver.Config{})
	for name, change := range map[string]func(*redis.Options){
		"a pool of two":            func(o *redis.Options) { o.PoolSize = 2 },
		"RESP2":                    func(o *redis.Options) { o.PoolSize, o.Protocol = 2, 2 },
		"two active connections":   func(o *redis.Options) { o.PoolSize, o.MaxActiveConns = 2, 2 },
		"no pool of its pipelines": func(o *redis.Options) { o.PoolSize, o.PipelinePoolSize = 2, -1 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clients := pooled(t, servers, change)
			l := lockerWith(t, clients, redlock.WithTTL(ttl))
			warm(t, l)
			lock := mustAcquire(t, l, name)
			useUp(t, clients, 2, 1)
			select {
			case <-lock.Done():
				t.Errorf("lost: %v; want it held", lock.Err())
			case <-time.After(3 * ttl):
			}
			must(t, lock.Release(t.Context()))
		})
	}
}

// An attempt that got no connection says so, however long the pool lets it wait.
func TestAPoolThatTheProgramHasUsedUpIsNamed(t *testing.T) {
	t.Parallel()
	servers := needMasters(t, 3, redisserver.Config{})
	for name, change := range map[string]func(*redis.Options){
		"a pool of one":             func(o *redis.Options) { o.PoolSize, o.PipelinePoolSize = 1, -1 },
		"a pool of two":             func(o *redis.Options) { o.PoolSize = 2 },
		"with a short pool timeout": func(o *redis.Options) { o.PoolSize, o.PoolTimeout = 2, 10*time.Millisecond },
		"two active connections":    func(o *redis.Options) { o.PoolSize, o.MaxActiveConns = 2, 2 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clients := pooled(t, servers, change)
			used, fresh := lockerWith(t, clients), lockerWith(t, clients)
			warm(t, used)
			must(t, redlock.WarmUp(t.Context(), used)) // no node has a command out
			size := clients[0].(*redis.Client).Options().PoolSize
			useUp(t, clients, size, size)
			for range 3 { // the first failure has no pause
				for _, l := range []*redlock.Locker{used, fresh} {
					_, err := l.TryAcquire(t.Context(), name)
					wantError(t, "TryAcquire", err, redlock.ErrNoQuorum)
					if err != nil && (!strings.Contains(err.Error(), "PoolSize") || strings.Contains(err.Error(), "no reply")) {
						t.Errorf("got %v; want the pool named, and no reply blamed", err)
					}
				}
			}
		})
	}
}

// narrowly opens clients whose pools have so many connections each, for pipelines too.
func narrowly(t *testing.T, servers []*redisserver.Server, connections int) []redis.UniversalClient {
	t.Helper()
	var clients []redis.UniversalClient
	for _, s := range servers {
		o := s.Options()
		o.MaxActiveConns, o.PipelinePoolSize = connections, -1
		c := redis.NewClient(o)
		t.Cleanup(func() { _ = c.Close() })
		clients = append(clients, c)
	}
	return clients
}

// Locks without a pause keep a connection busy. Where the pool has no other, Status
// and the reconcile loop need it as well, and the locks may not pay for that with votes.
func TestOneConnectionANodeIsEnough(t *testing.T) {
	t.Parallel()
	for name, others := range map[string]int{"alone": 0, "beside the program": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			servers := testserver.Need(t, 3, redisserver.Config{})
			clients := narrowly(t, servers, 1+others)
			machine := testkit.WatchMachine(t)
			l := lockerWith(t, clients, append(short(), redlock.WithNodeNames(addresses(servers)...), redlock.WithNodeTimeout(450*time.Millisecond))...)
			admitted(t, l)
			if others > 0 {
				occupy(t, clients)
			}
			var made, failed atomic.Int64
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				for ctx.Err() == nil {
					lock, err := l.TryAcquire(ctx, "orders/42")
					switch {
					case err == nil:
						made.Add(1)
						_ = lock.Release(context.WithoutCancel(ctx))
					case !errors.Is(err, context.Canceled):
						failed.Add(1)
					}
				}
			}()
			missed := 0
			for range 50 {
				for _, n := range status(t, l).Nodes {
					if n.State != redlock.NodeMember {
						if missed++; missed < 4 {
							t.Logf("%s is %s: %s", n.Name, n.State, n.Cause)
						}
					}
				}
			}
			if missed > 0 {
				machine.Excuse(t, 100*time.Millisecond) // a look has 450 ms
				t.Errorf("Status could not look at a node that votes %d times of 150", missed)
			}
			for range 5 {
				for _, s := range servers {
					c := s.Client()
					must(t, c.ScriptFlush(t.Context()).Err())
					must(t, c.Close())
				}
				before := l.Stats().Nodes
				pollUntil(t, 5*time.Second, "the scripts are there again, and each node grants locks", func() bool {
					for i, now := range l.Stats().Nodes {
						if now.Granted < before[i].Granted+5 {
							return false
						}
					}
					return true
				})
			}
			must(t, servers[1].RestartEmpty())
			pollUntil(t, shortMax+20*time.Second, "the node that forgot is a member again", func() bool { return votes(t, l) == 3 })
			cancel()
			<-ended
			t.Logf("%d locks, %d refusals", made.Load(), failed.Load())
			if failed.Load() > 3 { // the restart itself may cost one
				t.Errorf("%d acquisitions failed of %d; want none for want of a connection", failed.Load(), made.Load())
			}
		})
	}
}

// What a network that forgets idle connections does to an attempt: a NAT, a firewall.

// behind starts a proxy in front of each server.
func behind(t *testing.T, servers []*redisserver.Server) []*tcpproxy.Proxy {
	t.Helper()
	proxies := make([]*tcpproxy.Proxy, len(servers))
	for i, s := range servers {
		p, err := tcpproxy.New(s.Addr())
		must(t, err)
		t.Cleanup(p.Close)
		proxies[i] = p
	}
	return proxies
}

// open takes so many connections of a client at once, and gives them back.
func open(t *testing.T, c *redis.Client, n int) {
	t.Helper()
	conns := make([]*redis.Conn, n)
	for i := range conns {
		conns[i] = c.Conn()
		must(t, conns[i].Ping(t.Context()).Err())
	}
	for _, c := range conns {
		must(t, c.Close())
	}
}

func TestTheFirstAttemptAfterTheNetworkForgotTheConnectionsSucceeds(t *testing.T) {
	t.Parallel()
	servers := needMasters(t, 3, redisserver.Config{})
	// over is a Locker over a client of the program's for each proxy.
	over := func(client func(*redis.Options) redis.UniversalClient) func(*testing.T, []*tcpproxy.Proxy) *redlock.Locker {
		return func(t *testing.T, proxies []*tcpproxy.Proxy) *redlock.Locker {
			t.Helper()
			var clients []redis.UniversalClient
			for _, p := range proxies {
				c := client(&redis.Options{Addr: p.Addr()})
				t.Cleanup(func() { _ = c.Close() })
				clients = append(clients, c)
			}
			return lockerWith(t, clients, redlock.WithNodeTimeout(time.Second), redlock.WithNodeNames(addresses(servers)...))
		}
	}
	for name, locker := range map[string]func(*testing.T, []*tcpproxy.Proxy) *redlock.Locker{
		"Open": func(t *testing.T, proxies []*tcpproxy.Proxy) *redlock.Locker {
			t.Helper()
			var urls []string
			for _, p := range proxies {
				urls = append(urls, p.Addr())
			}
			l, err := redlock.Open(t.Context(), urls, redlock.WithNodeTimeout(time.Second), redlock.WithNodeNames(addresses(servers)...))
			must(t, err)
			t.Cleanup(func() { _ = l.Close() })
			return l
		},
		"New": over(func(o *redis.Options) redis.UniversalClient { return redis.NewClient(o) }),
		"New, with six idle connections": over(func(o *redis.Options) redis.UniversalClient {
			c := redis.NewClient(o)
			open(t, c, 6)
			return c
		}),
		"New, with a pool of six that is all idle": over(func(o *redis.Options) redis.UniversalClient {
			o.PoolSize = 6
			c := redis.NewClient(o)
			open(t, c, 6)
			return c
		}),
		"New, with a pool of one": over(func(o *redis.Options) redis.UniversalClient {
			o.PoolSize, o.PipelinePoolSize = 1, -1
			return redis.NewClient(o)
		}),
		"New, with one active connection": over(func(o *redis.Options) redis.UniversalClient {
			o.MaxActiveConns, o.PipelinePoolSize = 1, -1
			return redis.NewClient(o)
		}),
		"New, wrapped": over(func(o *redis.Options) redis.UniversalClient { return wrapped{redis.NewClient(o)} }),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proxies := behind(t, servers)
			l := locker(t, proxies)
			warm(t, l)
			for _, silence := range []time.Duration{2 * time.Second, 6 * time.Second, 10 * time.Second, 14 * time.Second, 16 * time.Second, time.Hour} {
				must(t, redlock.WarmUp(t.Context(), l)) // no node has a command out
				for _, p := range proxies {
					p.HalfOpen()
				}
				redlock.Silence(l, silence)
				lock, err := l.TryAcquire(t.Context(), name)
				must(t, err)
				must(t, lock.Release(t.Context()))
			}
		})
	}
}

// So do the first questions beside it, which no look goes before.
func TestTheFirstQuestionAfterTheNetworkForgotTheConnectionsIsAnswered(t *testing.T) {
	t.Parallel()
	servers := needMasters(t, 3, redisserver.Config{})
	for name, ask := range map[string]func(*redlock.Locker) error{
		"Inspect": func(l *redlock.Locker) error {
			in, err := l.Inspect(t.Context(), "orders/42")
			for _, n := range in.Nodes {
				err = errors.Join(err, n.Err)
			}
			return err
		},
		"Status": func(l *redlock.Locker) error {
			if votes := status(t, l).Votes(); votes < len(servers) {
				return fmt.Errorf("%d votes", votes)
			}
			return nil
		},
		"Revoke": func(l *redlock.Locker) error {
			if err := l.Revoke(t.Context(), "orders/42"); !errors.Is(err, redlock.ErrNotHeld) {
				return fmt.Errorf("got %w; want ErrNotHeld", err)
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proxies := behind(t, servers)
			var clients []redis.UniversalClient
			for _, p := range proxies {
				c := redis.NewClient(&redis.Options{Addr: p.Addr()})
				t.Cleanup(func() { _ = c.Close() })
				clients = append(clients, c)
			}
			l := lockerWith(t, clients, redlock.WithNodeTimeout(time.Second), redlock.WithNodeNames(addresses(servers)...))
			warm(t, l)
			eventually(t, 10*time.Second, func() bool { // the Locker is idle
				return !slices.ContainsFunc(clients, func(c redis.UniversalClient) bool {
					return c.PoolStats().IdleConns != 1 || c.PoolStats().TotalConns != 1
				})
			})
			for _, p := range proxies {
				p.HalfOpen()
			}
			must(t, ask(l))
		})
	}
}

// behindSentinel is a client that a Sentinel tells where the master is.
func behindSentinel(t *testing.T, master string) redis.UniversalClient {
	t.Helper()
	sentinel := miniredis.RunT(t)
	host, port, err := net.SplitHostPort(master)
	must(t, err)
	must(t, sentinel.Server().Register("SENTINEL", func(c *server.Peer, _ string, args []string) {
		if !strings.EqualFold(args[0], "get-master-addr-by-name") {
			c.WriteLen(0)
			return
		}
		c.WriteLen(2)
		c.WriteBulk(host)
		c.WriteBulk(port)
	}))
	c := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "m", SentinelAddrs: []string{sentinel.Addr()}})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// New can't see what a wrapper is around. What its connection says is refused before a
// lock is granted, with the remedy.
func TestAWrappedClientIsRefusedByWhatItsConnectionSays(t *testing.T) {
	t.Parallel()
	servers := testserver.Need(t, 3, redisserver.Config{})
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": servers[0].Addr(), "b": servers[1].Addr()}})
	t.Cleanup(func() { _ = ring.Close() })
	selecting := clientOf(t, servers[2], func(o *redis.Options) {
		o.OnConnect = func(ctx context.Context, c *redis.Conn) error { return c.Select(ctx, 1).Err() }
	})
	for name, tt := range map[string]struct {
		client redis.UniversalClient
		want   string
	}{
		"Ring":                  {wrapped{ring}, "Ring"},
		"Sentinel":              {wrapped{behindSentinel(t, servers[0].Addr())}, "Sentinel"},
		"DB 1":                  {wrapped{clientOf(t, servers[0], func(o *redis.Options) { o.DB = 1 })}, "database 0"},
		"SELECT 1":              {wrapped{selecting}, "database 0"},
		"SELECT 1, not wrapped": {selecting, "database 0"},
		"one master":            {wrapped{clientOf(t, servers[2])}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := lockerWith(t, []redis.UniversalClient{tt.client}, redlock.WithNodeNames("one"), redlock.WithNodeTimeout(time.Second), redlock.WithMaxTTL(shortMax), redlock.WithTTL(shortMax))
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			_, err := l.Acquire(ctx, "orders/42")
			if tt.want == "" {
				must(t, err)
				return
			}
			wantError(t, "Acquire", err, redlock.ErrMisconfigured)
			if err == nil || !strings.Contains(err.Error(), tt.want) || ctx.Err() != nil {
				t.Errorf("got %v; want %q in it, at once", err, tt.want)
			}
		})
	}
}

// What embeds go-redis's client shows its settings.
func TestAStructAroundADatabaseOtherThanZeroIsRefusedByNew(t *testing.T) {
	around := struct{ *redis.Client }{redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", DB: 1})}
	t.Cleanup(func() { _ = around.Close() })
	_, err := redlock.New([]redis.UniversalClient{around})
	wantError(t, "New", err, redlock.ErrInvalidNode)
}

// A connection that the server closed while it lay idle is no word about the node: it answers
// over another.
func TestStatusOfAnIdleLockerReachesAServerThatRestarted(t *testing.T) {
	t.Parallel()
	servers := needMasters(t, 3, redisserver.Config{AOF: redisserver.FsyncAlways})
	l := openServers(t, servers, redlock.WithNodeTimeout(patient))
	mustRelease(t, mustAcquire(t, l, "orders/42"))
	pause(time.Second) // its connections go back to their pools
	must(t, servers[1].Kill())
	must(t, servers[1].Restart())
	s, err := l.Cluster().Status(t.Context())
	must(t, err)
	if n := s.Nodes[1]; n.State == redlock.NodeUnreachable {
		t.Errorf("got %v: %s; want a node that answers", n.State, n.Cause)
	}
}
