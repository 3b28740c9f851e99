package redlock_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/lab/tcpproxy"
	"github.com/quorumkit/redlock/redlocktest"
)

// A call that nobody heard, because the connection for it had just broken.
func TestASubscriptionMadeAnewLooksAtEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		other := separateLocker(t, nodes)
		lock := mustAcquire(t, l, "orders/42")
		next := wants(t, other)
		var broken atomic.Int32
		for _, n := range nodes.Nodes() {
			n.Intercept(func(args []string) redlocktest.Verdict {
				if args[0] == "PING" { // a quiet subscription asks whether its node is there
					broken.Add(1)
					return redlocktest.BreakBefore()
				}
				return redlocktest.Pass()
			})
		}
		for broken.Load() < 3 {
			time.Sleep(time.Millisecond)
		}
		released := time.Now()
		mustRelease(t, lock)
		if d := got(t, next).at.Sub(released); d > 500*time.Millisecond {
			t.Errorf("the next had it after %v; want as soon as it is subscribed again", d)
		}
	})
}

// A holder that is no redlock client deletes its key and tells nobody.
func TestAForeignHolderIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		for _, n := range nodes.Nodes() {
			must(t, n.Miniredis().Set("orders/42", "c29tZWJvZHkgZWxzZQ=="))
			n.Miniredis().SetTTL("orders/42", time.Hour)
		}
		next := wants(t, l)
		time.Sleep(10 * time.Second)
		gone := time.Now()
		for _, n := range nodes.Nodes() {
			n.Miniredis().Del("orders/42")
		}
		if d := got(t, next).at.Sub(gone); d > redlock.DefaultRetryMax {
			t.Errorf("the next had it after %v; want a pause of WithRetry at most", d)
		}
	})
}

// Nor need its key ever end. Who stands behind the first in line asks rarely, and
// is called by the first one's release.
func TestAForeignHolderWithoutAnEndIsWaitedForInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		other := separateLocker(t, nodes)
		for _, client := range nodes.NewClients() {
			must(t, client.SetNX(t.Context(), "orders/42", "somebody else", 0).Err())
		}
		first, second := wants(t, l), wants(t, other)
		time.Sleep(10 * time.Second)
		gone := time.Now()
		for _, n := range nodes.Nodes() {
			n.Miniredis().Del("orders/42")
		}
		g := got(t, first)
		if d := g.at.Sub(gone); d > redlock.DefaultRetryMax {
			t.Errorf("the first had it after %v; want a pause of WithRetry at most", d)
		}
		released := time.Now()
		mustRelease(t, g.lock)
		g = got(t, second)
		if d := g.at.Sub(released); d != 0 {
			t.Errorf("the second had it after %v; want at once", d)
		}
		mustRelease(t, g.lock)
	})
}

// A machine that is cut off, first in line, on real servers.
func TestACutOffHeadIsPassedOverOnRealServers(t *testing.T) {
	servers := needMasters(t, 3, redisserver.Config{})
	proxies := newRoute(t, servers)
	names := redlock.WithNodeNames(addresses(servers)...)
	holder, next := openServers(t, servers, names), openServers(t, servers, names)
	cut := lockerWith(t, defaultClients(t, proxies.addresses()...), names)
	warm(t, holder)
	warm(t, next)
	lock := mustAcquire(t, holder, "orders/42")
	acquire := func(l *redlock.Locker, ctx context.Context) <-chan error {
		done := make(chan error, 1)
		go func() {
			lock, err := l.Acquire(ctx, "orders/42")
			if err == nil {
				err = lock.Release(context.Background())
			}
			done <- err
		}()
		return done
	}
	var eyes []*redis.Client
	for _, s := range servers {
		c := s.Client()
		t.Cleanup(func() { _ = c.Close() })
		eyes = append(eyes, c)
	}
	inLine := func(n int) {
		t.Helper()
		pollUntil(t, 10*time.Second, "they stand in line on a quorum", func() bool {
			nodes := make(map[string]int) // that have each process's entry; not all have all
			for _, c := range eyes {
				for _, id := range processes(c.ZRange(t.Context(), "redlock:queue:orders/42", 0, -1).Val()) {
					nodes[id]++
				}
			}
			there := 0
			for _, k := range nodes {
				if k > len(eyes)/2 {
					there++
				}
			}
			return there == n
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	head := acquire(cut, ctx)
	inLine(1)
	second := acquire(next, t.Context())
	inLine(2)
	for _, p := range proxies {
		p.Hold(tcpproxy.Both)
	}
	released := time.Now()
	mustRelease(t, lock)
	must(t, <-second)
	if d := time.Since(released); d > 8*time.Second {
		t.Errorf("the next was held up for %v; want some seconds, on a machine however busy", d)
	}
	cancel()
	if err := <-head; !errors.Is(err, context.Canceled) {
		t.Errorf("the machine that is cut off: got %v; want context.Canceled", err)
	}
	for _, p := range proxies {
		must(t, p.Heal())
	}
}

// A process that gave up during an outage longer than a lease, and lives on for
// another name: its entry is still there, and nobody repeats the leave any more.
func TestOneWhoseLeaveWasLostHoldsNobodyUpForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		left, other, holder := separateLocker(t, nodes), separateLocker(t, nodes), separateLocker(t, nodes)
		mustAcquire(t, holder, "orders/43")
		mustAcquire(t, l, "orders/42", redlock.WithFixedLease())
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 2)
		for _, name := range []string{"orders/43", "orders/42"} {
			within := map[string]context.Context{"orders/42": ctx, "orders/43": t.Context()}[name]
			go func() {
				_, err := left.Acquire(within, name, redlock.WithWait(time.Minute))
				done <- err
			}()
		}
		time.Sleep(20 * time.Millisecond)
		for _, n := range nodes.Nodes() {
			n.Intercept(func([]string) redlocktest.Verdict { return redlocktest.LoseRequest() })
		}
		time.Sleep(time.Second)
		cancel()
		time.Sleep(14 * time.Second)
		for _, n := range nodes.Nodes() {
			n.Intercept(nil)
		}
		time.Sleep(time.Second)
		mustAcquire(t, holder, "orders/44") // it lives, and waits for another name
		go func() { _, _ = left.Acquire(t.Context(), "orders/44", redlock.WithWait(time.Minute)) }()
		time.Sleep(5 * time.Second)
		if !strings.Contains(strings.Join(queueKeys(nodes), " "), "redlock:queue:orders/42") {
			t.Fatal("no entry was left; the test wants one that lives on")
		}
		asked := time.Now()
		if d := got(t, wants(t, other, redlock.WithWait(time.Minute))).at.Sub(asked); d > 6*time.Second {
			t.Errorf("the next had it after %v; want some looks", d)
		}
	})
}

// A leave that its node refuses is sent again later. By then the process may stand in
// line again, and have told the node so by a look: that entry is not the one to go.
func TestALeaveThatWasRefusedTakesNoLaterEntryAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		other := separateLocker(t, nodes)
		lock := mustAcquire(t, l, "orders/42")
		ctx, quit := context.WithCancel(t.Context())
		left := make(chan error, 1)
		go func() {
			_, err := other.Acquire(ctx, "orders/42")
			left <- err
		}()
		synctest.Wait()
		refusing := nodes.Node(0)
		refusing.Intercept(onScripts("release", redlocktest.ReplyError("ERR not now")))
		quit()
		wantError(t, "the first wait", <-left, context.Canceled)
		next := wants(t, other)
		time.Sleep(time.Second)
		m := refusing.Miniredis()
		for i := 0; i == 0 || i < 10 && !m.Exists("redlock:queue:orders/42"); i++ { // not every look falls into the time
			for _, key := range liveKeys(refusing) { // at the next one it is told of every place
				m.Del(key)
			}
			m.Del("redlock:queue:orders/42")
			time.Sleep(1100 * time.Millisecond)
		}
		if !m.Exists("redlock:queue:orders/42") {
			t.Fatal("no look told the node of the place; the test wants one")
		}
		refusing.Intercept(nil)
		for range 100 {
			time.Sleep(10 * time.Millisecond)
			if !m.Exists("redlock:queue:orders/42") {
				t.Fatal("the entry of one who waits was taken away by the leave of before")
			}
		}
		mustRelease(t, lock)
		mustRelease(t, got(t, next).lock)
		synctest.Wait()
		if keys := queueKeys(nodes); keys != nil {
			t.Errorf("left behind: %v", keys)
		}
	})
}
