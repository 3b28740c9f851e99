//go:build unix

package redlock_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/testkit/testserver"
)

// sharersOn are the owner values that share orders/42 on a server.
func sharersOn(t *testing.T, c *redis.Client) []string {
	t.Helper()
	all, err := c.ZRange(t.Context(), "orders/42", 0, -1).Result()
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(all, func(m string) bool { return m == lua.SharedMark })
}

// Five nodes, of which one is killed (kill -9) and restarted empty, one stopped and
// continued, and one flushed, while processes share a name: nobody loses it, nobody else
// gets it, and the nodes that forgot have all who share again.
func TestSharedHoldsOutliveTheirNodesOnRealServers(t *testing.T) {
	t.Parallel()
	const lease = 3 * time.Second
	servers := testserver.Need(t, 5, redisserver.Config{})
	open := func() *redlock.Locker {
		return openServers(t, servers, redlock.WithTTL(lease), redlock.WithMaxTTL(lease))
	}
	lockers := []*redlock.Locker{open(), open(), open()}
	admitted(t, lockers[0])
	for _, l := range lockers {
		warm(t, l)
	}
	before := mustAcquire(t, lockers[0], "orders/42")
	mustRelease(t, before)
	eyes := look(t, servers).eyes

	var held []*redlock.Lock
	for range 4 {
		for _, l := range lockers {
			held = append(held, shares(t, l))
		}
	}
	for i, lock := range held {
		if lock.Token() != held[0].Token() || lock.Token() <= before.Token() {
			t.Errorf("sharer %d has token %v; want %v like the first, above %v", i, lock.Token(), held[0].Token(), before.Token())
		}
	}
	check := func(when string) {
		t.Helper()
		for i, lock := range held {
			if err := lock.Err(); err != nil {
				t.Fatalf("%s: sharer %d: %v", when, i, err)
			}
		}
		if lock, err := lockers[1].TryAcquire(t.Context(), "orders/42"); err == nil {
			t.Fatalf("%s: got it exclusively, with token %v", when, lock.Token())
		}
	}
	again := func(when string) {
		t.Helper()
		pollUntil(t, 30*time.Second, when+": all nodes have all who share", func() bool {
			check(when)
			return !slices.ContainsFunc(eyes, func(c *redis.Client) bool { return len(sharersOn(t, c)) != len(held) })
		})
	}
	again("at first")
	must(t, servers[0].Kill())
	check("one node killed")
	must(t, servers[1].Pause())
	check("another stopped")
	pause(2 * lease)
	check("for two leases")
	must(t, servers[1].Resume())
	must(t, servers[0].RestartEmpty())
	again("both back")
	must(t, servers[2].Flush(t.Context()))
	again("one flushed")

	for i, c := range eyes {
		if ok, err := c.SetNX(t.Context(), "orders/42", "theirs", time.Minute).Result(); ok || err != nil {
			t.Errorf("a foreign SET NX on node %d while shared: %v, %v; want it refused", i, ok, err)
		}
	}
	for _, lock := range held {
		mustRelease(t, lock)
	}
	after := mustAcquire(t, lockers[2], "orders/42")
	for _, lock := range held {
		if after.Token() <= lock.Token() {
			t.Errorf("exclusive token %v after the shared one %v", after.Token(), lock.Token())
		}
	}
	if _, err := lockers[0].TryAcquire(t.Context(), "orders/42", redlock.WithShared()); !errors.Is(err, redlock.ErrNotAcquired) {
		t.Errorf("beside an exclusive hold: got %v; want ErrNotAcquired", err)
	}
	mustRelease(t, after)
	pollUntil(t, 10*time.Second, "nothing is left", func() bool {
		return !slices.ContainsFunc(eyes, func(c *redis.Client) bool { return c.Exists(t.Context(), "orders/42").Val() != 0 })
	})
}

// A process that shares dies: an exclusive hold comes when its lease is over, though
// another has renewed its own beside it all the time.
func TestADeadSharerDelaysByItsLeaseOnRealServers(t *testing.T) {
	t.Parallel()
	const lease = 6 * time.Second
	servers := testserver.Need(t, 3, redisserver.Config{})
	open := func(clients []redis.UniversalClient) *redlock.Locker {
		return lockerWith(t, clients, redlock.WithNodeNames(addresses(servers)...), redlock.WithTTL(lease), redlock.WithMaxTTL(lease))
	}
	clients := func() (all []redis.UniversalClient) {
		for _, s := range servers {
			c := redis.NewClient(s.Options())
			t.Cleanup(func() { _ = c.Close() })
			all = append(all, c)
		}
		return all
	}
	living, other := open(clients()), open(clients())
	dying := clients()
	dead := open(dying)
	admitted(t, living)
	for _, l := range []*redlock.Locker{living, other, dead} {
		warm(t, l)
	}
	beside := shares(t, living)
	shares(t, dead)
	began := time.Now() // its lease may have been renewed until now
	for _, c := range dying {
		must(t, c.Close()) // what it still wants to send fails
	}
	gained := make(chan *redlock.Lock, 1)
	ctx := t.Context()
	go func() {
		lock, err := other.Acquire(ctx, "orders/42")
		if err != nil {
			t.Error(err)
		}
		gained <- lock
	}()
	pause(lease / 2)
	must(t, beside.Err())
	mustRelease(t, beside)
	lock := <-gained
	if took := time.Since(began); lock == nil || took < lease/2 || took > lease+2*time.Second {
		t.Fatalf("got %v %v after a sharer died; want it when its lease of %v is over", lock, took, lease)
	}
	mustRelease(t, lock)
}
