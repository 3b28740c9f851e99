package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/lab/tcpproxy"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/internal/testkit/testserver"
)

// The defects that only real servers show.

func TestDefectLockExtendAndUnlockTakeFiveSecondsEachWithOneHungNode(t *testing.T) {
	servers := needMasters(t, 3, redisserver.Config{})
	l := lockerWith(t, defaultClients(t, addresses(servers)...))
	warm(t, l)
	must(t, servers[1].Pause())
	for range 3 {
		began := time.Now()
		lock := mustAcquire(t, l, "orders/42")
		if err := lock.Extend(t.Context(), redlock.DefaultTTL); err != nil {
			t.Errorf("Extend: %v", err)
		}
		if err := lock.Release(t.Context()); err != nil {
			t.Errorf("Release: %v", err)
		}
		if took := time.Since(began); took > time.Second { // 15 s in those libraries
			t.Errorf("lock, extend and unlock took %v; want no wait for the hung node", took)
		}
	}
	must(t, servers[1].Resume())
	pollUntil(t, 2*time.Second, "the node that was hung takes part again", func() bool {
		lock := mustAcquire(t, l, "orders/43")
		has := keyOn(t, servers[1], "orders/43") != ""
		mustRelease(t, lock)
		return has
	})
}

func TestDefectLateSetAfterARollbackOnStoppedServers(t *testing.T) {
	besideServers(t)
	servers := needMasters(t, 3, redisserver.Config{})
	for name, l := range map[string]*redlock.Locker{
		"New with default clients": lockerWith(t, defaultClients(t, addresses(servers)...)),
		"Open":                     openServers(t, servers),
	} {
		for round := range 4 {
			resource := fmt.Sprintf("%s/%d", name, round)
			allTakePart(t, l, servers)
			before := make([]int, len(servers))
			for i, s := range servers {
				before[i] = scriptCalls(t, s)
			}
			for _, s := range servers[1:] {
				must(t, s.Pause())
			}
			_, err := l.TryAcquire(t.Context(), resource)
			wantError(t, resource+": TryAcquire with two of three stopped", err, redlock.ErrNoQuorum)
			for _, s := range servers[1:] {
				must(t, s.Resume())
			}
			for i, s := range servers {
				// The acquire and its rollback, in any order they come. An orphan
				// would stay for a lease, which is longer than this waits.
				pollUntil(t, 5*time.Second, fmt.Sprintf("%s: server %d has run both and shows no key", resource, i), func() bool {
					return scriptCalls(t, s) >= before[i]+2 && keyOn(t, s, resource) == ""
				})
			}
		}
		must(t, l.Close())
	}
}

// allTakePart waits until every server votes for the Locker and owes it nothing.
func allTakePart(t *testing.T, l *redlock.Locker, servers []*redisserver.Server) {
	t.Helper()
	on := func(want int) func() bool {
		return func() bool {
			have := 0
			for _, s := range servers {
				if keyOn(t, s, "warm") != "" {
					have++
				}
			}
			return have == want
		}
	}
	for range 50 {
		lock := mustAcquire(t, l, "warm")
		all := on(len(servers))()
		mustRelease(t, lock)
		pollUntil(t, 5*time.Second, "the key is gone from all servers", on(0))
		if all {
			return
		}
	}
	t.Fatal("after 50 acquisitions: never on all servers")
}

func TestDefectOneRedisUnderTwoAddressesIsRefused(t *testing.T) {
	servers := testserver.Need(t, 2, redisserver.Config{})
	proxy, err := tcpproxy.New(servers[0].Addr())
	must(t, err)
	defer proxy.Close()
	urls := []string{servers[0].Addr(), proxy.Addr(), servers[1].Addr()}
	l, err := redlock.Open(t.Context(), urls)
	wantError(t, "Open", err, redlock.ErrMisconfigured)
	if err == nil {
		_ = l.Close()
	}
	l = lockerWith(t, defaultClients(t, urls...))
	_, err = l.TryAcquire(t.Context(), "orders/42")
	wantError(t, "TryAcquire", err, redlock.ErrMisconfigured)
	wantError(t, "TryAcquire", err, redlock.ErrNoQuorum)
}

// A list that names one node of an established cluster twice and forgets another:
// the others are a quorum, so that only Open can tell.
func TestDefectOneRedisUnderTwoAddressesIsRefusedWhereTheRestIsAQuorum(t *testing.T) {
	servers := needMasters(t, 3, redisserver.Config{})
	proxy, err := tcpproxy.New(servers[0].Addr())
	must(t, err)
	defer proxy.Close()
	l, err := redlock.Open(t.Context(), []string{servers[0].Addr(), proxy.Addr(), servers[2].Addr()}, redlock.WithNodeNames(addresses(servers)...))
	wantError(t, "Open", err, redlock.ErrMisconfigured)
	if err == nil {
		_ = l.Close()
	}
}

func TestDefectMemoryGrowsWithTheNumberOfNames(t *testing.T) {
	testkit.NotRaced(t)
	servers := needMasters(t, 3, redisserver.Config{})
	l := openServers(t, servers, redlock.WithNodeTimeout(patient))
	const goroutines, names = 64, 20_000
	pairs := func(prefix string) {
		var wg sync.WaitGroup
		for g := range goroutines {
			wg.Go(func() {
				for i := g; i < names; i += goroutines {
					lock, err := l.Acquire(context.Background(), prefix+strconv.Itoa(i))
					if err != nil {
						t.Errorf("Acquire: %v", err)
						return
					}
					if err := lock.Release(context.Background()); err != nil {
						t.Errorf("Release: %v", err)
					}
				}
			})
		}
		wg.Wait()
	}
	pairs("orders/") // fills the stripes
	must(t, l.Close())
	before := memoryOf(t, servers)
	l = openServers(t, servers, redlock.WithNodeTimeout(patient))
	pairs("invoices/")
	must(t, l.Close())
	for i, after := range memoryOf(t, servers) {
		if grown := after.used - before[i].used; grown > 256<<10 {
			t.Errorf("server %d grew by %d bytes for %d further names; want at most 256 KiB", i, grown, names)
		}
		if after.keys != 1 || after.fields > 4096+20 {
			t.Errorf("server %d has %d keys and %d fields; want the one hash of its stripes", i, after.keys, after.fields)
		}
	}
}

type memory struct{ used, keys, fields int64 }

func memoryOf(t *testing.T, servers []*redisserver.Server) []memory {
	t.Helper()
	out := make([]memory, len(servers))
	for i, s := range servers {
		c := redis.NewClient(s.Options())
		defer c.Close()
		pollUntil(t, redlock.DefaultTTL+5*time.Second, "leases and tombstones have ended", func() bool {
			n, err := c.DBSize(t.Context()).Result()
			must(t, err)
			out[i].keys = n
			return n == 1
		})
		info, err := c.Info(t.Context(), "memory").Result()
		must(t, err)
		for line := range strings.Lines(info) {
			if v, ok := strings.CutPrefix(line, "used_memory:"); ok {
				out[i].used, err = strconv.ParseInt(strings.TrimSpace(v), 10, 64)
				must(t, err)
			}
		}
		out[i].fields = c.HLen(t.Context(), lua.NodeKey).Val()
	}
	return out
}

// A client that is cut off for longer than its lease, while others go on.
func TestDefectLossSignalComesTooLateOnRealServers(t *testing.T) {
	servers := needMasters(t, 3, redisserver.Config{})
	proxies := newRoute(t, servers)
	// The drift is large, because a busy machine runs a timer late, and this
	// process is not the only one.
	const ttl = time.Second
	l := lockerWith(t, defaultClients(t, proxies.addresses()...), redlock.WithTTL(ttl), redlock.WithNodeNames(addresses(servers)...),
		redlock.WithDriftFactor(0.25))
	next := lockerWith(t, defaultClients(t, addresses(servers)...), redlock.WithTTL(ttl), redlock.WithNodeNames(addresses(servers)...),
		redlock.WithRetry(time.Millisecond, 2*time.Millisecond))
	warm(t, next)
	for range 3 {
		lock := mustAcquire(t, l, "orders/42")
		for _, p := range proxies {
			p.Hold(tcpproxy.Both)
		}
		second := mustAcquire(t, next, "orders/42")
		select {
		case <-lock.Done():
		default:
			t.Error("the next holder has started; want the loss told before")
		}
		wantError(t, "the cause", context.Cause(lock.Context()), redlock.ErrLost)
		for _, p := range proxies {
			must(t, p.Heal())
		}
		if err := second.Extend(t.Context(), ttl); err != nil {
			t.Errorf("the next holder's Extend: %v", err)
		}
		mustRelease(t, second)
	}
}

// The same while the servers hang, or are gone: nobody can have the lock then,
// and the holder has to stop all the same, since they may come back.
func TestTheLossIsToldInTimeWhenAllServersHangOrDie(t *testing.T) {
	t.Parallel()
	for name, harm := range map[string]func(*redisserver.Server) error{
		"they hang": (*redisserver.Server).Pause,
		"they die":  (*redisserver.Server).Kill,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			servers := needMasters(t, 3, redisserver.Config{})
			const ttl = 8 * time.Second // a quarter of it is for a machine that stands still
			l := lockerWith(t, defaultClients(t, addresses(servers)...), redlock.WithTTL(ttl), redlock.WithDriftFactor(0.25),
				redlock.WithCloseTimeout(time.Second))
			warm(t, l)
			lock := mustAcquire(t, l, "orders/42")
			for _, s := range servers {
				must(t, harm(s))
			}
			lapses := time.Now().Add(ttl) // no renewal comes after
			<-lock.Done()
			if late := time.Since(lapses); late > 0 {
				t.Errorf("told %v after the lease; want before", late)
			}
			wantError(t, "the cause", context.Cause(lock.Context()), redlock.ErrLost)
		})
	}
}

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
