package node_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/auth"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/internal/testkit/locktest"
	"github.com/quorumkit/redlock/internal/testkit/testserver"
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
	locktest.WantError(t, "Open with a user in a URL", err, redlock.ErrInvalidOption)
	_, err = redlock.Open(t.Context(), []string{"127.0.0.1:1"}, redlock.WithCredentials(nil))
	locktest.WantError(t, "Open without a provider", err, redlock.ErrInvalidOption)
	_, err = redlock.New(locktest.DefaultClients(t, "127.0.0.1:1"), provider)
	locktest.WantError(t, "New", err, redlock.ErrInvalidOption)
}

// It ended the whole program: the writer pins connections, and verifies over one.
func TestAClientWithStreamingCredentialsOutlivesConnectionsThatAreCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := redlocktest.Start(t, 3)
		l := locktest.LockerWith(t, streaming(t, nodes), redlock.WithNodeNames(nodes.Names()...))
		lock := locktest.MustAcquire(t, l, "orders/42")
		for range 3 {
			for i, n := range nodes.Nodes() {
				n.Intercept(func([]string) redlocktest.Verdict { return redlocktest.BreakBefore() })
				time.Sleep(10*time.Second + time.Duration(i)) // every connection is used, and cut
				n.Intercept(nil)
				time.Sleep(10 * time.Second)
			}
			locktest.MustRelease(t, locktest.MustAcquire(t, l, "orders/43"))
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
			clients = append(clients, struct{ redis.UniversalClient }{c})
		}
		l := locktest.LockerWith(t, clients, redlock.WithNodeNames(nodes.Names()...))
		for range 30 {
			_, err := l.Acquire(t.Context(), "orders/42")
			locktest.WantError(t, "Acquire", err, redlock.ErrMisconfigured)
			if err == nil || !strings.Contains(err.Error(), "StreamingCredentialsProvider") {
				t.Fatalf("Acquire: got %v; want it to name the provider", err)
			}
			time.Sleep(time.Minute)
		}
		for _, c := range inside {
			if got := c.PoolStats().TotalConns; got > 2 {
				t.Errorf("its pool has %d connections; want those of its own commands, and one that go-redis lost", got)
			}
			testkit.Must(t, c.Ping(t.Context()).Err())
		}
	})
}

// rotate gives the user a new password on each server, takes the old one away once it is
// current, and cuts the connections.
func rotate(t *testing.T, servers []*redisserver.Server, current *atomic.Pointer[string], password string) {
	t.Helper()
	for _, s := range servers {
		testkit.Must(t, s.Client().Do(t.Context(), "ACL", "SETUSER", "locks", ">"+password).Err())
	}
	old := *current.Swap(&password)
	for _, s := range servers {
		c := s.Client()
		testkit.Must(t, c.Do(t.Context(), "ACL", "SETUSER", "locks", "<"+old).Err())
		testkit.Must(t, c.Do(t.Context(), "CLIENT", "KILL", "USER", "locks").Err())
	}
}

func TestALockIsHeldAndWaitedForWhileThePasswordRotates(t *testing.T) {
	t.Parallel()
	servers := testserver.Need(t, 3, redisserver.Config{Users: []string{"locks on >first ~* &* +@all"}})
	var current atomic.Pointer[string]
	var asked atomic.Int64
	first := "first"
	current.Store(&first)
	provider := redlock.WithCredentials(func(context.Context) (string, string, error) {
		asked.Add(1)
		return "locks", *current.Load(), nil
	})
	opts := append(locktest.ShortLeases(), provider, redlock.WithNodeTimeout(700*time.Millisecond))
	l, other := locktest.OpenServers(t, servers, opts...), locktest.OpenServers(t, servers, opts...)
	locktest.Admit(t, l)
	lock := locktest.MustAcquire(t, l, "orders/42")
	got := make(chan error, 1)
	go func() {
		next, err := other.Acquire(t.Context(), "orders/42")
		if err == nil {
			err = next.Release(t.Context())
		}
		got <- err
	}()
	for i := range 3 {
		before := asked.Load()
		rotate(t, servers, &current, fmt.Sprint("password ", i))
		until := time.Now().Add(lock.Remaining())
		locktest.PollUntil(t, 10*time.Second, "the lock is renewed over connections with the new password", func() bool {
			return time.Now().Add(lock.Remaining()).After(until.Add(time.Millisecond)) && asked.Load() >= before+6
		})
	}
	testkit.Must(t, lock.Err())
	select {
	case err := <-got:
		t.Fatalf("while the lock was held, the waiter got %v", err)
	default:
	}
	locktest.MustRelease(t, lock)
	testkit.Must(t, <-got)
}

// A provider that fails keeps a node from being reached, and is named.
func TestAProviderThatFailsIsNamed(t *testing.T) {
	t.Parallel()
	s := testserver.NeedOne(t, redisserver.Config{})
	own := errors.New("the vault is sealed")
	_, err := redlock.Open(t.Context(), []string{s.URL()}, redlock.WithCredentials(func(ctx context.Context) (string, string, error) {
		if _, bounded := ctx.Deadline(); !bounded {
			t.Error("nothing bounds the provider")
		}
		return "", "", own
	}))
	locktest.WantError(t, "Open", err, redlock.ErrNoQuorum)
	locktest.WantError(t, "Open", err, own)
	if err != nil && strings.Contains(err.Error(), "not reached") {
		t.Errorf("Open: got %v; want no word of the network", err)
	}
}

// What idles is closed by the server, and the first attempt after that dials: over a
// connection that only the client itself may set up.
func TestTheFirstAttemptOfStreamingCredentialsAfterACutSucceeds(t *testing.T) {
	t.Parallel()
	servers := testserver.Need(t, 3, redisserver.Config{})
	var clients []redis.UniversalClient
	for _, s := range servers {
		clients = append(clients, locktest.ClientOf(t, s, func(o *redis.Options) { o.StreamingCredentialsProvider = noPassword{} }))
	}
	l := locktest.LockerWith(t, clients, redlock.WithNodeTimeout(700*time.Millisecond))
	locktest.Admit(t, l)
	for range 3 {
		lock, err := l.TryAcquire(t.Context(), "orders/42")
		testkit.Must(t, err)
		locktest.MustRelease(t, lock)
		for i, s := range servers {
			locktest.PollUntil(t, 10*time.Second, "no connection is in use", func() bool {
				stats := clients[i].PoolStats()
				return stats.IdleConns == stats.TotalConns
			})
			testkit.Must(t, s.Client().Do(t.Context(), "CLIENT", "KILL", "TYPE", "normal").Err())
		}
	}
}
