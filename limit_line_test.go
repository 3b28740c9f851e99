package redlock_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/redlocktest"
)

func TestAFreedSlotGoesToWhoeverStoodLongestInLine(t *testing.T) {
	testkit.Unraced(t)
	for _, n := range []int{1, 3, 5} {
		synctest.Test(t, func(t *testing.T) {
			l, nodes := newLocker(t, n)
			limit := redlock.WithLimit(2)
			held := []*redlock.Lock{mustAcquire(t, l, "orders/42", limit), mustAcquire(t, l, "orders/42", limit)}
			var next []<-chan gained
			for range 4 {
				next = append(next, wants(t, separateLocker(t, nodes), limit))
				time.Sleep(100 * time.Millisecond)
			}
			for i, from := range next {
				time.Sleep(5 * time.Second)
				released := time.Now()
				mustRelease(t, held[i])
				g := got(t, from)
				if d := g.at.Sub(released); d != 0 {
					t.Errorf("%d nodes: number %d had it %v after the release; want at once", n, i, d)
				}
				held = append(held, g.lock)
				for k, later := range next[i+1:] {
					select {
					case <-later:
						t.Errorf("%d nodes: number %d overtook", n, i+1+k)
					default:
					}
				}
			}
			mustRelease(t, held[4])
			mustRelease(t, held[5])
			synctest.Wait()
			if left := slotKeys(nodes); len(left) > 0 {
				t.Errorf("left: %q", left)
			}
		})
	}
}

// Releases of one moment come to each node in an order of its own. So one who was called may
// find the slot taken on some nodes, and asks again when it has gathered their calls, 2 ms
// later. One who is not called would look after a second.
func TestTwoSlotsThatAreFreedTogetherGoToTwo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 5)
		limit := redlock.WithLimit(3)
		var held []*redlock.Lock
		for range 3 {
			held = append(held, mustAcquire(t, l, "orders/42", limit))
		}
		var next []<-chan gained
		for range 3 {
			next = append(next, wants(t, separateLocker(t, nodes), limit))
		}
		released := time.Now()
		for _, lock := range held {
			go func() { _ = lock.Release(t.Context()) }()
		}
		for i, from := range next {
			if g := got(t, from); g.at.Sub(released) > 20*time.Millisecond {
				t.Errorf("number %d had it after %v; want no look: who holds leaves the line, and so wakes the next", i, g.at.Sub(released))
			}
		}
	})
}

func TestADeadFirstInTheSlotsLineDelaysTheNextByALookAtMost(t *testing.T) {
	testkit.Unraced(t)
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 5)
		limit := redlock.WithLimit(1)
		lock := mustAcquire(t, l, "orders/42", limit)
		clients := nodes.NewClients()
		dead := lockerWith(t, clients, redlock.WithNodeNames(nodes.Names()...), redlock.WithoutMembership())
		warm(t, dead)
		go func() { _, _ = dead.Acquire(t.Context(), "orders/42", limit) }()
		synctest.Wait()
		next := wants(t, separateLocker(t, nodes), limit)
		time.Sleep(time.Minute)
		closeAll(clients)
		released := time.Now()
		mustRelease(t, lock)
		wantTaken(t, "while a slot is free, and somebody is in line", l, limit)
		if took := got(t, next).at.Sub(released); took > 1200*time.Millisecond {
			t.Errorf("the next had it after %v; want within the 700 ms of a sign of life that a call leaves, and a look", took)
		}
	})
}

func TestWhoGoesLeavesNothingInTheSlotsLine(t *testing.T) {
	for _, closes := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			l, nodes := newLocker(t, 3)
			limit := redlock.WithLimit(1)
			lock := mustAcquire(t, l, "orders/42", limit)
			leaver := separateLocker(t, nodes)
			ctx, cancel := context.WithCancel(t.Context())
			failed := make(chan error, 1)
			go func() {
				_, err := leaver.Acquire(ctx, "orders/42", limit)
				failed <- err
			}()
			synctest.Wait()
			if got := len(queueKeys(nodes)); got != 3 {
				t.Fatalf("%d nodes have a line; want 3", got)
			}
			want := context.Canceled
			if closes {
				want = redlock.ErrClosed
				must(t, leaver.Close())
			}
			cancel()
			if err := <-failed; !errors.Is(err, want) || !strings.Contains(err.Error(), "orders/42") || strings.Contains(err.Error(), "redlock:slot") {
				t.Errorf("got %v; want %v of orders/42", err, want)
			}
			synctest.Wait()
			if left := queueKeys(nodes); len(left) > 0 {
				t.Errorf("left: %q", left)
			}
			mustRelease(t, lock)
			synctest.Wait()
			if left := slotKeys(nodes); len(left) > 0 {
				t.Errorf("left: %q", left)
			}
		})
	}
}

// A node is slow, or hangs, while a waiter gets its slot on the others: what it is sent late
// puts nobody back in line, and leaves no slot.
func TestASlowNodeKeepsNothingOfASlotsWinner(t *testing.T) {
	testkit.Unraced(t)
	for at := time.Duration(0); at < 500*time.Millisecond; at += 60 * time.Millisecond { // at any time between two signs of life
		for _, took := range []time.Duration{200 * time.Millisecond, time.Second} {
			synctest.Test(t, func(t *testing.T) { slowNode(t, at, took) })
		}
	}
}

func slowNode(t *testing.T, at, took time.Duration) {
	t.Helper()
	l, nodes := newLocker(t, 3)
	limit := redlock.WithLimit(1)
	lock := mustAcquire(t, l, "orders/42", limit)
	next := wants(t, separateLocker(t, nodes), limit)
	nodes.Node(2).Intercept(func([]string) redlocktest.Verdict {
		time.Sleep(took)
		return redlocktest.Pass()
	})
	time.Sleep(at)
	_ = lock.Release(t.Context())
	g := got(t, next)
	time.Sleep(time.Second)
	nodes.Node(2).Intercept(nil)
	time.Sleep(4 * time.Second)
	if left := queueKeys(nodes); len(left) > 0 {
		t.Errorf("released after %v, commands took %v: left %q", at, took, left)
	}
	must(t, g.lock.Err())
	mustRelease(t, g.lock)
	time.Sleep(3 * time.Second)
	if left := slotKeys(nodes); len(left) > 0 {
		t.Errorf("released after %v, commands took %v: left %q", at, took, left)
	}
}

// A waiter's context ends at the k-th command that one node, or two, are sent after a slot
// was freed, and that command is lost, or its reply: the next in line has the slot, and
// nothing is left. Without REDLOCK_TEST=deep it is a cut: replies lost on two nodes.
func TestSlotsAreNotLostWithAnyCommand(t *testing.T) {
	testkit.Unraced(t)
	t.Parallel()
	fates, sets := []redlocktest.Verdict{redlocktest.LoseReply()}, [][]int{{1, 2}}
	if testkit.Deep() {
		fates, sets = append(fates, redlocktest.BreakBefore(), redlocktest.BreakAfter()), append(sets, []int{0})
	}
	for _, fate := range fates {
		for _, faulty := range sets {
			fired := true
			for k := 1; fired && k < 40 && !t.Failed(); k++ {
				synctest.Test(t, func(t *testing.T) { fired = slotSweep(t, fate, faulty, k) })
			}
		}
	}
}

// slotSweep is one run. It tells whether the nodes were sent so many commands.
func slotSweep(t *testing.T, fate redlocktest.Verdict, faulty []int, k int) (fired bool) {
	t.Helper()
	nodes := redlocktest.Start(t, 3, redlocktest.WithoutFounding())
	process := func() *redlock.Locker {
		l := separateLocker(t, nodes, redlock.WithoutMembership())
		warm(t, l)
		return l
	}
	limit := redlock.WithLimit(2)
	held := []*redlock.Lock{mustAcquire(t, process(), "orders/42", limit), mustAcquire(t, process(), "orders/42", limit)}
	ctx, cancel := context.WithCancel(t.Context())
	leaver, goes := process(), make(chan gained, 1)
	go func() {
		lock, err := leaver.Acquire(ctx, "orders/42", limit)
		goes <- gained{lock: lock, err: err}
	}()
	synctest.Wait()
	next := wants(t, process(), limit)
	var mu sync.Mutex
	for _, i := range faulty {
		calls := 0
		nodes.Node(i).Intercept(func([]string) redlocktest.Verdict {
			mu.Lock()
			defer mu.Unlock()
			if calls++; calls != k {
				return redlocktest.Pass()
			}
			fired = true
			cancel()
			return fate
		})
	}
	released := time.Now()
	_ = held[0].Release(t.Context())
	g := <-goes
	if g.err == nil {
		_ = g.lock.Release(t.Context())
	} else if !errors.Is(g.err, context.Canceled) {
		t.Errorf("the leaver: %v", g.err)
	}
	after := got(t, next)
	if took := after.at.Sub(released); took > 3*time.Second {
		t.Errorf("nodes %v, command %d: the next had it after %v; want long before the lease of 10 s", faulty, k, took)
	}
	cancel()
	_ = held[1].Release(t.Context())
	_ = after.lock.Release(t.Context())
	time.Sleep(2 * time.Second)
	if left := slotKeys(nodes); len(left) > 0 {
		t.Errorf("nodes %v, command %d: left %q", faulty, k, left)
	}
	return fired
}
