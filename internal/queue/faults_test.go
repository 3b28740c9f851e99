package queue_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/internal/testkit/locktest"
	"github.com/quorumkit/redlock/redlocktest"
)

// A call that nobody heard, because the connection for it had just broken.
func TestASubscriptionMadeAnewLooksAtEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := locktest.NewLocker(t, 3)
		other := locktest.SeparateLocker(t, nodes)
		lock := locktest.MustAcquire(t, l, "orders/42")
		next := locktest.Wants(t, other)
		breakSubscriptions(nodes, 3)
		released := time.Now()
		locktest.MustRelease(t, lock)
		if d := locktest.Got(t, next).At.Sub(released); d > 500*time.Millisecond {
			t.Errorf("the next had it after %v; want as soon as it is subscribed again", d)
		}
	})
}

// A holder that is no redlock client deletes its key and tells nobody.
func TestAForeignHolderIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := locktest.NewLocker(t, 3)
		for _, n := range nodes.Nodes() {
			testkit.Must(t, n.Miniredis().Set("orders/42", "c29tZWJvZHkgZWxzZQ=="))
			n.Miniredis().SetTTL("orders/42", time.Hour)
		}
		next := locktest.Wants(t, l)
		time.Sleep(10 * time.Second)
		gone := time.Now()
		for _, n := range nodes.Nodes() {
			n.Miniredis().Del("orders/42")
		}
		if d := locktest.Got(t, next).At.Sub(gone); d > redlock.DefaultRetryMax {
			t.Errorf("the next had it after %v; want a pause of WithRetry at most", d)
		}
	})
}

// Nor need its key ever end. Who stands behind the first in line asks rarely, and
// is called by the first one's release.
func TestAForeignHolderWithoutAnEndIsWaitedForInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := locktest.NewLocker(t, 3)
		other := locktest.SeparateLocker(t, nodes)
		for _, client := range nodes.NewClients() {
			testkit.Must(t, client.SetNX(t.Context(), "orders/42", "somebody else", 0).Err())
		}
		first, second := locktest.Wants(t, l), locktest.Wants(t, other)
		time.Sleep(10 * time.Second)
		gone := time.Now()
		for _, n := range nodes.Nodes() {
			n.Miniredis().Del("orders/42")
		}
		g := locktest.Got(t, first)
		if d := g.At.Sub(gone); d > redlock.DefaultRetryMax {
			t.Errorf("the first had it after %v; want a pause of WithRetry at most", d)
		}
		released := time.Now()
		locktest.MustRelease(t, g.Lock)
		g = locktest.Got(t, second)
		if d := g.At.Sub(released); d != 0 {
			t.Errorf("the second had it after %v; want at once", d)
		}
		locktest.MustRelease(t, g.Lock)
	})
}

// A process that gave up during an outage longer than a lease, and lives on for
// another name: its entry is still there, and nobody repeats the leave any more.
func TestOneWhoseLeaveWasLostHoldsNobodyUpForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := locktest.NewLocker(t, 3)
		left, other, holder := locktest.SeparateLocker(t, nodes), locktest.SeparateLocker(t, nodes), locktest.SeparateLocker(t, nodes)
		locktest.MustAcquire(t, holder, "orders/43")
		locktest.MustAcquire(t, l, "orders/42", redlock.WithFixedLease())
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
		locktest.MustAcquire(t, holder, "orders/44") // it lives, and waits for another name
		go func() { _, _ = left.Acquire(t.Context(), "orders/44", redlock.WithWait(time.Minute)) }()
		time.Sleep(5 * time.Second)
		if !strings.Contains(strings.Join(locktest.QueueKeys(nodes), " "), "redlock:queue:orders/42") {
			t.Fatal("no entry was left; the test wants one that lives on")
		}
		asked := time.Now()
		if d := locktest.Got(t, locktest.Wants(t, other, redlock.WithWait(time.Minute))).At.Sub(asked); d > 6*time.Second {
			t.Errorf("the next had it after %v; want some looks", d)
		}
	})
}

// A leave that its node refuses is sent again later. By then the process may stand in
// line again, and have told the node so by a look: that entry is not the one to go.
func TestALeaveThatWasRefusedTakesNoLaterEntryAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := locktest.NewLocker(t, 3)
		other := locktest.SeparateLocker(t, nodes)
		lock := locktest.MustAcquire(t, l, "orders/42")
		ctx, quit := context.WithCancel(t.Context())
		left := make(chan error, 1)
		go func() {
			_, err := other.Acquire(ctx, "orders/42")
			left <- err
		}()
		synctest.Wait()
		refusing := nodes.Node(0)
		refusing.Intercept(locktest.OnScripts("release", redlocktest.ReplyError("ERR not now")))
		quit()
		locktest.WantError(t, "the first wait", <-left, context.Canceled)
		next := locktest.Wants(t, other)
		time.Sleep(time.Second)
		m := refusing.Miniredis()
		for i := 0; i == 0 || i < 10 && !m.Exists("redlock:queue:orders/42"); i++ { // not every look falls into the time
			for _, key := range locktest.LiveKeys(refusing) { // at the next one it is told of every place
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
		locktest.MustRelease(t, lock)
		locktest.MustRelease(t, locktest.Got(t, next).Lock)
		synctest.Wait()
		if keys := locktest.QueueKeys(nodes); keys != nil {
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
				l, nodes := locktest.NewLocker(t, 5)
				waiting := locktest.SeparateLocker(t, nodes)
				locktest.Warm(t, l)
				locktest.Warm(t, waiting)
				lock := locktest.MustAcquire(t, l, "orders/42")
				ctx, giveUp := context.WithCancel(t.Context())
				left := make(chan error, 1)
				go func() {
					_, err := waiting.Acquire(ctx, "orders/42")
					left <- err
				}()
				time.Sleep(100 * time.Millisecond)
				next := locktest.Wants(t, waiting, option)
				time.Sleep(100 * time.Millisecond)
				giveUp()
				if err := <-left; err == nil {
					t.Fatal("the first goroutine got the lock that another one holds")
				}
				time.Sleep(500 * time.Millisecond)
				released := time.Now()
				locktest.MustRelease(t, lock)
				g := locktest.Got(t, next)
				if took := g.At.Sub(released); took > 800*time.Millisecond {
					t.Errorf("it was served %v after the release; want well below the three seconds of a grant", took)
				}
				locktest.MustRelease(t, g.Lock)
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
				l, nodes := locktest.NewLocker(t, 5)
				waiting := locktest.SeparateLocker(t, nodes)
				locktest.Warm(t, l)
				locktest.Warm(t, waiting)
				locktest.Ghost(t, nodes) // the name is free, and kept for it
				before := locktest.Wants(t, waiting)
				barging, err := l.TryAcquire(t.Context(), "orders/42", redlock.WithBarging())
				testkit.Must(t, err)
				behind := locktest.Wants(t, l, waits)
				locktest.MustRelease(t, barging)
				time.Sleep(time.Second)
				if len(before) == 0 || len(behind) > 0 {
					t.Fatal("one who came later, and does not go past those who wait, had it before")
				}
				locktest.MustRelease(t, locktest.Got(t, before).Lock)
				locktest.MustRelease(t, locktest.Got(t, behind).Lock)
				synctest.Wait()
				if keys := locktest.QueueKeys(nodes); keys != nil {
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
	leaver  <-chan locktest.Gained
	goes    func() // makes the leaver go
	next    <-chan locktest.Gained
	ordered bool // nothing is lost on the way
	mute    bool // who goes says so once, and sees nothing through
	crashed bool // he says nothing
	shares  bool // somebody waits to share: a mark says so for longer
}

// departures are the ways to go; each makes its scene, with the holder's lock.
var departures = map[string]func(d *departure){
	"the head's context ends": func(d *departure) {
		holder, leaver := d.process(), d.process()
		d.lock = locktest.MustAcquire(d.T, holder, "orders/42")
		d.leaver, d.goes = d.wants(leaver)
	},
	"the head's Locker is closed": func(d *departure) {
		holder, leaver := d.process(), d.process()
		d.lock = locktest.MustAcquire(d.T, holder, "orders/42")
		d.leaver, _ = d.wants(leaver)
		d.goes, d.mute = func() { _ = leaver.Close() }, true
	},
	"the head is cut off for good": func(d *departure) {
		holder := d.process()
		clients := d.nodes.NewClients()
		leaver := locktest.LockerWith(d.T, clients, redlock.WithNodeNames(d.nodes.Names()...), redlock.WithoutMembership())
		locktest.Warm(d.T, leaver)
		d.lock = locktest.MustAcquire(d.T, holder, "orders/42")
		var end func()
		d.leaver, end = d.wants(leaver)
		d.goes, d.mute, d.crashed = func() { locktest.CloseAll(clients); end() }, true, true
	},
	"the next goroutine's context ends": func(d *departure) {
		holder := d.process()
		d.lock = locktest.MustAcquire(d.T, holder, "orders/42")
		d.leaver, d.goes = d.wants(holder)
	},
	"the head's first goroutine goes, another stays": func(d *departure) {
		holder, leaver := d.process(), d.process()
		d.lock = locktest.MustAcquire(d.T, holder, "orders/42")
		d.leaver, d.goes = d.wants(leaver)
		second, _ := d.wants(leaver)
		go func() {
			if g := <-second; g.Err == nil {
				_ = g.Lock.Release(context.Background())
			} else {
				d.Errorf("the leaver's other goroutine: %v", g.Err)
			}
		}()
	},
}

// process is one more Locker, ready to vote. It has no membership, which has
// proofs of its own: founding takes longer than all the rest.
func (d *departure) process() *redlock.Locker {
	d.Helper()
	l := locktest.SeparateLocker(d.T, d.nodes, redlock.WithoutMembership())
	locktest.Warm(d.T, l)
	return l
}

// wants is a goroutine that acquires, once it waits, and what ends its wait.
func (d *departure) wants(l *redlock.Locker) (<-chan locktest.Gained, func()) {
	ctx, cancel := context.WithCancel(d.Context())
	done := make(chan locktest.Gained, 1)
	go func() {
		lock, err := l.Acquire(ctx, "orders/42")
		done <- locktest.Gained{Lock: lock, Err: err, At: time.Now()}
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
	searchDepartures(t, departures, testkit.Of(3, 1), 40, false)
}

// searchDepartures plays each scene with each fate at each step-th command of the nodes that
// fail, until the nodes were sent fewer. It fails where the last command is not the last.
func searchDepartures(t *testing.T, scenes map[string]func(*departure), step, last int, shares bool) {
	t.Helper()
	fates := map[string]redlocktest.Verdict{"lose reply": redlocktest.LoseReply()}
	if testkit.Deep() {
		fates = maps.Clone(locktest.SweptFates)
		fates["pass"] = redlocktest.Pass()
	}
	for how, scene := range scenes {
		for _, faulty := range faultyNodes {
			for fate, verdict := range fates {
				if !testkit.Deep() && len(faulty) != 2 {
					continue
				}
				for k := 1; ; k += step {
					if k > last {
						t.Fatalf("%s, %v %s: still commands at number %d; want an end", how, faulty, fate, k)
					}
					d := departure{name: fmt.Sprintf("%s, nodes %v %s at command %d", how, faulty, fate, k), ordered: fate == "pass", shares: shares}
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

// run makes the leaver go at the k-th command of the nodes, and sees what becomes of the others.
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
	if g.Err == nil {
		_ = g.Lock.Release(d.Context())
	} else if !errors.Is(g.Err, context.Canceled) && !errors.Is(g.Err, redlock.ErrClosed) {
		d.Errorf("the leaver: %v", g.Err)
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
	if g.Err != nil {
		d.Errorf("the next in line: %v", g.Err)
		return
	}
	if took := g.At.Sub(released); took > limit {
		d.Errorf("the next in line had it after %v; want within %v", took, limit)
	}
	_ = g.Lock.Release(d.Context())
	synctest.Wait()
	for _, n := range d.nodes.Nodes() {
		n.Intercept(nil)
	}
	time.Sleep(2 * redlock.DefaultTTL) // a release that was lost, and every tombstone
	if d.mute || d.shares {
		time.Sleep(5 * time.Minute) // what is left of a queue that nobody stands in
	}
	if keys := locktest.QueueKeys(d.nodes); keys != nil {
		d.Errorf("left behind: %v", keys)
	}
	locktest.WantOnlyRecords(d.T, d.nodes, "at the end")
}

// breakSubscriptions breaks the nodes' quiet subscriptions, and returns when so many are.
func breakSubscriptions(nodes *redlocktest.Cluster, most int32) {
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
	for broken.Load() < most {
		time.Sleep(time.Millisecond)
	}
}

// Two of three nodes grant a waiter the lock, and a renewal puts it on the third, where its entry
// stands behind another's.
func TestAReleaseTakesTheEntryFromWhereTheLockWasPutBack(t *testing.T) {
	for what, handed := range map[string]bool{"it held": false, "it was handed on": true} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, nodes := locktest.NewLocker(t, 3)
				first, other := locktest.SeparateLocker(t, nodes), locktest.SeparateLocker(t, nodes)
				lock, _ := locktest.MustAcquire(t, first, "orders/42"), locktest.MustAcquire(t, first, "orders/41")
				next, m := locktest.Wants(t, l), nodes.Node(2).Miniredis()
				go func() { _, _ = other.Acquire(t.Context(), "orders/41", redlock.WithWait(time.Hour)) }()
				time.Sleep(time.Second)
				standsFirst(t, nodes.Node(2))
				m.Del("orders/42")
				locktest.MustRelease(t, lock)
				lock = locktest.Got(t, next).Lock
				time.Sleep(8 * time.Second)
				if handed {
					next = locktest.Wants(t, l)
					locktest.MustRelease(t, lock)
					lock = locktest.Got(t, next).Lock
				}
				there := m.Exists("orders/42")
				locktest.MustRelease(t, lock)
				time.Sleep(time.Second) // the release of a quorum is enough
				all, err := m.ZMembers("redlock:queue:orders/42")
				left := slices.DeleteFunc(slices.Clone(all), func(m string) bool { return strings.Contains(m, " ") }) // alone it keeps nothing
				if testkit.Must(t, err); !there || len(left) != 1 {
					t.Errorf("the lock was put back: %t; left are %q, want the other's", there, all)
				}
			})
		})
	}
}
