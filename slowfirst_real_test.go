package redlock_test

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lab/redisserver"
)

// slowStart is a link whose connections are slow to come up, as a tunnel that connects on
// demand: the first reply of each comes late, all others at once.
type slowStart struct {
	net.Listener

	target  string
	late    time.Duration
	connect bool // it counts from the TCP connect, not from the first byte

	mu    sync.Mutex // guards conns
	conns []net.Conn
}

// startSlowly puts such a link in front of each server.
func startSlowly(t *testing.T, servers []*redisserver.Server, connect bool) (links []*slowStart, addrs []string) {
	t.Helper()
	for _, s := range servers {
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		must(t, err)
		link := &slowStart{Listener: l, target: s.Addr(), late: 400 * time.Millisecond, connect: connect}
		var running sync.WaitGroup
		running.Go(func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				running.Go(func() { link.carry(c) })
			}
		})
		t.Cleanup(func() {
			_ = l.Close()
			link.cut()
			running.Wait()
		})
		links, addrs = append(links, link), append(addrs, l.Addr().String())
	}
	return links, addrs
}

// carry relays one connection until either end closes it.
func (s *slowStart) carry(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp4", s.target)
	if err != nil {
		return
	}
	defer server.Close()
	s.mu.Lock()
	s.conns = append(s.conns, client, server)
	s.mu.Unlock()
	up := make(chan time.Time, 1)
	if s.connect {
		up <- time.Now().Add(s.late)
	}
	go func() {
		defer client.Close()
		defer server.Close()
		buf := make([]byte, 32<<10)
		for first := true; ; first = false {
			n, err := client.Read(buf)
			if first && !s.connect {
				up <- time.Now().Add(s.late)
			}
			if err != nil {
				return
			}
			if _, err := server.Write(buf[:n]); err != nil {
				return
			}
		}
	}()
	<-time.After(time.Until(<-up))
	_, _ = io.Copy(client, server)
}

// cut ends all connections that there are.
func (s *slowStart) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.conns {
		_ = c.Close()
	}
	s.conns = nil
}

func TestLocksOverConnectionsWhoseFirstReplyIsSlow(t *testing.T) {
	t.Parallel()
	servers := needMasters(t, 3, redisserver.Config{})
	const ttl = 5 * time.Second
	for from, connect := range map[string]bool{"from the first byte": false, "from the connect": true} {
		for name, locker := range map[string]func(*testing.T, []string) *redlock.Locker{
			"Open": func(t *testing.T, addrs []string) *redlock.Locker {
				t.Helper()
				l, err := redlock.Open(t.Context(), addrs, redlock.WithTTL(ttl), redlock.WithNodeNames(addresses(servers)...))
				must(t, err)
				t.Cleanup(func() { _ = l.Close() })
				return l
			},
			"New": func(t *testing.T, addrs []string) *redlock.Locker {
				t.Helper()
				return lockerWith(t, clientsTo(t, addrs, nil), redlock.WithTTL(ttl), redlock.WithNodeNames(addresses(servers)...))
			},
			"New, with idle connections of its own": func(t *testing.T, addrs []string) *redlock.Locker {
				t.Helper()
				clients := clientsTo(t, addrs, func(o *redis.Options) { o.MinIdleConns = 2 })
				return lockerWith(t, clients, redlock.WithTTL(ttl), redlock.WithNodeNames(addresses(servers)...))
			},
			"New, wrapped": func(t *testing.T, addrs []string) *redlock.Locker {
				t.Helper()
				clients := clientsTo(t, addrs, nil)
				for i, c := range clients {
					clients[i] = wrapped{c}
				}
				return lockerWith(t, clients, redlock.WithTTL(ttl), redlock.WithNodeNames(addresses(servers)...))
			},
		} {
			t.Run(name+", "+from, func(t *testing.T) {
				t.Parallel()
				links, addrs := startSlowly(t, servers, connect)
				l := locker(t, addrs)
				pollUntil(t, 8*time.Second, "TryAcquire has the lock", func() bool {
					lock, err := l.TryAcquire(t.Context(), t.Name())
					return err == nil && lock.Release(t.Context()) == nil
				})
				lock := mustAcquire(t, l, t.Name())
				for _, which := range []string{"first", "second"} {
					for _, link := range links {
						link.cut()
					}
					select {
					case <-lock.Done():
						t.Fatalf("the %s cut of all connections: lost: %v; want it held", which, lock.Err())
					case <-time.After(ttl + 500*time.Millisecond):
					}
				}
				must(t, lock.Release(t.Context()))
				for _, link := range links { // while nothing is held
					link.cut()
				}
				pollUntil(t, 8*time.Second, "the lock is there again", func() bool {
					lock, err := l.TryAcquire(t.Context(), t.Name())
					return err == nil && lock.Release(t.Context()) == nil
				})
				pollUntil(t, 8*time.Second, "all nodes are looked at, and vote", func() bool { return votes(t, l) == 3 })
			})
		}
	}
}

// clientsTo are clients of the program's.
func clientsTo(t *testing.T, addrs []string, change func(*redis.Options)) []redis.UniversalClient {
	t.Helper()
	var clients []redis.UniversalClient
	for _, addr := range addrs {
		o := &redis.Options{Addr: addr}
		if change != nil {
			change(o)
		}
		c := redis.NewClient(o)
		t.Cleanup(func() { _ = c.Close() })
		clients = append(clients, c)
	}
	return clients
}

// A waiter hears of a release over such links too: a subscription's set-up has no less time.
func TestAWaiterSubscribesOverConnectionsWhoseFirstReplyIsSlow(t *testing.T) {
	t.Parallel()
	servers := needMasters(t, 3, redisserver.Config{})
	_, addrs := startSlowly(t, servers, false)
	open := func() *redlock.Locker {
		l, err := redlock.Open(t.Context(), addrs, redlock.WithNodeNames(addresses(servers)...))
		must(t, err)
		t.Cleanup(func() { _ = l.Close() })
		return l
	}
	held := mustAcquire(t, open(), "orders/42")
	var waiting sync.WaitGroup
	waiting.Go(func() {
		lock, err := open().Acquire(t.Context(), "orders/42")
		if err == nil {
			err = lock.Release(t.Context())
		}
		if err != nil {
			t.Errorf("the waiter: %v", err)
		}
	})
	for _, s := range servers {
		c := s.Client()
		pollUntil(t, 8*time.Second, "the waiter has subscribed", func() bool {
			return len(c.PubSubChannels(t.Context(), "*wake*").Val()) > 0
		})
		must(t, c.Close())
	}
	must(t, held.Release(t.Context()))
	waiting.Wait()
}
