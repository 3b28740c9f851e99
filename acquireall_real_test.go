package redlock_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/testkit/testserver"
)

// Overlapping sets, in any order, of goroutines of several processes: all make progress,
// no name is held twice, and nothing is left, while two masters of five are killed.
func TestOverlappingSetsMakeProgressOnRealServersOfWhichTwoAreKilled(t *testing.T) {
	t.Parallel()
	const (
		processes = 3
		each      = 3
		sets      = 40 // of each goroutine
	)
	servers := testserver.Need(t, 5, redisserver.Config{})
	var lockers []*redlock.Locker
	for range processes {
		lockers = append(lockers, lockerWith(t, defaultClients(t, addresses(servers)...), redlock.WithNodeNames(addresses(servers)...)))
	}
	admitted(t, lockers[0])
	for _, l := range lockers {
		warm(t, l)
	}
	all := names(5)
	var inside [5]atomic.Int32
	var done atomic.Int64
	var wg sync.WaitGroup
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for g := range processes * each {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(g), 11))
			for range sets {
				order := rnd.Perm(len(all))[:2+rnd.IntN(3)]
				set := make([]string, len(order))
				for k, i := range order {
					set[k] = all[i]
				}
				err := lockers[g%processes].DoAll(ctx, set, func(context.Context, *redlock.MultiLock) error {
					for _, i := range order {
						if inside[i].Add(1) != 1 {
							t.Errorf("%s is held twice", all[i])
						}
					}
					pause(time.Duration(rnd.IntN(3)) * time.Millisecond)
					for _, i := range order {
						inside[i].Add(-1)
					}
					return nil
				})
				if err != nil {
					t.Errorf("goroutine %d: DoAll(%q): %v", g, set, err)
					return
				}
				done.Add(1)
			}
		})
	}
	for k, victim := range []int{1, 3} {
		pollUntil(t, time.Minute, "a third more of the sets is done", func() bool { return int(done.Load()) >= (k+1)*processes*each*sets/3 || ctx.Err() != nil })
		must(t, servers[victim].Kill())
	}
	began := time.Now()
	wg.Wait()
	t.Logf("%d sets, the last third in %v", done.Load(), time.Since(began))
	for _, i := range []int{0, 2, 4} {
		pollUntil(t, 20*time.Second, "the masters that live have no lock", func() bool { return len(keysOn(t, servers[i])) == 0 })
	}
}

// What a set holds while it waits is renewed, and the release of the name that it lacks
// brings it the rest at once.
func TestASetThatWaitsIsServedOnRealServers(t *testing.T) {
	t.Parallel()
	servers := testserver.Need(t, 3, redisserver.Config{})
	open := func() *redlock.Locker {
		return lockerWith(t, defaultClients(t, addresses(servers)...), append(short(), redlock.WithNodeNames(addresses(servers)...))...)
	}
	l, other := open(), open()
	admitted(t, l)
	warm(t, l)
	warm(t, other)
	b := mustAcquire(t, other, "b")
	got := make(chan gainedAll, 1)
	go func() {
		m, err := l.AcquireAll(t.Context(), []string{"c", "b", "a"})
		got <- gainedAll{m, err, time.Now()}
	}()
	pause(4 * time.Second) // more than two leases
	if _, err := other.TryAcquire(t.Context(), "a"); !errors.Is(err, redlock.ErrNotAcquired) {
		t.Errorf("the name before: got %v; want it held", err)
	}
	c, err := other.TryAcquire(t.Context(), "c")
	if err != nil {
		t.Fatalf("the name behind: %v; want it free", err)
	}
	mustRelease(t, c)
	released := time.Now()
	mustRelease(t, b)
	g := <-got
	must(t, g.err)
	if took := g.at.Sub(released); took > time.Second {
		t.Errorf("it had the set %v after the release; want it soon", took)
	}
	if g.locks.Token("b") <= b.Token() || g.locks.Token("c") <= c.Token() {
		t.Errorf("got tokens %d and %d; want them above %d and %d", g.locks.Token("b"), g.locks.Token("c"), b.Token(), c.Token())
	}
	must(t, g.locks.Release(t.Context()))
}
