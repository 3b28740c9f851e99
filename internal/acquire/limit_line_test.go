package acquire_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/internal/testkit/locktest"
	"github.com/quorumkit/redlock/redlocktest"
)

func TestAFreedSlotGoesToWhoeverStoodLongestInLine(t *testing.T) {
	testkit.Unraced(t)
	for _, n := range []int{1, 3, 5} {
		synctest.Test(t, func(t *testing.T) {
			l, nodes := locktest.NewLocker(t, n)
			limit := redlock.WithLimit(2)
			held := []*redlock.Lock{locktest.MustAcquire(t, l, "orders/42", limit), locktest.MustAcquire(t, l, "orders/42", limit)}
			var next []<-chan locktest.Gained
			for range 4 {
				next = append(next, locktest.Wants(t, locktest.SeparateLocker(t, nodes), limit))
				time.Sleep(100 * time.Millisecond)
			}
			for i, from := range next {
				time.Sleep(5 * time.Second)
				released := time.Now()
				locktest.MustRelease(t, held[i])
				g := locktest.Got(t, from)
				if d := g.At.Sub(released); d != 0 {
					t.Errorf("%d nodes: number %d had it %v after the release; want at once", n, i, d)
				}
				held = append(held, g.Lock)
				for k, later := range next[i+1:] {
					select {
					case <-later:
						t.Errorf("%d nodes: number %d overtook", n, i+1+k)
					default:
					}
				}
			}
			locktest.MustRelease(t, held[4])
			locktest.MustRelease(t, held[5])
			synctest.Wait()
			if left := locktest.SlotKeys(nodes); len(left) > 0 {
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
		l, nodes := locktest.NewLocker(t, 5)
		limit := redlock.WithLimit(3)
		var held []*redlock.Lock
		for range 3 {
			held = append(held, locktest.MustAcquire(t, l, "orders/42", limit))
		}
		var next []<-chan locktest.Gained
		for range 3 {
			next = append(next, locktest.Wants(t, locktest.SeparateLocker(t, nodes), limit))
		}
		released := time.Now()
		for _, lock := range held {
			go func() { _ = lock.Release(t.Context()) }()
		}
		for i, from := range next {
			if g := locktest.Got(t, from); g.At.Sub(released) > 20*time.Millisecond {
				t.Errorf("number %d had it after %v; want no look: who holds leaves the line, and so wakes the next", i, g.At.Sub(released))
			}
		}
	})
}

func TestADeadFirstInTheSlotsLineDelaysTheNextByALookAtMost(t *testing.T) {
	testkit.Unraced(t)
	synctest.Test(t, func(t *testing.T) {
		l, nodes := locktest.NewLocker(t, 5)
		limit := redlock.WithLimit(1)
		lock := locktest.MustAcquire(t, l, "orders/42", limit)
		clients := nodes.NewClients()
		dead := locktest.LockerWith(t, clients, redlock.WithNodeNames(nodes.Names()...), redlock.WithoutMembership())
		locktest.Warm(t, dead)
		go func() { _, _ = dead.Acquire(t.Context(), "orders/42", limit) }()
		synctest.Wait()
		next := locktest.Wants(t, locktest.SeparateLocker(t, nodes), limit)
		time.Sleep(time.Minute)
		locktest.CloseAll(clients)
		released := time.Now()
		locktest.MustRelease(t, lock)
		locktest.WantTaken(t, "while a slot is free, and somebody is in line", l, limit)
		if took := locktest.Got(t, next).At.Sub(released); took > 1200*time.Millisecond {
			t.Errorf("the next had it after %v; want within the 700 ms of a sign of life that a call leaves, and a look", took)
		}
	})
}

func TestWhoGoesLeavesNothingInTheSlotsLine(t *testing.T) {
	for _, closes := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			l, nodes := locktest.NewLocker(t, 3)
			limit := redlock.WithLimit(1)
			lock := locktest.MustAcquire(t, l, "orders/42", limit)
			leaver := locktest.SeparateLocker(t, nodes)
			ctx, cancel := context.WithCancel(t.Context())
			failed := make(chan error, 1)
			go func() {
				_, err := leaver.Acquire(ctx, "orders/42", limit)
				failed <- err
			}()
			synctest.Wait()
			if got := len(locktest.QueueKeys(nodes)); got != 3 {
				t.Fatalf("%d nodes have a line; want 3", got)
			}
			want := context.Canceled
			if closes {
				want = redlock.ErrClosed
				testkit.Must(t, leaver.Close())
			}
			cancel()
			if err := <-failed; !errors.Is(err, want) || !strings.Contains(err.Error(), "orders/42") || strings.Contains(err.Error(), "redlock:slot") {
				t.Errorf("got %v; want %v of orders/42", err, want)
			}
			synctest.Wait()
			if left := locktest.QueueKeys(nodes); len(left) > 0 {
				t.Errorf("left: %q", left)
			}
			locktest.MustRelease(t, lock)
			synctest.Wait()
			if left := locktest.SlotKeys(nodes); len(left) > 0 {
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
	l, nodes := locktest.NewLocker(t, 3)
	limit := redlock.WithLimit(1)
	lock := locktest.MustAcquire(t, l, "orders/42", limit)
	next := locktest.Wants(t, locktest.SeparateLocker(t, nodes), limit)
	nodes.Node(2).Intercept(func([]string) redlocktest.Verdict {
		time.Sleep(took)
		return redlocktest.Pass()
	})
	time.Sleep(at)
	_ = lock.Release(t.Context())
	g := locktest.Got(t, next)
	time.Sleep(time.Second)
	nodes.Node(2).Intercept(nil)
	time.Sleep(4 * time.Second)
	if left := locktest.QueueKeys(nodes); len(left) > 0 {
		t.Errorf("released after %v, commands took %v: left %q", at, took, left)
	}
	testkit.Must(t, g.Lock.Err())
	locktest.MustRelease(t, g.Lock)
	time.Sleep(3 * time.Second)
	if left := locktest.SlotKeys(nodes); len(left) > 0 {
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
		l := locktest.SeparateLocker(t, nodes, redlock.WithoutMembership())
		locktest.Warm(t, l)
		return l
	}
	limit := redlock.WithLimit(2)
	held := []*redlock.Lock{locktest.MustAcquire(t, process(), "orders/42", limit), locktest.MustAcquire(t, process(), "orders/42", limit)}
	ctx, cancel := context.WithCancel(t.Context())
	leaver, goes := process(), make(chan locktest.Gained, 1)
	go func() {
		lock, err := leaver.Acquire(ctx, "orders/42", limit)
		goes <- locktest.Gained{Lock: lock, Err: err}
	}()
	synctest.Wait()
	next := locktest.Wants(t, process(), limit)
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
	if g.Err == nil {
		_ = g.Lock.Release(t.Context())
	} else if !errors.Is(g.Err, context.Canceled) {
		t.Errorf("the leaver: %v", g.Err)
	}
	after := locktest.Got(t, next)
	if took := after.At.Sub(released); took > 3*time.Second {
		t.Errorf("nodes %v, command %d: the next had it after %v; want long before the lease of 10 s", faulty, k, took)
	}
	cancel()
	_ = held[1].Release(t.Context())
	_ = after.Lock.Release(t.Context())
	time.Sleep(2 * time.Second)
	if left := locktest.SlotKeys(nodes); len(left) > 0 {
		t.Errorf("nodes %v, command %d: left %q", faulty, k, left)
	}
	return fired
}

// slotReleases keeps what a node is sent by release_slot.lua.
func slotReleases(n *redlocktest.Node) (sent func() [][]any) {
	var mu sync.Mutex // guards all
	var all [][]any
	n.Intercept(func(args []string) redlocktest.Verdict {
		if len(args) > 1 && args[1] == lua.ReleaseSlotScript.Hash {
			command := make([]any, len(args))
			for i, a := range args {
				command[i] = a
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, command)
		}
		return redlocktest.Pass()
	})
	return func() [][]any {
		mu.Lock()
		defer mu.Unlock()
		return all
	}
}

// A leave of the slots' line says its place, and who waits anew stands behind it. So one that
// a node is sent again later, by the network or for a call that comes late, takes no entry
// of a later wait.
func TestALeaveThatComesAgainTakesNoEntryOfALaterWait(t *testing.T) {
	const line = lua.QueueKey + "redlock:slots:orders/42"
	for _, stray := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			l, nodes := locktest.NewLocker(t, 3)
			held, other := locktest.MustAcquire(t, l, "orders/42", redlock.WithLimit(1)), locktest.SeparateLocker(t, nodes)
			ctx, quit := context.WithCancel(t.Context())
			left := make(chan error, 1)
			go func() {
				_, err := other.Acquire(ctx, "orders/42", redlock.WithLimit(1))
				left <- err
			}()
			time.Sleep(time.Second)
			ids, err := nodes.Node(0).Miniredis().ZMembers(line)
			if err != nil || len(ids) != 1 {
				t.Fatalf("got the line %q, %v; want one process", ids, err)
			}
			sent := make([]func() [][]any, 3)
			for i, n := range nodes.Nodes() {
				sent[i] = slotReleases(n)
			}
			quit()
			locktest.WantError(t, "the first wait", <-left, context.Canceled)
			synctest.Wait()
			if stray {
				for i, n := range nodes.Nodes() {
					sent[i] = slotReleases(n)
					testkit.Must(t, nodes.Clients()[i].Publish(t.Context(), lua.WakeChannel+ids[0], lua.SlotKey("orders/42", 0)).Err())
				}
				synctest.Wait()
			}
			next := locktest.Wants(t, other, redlock.WithLimit(1))
			time.Sleep(time.Second)
			for i, n := range nodes.Nodes() {
				leaves := sent[i]()
				if len(leaves) == 0 {
					t.Fatalf("stray: %v: node %d was sent no leave", stray, i)
				}
				for _, leave := range leaves {
					testkit.Must(t, nodes.Clients()[i].Do(t.Context(), leave...).Err())
				}
				if in, err := n.Miniredis().ZMembers(line); err != nil || len(in) != 1 {
					t.Errorf("stray: %v: node %d has the line %q, %v; want the entry of who waits", stray, i, in, err)
				}
			}
			locktest.MustRelease(t, held)
			locktest.MustRelease(t, locktest.Got(t, next).Lock)
		})
	}
}

// A slot goes from one goroutine of a Locker to the next that stands in line, as often in a
// row as WithTurns says, though another process was there before that one. Then it is the
// other's turn.
func TestASlotIsHandedOnAsOftenAsTurnsSay(t *testing.T) {
	for i, turns := range []int{1, 2, 8, 2, 8} {
		pause, most := 300*time.Millisecond, redlock.DefaultRetryMax // who is next stands in line by then, and rests
		if i > 2 {
			pause = time.Second // it looks at that moment
		}
		synctest.Test(t, func(t *testing.T) {
			nodes := redlocktest.Start(t, 5)
			l, other := locktest.SeparateLocker(t, nodes, redlock.WithTurns(turns)), locktest.SeparateLocker(t, nodes)
			limit := redlock.WithLimit(1)
			last := locktest.MustAcquire(t, l, "orders/42", limit)
			theirs := locktest.Wants(t, other, limit)
			var ours []<-chan locktest.Gained
			for range turns + 3 {
				ours = append(ours, locktest.Wants(t, l, limit))
			}
			for i := range turns - 1 {
				released := time.Now()
				token := last.Token()
				locktest.MustRelease(t, last)
				g := locktest.Got(t, ours[i]) // in their order
				if took := g.At.Sub(released); took > most || g.Lock.Token() <= token {
					t.Errorf("%d turns: hold %d after %v, with token %v; want it after %v at most, above %v", turns, i+2, took, g.Lock.Token(), most, token)
				}
				last = g.Lock
				time.Sleep(pause)
				testkit.Must(t, last.Err())
			}
			locktest.MustRelease(t, last)
			time.Sleep(time.Second)
			if len(theirs) == 0 {
				t.Fatalf("%d turns: the other process has no turn", turns)
			}
			locktest.MustRelease(t, locktest.Got(t, theirs).Lock)
			for _, from := range ours[turns-1:] {
				locktest.MustRelease(t, locktest.Got(t, from).Lock)
			}
			time.Sleep(time.Minute)
			if left := append(locktest.SlotKeys(nodes), locktest.QueueKeys(nodes)...); len(left) > 0 {
				t.Errorf("%d turns: left: %q", turns, left)
			}
		})
	}
}

// A hand-over that too few nodes hear of brings no slot, and leaves none: who was to have it
// waits on in line.
func TestASlotThatIsLostOnItsWayComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := redlocktest.Start(t, 3)
		l, limit := locktest.SeparateLocker(t, nodes), redlock.WithLimit(1)
		last := locktest.MustAcquire(t, l, "orders/42", limit)
		next := locktest.Wants(t, l, limit)
		time.Sleep(300 * time.Millisecond)
		for _, n := range nodes.Nodes() {
			n.Intercept(func(args []string) redlocktest.Verdict {
				if slices.Contains(args, lua.PassScript.Hash) {
					return redlocktest.LoseRequest()
				}
				return redlocktest.Pass()
			})
		}
		_ = last.Release(t.Context())
		g := locktest.Got(t, next)
		testkit.Must(t, g.Lock.Err())
		locktest.MustRelease(t, g.Lock)
		time.Sleep(time.Minute)
		if left := append(locktest.SlotKeys(nodes), locktest.QueueKeys(nodes)...); len(left) > 0 {
			t.Errorf("left: %q", left)
		}
	})
}

// Who was to be handed a slot may have gone meanwhile, or the Locker may be closed.
func TestASlotThatNobodyTakesIsFreed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := redlocktest.Start(t, 3)
		l, other, limit := locktest.SeparateLocker(t, nodes), locktest.SeparateLocker(t, nodes), redlock.WithLimit(1)
		for range 20 {
			last := locktest.MustAcquire(t, l, "orders/42", limit)
			ctx, cancel := context.WithCancel(t.Context())
			gone := make(chan error, 1)
			go func() {
				lock, err := l.Acquire(ctx, "orders/42", limit)
				if err == nil {
					err = lock.Release(t.Context())
				}
				gone <- err
			}()
			time.Sleep(300 * time.Millisecond)
			go cancel()
			locktest.MustRelease(t, last)
			if err := <-gone; err != nil && !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
			locktest.MustRelease(t, locktest.MustAcquire(t, other, "orders/42", limit))
		}
		last := locktest.MustAcquire(t, l, "orders/42", limit)
		next, theirs := locktest.Wants(t, l, limit), locktest.Wants(t, other, limit)
		time.Sleep(300 * time.Millisecond)
		_ = last
		testkit.Must(t, l.Close())
		if g := <-next; !errors.Is(g.Err, redlock.ErrClosed) {
			t.Errorf("got %v; want ErrClosed", g.Err)
		}
		locktest.MustRelease(t, locktest.Got(t, theirs).Lock)
	})
}

// A slot goes to none who asks for one of fewer than that, nor is it lost by that.
func TestASlotIsNotHandedToOneWhoKnowsOfFewer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := redlocktest.Start(t, 3)
		l, two := locktest.SeparateLocker(t, nodes), redlock.WithLimit(2)
		held := []*redlock.Lock{locktest.MustAcquire(t, l, "orders/42", two), locktest.MustAcquire(t, l, "orders/42", two)}
		slices.SortFunc(held, func(a, b *redlock.Lock) int { return a.Slot() - b.Slot() })
		next := locktest.Wants(t, l, redlock.WithLimit(1))
		time.Sleep(300 * time.Millisecond)
		locktest.MustRelease(t, held[1])
		time.Sleep(300 * time.Millisecond)
		if len(next) > 0 {
			t.Fatalf("slot %d was handed to one who asked for the only one", locktest.Got(t, next).Lock.Slot())
		}
		beside := locktest.MustAcquire(t, locktest.SeparateLocker(t, nodes), "orders/42", two, redlock.WithBarging())
		locktest.MustRelease(t, held[0])
		if slot := locktest.Got(t, next).Lock.Slot(); slot != 0 {
			t.Errorf("got slot %d; want 0", slot)
		}
		testkit.Must(t, beside.Err())
	})
}

// One whose own ask brings a slot, while it is handed another, gives that one back.
func TestOneWhoGetsASlotGivesBackTheOneItWasHanded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := redlocktest.Start(t, 3)
		l, two := locktest.SeparateLocker(t, nodes), redlock.WithLimit(2)
		held, other := locktest.MustAcquire(t, l, "orders/42", two), locktest.SeparateLocker(t, nodes)
		beside := locktest.MustAcquire(t, other, "orders/42", two)
		next := locktest.Wants(t, l, two)
		time.Sleep(300 * time.Millisecond)
		for _, n := range nodes.Nodes() { // the ask that follows the call is out when the slot is handed on
			n.Intercept(func(args []string) redlocktest.Verdict {
				if slices.Contains(args, lua.AskSlotScript.Hash) {
					time.Sleep(20 * time.Millisecond)
				}
				return redlocktest.Pass()
			})
		}
		locktest.MustRelease(t, beside)
		time.Sleep(10 * time.Millisecond)
		_ = held.Release(t.Context())
		first := locktest.Got(t, next).Lock
		time.Sleep(time.Second)
		if keys := locktest.SlotKeys(nodes); len(keys) != 3 {
			t.Errorf("the nodes have %q; want the slot that is held, on three", keys)
		}
		locktest.MustRelease(t, first)
		time.Sleep(time.Second)
		if keys := locktest.SlotKeys(nodes); len(keys) != 0 {
			t.Errorf("left: %q", keys)
		}
	})
}
