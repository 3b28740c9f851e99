package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/testkit/testserver"
)

// rotate gives the user a new password on each server, takes the old one away once it is
// current, and cuts the connections.
func rotate(t *testing.T, servers []*redisserver.Server, current *atomic.Pointer[string], password string) {
	t.Helper()
	for _, s := range servers {
		must(t, s.Client().Do(t.Context(), "ACL", "SETUSER", "locks", ">"+password).Err())
	}
	old := *current.Swap(&password)
	for _, s := range servers {
		c := s.Client()
		must(t, c.Do(t.Context(), "ACL", "SETUSER", "locks", "<"+old).Err())
		must(t, c.Do(t.Context(), "CLIENT", "KILL", "USER", "locks").Err())
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
	opts := append(short(), provider, redlock.WithNodeTimeout(700*time.Millisecond))
	l, other := openServers(t, servers, opts...), openServers(t, servers, opts...)
	admitted(t, l)
	lock := mustAcquire(t, l, "orders/42")
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
		until := lock.ValidUntil()
		pollUntil(t, 10*time.Second, "the lock is renewed over connections with the new password", func() bool {
			return lock.ValidUntil().After(until) && asked.Load() >= before+6
		})
	}
	must(t, lock.Err())
	select {
	case err := <-got:
		t.Fatalf("while the lock was held, the waiter got %v", err)
	default:
	}
	mustRelease(t, lock)
	must(t, <-got)
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
	wantError(t, "Open", err, redlock.ErrNoQuorum)
	wantError(t, "Open", err, own)
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
		clients = append(clients, clientOf(t, s, func(o *redis.Options) { o.StreamingCredentialsProvider = noPassword{} }))
	}
	l := lockerWith(t, clients, redlock.WithNodeTimeout(700*time.Millisecond))
	admitted(t, l)
	for range 3 {
		lock, err := l.TryAcquire(t.Context(), "orders/42")
		must(t, err)
		mustRelease(t, lock)
		for i, s := range servers {
			pollUntil(t, 10*time.Second, "no connection is in use", func() bool {
				stats := clients[i].PoolStats()
				return stats.IdleConns == stats.TotalConns
			})
			must(t, s.Client().Do(t.Context(), "CLIENT", "KILL", "TYPE", "normal").Err())
		}
	}
}
