//go:build unix

package redlock_test

import (
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
	"github.com/quorumkit/redlock/internal/testkit/testserver"
)

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
