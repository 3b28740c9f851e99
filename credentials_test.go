package redlock_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/auth"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/redlocktest"
)

// noPassword hands out credentials without a password, and never others.
type noPassword struct{}

func (noPassword) Subscribe(auth.CredentialsListener) (auth.Credentials, auth.UnsubscribeFunc, error) {
	return auth.NewBasicCredentials("", ""), func() error { return nil }, nil
}

// streaming are clients of the nodes that are handed their credentials.
func streaming(t *testing.T, nodes *redlocktest.Cluster) []redis.UniversalClient {
	t.Helper()
	var clients []redis.UniversalClient
	for _, n := range nodes.Nodes() {
		o := n.Options()
		o.StreamingCredentialsProvider = noPassword{}
		c := redis.NewClient(o)
		t.Cleanup(func() { _ = c.Close() })
		clients = append(clients, c)
	}
	return clients
}

// The cause of the detour in internal/node (pinnable). Where this fails, go-redis is
// mended: take the detour out, and this test.
func TestGoRedisPanicsWhereAPinnedConnectionDialsForStreamingCredentials(t *testing.T) {
	nodes := redlocktest.Start(t, 1)
	c := streaming(t, nodes)[0].(*redis.Client)
	for what, use := range map[string]func() error{
		"Conn": func() error { return c.Conn().Ping(t.Context()).Err() },
		"Watch": func() error {
			return c.Watch(t.Context(), func(tx *redis.Tx) error { return tx.Ping(t.Context()).Err() })
		},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s of go-redis dials with a StreamingCredentialsProvider, and does not panic any more: "+
						"remove pinnable in internal/node/connection.go, and this test", what)
				}
			}()
			_ = use()
		}()
	}
}

func TestWithCredentialsIsRefusedWhereItCanDoNothing(t *testing.T) {
	provider := redlock.WithCredentials(func(context.Context) (string, string, error) { return "", "", nil })
	_, err := redlock.Open(t.Context(), []string{"127.0.0.1:1", "redis://locks@127.0.0.1:2"}, provider)
	wantError(t, "Open with a user in a URL", err, redlock.ErrInvalidOption)
	_, err = redlock.Open(t.Context(), []string{"127.0.0.1:1"}, redlock.WithCredentials(nil))
	wantError(t, "Open without a provider", err, redlock.ErrInvalidOption)
	_, err = redlock.New(defaultClients(t, "127.0.0.1:1"), provider)
	wantError(t, "New", err, redlock.ErrInvalidOption)
}

// It ended the whole program: the writer pins connections, and verifies over one.
func TestAClientWithStreamingCredentialsOutlivesConnectionsThatAreCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := redlocktest.Start(t, 3)
		l := lockerWith(t, streaming(t, nodes), redlock.WithNodeNames(nodes.Names()...))
		lock := mustAcquire(t, l, "orders/42")
		for range 3 {
			for i, n := range nodes.Nodes() {
				n.Intercept(func([]string) redlocktest.Verdict { return redlocktest.BreakBefore() })
				time.Sleep(10*time.Second + time.Duration(i)) // every connection is used, and cut
				n.Intercept(nil)
				time.Sleep(10 * time.Second)
			}
			mustRelease(t, mustAcquire(t, l, "orders/43"))
			if err := lock.Context().Err(); err != nil {
				t.Fatalf("the lock that was held is gone: %v", context.Cause(lock.Context()))
			}
		}
	})
}

// What is inside a wrapper can't be seen, and go-redis panics: that is told, and go-redis is
// asked no second time, since it keeps a connection's place in the pool each time.
func TestAWrappedClientWithStreamingCredentialsIsRefusedAndThePoolStaysWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := redlocktest.Start(t, 3)
		inside := streaming(t, nodes)
		var clients []redis.UniversalClient
		for _, c := range inside {
			clients = append(clients, wrapped{c})
		}
		l := lockerWith(t, clients, redlock.WithNodeNames(nodes.Names()...))
		for range 30 {
			_, err := l.Acquire(t.Context(), "orders/42")
			wantError(t, "Acquire", err, redlock.ErrMisconfigured)
			if err == nil || !strings.Contains(err.Error(), "StreamingCredentialsProvider") {
				t.Fatalf("Acquire: got %v; want it to name the provider", err)
			}
			time.Sleep(time.Minute)
		}
		for _, c := range inside {
			if got := c.PoolStats().TotalConns; got > 2 {
				t.Errorf("its pool has %d connections; want those of its own commands, and one that go-redis lost", got)
			}
			must(t, c.Ping(t.Context()).Err())
		}
	})
}
