//go:build unix

package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
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

// Processes read one name all the time, and write it now and then, while one of five nodes
// is killed (kill -9) and comes back empty, one is stopped, and the connections that bring
// the calls of a third are cut: nobody reads while it is written, both kinds go on, and at the end
// nobody is left in line.
func TestReadersAndWritersWaitInOneLineOnRealServers(t *testing.T) {
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
	eyes := look(t, servers).eyes
	ctx, stop := context.WithCancel(t.Context())
	var workers sync.WaitGroup
	var reading, writing, reads, writes atomic.Int64
	work := func(l *redlock.Locker, in, done *atomic.Int64, pause time.Duration, opts ...redlock.AcquireOption) {
		for ctx.Err() == nil {
			lock, err := l.Acquire(ctx, "orders/42", opts...)
			if errors.Is(err, redlock.ErrNoQuorum) { // a node is away, and another abstains
				continue
			}
			if err != nil {
				if !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
				return
			}
			in.Add(1)
			if w, r := writing.Load(), reading.Load(); (w > 1 || w == 1 && r > 0) && lock.Err() == nil {
				t.Errorf("%d write and %d read at one time", w, r)
			}
			done.Add(1)
			rest(ctx, pause)
			in.Add(-1)
			_ = lock.Release(context.Background()) // a node may be away
			rest(ctx, pause)
		}
	}
	for i, l := range lockers {
		for range 4 {
			workers.Go(func() { work(l, &reading, &reads, 5*time.Millisecond, redlock.WithShared()) })
		}
		if i < 2 {
			workers.Go(func() { work(l, &writing, &writes, 20*time.Millisecond) })
		}
	}
	goOn := func(when string) {
		t.Helper()
		r, w := reads.Load(), writes.Load()
		pollUntil(t, 30*time.Second, when+": both kinds go on", func() bool { return reads.Load() > r+20 && writes.Load() > w+5 })
	}
	goOn("at first")
	must(t, servers[0].Kill())
	goOn("one node killed")
	must(t, servers[1].Pause())
	goOn("another stopped")
	must(t, servers[1].Resume())
	must(t, servers[0].RestartEmpty())
	goOn("both back")
	for range 5 {
		must(t, eyes[2].ClientKillByFilter(t.Context(), "TYPE", "pubsub").Err())
		goOn("calls of one node cut")
	}
	stop()
	workers.Wait()
	pollUntil(t, 30*time.Second, "nobody is left in line", func() bool {
		return !slices.ContainsFunc(eyes, func(c *redis.Client) bool {
			return c.Exists(t.Context(), "orders/42", "redlock:queue:orders/42", "redlock:sharers:orders/42").Val() != 0
		})
	})
	t.Logf("%d reads and %d writes", reads.Load(), writes.Load())
}

// rest waits, or until ctx is done.
func rest(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// Three nodes, of which one is killed (kill -9) while goroutines of four Lockers take turns
// with two slots: never more than two hold, all get on, and nothing is left.
func TestSlotsOnRealServersOfWhichOneIsKilled(t *testing.T) {
	t.Parallel()
	const limit, lease = 2, 3 * time.Second
	servers := testserver.Need(t, 3, redisserver.Config{})
	var lockers []*redlock.Locker
	for range 4 {
		lockers = append(lockers, openServers(t, servers, redlock.WithTTL(lease), redlock.WithMaxTTL(lease)))
	}
	admitted(t, lockers[0])
	for _, l := range lockers {
		warm(t, l)
	}
	eyes := look(t, servers).eyes
	holders := newSlotCount(t, limit)
	var all sync.WaitGroup
	var holds atomic.Int64
	stop := make(chan struct{})
	for i, l := range lockers {
		for g := range 3 {
			rnd := rand.New(rand.NewPCG(uint64(i), uint64(g)))
			all.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					lock, err := l.Acquire(t.Context(), "pool", redlock.WithLimit(limit))
					if err != nil {
						t.Errorf("Acquire: %v", err)
						return
					}
					holders.enter(lock)
					pause(time.Duration(rnd.IntN(4)) * time.Millisecond)
					holders.leave(lock)
					_ = lock.Release(t.Context()) // unconfirmed while two nodes are slow
					holds.Add(1)
				}
			})
		}
	}
	more := func(when string) {
		t.Helper()
		at := holds.Load()
		pollUntil(t, 60*time.Second, when+": 60 holds more", func() bool { return holds.Load() >= at+60 })
	}
	more("at first")
	must(t, servers[0].Kill())
	more("one node killed")
	must(t, servers[0].RestartEmpty())
	more("and back")
	close(stop)
	all.Wait()
	if holders.most != limit {
		t.Errorf("%d held at once; want %d, as so many wanted", holders.most, limit)
	}
	t.Logf("%d holds", holds.Load())
	pollUntil(t, 30*time.Second, "nothing is left", func() bool {
		return !slices.ContainsFunc(eyes, func(c *redis.Client) bool {
			return len(c.Keys(t.Context(), "redlock:slot*").Val())+len(c.Keys(t.Context(), "redlock:queue:*").Val()) != 0
		})
	})
}

// As many as there are slots try at one moment: each has one. Before, a third of the rounds
// refused one: it asked once more, and another had just taken that slot too.
func TestAsManyAsThereAreSlotsTryAndNoneIsRefusedOnRealServers(t *testing.T) {
	t.Parallel()
	const limit = 4
	servers := testserver.Need(t, 3, redisserver.Config{})
	var lockers []*redlock.Locker
	for range limit {
		lockers = append(lockers, openServers(t, servers, redlock.WithNodeTimeout(2*time.Second)))
	}
	admitted(t, lockers[0])
	for _, l := range lockers {
		warm(t, l)
	}
	for round := range 30 {
		name := fmt.Sprint("pool ", round) // a Locker asks for the slot that it had last of a name
		var tried, released sync.WaitGroup
		tried.Add(limit)
		for _, l := range lockers {
			released.Go(func() {
				lock, err := l.TryAcquire(t.Context(), name, redlock.WithLimit(limit))
				tried.Done()
				if err != nil {
					t.Errorf("TryAcquire: %v; want a slot of %d, one for each", err, limit)
					return
				}
				tried.Wait()
				mustRelease(t, lock)
			})
		}
		released.Wait()
	}
}

// A holder dies: another gets its slot when its lease is over, and not before.
func TestADeadHoldersSlotComesBackOnRealServers(t *testing.T) {
	t.Parallel()
	const lease = 2 * time.Second
	servers := testserver.Need(t, 3, redisserver.Config{})
	open := func() (*redlock.Locker, []redis.UniversalClient) {
		var clients []redis.UniversalClient
		for _, s := range servers {
			c := redis.NewClient(s.Options())
			t.Cleanup(func() { _ = c.Close() })
			clients = append(clients, c)
		}
		return lockerWith(t, clients, redlock.WithNodeNames(addresses(servers)...), redlock.WithTTL(lease), redlock.WithMaxTTL(lease)), clients
	}
	living, _ := open()
	other, _ := open()
	dead, dying := open()
	admitted(t, living)
	for _, l := range []*redlock.Locker{living, other, dead} {
		warm(t, l)
	}
	limit := redlock.WithLimit(2)
	held := mustAcquire(t, living, "pool", limit)
	lost := mustAcquire(t, dead, "pool", limit)
	began := time.Now() // its lease may have been renewed until now
	for _, c := range dying {
		must(t, c.Close()) // what it still wants to send fails
	}
	next := mustAcquire(t, other, "pool", limit)
	if next.Slot() != lost.Slot() {
		t.Errorf("got slot %d; want that of the dead holder, %d", next.Slot(), lost.Slot())
	}
	if took := time.Since(began); took > lease+10*time.Second {
		t.Errorf("it came after %v; want with the lease of %v", took, lease)
	}
	if lost.Err() == nil {
		t.Error("the next holds the slot, and the dead one believes in it still")
	}
	must(t, held.Err())
	mustRelease(t, held)
	mustRelease(t, next)
}
