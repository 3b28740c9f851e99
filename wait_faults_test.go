package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/lab/tcpproxy"
	"github.com/quorumkit/redlock/internal/testkit"
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
				t.Fatal("the entry of one who waits was taken away by the earlier leave")
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

// Of two goroutines of one process the first takes grants and gives up, and the second
// takes none: it is called. A grant to the claim that was left for the one who leads next would
// be heard by nobody, and keep the name for three seconds.
func TestWhoTakesNoGrantsIsNotHeldUpByAGrantToWhoGaveUp(t *testing.T) {
	for name, option := range map[string]redlock.AcquireOption{
		"a short lease": redlock.WithTTL(2 * time.Second), "a fixed lease": redlock.WithFixedLease(), "barging": redlock.WithBarging(),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, nodes := newLocker(t, 5)
				waiting := separateLocker(t, nodes)
				warm(t, l)
				warm(t, waiting)
				lock := mustAcquire(t, l, "orders/42")
				ctx, giveUp := context.WithCancel(t.Context())
				left := make(chan error, 1)
				go func() {
					_, err := waiting.Acquire(ctx, "orders/42")
					left <- err
				}()
				time.Sleep(100 * time.Millisecond)
				next := wants(t, waiting, option)
				time.Sleep(100 * time.Millisecond)
				giveUp()
				if err := <-left; err == nil {
					t.Fatal("the first goroutine got the lock that another one holds")
				}
				time.Sleep(500 * time.Millisecond)
				released := time.Now()
				mustRelease(t, lock)
				g := got(t, next)
				if took := g.at.Sub(released); took > 800*time.Millisecond {
					t.Errorf("it was served %v after the release; want well below the three seconds of a grant", took)
				}
				mustRelease(t, g.lock)
			})
		})
	}
}

// A hold that went past those who wait is none of its process's turn: the other goroutines
// there get the lock after those who wait longer.
func TestNobodyRidesOnAHoldThatWentPastThoseWhoWait(t *testing.T) {
	for name, waits := range map[string]redlock.AcquireOption{"to be granted": redlock.WithTTL(5 * time.Second), "to be called": redlock.WithFixedLease()} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, nodes := newLocker(t, 5)
				waiting := separateLocker(t, nodes)
				warm(t, l)
				warm(t, waiting)
				ghost(t, nodes) // the name is free, and kept for it
				before := wants(t, waiting)
				barging, err := l.TryAcquire(t.Context(), "orders/42", redlock.WithBarging())
				must(t, err)
				behind := wants(t, l, waits)
				mustRelease(t, barging)
				time.Sleep(time.Second)
				if len(before) == 0 || len(behind) > 0 {
					t.Fatal("one who came later, and does not go past those who wait, had it before")
				}
				mustRelease(t, got(t, before).lock)
				mustRelease(t, got(t, behind).lock)
				synctest.Wait()
				if keys := queueKeys(nodes); keys != nil {
					t.Errorf("left behind: %v", keys)
				}
			})
		})
	}
}

// A waiter goes at the k-th command that some nodes are sent after the holder has
// released, for every k, no matter what becomes of that command there: the next in line
// has the lock long before anybody's lease is over, and nothing is left behind.

// departure is one run: a holder, one who waits and goes, and the next in line.
type departure struct {
	*testing.T
	name    string
	nodes   *redlocktest.Cluster
	lock    *redlock.Lock
	leaver  <-chan gained
	goes    func() // makes the leaver go
	next    <-chan gained
	ordered bool // nothing is lost on the way
	mute    bool // who goes says so once, and sees nothing through
	crashed bool // he says nothing
	shares  bool // somebody waits to share: a mark says so for longer
}

// departures are the ways to go; each makes its scene, with the holder's lock.
var departures = map[string]func(d *departure){
	"the head's context ends": func(d *departure) {
		holder, leaver := d.process(), d.process()
		d.lock = mustAcquire(d.T, holder, "orders/42")
		d.leaver, d.goes = d.wants(leaver)
	},
	"the head's Locker is closed": func(d *departure) {
		holder, leaver := d.process(), d.process()
		d.lock = mustAcquire(d.T, holder, "orders/42")
		d.leaver, _ = d.wants(leaver)
		d.goes, d.mute = func() { _ = leaver.Close() }, true
	},
	"the head is cut off for good": func(d *departure) {
		holder := d.process()
		clients := d.nodes.NewClients()
		leaver := lockerWith(d.T, clients, redlock.WithNodeNames(d.nodes.Names()...), redlock.WithoutMembership())
		warm(d.T, leaver)
		d.lock = mustAcquire(d.T, holder, "orders/42")
		var end func()
		d.leaver, end = d.wants(leaver)
		d.goes, d.mute, d.crashed = func() { closeAll(clients); end() }, true, true
	},
	"the next goroutine's context ends": func(d *departure) {
		holder := d.process()
		d.lock = mustAcquire(d.T, holder, "orders/42")
		d.leaver, d.goes = d.wants(holder)
	},
	"the head's first goroutine goes, another stays": func(d *departure) {
		holder, leaver := d.process(), d.process()
		d.lock = mustAcquire(d.T, holder, "orders/42")
		d.leaver, d.goes = d.wants(leaver)
		second, _ := d.wants(leaver)
		go func() {
			if g := <-second; g.err == nil {
				_ = g.lock.Release(context.Background())
			} else {
				d.Errorf("the leaver's other goroutine: %v", g.err)
			}
		}()
	},
}

func closeAll(clients []redis.UniversalClient) {
	for _, c := range clients {
		_ = c.Close()
	}
}

// process is one more Locker, ready to vote. It has no membership, which has
// proofs of its own: founding takes longer than all the rest.
func (d *departure) process() *redlock.Locker {
	d.Helper()
	l := separateLocker(d.T, d.nodes, redlock.WithoutMembership())
	warm(d.T, l)
	return l
}

// wants is a goroutine that acquires, once it waits, and what ends its wait.
func (d *departure) wants(l *redlock.Locker) (<-chan gained, func()) {
	ctx, cancel := context.WithCancel(d.Context())
	done := make(chan gained, 1)
	go func() {
		lock, err := l.Acquire(ctx, "orders/42")
		done <- gained{lock, err, time.Now()}
	}()
	synctest.Wait()
	return done, cancel
}

// faultyNodes are the nodes that fail at the k-th command, of three.
var faultyNodes = [][]int{{0}, {1, 2}, {0, 1, 2}}

// Without REDLOCK_TEST=deep it is a cut: replies lost on two nodes, at every third command.
func TestSearchDeparturesOfWaiters(t *testing.T) {
	testkit.Full(t)
	t.Parallel()
	fates := map[string]redlocktest.Verdict{"lose reply": redlocktest.LoseReply()}
	if testkit.Deep() {
		fates = maps.Clone(sweptFates)
		fates["pass"] = redlocktest.Pass()
	}
	for how, scene := range departures {
		for _, faulty := range faultyNodes {
			for fate, verdict := range fates {
				if !testkit.Deep() && len(faulty) != 2 {
					continue
				}
				for k := 1; ; k += testkit.Of(3, 1) {
					if k > 40 {
						t.Fatalf("%s, %v %s: still commands at the 40th; want an end", how, faulty, fate)
					}
					d := departure{name: fmt.Sprintf("%s, nodes %v %s at command %d", how, faulty, fate, k), ordered: fate == "pass"}
					fired := d.play(t, scene, faulty, k, verdict)
					if !fired || t.Failed() {
						break
					}
				}
			}
		}
	}
}

// play makes one run, and tells whether the nodes were sent so many commands.
func (d *departure) play(t *testing.T, scene func(*departure), faulty []int, k int, verdict redlocktest.Verdict) (fired bool) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		d.T, d.nodes = t, redlocktest.Start(t, 3, redlocktest.WithoutFounding())
		scene(d)
		d.next, _ = d.wants(d.process())
		fired = d.run(faulty, k, verdict)
		if t.Failed() {
			t.Logf("this was: %s", d.name)
		}
	})
	return fired
}

// run makes the leaver go at the k-th command of the nodes, and sees what becomes of
// the others.
func (d *departure) run(faulty []int, k int, verdict redlocktest.Verdict) (fired bool) {
	var mu sync.Mutex
	gone := make(chan struct{})
	for _, i := range faulty {
		calls := 0
		d.nodes.Node(i).Intercept(func(args []string) redlocktest.Verdict {
			mu.Lock()
			defer mu.Unlock()
			if args[0] == "SUBSCRIBE" { // the in-process server never ends one whose reply is lost
				return redlocktest.Pass()
			}
			if calls++; calls != k {
				return redlocktest.Pass()
			}
			if !fired {
				fired = true
				go func() {
					defer close(gone)
					d.goes()
				}()
			}
			return verdict
		})
	}
	released := time.Now()
	_ = d.lock.Release(d.Context()) // the fault may keep it from being confirmed
	g := <-d.leaver
	if g.err == nil {
		_ = g.lock.Release(d.Context())
	} else if !errors.Is(g.err, context.Canceled) && !errors.Is(g.err, redlock.ErrClosed) {
		d.Errorf("the leaver: %v", g.err)
	}
	limit := 1500 * time.Millisecond // two node timeouts and two rests
	switch {
	case d.crashed, d.mute && len(faulty) > 1: // he may have taken the lock with him
		limit += redlock.DefaultTTL
	case d.ordered:
		limit = 100 * time.Millisecond
	}
	d.finish(released, limit)
	mu.Lock()
	defer mu.Unlock()
	if fired {
		<-gone
	} else {
		d.goes()
	}
	return fired
}

// finish lets the next in line take the lock, and sees what is left behind.
func (d *departure) finish(released time.Time, limit time.Duration) {
	d.Helper()
	g := <-d.next
	if g.err != nil {
		d.Errorf("the next in line: %v", g.err)
		return
	}
	if took := g.at.Sub(released); took > limit {
		d.Errorf("the next in line had it after %v; want within %v", took, limit)
	}
	_ = g.lock.Release(d.Context())
	synctest.Wait()
	for _, n := range d.nodes.Nodes() {
		n.Intercept(nil)
	}
	time.Sleep(2 * redlock.DefaultTTL) // a release that was lost, and every tombstone
	if d.mute || d.shares {
		time.Sleep(5 * time.Minute) // what is left of a queue that nobody stands in
	}
	if keys := queueKeys(d.nodes); keys != nil {
		d.Errorf("left behind: %v", keys)
	}
	wantOnlyRecords(d.T, d.nodes, "at the end")
}
