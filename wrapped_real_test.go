package redlock_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/testkit/testserver"
)

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
