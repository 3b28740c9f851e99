package redlock_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lab/redisserver"
)

// Redis 7 gives a new user no channels. A holder can't be asked by one who may publish
// nowhere, and does not hear it without the right to subscribe: both are said.
func TestWhoMayNotUseTheChannelsHearsThatNoHolderIsAsked(t *testing.T) {
	t.Parallel()
	servers := needMasters(t, 3, redisserver.Config{Users: []string{"app on >SECRET resetchannels ~* +@all"}})
	var urls []string
	for _, s := range servers {
		urls = append(urls, "redis://app:SECRET@"+s.Addr())
	}
	narrow, err := redlock.Open(t.Context(), urls, redlock.WithNodeTimeout(patient))
	must(t, err)
	t.Cleanup(func() { _ = narrow.Close() })
	full := openServers(t, servers, redlock.WithNodeTimeout(patient))
	within := func(d time.Duration) context.Context {
		ctx, cancel := context.WithTimeout(t.Context(), d)
		t.Cleanup(cancel)
		return ctx
	}

	lock := mustAcquire(t, full, "orders/42", redlock.WithRevocation())
	var failed *redlock.QuorumError
	err = narrow.Revoke(within(time.Minute), "orders/42")
	if !errors.Is(err, redlock.ErrMisconfigured) || !errors.As(err, &failed) || isAsked(lock.Revoked()) {
		t.Errorf("got %v, asked: %v; want ErrMisconfigured, and nobody asked", err, isAsked(lock.Revoked()))
	}
	for _, want := range []string{"no node passes the request on", servers[0].Addr(), "NOPERM", "(&redlock:*)", "redlock nodes acl"} {
		if err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("got %v; want %q in it", err, want)
		}
	}
	must(t, servers[1].Client().Do(t.Context(), "ACL", "SETUSER", "app", "&redlock:wake:*").Err())
	done := make(chan error, 1)
	go func() { done <- narrow.Revoke(within(time.Minute), "orders/42") }()
	select { // one node is enough
	case <-lock.Revoked():
		mustRelease(t, lock)
		must(t, <-done)
	case err := <-done:
		t.Errorf("by one node that passes it on: got %v; want the holder asked", err)
	}

	must(t, servers[1].Client().Do(t.Context(), "ACL", "SETUSER", "app", "resetchannels").Err())
	deaf := mustAcquire(t, narrow, "orders/43", redlock.WithRevocation())
	err = full.Revoke(within(3*time.Second), "orders/43")
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "none of them was listening") {
		t.Errorf("of a holder that may not subscribe: got %v; want the deadline, and that nobody listened", err)
	}
	mustRelease(t, deaf)
}
