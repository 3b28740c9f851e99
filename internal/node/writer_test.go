package node_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/internal/testkit/locktest"
	"github.com/quorumkit/redlock/redlocktest"
)

// The writer of a node keeps a connection while there is traffic, and none of
// its user's pool when there is not.
func TestAnIdleLockerGivesItsConnectionsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := redlocktest.Start(t, 3)
		clients := nodes.NewClients()
		l := locktest.LockerWith(t, clients, redlock.WithNodeNames(nodes.Names()...))
		inUse := func() (n uint32) {
			for _, c := range clients {
				s := c.(*redis.Client).PoolStats()
				n += s.TotalConns - s.IdleConns
			}
			return n
		}
		for range 2 { // idle, and idle again
			locktest.Warm(t, l)
			synctest.Wait()
			if got := inUse(); got < 2 {
				t.Errorf("after traffic: %d connections are in use; want the one of each writer that was needed", got)
			}
			time.Sleep(time.Second)
			if got := inUse(); got != 0 {
				t.Errorf("a second later: %d connections are in use; want none", got)
			}
		}
	})
}

// Its pool sees a connection every few seconds, however busy it is: of one that it
// has not seen for long, a client looks at the socket for each flush.
func TestABusyConnectionIsSeenByItsPool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := redlocktest.Start(t, 3)
		clients := nodes.NewClients()
		l := locktest.LockerWith(t, clients, redlock.WithNodeNames(nodes.Names()...))
		locktest.Warm(t, l)
		seen := func(i int) uint32 { s := clients[i].(*redis.Client).PoolStats(); return s.Hits + s.Misses }
		before := []uint32{seen(0), seen(1), seen(2)}
		for range 120 { // six seconds without a pause that would give it back
			locktest.Warm(t, l)
			time.Sleep(50 * time.Millisecond)
		}
		for i := range clients {
			if n := seen(i) - before[i]; n < 1 || n > 6 {
				t.Errorf("node %d: its pool has seen the connection %d times in 6 s; want every 5 s at least, and not for each flush", i, n)
			}
		}
	})
}

// One name that the user may not touch has the server refuse a whole call. The
// names that went along with it must not suffer, and it must say why.
func TestAForbiddenNameFailsAlone(t *testing.T) {
	const denied = "NOPERM this user has no permissions to access one of the keys used as arguments"
	synctest.Test(t, func(t *testing.T) {
		l, nodes := locktest.NewLocker(t, 3)
		locktest.Warm(t, l)
		synctest.Wait()
		var batches atomic.Int64
		for _, n := range nodes.Nodes() {
			n.Intercept(func(args []string) redlocktest.Verdict {
				name := locktest.ScriptOf(args)
				switch {
				case name == "acquire" && slices.Contains(args, "busy"):
					time.Sleep(10 * time.Millisecond)
				case strings.HasPrefix(name, "acquire") && slices.Contains(args, "secret/1"):
					if strings.Contains(name, "batch") {
						batches.Add(1)
					}
					return redlocktest.ReplyError(denied)
				}
				return redlocktest.Pass()
			})
		}
		busy := mustStart(t, l, "busy") // the others gather behind it
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				lock, err := l.TryAcquire(t.Context(), fmt.Sprintf("orders/%d", i))
				if err != nil {
					t.Errorf("orders/%d, beside a forbidden name: %v", i, err)
					return
				}
				locktest.MustRelease(t, lock)
			})
		}
		wg.Go(func() {
			_, err := l.Acquire(t.Context(), "secret/1")
			locktest.WantError(t, "the forbidden name", err, redlock.ErrNoQuorum)
			locktest.WantError(t, "the forbidden name", err, redlock.ErrMisconfigured)
		})
		wg.Wait()
		locktest.MustRelease(t, <-busy)
		if got := batches.Load(); got < 2 {
			t.Errorf("%d batches had the forbidden name; want one to each node of a quorum, or this test shows nothing", got)
		}
		synctest.Wait()
		locktest.WantNoLocks(t, nodes, "at the end")
	})
}

// mustStart begins an acquisition, and returns when it is on its way.
func mustStart(t *testing.T, l *redlock.Locker, resource string) <-chan *redlock.Lock {
	t.Helper()
	got := make(chan *redlock.Lock, 1)
	go func() { got <- locktest.MustAcquire(t, l, resource) }()
	time.Sleep(time.Millisecond)
	return got
}

// A node vouches for a lock by what it answered in the round that the lock stands on. A reply to
// the round before, which comes late, does not: what that node holds may have ended since.
func TestAStragglerOfAnOlderRoundDoesNotVouch(t *testing.T) {
	for _, confirms := range []bool{false, true} { // whether node 2 confirms the newer round as well
		synctest.Test(t, func(t *testing.T) {
			l, nodes := locktest.NewLocker(t, 3)
			locktest.Warm(t, l)
			synctest.Wait()
			nodes.Node(2).Intercept(func(args []string) redlocktest.Verdict {
				switch name := locktest.ScriptOf(args); {
				case name == "acquire" && slices.Contains(args, "orders/42"):
					time.Sleep(100 * time.Millisecond)
				case strings.HasPrefix(name, "extend") && !confirms:
					return redlocktest.LoseRequest()
				}
				return redlocktest.Pass()
			})
			lock := locktest.MustAcquire(t, l, "orders/42", redlock.WithFixedLease())
			time.Sleep(50 * time.Millisecond)
			testkit.Must(t, lock.Extend(t.Context(), redlock.DefaultTTL))
			time.Sleep(time.Second) // the grant of the first round has come, and perhaps the extension
			nodes.Node(0).Miniredis().SetTime(time.Now().Add(time.Hour))
			time.Sleep(time.Second) // the watch has looked at it
			synctest.Wait()
			if got := lock.Err() == nil; got != confirms {
				t.Errorf("node 0 stepped, node 1 confirmed, node 2 confirmed: %v: got %v; want it held only where two vouch for it", confirms, lock.Err())
			}
		})
	}
}

// narrow are clients whose pools have so many connections each, for pipelines too.
func narrow(t *testing.T, nodes *redlocktest.Cluster, connections int) []redis.UniversalClient {
	t.Helper()
	var clients []redis.UniversalClient
	for _, n := range nodes.Nodes() {
		o := n.Options()
		o.MaxActiveConns, o.PipelinePoolSize = connections, -1
		c := redis.NewClient(o)
		t.Cleanup(func() { _ = c.Close() })
		clients = append(clients, c)
	}
	return clients
}

// A writer under traffic keeps its connection. Where the pool has no other, scripts
// that are gone were never loaded again, and no node voted until the traffic ended.
func TestScriptsAreLoadedAgainOverTheOnlyConnection(t *testing.T) {
	testkit.Unraced(t)
	for _, others := range []int{0, 1} { // connections that the program uses for itself
		synctest.Test(t, func(t *testing.T) { reloadOver(t, others) })
	}
}

func reloadOver(t *testing.T, others int) {
	t.Helper()
	nodes := redlocktest.Start(t, 3)
	clients := narrow(t, nodes, 1+others)
	l := locktest.LockerWith(t, clients, redlock.WithNodeNames(nodes.Names()...))
	locktest.Warm(t, l)
	for range others {
		locktest.Occupy(t, clients)
	}
	flush := func(n *redlocktest.Node) {
		testkit.Must(t, nodes.Clients()[slices.Index(nodes.Names(), n.Name())].ScriptFlush(t.Context()).Err())
	}
	lose := func(*redlocktest.Node) { locktest.FirstOnScripts(nodes, "acquire", redlocktest.BreakBefore()) }
	for _, harm := range []func(*redlocktest.Node){flush, lose} {
		for _, n := range nodes.Nodes() {
			harm(n)
		}
		began, failed := time.Now(), time.Duration(0)
		for time.Since(began) < 5*time.Second { // traffic without a pause that would give the connection back
			if lock, err := l.TryAcquire(t.Context(), "orders/42"); err == nil {
				_ = lock.Release(t.Context())
			} else {
				failed = time.Since(began)
			}
			time.Sleep(20 * time.Millisecond)
		}
		if failed > time.Second {
			t.Errorf("%d others: an acquisition failed %v after the scripts were gone; want them loaded at once", others, failed)
		}
	}
}

// A pool that has no connection left has sent nothing: nothing can come late.
func TestAnExhaustedPoolHasSentNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := redlocktest.Start(t, 3)
		clients := narrow(t, nodes, 1)
		l := locktest.LockerWith(t, clients, redlock.WithNodeNames(nodes.Names()...))
		locktest.Warm(t, l)
		time.Sleep(time.Second) // the writers have given their connections back
		locktest.Occupy(t, clients)
		_, err := l.TryAcquire(t.Context(), "orders/42")
		var failed *redlock.QuorumError
		if !errors.As(err, &failed) {
			t.Fatalf("got %v; want a *QuorumError", err)
		}
		for _, n := range failed.Nodes {
			if n.Outcome == redlock.OutcomePending {
				continue // two others had decided it
			}
			if n.Outcome != redlock.OutcomeFailed || !strings.Contains(fmt.Sprint(n.Err), "PoolSize") { // it was refused at once, or in vain waited for
				t.Errorf("%s: got %v, %v; want failed, and the pool named", n.Name, n.Outcome, n.Err)
			}
		}
	})
}
