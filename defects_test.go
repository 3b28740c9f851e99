package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/redlocktest"
)

// Each test here is a defect that was seen in a widely used library, and is
// named after it. Those that need real servers are in defects_real_test.go.

func TestDefectRollbackOnAnExpiredCallerContextLeavesKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 5)
		warm(t, l)
		synctest.Wait()
		for _, i := range []int{2, 3, 4} {
			nodes.Node(i).Hang()
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		began := time.Now()
		_, err := l.Acquire(ctx, "orders/42")
		wantError(t, "Acquire with three of five hung", err, context.DeadlineExceeded)
		if took := time.Since(began); took != 100*time.Millisecond {
			t.Errorf("Acquire took %v; want its context's 100ms", took)
		}
		synctest.Wait()
		time.Sleep(10 * time.Millisecond)
		wantNoLocks(t, nodes, "10ms after the context ended")
		for _, i := range []int{2, 3, 4} {
			nodes.Node(i).Resume()
		}
		time.Sleep(time.Second)
		wantNoLocks(t, nodes, "a second after the hung nodes came back")
		time.Sleep(redlock.DefaultTTL)
		wantOnlyRecords(t, nodes, "a lease later")
	})
}

func TestDefectLateSetAfterARollbackLeavesAMajorityOfOwnerlessKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 5)
		warm(t, l)
		synctest.Wait()
		for round := range 10 {
			for _, n := range nodes.Nodes() {
				n.Hang()
			}
			_, err := l.TryAcquire(t.Context(), "orders/42")
			wantError(t, "TryAcquire with all hung", err, redlock.ErrNoQuorum)
			// Long enough for the rollback to have been sent on new connections,
			// so that it may run before the acquire that was abandoned.
			time.Sleep(time.Duration(round) * 300 * time.Millisecond)
			for _, n := range nodes.Nodes() {
				n.Resume()
			}
			time.Sleep(time.Second)
			wantNoLocks(t, nodes, fmt.Sprintf("round %d, a second after the return", round))
		}
	})
}

func TestDefectLateSetAfterARollbackThatOvertookIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := redlocktest.Start(t, 5)
		network := &cable{}
		l := lockerWith(t, network.clients(t, nodes), redlock.WithNodeNames(nodes.Names()...))
		warm(t, l)
		synctest.Wait()
		sent := sent(nodes)
		network.cut.Store(true)
		// The cut ends before the replies are given up. A new connection whose HELLO is lost would
		// delay the rollback for longer than this test waits.
		time.AfterFunc(redlock.DefaultNodeTimeout/2, func() { network.cut.Store(false) })
		_, err := l.TryAcquire(t.Context(), "orders/42")
		wantError(t, "TryAcquire while cut off", err, redlock.ErrNoQuorum)
		time.Sleep(time.Second)
		for i, n := range nodes.Nodes() {
			rollbacks, acquires := sent(i, "release")+sent(i, "release_batch"), sent(i, "acquire")
			if rollbacks != 1 || acquires != 0 {
				t.Fatalf("%s got %d rollbacks and %d acquires; want the rollback first", n.Name(), rollbacks, acquires)
			}
		}
		network.deliver(t)
		for i, n := range nodes.Nodes() {
			if sent(i, "acquire") != 1 {
				t.Fatalf("%s got no acquire late; want one, or this test shows nothing", n.Name())
			}
		}
		wantNoLocks(t, nodes, "after the late acquires")
	})
}

func TestDefectExtendRecreatesAKeyThatAnotherHeldAndReleased(t *testing.T) {
	for _, n := range []int{1, 3, 4, 5} {
		synctest.Test(t, func(t *testing.T) {
			l, nodes := newLocker(t, n)
			other := separateLocker(t, nodes)
			lock := mustAcquire(t, l, "orders/42", redlock.WithFixedLease())
			synctest.Wait()
			for _, node := range nodes.Nodes() {
				node.Miniredis().Del("orders/42") // the lease ended early: a jump of the nodes' clocks
			}
			second := mustAcquire(t, other, "orders/42")
			mustRelease(t, second)
			err := lock.Extend(t.Context(), redlock.DefaultTTL)
			wantError(t, fmt.Sprintf("%d nodes: Extend", n), err, redlock.ErrLost)
			wantError(t, fmt.Sprintf("%d nodes: Err", n), lock.Err(), redlock.ErrLost)
			time.Sleep(time.Second)
			wantNoLocks(t, nodes, "after Extend")
		})
	}
}

func TestDefectLostReplyMakesAFreeKeyLookTaken(t *testing.T) {
	for _, verdict := range []redlocktest.Verdict{redlocktest.LoseReply(), redlocktest.BreakAfter()} {
		synctest.Test(t, func(t *testing.T) {
			l, nodes := newLocker(t, 5)
			warm(t, l)
			synctest.Wait()
			firstOnScripts(nodes, "acquire", verdict)
			_, err := l.TryAcquire(t.Context(), "orders/42")
			wantError(t, "TryAcquire without a reply", err, redlock.ErrNoQuorum)
			if errors.Is(err, redlock.ErrNotAcquired) {
				t.Errorf("TryAcquire without a reply: got %v; want no word of contention", err)
			}
			began := time.Now()
			lock, err := l.TryAcquire(t.Context(), "orders/42")
			if err != nil {
				t.Fatalf("the next TryAcquire: %v; want our own key to be out of the way", err)
			}
			if took := time.Since(began); took > redlock.DefaultNodeTimeout {
				t.Errorf("the next TryAcquire took %v; want at most a node timeout", took)
			}
			mustRelease(t, lock)
			time.Sleep(time.Second)
			wantNoLocks(t, nodes, "at the end")
		})
	}
}

func TestDefectLossSignalComesAfterTheNextHolderStarted(t *testing.T) {
	for _, cutAfter := range []time.Duration{0, 2 * time.Second, 7 * time.Second, 13 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			nodes := redlocktest.Start(t, 5)
			network := &cable{}
			l := lockerWith(t, network.clients(t, nodes), redlock.WithNodeNames(nodes.Names()...))
			next := separateLocker(t, nodes, redlock.WithRetry(20*time.Millisecond, 20*time.Millisecond))
			lock := mustAcquire(t, l, "orders/42")
			time.Sleep(cutAfter)
			network.cut.Store(true)
			second := mustAcquire(t, next, "orders/42")
			select {
			case <-lock.Done():
			default:
				t.Fatalf("cut off after %v: the next holder has started; want Done closed before", cutAfter)
			}
			if second.Token() <= lock.Token() {
				t.Errorf("got token %v after %v; want a greater one", second.Token(), lock.Token())
			}
			network.cut.Store(false)
			time.Sleep(time.Second) // what the first one owes now arrives
			if err := second.Err(); err != nil {
				t.Errorf("the next holder, after the first one's return: %v", err)
			}
		})
	}
}

func TestDefectALockIsReturnedThatHasAlreadyExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = 100 * time.Millisecond
		nodes := redlocktest.Start(t, 3)
		l := lockerOver(t, nodes, redlock.WithTTL(ttl), redlock.WithNodeTimeout(ttl-time.Millisecond))
		warm(t, l)
		for _, delay := range []time.Duration{97 * time.Millisecond, 98 * time.Millisecond} { // 100 - 1 % - 2 = 97
			for _, n := range nodes.Nodes() {
				n.Intercept(func(args []string) redlocktest.Verdict {
					if scriptOf(args) == "acquire" {
						time.Sleep(delay)
					}
					return redlocktest.Pass()
				})
			}
			lock, err := l.TryAcquire(t.Context(), "orders/42")
			if err == nil {
				t.Fatalf("replies after %v: got a lock with %v remaining; want none", delay, lock.Remaining())
			}
			wantError(t, "TryAcquire", err, redlock.ErrNotAcquired)
			for _, n := range nodes.Nodes() {
				n.Intercept(nil)
			}
			time.Sleep(ttl)
			wantNoLocks(t, nodes, "after the rollback")
		}
		lock := mustAcquire(t, l, "orders/42")
		if left := lock.Remaining(); left <= 0 {
			t.Errorf("at once: got %v remaining; want some", left)
		}
	})
}

func TestDefectFourNodesSplitTwoToTwoHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 4)
		warm(t, l)
		for _, i := range []int{0, 1} {
			must(t, nodes.Node(i).Miniredis().Set("orders/42", "somebody"))
			nodes.Node(i).Miniredis().SetTTL("orders/42", 3*time.Second)
		}
		began := time.Now()
		_, err := l.TryAcquire(t.Context(), "orders/42")
		wantError(t, "TryAcquire of a split name", err, redlock.ErrNotAcquired)
		if took := time.Since(began); took > 10*time.Millisecond {
			t.Errorf("TryAcquire took %v; want an answer at once", took)
		}
		time.Sleep(10 * time.Millisecond)
		for _, i := range []int{2, 3} {
			if left := locksOn(nodes.Node(i)); len(left) > 0 {
				t.Errorf("node %d keeps %q; want the half that was ours freed", i, left)
			}
		}
		lock := mustAcquire(t, l, "orders/42")
		if took := time.Since(began); took > 4*time.Second {
			t.Errorf("Acquire succeeded after %v; want it soon after the rival's 3s", took)
		}
		mustRelease(t, lock)
	})
}

func TestDefectFourNodesTwoContendersBothGetTheirTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := redlocktest.Start(t, 4)
		var wg sync.WaitGroup
		var mu sync.Mutex
		holders, tokens := 0, []redlock.Token{}
		for range 3 {
			l := separateLocker(t, nodes)
			wg.Go(func() {
				for range 5 {
					err := l.Do(t.Context(), "orders/42", func(_ context.Context, lock *redlock.Lock) error {
						mu.Lock()
						holders++
						if holders != 1 {
							t.Errorf("%d holders; want 1", holders)
						}
						tokens = append(tokens, lock.Token())
						mu.Unlock()
						time.Sleep(5 * time.Millisecond)
						mu.Lock()
						holders--
						mu.Unlock()
						return nil
					})
					if err != nil {
						t.Errorf("Do: %v", err)
					}
				}
			})
		}
		wg.Wait()
		if len(tokens) != 15 || !slices.IsSorted(tokens) {
			t.Errorf("got tokens %v; want 15 in order", tokens)
		}
	})
}

func TestDefectRetriedUnlockDeletesANewerLock(t *testing.T) {
	for _, verdict := range []redlocktest.Verdict{redlocktest.LoseReply(), redlocktest.BreakAfter()} {
		synctest.Test(t, func(t *testing.T) {
			l, nodes := newLocker(t, 5)
			next := separateLocker(t, nodes, redlock.WithRetry(time.Millisecond, time.Millisecond))
			warm(t, next)
			warm(t, l)
			lock := mustAcquire(t, l, "orders/42")
			synctest.Wait()
			firstOnScripts(nodes, "release", verdict)
			released := make(chan error, 1)
			go func() { released <- lock.Release(t.Context()) }()
			second := mustAcquire(t, next, "orders/42")
			if err := <-released; err != nil {
				t.Errorf("Release: %v; want the repeated one confirmed", err)
			}
			time.Sleep(time.Second)
			owner := owners(nodes, "orders/42")
			if len(owner) < 3 {
				t.Errorf("a quorum's keys of the newer lock: got %v; want at least 3", owner)
			}
			if err := second.Extend(t.Context(), redlock.DefaultTTL); err != nil {
				t.Errorf("Extend of the newer lock: %v", err)
			}
			mustRelease(t, second)
		})
	}
}

// owners are the values of a key, on the nodes that have it.
func owners(nodes *redlocktest.Cluster, key string) []string {
	var out []string
	for _, n := range nodes.Nodes() {
		if v, err := n.Miniredis().Get(key); err == nil {
			out = append(out, v)
		}
	}
	return out
}

func TestDefectTheSameServerListedTwiceVotesTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := redlocktest.Start(t, 3)
		clients := nodes.NewClients()
		clients[1] = nodes.Clients()[0] // of the established nodes, one stands for two
		l := lockerWith(t, clients, redlock.WithNodeNames(nodes.Names()...))
		mustRelease(t, mustAcquire(t, l, "orders/42")) // two different servers are a quorum of three
		nodes.Node(2).Stop()
		_, err := l.TryAcquire(t.Context(), "orders/42")
		wantError(t, "one server, twice", err, redlock.ErrNoQuorum)
		wantError(t, "one server, twice", err, redlock.ErrMisconfigured)
		if err != nil && !strings.Contains(err.Error(), "twice") {
			t.Errorf("got %q; want it to say what is wrong", err)
		}
	})
}

// The control: nobody looks at run_ids, and the two votes of one server are a
// quorum of three beside which another client finds one of its own.
func TestTheSameServerListedTwiceMakesTwoHoldersWithoutMembership(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := redlocktest.Start(t, 3)
		clients := nodes.NewClients()
		clients[1] = nodes.Clients()[0]
		l := lockerWith(t, clients, redlock.WithNodeNames(nodes.Names()...), redlock.WithoutMembership())
		nodes.Node(2).Stop()
		first := mustAcquire(t, l, "orders/42")
		synctest.Wait() // what is under way to node 2 fails
		nodes.Node(2).Start()
		second := mustAcquire(t, lockerOver(t, nodes, redlock.WithoutMembership()), "orders/42")
		if err := errors.Join(first.Err(), second.Err()); err != nil {
			t.Errorf("got %v; want two holders, or the test before shows nothing", err)
		}
	})
}

func TestDefectTheSameServerListedTwiceFoundsACluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := redlocktest.Start(t, 2, redlocktest.WithoutFounding())
		clients := append(nodes.NewClients(), nodes.NewClients()[0])
		l := lockerWith(t, clients, redlock.WithNodeNames("a", "b", "c"))
		if err := l.Cluster().Admit(t.Context()); err == nil || !strings.Contains(err.Error(), "twice") {
			t.Errorf("Admit: got %v; want it to say that one server stands for two nodes", err)
		}
		time.Sleep(3 * redlock.DefaultMaxTTL)
		_, err := l.TryAcquire(t.Context(), "orders/42")
		wantError(t, "two servers for three nodes", err, redlock.ErrNoQuorum)
		wantError(t, "two servers for three nodes", err, redlock.ErrMisconfigured)
		if s, err := l.Cluster().Status(t.Context()); err != nil || s.Votes() != 0 {
			t.Errorf("Status: got %+v, %v; want no votes", s, err)
		}
	})
}

func TestDefectAFenceCounterPerNameGrowsWithoutBound(t *testing.T) {
	testkit.Unraced(t)
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		for i := range 300 {
			mustRelease(t, mustAcquire(t, l, fmt.Sprintf("orders/%d", i)))
		}
		time.Sleep(redlock.DefaultTTL)
		wantOnlyRecords(t, nodes, "after 300 names")
	})
}

func TestDefectOneWaiterOfTwentyStarves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := newLocker(t, 3)
		const waiters, rounds = 20, 5
		var wg sync.WaitGroup
		var mu sync.Mutex
		var order []int
		for w := range waiters {
			wg.Go(func() {
				for range rounds {
					lock := mustAcquire(t, l, "orders/42")
					mu.Lock()
					order = append(order, w)
					mu.Unlock()
					time.Sleep(3 * time.Millisecond)
					mustRelease(t, lock)
				}
			})
			synctest.Wait() // it holds, or is in the queue
		}
		wg.Wait()
		for i, w := range order {
			if w != i%waiters {
				t.Fatalf("turn %d went to waiter %d; want %d: first in, first out (%v)", i, w, i%waiters, order)
			}
		}
	})
}

func TestDefectUnlockWithACancelledContextLeavesTheKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 5)
		ctx, cancel := context.WithCancel(t.Context())
		lock, err := l.Acquire(ctx, "orders/42")
		must(t, err)
		cancel()
		if err := lock.Release(ctx); err != nil {
			t.Errorf("Release with a cancelled context: %v", err)
		}
		synctest.Wait()
		wantNoLocks(t, nodes, "after Release")
		ctx, cancel = context.WithCancel(t.Context())
		err = l.Do(ctx, "orders/42", func(inner context.Context, _ *redlock.Lock) error {
			cancel()
			<-inner.Done()
			return inner.Err()
		})
		wantError(t, "Do", err, context.Canceled)
		synctest.Wait()
		wantNoLocks(t, nodes, "after Do")
	})
}
