package locktest

import (
	"context"
	"errors"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/testkit"
)

// DefaultClients are clients as go-redis makes them: they retry, and read for
// five seconds.
func DefaultClients(t *testing.T, addrs ...string) []redis.UniversalClient {
	t.Helper()
	clients := make([]redis.UniversalClient, len(addrs))
	for i, addr := range addrs {
		c := redis.NewClient(&redis.Options{Addr: addr})
		t.Cleanup(func() { _ = c.Close() })
		clients[i] = c
	}
	return clients
}

// Addresses are those of the servers.
func Addresses(servers []*redisserver.Server) []string {
	addrs := make([]string, len(servers))
	for i, s := range servers {
		addrs[i] = s.Addr()
	}
	return addrs
}

// KeyOn reads a key on a real server, over a connection of its own.
func KeyOn(t *testing.T, s *redisserver.Server, key string) string {
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

// KeysOn are the keys of a real server that are not the library's own.
func KeysOn(t *testing.T, s *redisserver.Server) []string {
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

// ClientOf is a client of a server that Check finds no fault with.
func ClientOf(t *testing.T, s *redisserver.Server, change ...func(*redis.Options)) redis.UniversalClient {
	t.Helper()
	o := s.Options()
	o.DialTimeout = time.Second
	for _, f := range change {
		f(o)
	}
	c := redis.NewClient(o)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// ScriptCalls is how many scripts a server has run.
func ScriptCalls(t *testing.T, s *redisserver.Server) int {
	t.Helper()
	c := redis.NewClient(s.Options())
	defer c.Close()
	info, err := c.Info(t.Context(), "commandstats").Result()
	testkit.Must(t, err)
	for line := range strings.Lines(info) {
		if rest, ok := strings.CutPrefix(line, "cmdstat_evalsha:calls="); ok {
			calls, _, _ := strings.Cut(rest, ",")
			n, err := strconv.Atoi(calls)
			testkit.Must(t, err)
			return n
		}
	}
	return 0
}

// Replicate makes a server a replica of a master, and waits until it is in step.
func Replicate(t *testing.T, replica, master *redisserver.Server) {
	t.Helper()
	host, port, err := net.SplitHostPort(master.Addr())
	testkit.Must(t, err)
	c := replica.Client()
	testkit.Must(t, c.ReplicaOf(t.Context(), host, port).Err())
	PollUntil(t, 15*time.Second, "the replica is in step", func() bool {
		info, err := c.Info(t.Context(), "replication").Result()
		return err == nil && strings.Contains(info, "master_link_status:up")
	})
}

// Promote makes a replica a master.
func Promote(t *testing.T, s *redisserver.Server) {
	t.Helper()
	testkit.Must(t, s.Client().ReplicaOf(t.Context(), "NO", "ONE").Err())
}

// SecondChannel has servers send and take snapshots by a connection of its own, which
// they then call a second replica, while the first one has the commands already.
func SecondChannel(t *testing.T, servers []*redisserver.Server) {
	t.Helper()
	settings := map[string]string{"dual-channel-replication-enabled": "yes"} // Valkey
	if len(servers[0].Client().ConfigGet(t.Context(), "repl-rdb-channel").Val()) > 0 {
		settings = map[string]string{"repl-rdb-channel": "yes", "repl-diskless-load": "on-empty-db"} // Redis 8
	}
	settings["repl-diskless-sync-delay"] = "0"
	for _, s := range servers {
		for _, name := range slices.Sorted(maps.Keys(settings)) {
			if err := s.Client().ConfigSet(t.Context(), name, settings[name]).Err(); err != nil {
				t.Skipf("%s has no second channel: %v", s.Program(), err)
			}
		}
	}
}

// InfoOf is a field of INFO.
func InfoOf(t *testing.T, c redis.UniversalClient, field string) string {
	t.Helper()
	_, rest, found := strings.Cut(c.Info(t.Context()).Val(), "\n"+field+":")
	if !found {
		t.Fatalf("INFO has no %s", field)
	}
	value, _, _ := strings.Cut(rest, "\r\n")
	return value
}

// FakeClockLocker is a Locker over real servers whose clocks can be set.
func FakeClockLocker(t *testing.T, servers []*redisserver.Server, opts ...redlock.Option) *redlock.Locker {
	t.Helper()
	return OpenServers(t, servers, append([]redlock.Option{redlock.WithNodeTimeout(time.Second)}, opts...)...)
}

// SetClocks sets the clocks of servers that have fake ones.
func SetClocks(t *testing.T, servers []*redisserver.Server, offset string) {
	t.Helper()
	for _, s := range servers {
		if err := s.SetClock(offset); err != nil {
			t.Fatalf("SetClock(%q): %v", offset, err)
		}
	}
}

// Occupy takes, as the program, a connection of each pool for the test.
func Occupy(t *testing.T, clients []redis.UniversalClient) {
	t.Helper()
	for _, c := range clients {
		own := c.(*redis.Client).Conn()
		t.Cleanup(func() { _ = own.Close() })
		testkit.Must(t, own.Ping(t.Context()).Err())
	}
}
