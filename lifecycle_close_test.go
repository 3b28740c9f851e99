package redlock_test

import (
	"context"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/redlocktest"
)

func TestCloseEndsEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := redlocktest.Start(t, 5)
		l, other := separateLocker(t, nodes), separateLocker(t, nodes)
		lock := mustAcquire(t, l, "orders/42")
		foreign := mustAcquire(t, other, "orders/43")
		var wg sync.WaitGroup
		for _, name := range []string{"orders/42", "orders/42", "orders/43", "orders/43"} { // in the queue, and against another process
			wg.Go(func() {
				_, err := l.Acquire(t.Context(), name)
				wantError(t, "a waiter for "+name, err, redlock.ErrClosed)
			})
		}
		time.Sleep(time.Second)
		must(t, l.Close())
		wg.Wait()
		select {
		case <-lock.Done():
		default:
			t.Error("Close returned; want the lock's context ended")
		}
		wantError(t, "the cause", context.Cause(lock.Context()), redlock.ErrClosed)
		wantError(t, "Err", lock.Err(), redlock.ErrClosed)
		wantError(t, "Release", lock.Release(t.Context()), redlock.ErrNotHeld)
		wantError(t, "Extend", lock.Extend(t.Context(), redlock.DefaultTTL), redlock.ErrClosed)
		_, err := l.Acquire(t.Context(), "orders/44")
		wantError(t, "Acquire", err, redlock.ErrClosed)
		_, err = l.TryAcquire(t.Context(), "orders/44")
		wantError(t, "TryAcquire", err, redlock.ErrClosed)
		_, err = l.Inspect(t.Context(), "orders/44")
		wantError(t, "Inspect", err, redlock.ErrClosed)
		must(t, l.Close())
		for _, n := range nodes.Nodes() {
			if left := locksOn(n); len(left) > 1 || len(left) == 1 && left[0] != "orders/43" {
				t.Errorf("%s has %q; want only the other Locker's key", n.Name(), left)
			}
		}
		if err := nodes.Client(0).Ping(t.Context()).Err(); err != nil {
			t.Errorf("a client given to New: %v; want it open", err)
		}
		mustRelease(t, foreign)
	})
}

func TestCloseIsBoundedWhereNobodyAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := redlocktest.Start(t, 5)
		l := separateLocker(t, nodes)
		for i := range 100 {
			mustAcquire(t, l, "orders/"+string(rune('a'+i)))
		}
		synctest.Wait()
		for _, n := range nodes.Nodes() {
			n.Hang()
		}
		began := time.Now()
		err := l.Close()
		wantError(t, "Close", err, redlock.ErrNoQuorum)
		if took := time.Since(began); took > redlock.DefaultCloseTimeout+redlock.DefaultNodeTimeout {
			t.Errorf("Close took %v; want about its timeout of %v", took, redlock.DefaultCloseTimeout)
		}
		for _, n := range nodes.Nodes() {
			n.Resume()
		}
	})
}

// A program that tries once and ends leaves nothing behind.
func TestCloseSendsTheRollbacksThatAreOwed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := redlocktest.Start(t, 5)
		l := separateLocker(t, nodes)
		warm(t, l)
		for _, i := range []int{0, 1, 2} {
			must(t, nodes.Node(i).Miniredis().Set("orders/42", "somebody"))
		}
		for i, n := range nodes.Nodes() { // the refusals come when all were sent it, two grants while Close runs
			n.Intercept(slowly("acquire", time.Duration(1+i/3*4)*10*time.Millisecond))
		}
		_, err := l.TryAcquire(t.Context(), "orders/42")
		wantError(t, "TryAcquire", err, redlock.ErrNotAcquired)
		must(t, l.Close())
		for _, i := range []int{3, 4} {
			if left := locksOn(nodes.Node(i)); len(left) > 0 {
				t.Errorf("node %d has %q; want our half freed", i, left)
			}
		}
	})
}

// An attempt whose replies come while Close runs is rolled back on every node
// before Close returns: also on those whose writers had nothing left to do.
func TestCloseWaitsForAttemptsInFlight(t *testing.T) {
	for name, acquire := range map[string]func(*redlock.Locker, context.Context, string, ...redlock.AcquireOption) (*redlock.Lock, error){
		"Acquire": (*redlock.Locker).Acquire, "TryAcquire": (*redlock.Locker).TryAcquire,
	} {
		synctest.Test(t, func(t *testing.T) {
			nodes := redlocktest.Start(t, 5)
			l := separateLocker(t, nodes)
			warm(t, l)
			synctest.Wait()
			stripe := strconv.FormatInt(lua.StripeOf("orders/42"), 10)
			for i, n := range nodes.Nodes() { // so that the token takes a second round, which is slow
				n.Miniredis().HSet(lua.NodeKey, stripe, strconv.Itoa(2e15+i*1000))
				n.Intercept(slowly("raise", 100*time.Millisecond))
			}
			var lock *redlock.Lock
			var err error
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				lock, err = acquire(l, t.Context(), "orders/42")
			}()
			time.Sleep(50 * time.Millisecond)
			if got := len(owners(nodes, "orders/42")); got < 3 {
				t.Fatalf("%s: %d nodes have the key while it is in flight; want a majority, or this test shows nothing", name, got)
			}
			must(t, l.Close())
			wantNoLocks(t, nodes, name+": when Close returned")
			<-ended
			if err == nil { // it was a lock for a moment
				err = lock.Err()
			}
			wantError(t, name, err, redlock.ErrClosed)
		})
	}
}

func TestNoGoroutineOutlivesClose(t *testing.T) {
	nodes := redlocktest.Start(t, 5)
	for range 3 {
		l := separateLocker(t, nodes)
		lock := mustAcquire(t, l, "orders/42")
		_ = lock.Context()
		mustRelease(t, lock)
		mustAcquire(t, l, "orders/43", redlock.WithMaxHold(time.Hour))
		nodes.Node(0).Hang()
		_, _ = l.TryAcquire(t.Context(), "orders/44")
		nodes.Node(0).Resume()
		must(t, l.Close())
	}
	pollUntil(t, 5*time.Second, "the Lockers' goroutines have ended", func() bool {
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		return !strings.Contains(string(stacks), "quorumkit/redlock.(")
	})
}

// A process that closes while many of its goroutines stand in line has left the
// nodes' queues when Close returns, and the next process has its turn at once: no
// goroutine's way out is needed for that.
func TestCloseLeavesEveryQueueItStandsIn(t *testing.T) {
	for name, holds := range map[string]bool{"it waits": false, "it holds": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, nodes := newLocker(t, 3)
				closing, next := separateLocker(t, nodes), separateLocker(t, nodes)
				lock := mustAcquire(t, l, "orders/42")
				first := wants(t, closing)
				for range 200 {
					wants(t, closing)
				}
				behind := wants(t, next)
				if holds {
					mustRelease(t, lock)
					got(t, first)
				}
				time.Sleep(100 * time.Millisecond)
				must(t, closing.Close())
				if keys := entriesBut(nodes, 1); len(keys) > 0 {
					t.Errorf("it is closed, and stands in line: %v", keys)
				}
				if !holds {
					mustRelease(t, lock)
				}
				closed := time.Now()
				mustRelease(t, got(t, behind).lock)
				if took := time.Since(closed); took > time.Second {
					t.Errorf("the next had it %v after the end; want at once", took)
				}
			})
		})
	}
}

// entriesBut are the queues of orders/42 with more than so many in line.
func entriesBut(nodes *redlocktest.Cluster, others int) (names []string) {
	for _, n := range nodes.Nodes() {
		if on, err := n.Miniredis().ZMembers("redlock:queue:orders/42"); err == nil && len(processes(on)) > others {
			names = append(names, n.Name())
		}
	}
	return names
}

// broken is a client whose connections broke while they lay idle.
type broken struct{ closed bool }

func (b *broken) Close() error { b.closed = true; return syscall.EPIPE }

func TestCloseFailsForItsReleasesOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := newLocker(t, 3)
		var client broken
		redlock.Own(l, &client)
		mustAcquire(t, l, "orders/42")
		if err := l.Close(); err != nil || !client.closed {
			t.Errorf("got %v, the client closed: %t; want it closed, and no error: all was released", err, client.closed)
		}
	})
}

// A call for a name that the process does not want any more has it leave the queue. One
// that comes while Close ends was once said to be a name that was not released.
func TestACallThatComesWhenCloseHasEndedLeavesNothingToRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		lock := mustAcquire(t, l, "orders/42")
		waiting := separateLocker(t, nodes)
		next := wants(t, waiting)
		mustRelease(t, lock)
		mustRelease(t, got(t, next).lock)
		must(t, waiting.Close())
		if err := redlock.CallEnded(waiting, "orders/42"); err != nil {
			t.Errorf("got %v; want nothing that is not released", err)
		}
	})
}
