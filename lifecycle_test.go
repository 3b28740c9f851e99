package redlock_test

import (
	"context"
	"errors"
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

// A node whose writer was busy when the lock was won gets the key all the same:
// a lock on a bare quorum would be lost with the first node of it that fails.
func TestALockDoesNotRestOnTheQuorumThatAnsweredFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 5)
		warm(t, l)
		synctest.Wait()
		for _, i := range []int{3, 4} { // busy with another name for a moment
			nodes.Node(i).Intercept(func(args []string) redlocktest.Verdict {
				if scriptOf(args) == "acquire" {
					time.Sleep(20 * time.Millisecond)
				}
				return redlocktest.Pass()
			})
		}
		busy := mustAcquire(t, l, "orders/41")
		time.Sleep(time.Millisecond)
		lock := mustAcquire(t, l, "orders/42")
		time.Sleep(100 * time.Millisecond)
		if got := len(owners(nodes, "orders/42")); got != 5 {
			t.Errorf("%d of 5 nodes have the key; want all", got)
		}
		nodes.Node(0).Stop()
		nodes.Node(1).Stop()
		time.Sleep(3 * redlock.DefaultTTL)
		for _, held := range []*redlock.Lock{lock, busy} {
			if err := held.Err(); err != nil {
				t.Errorf("%s, with two of five nodes dead: %v; want it held", held.Resource(), err)
			}
			mustRelease(t, held)
		}
	})
}

func TestMaxHoldEndsAForgottenLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3, redlock.WithMaxHold(45*time.Second))
		began := time.Now()
		lock := mustAcquire(t, l, "orders/42")
		short := mustAcquire(t, l, "orders/43", redlock.WithMaxHold(time.Second))
		<-short.Done()
		if took := time.Since(began).Round(time.Millisecond); took != time.Second {
			t.Errorf("a bound of 1s: Done came after %v", took)
		}
		<-lock.Done()
		if took := time.Since(began).Round(time.Millisecond); took != 45*time.Second {
			t.Errorf("a bound of 45s: Done came after %v", took)
		}
		for _, ended := range []*redlock.Lock{lock, short} {
			wantError(t, "Err", ended.Err(), redlock.ErrMaxHold)
			wantError(t, "Extend", ended.Extend(t.Context(), redlock.DefaultTTL), redlock.ErrMaxHold)
		}
		time.Sleep(time.Second)
		wantNoLocks(t, nodes, "after the bound")
	})
}

func TestAFixedLeaseEndsUnlessItIsExtended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := newLocker(t, 3)
		began := time.Now()
		lock := mustAcquire(t, l, "orders/42", redlock.WithFixedLease(), redlock.WithTTL(3*time.Second))
		<-lock.Done()
		if took := time.Since(began); took < 2900*time.Millisecond || took >= 3*time.Second {
			t.Errorf("Done came after %v; want the TTL less the drift", took)
		}
		wantError(t, "Err", lock.Err(), redlock.ErrLost)
		lock = mustAcquire(t, l, "orders/42", redlock.WithFixedLease(), redlock.WithTTL(3*time.Second))
		for range 10 {
			time.Sleep(2 * time.Second)
			must(t, lock.Extend(t.Context(), 3*time.Second))
		}
		mustRelease(t, lock)
	})
}

func TestExtendKeepsItsRules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		lock := mustAcquire(t, l, "orders/42", redlock.WithFixedLease())
		for _, ttl := range []time.Duration{0, -1, time.Millisecond, redlock.DefaultMaxTTL + 1, redlock.DefaultNodeTimeout, 5 * time.Second} {
			wantError(t, "Extend to "+ttl.String(), lock.Extend(t.Context(), ttl), redlock.ErrInvalidTTL)
			if left := lock.Remaining(); left <= 0 {
				t.Errorf("after Extend to %v: got %v remaining; want the old validity", ttl, left)
			}
		}
		time.Sleep(6 * time.Second)
		must(t, lock.Extend(t.Context(), 5*time.Second)) // more than what remains now
		must(t, lock.Extend(t.Context(), 20*time.Second))
		synctest.Wait()
		for _, n := range nodes.Nodes() {
			if got := n.Miniredis().TTL("orders/42"); got != 20*time.Second {
				t.Errorf("%s: got a lease of %v; want 20s", n.Name(), got)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for _, n := range nodes.Nodes() {
			n.Hang()
		}
		began := time.Now()
		err := lock.Extend(ctx, 25*time.Second)
		wantError(t, "Extend with an ended context", err, context.Canceled)
		if took := time.Since(began); took > 0 {
			t.Errorf("Extend with an ended context took %v; want it at once", took)
		}
		if lock.Err() != nil {
			t.Errorf("after it: %v; want the lock held", lock.Err())
		}
		for _, n := range nodes.Nodes() {
			n.Resume()
		}
		mustRelease(t, lock)
	})
}

// An extension whose reply was lost may have lengthened the lease: the rollback
// must be owed for as long as that.
func TestAReleaseIsOwedForTheLongestLeaseThatWasAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		lock := mustAcquire(t, l, "orders/42", redlock.WithFixedLease())
		synctest.Wait()
		for _, n := range nodes.Nodes() {
			n.Intercept(onScripts("extend", redlocktest.LoseReply()))
		}
		wantError(t, "Extend without a reply", lock.Extend(t.Context(), 30*time.Second), redlock.ErrNoQuorum)
		for _, n := range nodes.Nodes() {
			n.Intercept(nil)
			n.Stop()
		}
		wantError(t, "Release while all are cut off", lock.Release(t.Context()), redlock.ErrNoQuorum)
		time.Sleep(15 * time.Second)
		for _, n := range nodes.Nodes() {
			n.Start()
		}
		time.Sleep(2 * time.Second)
		wantNoLocks(t, nodes, "after their return, before the long lease has ended")
	})
}

func TestExtensionsAndRenewalsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		lock := mustAcquire(t, l, "orders/42", redlock.WithTTL(2*time.Second))
		synctest.Wait()
		var mu sync.Mutex
		under, most := map[int]int{}, 0
		for i, n := range nodes.Nodes() {
			n.Intercept(func(args []string) redlocktest.Verdict {
				if scriptOf(args) != "extend" {
					return redlocktest.Pass()
				}
				mu.Lock()
				under[i]++
				most = max(most, under[i])
				mu.Unlock()
				time.Sleep(10 * time.Millisecond)
				mu.Lock()
				under[i]--
				mu.Unlock()
				return redlocktest.Pass()
			})
		}
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for range 20 {
					must(t, lock.Extend(t.Context(), 2*time.Second))
				}
			})
		}
		wg.Wait()
		if most != 1 {
			t.Errorf("%d extensions of one lock at a time; want 1", most)
		}
		mustRelease(t, lock)
	})
}

func TestTryAcquireOfAnOwnHeldNameSendsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		lock := mustAcquire(t, l, "orders/42")
		synctest.Wait()
		sent := nodes.Node(0).Calls()
		for range 100 {
			_, err := l.TryAcquire(t.Context(), "orders/42")
			wantError(t, "TryAcquire", err, redlock.ErrNotAcquired)
		}
		if got := nodes.Node(0).Calls() - sent; got != 0 {
			t.Errorf("%d commands were sent; want none", got)
		}
		mustRelease(t, lock)
		lock, err := l.TryAcquire(t.Context(), "orders/42")
		must(t, err)
		mustRelease(t, lock)
	})
}

func TestAThousandWaitersCostTheNodesAsMuchAsOne(t *testing.T) {
	cost := func(waiters int) (calls int) {
		synctest.Test(t, func(t *testing.T) {
			l, nodes := newLocker(t, 3)
			other := separateLocker(t, nodes)
			lock := mustAcquire(t, other, "orders/42")
			warm(t, l)
			synctest.Wait()
			sent := nodes.Node(0).Calls("EVALSHA")
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			var wg sync.WaitGroup
			for range waiters {
				wg.Go(func() {
					if _, err := l.Acquire(ctx, "orders/42"); !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("a waiter: got %v; want the deadline", err)
					}
				})
			}
			wg.Wait()
			calls = nodes.Node(0).Calls("EVALSHA") - sent
			mustRelease(t, lock)
		})
		return calls
	}
	one, thousand := cost(1), cost(1000)
	if thousand > one*3/2 || one < 20 {
		t.Errorf("20s of waiting cost a node %d calls for one waiter and %d for a thousand; want about as many", one, thousand)
	}
}

func TestObserversAreToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := &events{}
		l, nodes := newLocker(t, 3, told.option())
		warm(t, l)
		synctest.Wait()
		nodes.Node(1).Stop()
		for range 20 {
			mustRelease(t, mustAcquire(t, l, "orders/42"))
			time.Sleep(100 * time.Millisecond)
		}
		if down := told.of(redlock.EventNodeDown); len(down) != 1 || down[0].Node != 1 || down[0].Name != "node-1" || down[0].Err == nil {
			t.Errorf("a node is down: got %+v; want one event that names it and says why", down)
		}
		if up := told.of(redlock.EventNodeUp); len(up) != 0 {
			t.Errorf("before its return: got %+v; want no event", up)
		}
		nodes.Node(1).Start()
		for range 20 {
			mustRelease(t, mustAcquire(t, l, "orders/42"))
			time.Sleep(100 * time.Millisecond)
		}
		if up := told.of(redlock.EventNodeUp); len(up) != 1 || up[0].Node != 1 {
			t.Errorf("the node is back: got %+v; want one event", up)
		}
		lock := mustAcquire(t, l, "orders/42")
		synctest.Wait()
		for _, n := range nodes.Nodes() {
			n.Hang()
		}
		wantError(t, "Release", lock.Release(t.Context()), redlock.ErrNoQuorum)
		synctest.Wait()
		if got := told.of(redlock.EventReleaseUnconfirmed); len(got) != 1 || got[0].Resource != "orders/42" || got[0].Token != lock.Token() {
			t.Errorf("a release that nobody confirmed: got %+v; want one event", got)
		}
		for _, n := range nodes.Nodes() {
			n.Resume()
		}
	})
}

func TestInspectTellsWhatTheNodesSay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 5, redlock.WithHolder("billing"), redlock.WithPrefix("locks:"))
		lock := mustAcquire(t, l, "orders/42")
		synctest.Wait()
		nodes.Node(0).Stop()
		nodes.Node(1).Miniredis().Del("locks:orders/42")
		in, err := l.Inspect(t.Context(), "orders/42")
		must(t, err)
		owner, held := in.Holder()
		if !held || !strings.HasPrefix(owner, "billing/") || in.Key != "locks:orders/42" {
			t.Errorf("got %+v; want the key, and a holder with its label", in)
		}
		for i, n := range in.Nodes {
			switch {
			case i == 0 && n.Err == nil:
				t.Errorf("node 0 is dead: got %+v; want an error", n)
			case i == 1 && (n.Owner != "" || n.Err != nil):
				t.Errorf("node 1 lost the key: got %+v; want no owner", n)
			case i > 1 && (n.Owner != owner || n.Token != lock.Token() || n.Remaining <= 0):
				t.Errorf("node %d: got %+v; want the owner, token %v, and a lease", i, n, lock.Token())
			}
		}
		for _, i := range []int{1, 2} {
			nodes.Node(i).Stop()
		}
		_, err = l.Inspect(t.Context(), "orders/42")
		wantError(t, "with three of five dead", err, redlock.ErrNoQuorum)
	})
}

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
		if err := nodes.Clients()[0].Ping(t.Context()).Err(); err != nil {
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
				mustRelease(t, got(t, behind).Lock)
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
		mustRelease(t, got(t, next).Lock)
		must(t, waiting.Close())
		if err := redlock.CallEnded(waiting, "orders/42"); err != nil {
			t.Errorf("got %v; want nothing that is not released", err)
		}
	})
}
