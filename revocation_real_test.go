package redlock_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lab/redisserver"
)

// Over servers of which one is killed, while the holder's subscriptions are cut, and with
// several who share.
func TestHoldersAreAskedOnRealServers(t *testing.T) {
	t.Parallel()
	servers := needMasters(t, 5, redisserver.Config{})
	l, other := openServers(t, servers), openServers(t, servers)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()

	lock := mustAcquire(t, l, "orders/42", redlock.WithRevocation(), redlock.WithValue("a"))
	done := make(chan error, 1)
	ask := func() { go func() { done <- other.Revoke(ctx, "orders/42") }() }
	must(t, servers[0].Kill())
	for _, s := range servers[1:] {
		c := clientOf(t, s)
		must(t, c.Do(ctx, "CLIENT", "KILL", "TYPE", "pubsub").Err())
	}
	ask()
	select {
	case <-lock.Revoked():
	case <-ctx.Done():
		t.Fatal("the holder was not asked")
	}
	must(t, lock.Err())
	mustRelease(t, lock)
	must(t, <-done)

	a := mustAcquire(t, l, "orders/42", redlock.WithShared(), redlock.WithRevocation())
	b := mustAcquire(t, other, "orders/42", redlock.WithShared(), redlock.WithRevocation())
	ask()
	for _, lock := range []*redlock.Lock{a, b} {
		select {
		case <-lock.Revoked():
		case <-ctx.Done():
			t.Fatal("one who shares was not asked")
		}
		mustRelease(t, lock)
	}
	must(t, <-done)
	for _, s := range servers[1:] {
		pollUntil(t, 5*time.Second, "nothing of it is left", func() bool { // no key has ended by itself yet
			return !slices.ContainsFunc(keysOn(t, s), func(key string) bool { return strings.Contains(key, "orders/42") })
		})
	}
	wantError(t, "nobody holds", other.Revoke(ctx, "orders/42"), redlock.ErrNotHeld)
}

// A set waits for what somebody holds: what it has meanwhile goes to who asks for it.
func TestASetThatWaitsGivesBackOnRealServers(t *testing.T) {
	t.Parallel()
	servers := needMasters(t, 3, redisserver.Config{})
	l, other := openServers(t, servers), openServers(t, servers)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	blocker := mustAcquire(t, other, "b")
	set := make(chan error, 1)
	go func() {
		m, err := l.AcquireAll(ctx, []string{"a", "b"}, redlock.WithRevocation())
		if err == nil {
			err = m.Release(ctx)
		}
		set <- err
	}()
	pollUntil(t, 10*time.Second, "the set holds a", func() bool { return other.Revoke(ctx, "a") == nil })
	mustRelease(t, blocker)
	must(t, <-set)
}

// The rights that the page lists are enough to be asked, and to ask.
func TestRevocationNeedsNoFurtherRights(t *testing.T) {
	t.Parallel()
	page := strings.Join(pageRights(t), " ")
	l := lockerWith(t, asUsers(t, page), redlock.WithPrefix("orders/"), redlock.WithNodeTimeout(patient))
	admitted(t, l)
	lock := mustAcquire(t, l, "42", redlock.WithRevocation())
	go func() {
		<-lock.Revoked()
		_ = lock.Release(context.Background())
	}()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	must(t, l.Revoke(ctx, "42"))
}
