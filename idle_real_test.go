package redlock_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/lab/tcpproxy"
)

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
			return lockerWith(t, clients, redlock.WithNodeTimeout(time.Second), redlock.WithNodeNames("a", "b", "c"))
		}
	}
	for name, locker := range map[string]func(*testing.T, []*tcpproxy.Proxy) *redlock.Locker{
		"Open": func(t *testing.T, proxies []*tcpproxy.Proxy) *redlock.Locker {
			t.Helper()
			var urls []string
			for _, p := range proxies {
				urls = append(urls, p.Addr())
			}
			l, err := redlock.Open(t.Context(), urls, redlock.WithNodeTimeout(time.Second))
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
			for range 4 {
				must(t, redlock.WarmUp(t.Context(), l)) // no node has a command out
				for _, p := range proxies {
					p.HalfOpen()
				}
				redlock.Silence(l, time.Hour)
				lock, err := l.TryAcquire(t.Context(), name)
				must(t, err)
				must(t, lock.Release(t.Context()))
			}
		})
	}
}
