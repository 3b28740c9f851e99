package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/redlocktest"
)

func TestAReleaseWakesTheNextAtOnce(t *testing.T) {
	for _, n := range []int{1, 2, 3, 5} {
		synctest.Test(t, func(t *testing.T) {
			l, nodes := newLocker(t, n)
			other := separateLocker(t, nodes)
			lock := mustAcquire(t, l, "orders/42")
			next := wants(t, other)
			time.Sleep(time.Second)
			released := time.Now()
			mustRelease(t, lock)
			g := got(t, next)
			if d := g.At.Sub(released); d != 0 {
				t.Errorf("%d nodes: the next had it %v after the release; want at once, the network takes no time", n, d)
			}
			if g.Lock.Token() <= lock.Token() {
				t.Errorf("tokens %d, then %d; want a greater one", lock.Token(), g.Lock.Token())
			}
			mustRelease(t, g.Lock)
			synctest.Wait()
			if keys := queueKeys(nodes); keys != nil {
				t.Errorf("left behind: %v", keys)
			}
		})
	}
}

func TestProcessesHaveTheirTurnsInTheOrderInWhichTheyCame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 5)
		lock := mustAcquire(t, l, "orders/42")
		const processes = 6
		var mu sync.Mutex
		var order []int
		var wg sync.WaitGroup
		for i := range processes {
			other := separateLocker(t, nodes)
			next := wants(t, other)
			wg.Go(func() {
				g := <-next
				if g.Err != nil {
					t.Errorf("process %d: %v", i, g.Err)
					return
				}
				mu.Lock()
				order = append(order, i)
				mu.Unlock()
				if err := g.Lock.Release(context.Background()); err != nil {
					t.Errorf("process %d: %v", i, err)
				}
			})
		}
		begin := time.Now()
		mustRelease(t, lock)
		wg.Wait()
		if !slices.IsSorted(order) || len(order) != processes {
			t.Errorf("they had it in the order %v; want that of their coming", order)
		}
		if d := time.Since(begin); d > 100*time.Millisecond {
			t.Errorf("that took %v; want no rests in between", d)
		}
		synctest.Wait()
		if keys := queueKeys(nodes); keys != nil {
			t.Errorf("left behind: %v", keys)
		}
	})
}

func TestATryAcquireDoesNotOvertakeWhoWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		warm(t, l)
		ghost(t, nodes)
		_, err := l.TryAcquire(t.Context(), "orders/42")
		wantError(t, "TryAcquire beside one who waits", err, redlock.ErrNotAcquired)
		mustRelease(t, mustAcquire(t, l, "orders/43"))
		lock, err := l.TryAcquire(t.Context(), "orders/42", redlock.WithBarging())
		must(t, err)
		mustRelease(t, lock)
		ghost(t, nodes)
		time.Sleep(3 * time.Second)
		lock, err = l.TryAcquire(t.Context(), "orders/42")
		must(t, err)
		mustRelease(t, lock)
	})
}

func TestTheEndOfADeadHoldersLeaseWakesWhoWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		other := separateLocker(t, nodes)
		lock := mustAcquire(t, l, "orders/42", redlock.WithFixedLease(), redlock.WithTTL(5*time.Second))
		held := time.Now()
		synctest.Wait()                   // every node has it
		for _, n := range nodes.Nodes() { // nobody releases: the holder is gone
			n.Intercept(onScripts("release", redlocktest.ReplyError("ERR gone")))
		}
		_ = lock
		next := wants(t, other)
		g := got(t, next)
		if d := g.At.Sub(held); d < 5*time.Second || d > 5*time.Second+50*time.Millisecond {
			t.Errorf("the next had it after %v; want the lease of 5s and a look", d)
		}
	})
}

// One that died before it had a quorum is still on one node, whichever is looked
// at: its lease ends later, and says nothing of when a quorum is free.
func TestWhatADeadContenderLeftOnOneNodeHoldsNobodyUp(t *testing.T) {
	for orphaned := range 3 {
		t.Run(fmt.Sprintf("on node %d", orphaned), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, nodes := newLocker(t, 3)
				other := separateLocker(t, nodes)
				m := nodes.Node(orphaned).Miniredis()
				must(t, m.Set("orders/42", uuid.NewString()))
				m.SetTTL("orders/42", 12*time.Second)
				mustAcquire(t, l, "orders/42", redlock.WithFixedLease(), redlock.WithTTL(5*time.Second))
				held := time.Now()
				synctest.Wait()
				for _, n := range nodes.Nodes() { // nobody releases: the holder is gone
					n.Intercept(onScripts("release", redlocktest.ReplyError("ERR gone")))
				}
				if d := got(t, wants(t, other)).At.Sub(held); d > 5*time.Second+50*time.Millisecond {
					t.Errorf("the next had it after %v; want the lease of 5s and a look", d)
				}
			})
		})
	}
}

func TestAWaiterWhoLeavesWakesTheNextAndLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 5)
		leaver, other := separateLocker(t, nodes), separateLocker(t, nodes)
		lock := mustAcquire(t, l, "orders/42")
		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error, 1)
		go func() {
			_, err := leaver.Acquire(ctx, "orders/42")
			failed <- err
		}()
		synctest.Wait()
		next := wants(t, other)
		cancel()
		wantError(t, "the leaver's Acquire", <-failed, context.Canceled)
		released := time.Now()
		mustRelease(t, lock)
		g := got(t, next)
		if d := g.At.Sub(released); d != 0 {
			t.Errorf("the next had it after %v; want at once", d)
		}
		mustRelease(t, g.Lock)
		synctest.Wait()
		if keys := queueKeys(nodes); keys != nil {
			t.Errorf("left behind: %v", keys)
		}
	})
}

func TestWithWaitBoundsAcquire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		other := separateLocker(t, nodes)
		lock := mustAcquire(t, l, "orders/42")
		begin := time.Now()
		_, err := other.Acquire(t.Context(), "orders/42", redlock.WithWait(1500*time.Millisecond))
		wantError(t, "Acquire", err, context.DeadlineExceeded)
		wantError(t, "Acquire", err, redlock.ErrNotAcquired)
		if d := time.Since(begin); d != 1500*time.Millisecond {
			t.Errorf("it took %v; want 1.5s", d)
		}
		mustRelease(t, lock)
		if _, err := l.Acquire(t.Context(), "a", redlock.WithWait(-1)); !errors.Is(err, redlock.ErrInvalidOption) {
			t.Errorf("a negative WithWait: %v; want ErrInvalidOption", err)
		}
	})
}

func TestGoroutinesHandTheLockOnInTurns(t *testing.T) {
	const goroutines, k = 6, 3
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3, redlock.WithTurns(k))
		other := separateLocker(t, nodes)
		warm(t, l)
		first := mustAcquire(t, l, "orders/42")
		rival := wants(t, other)
		var mu sync.Mutex
		var order []string
		note := func(who string) {
			mu.Lock()
			defer mu.Unlock()
			order = append(order, who)
		}
		var wg sync.WaitGroup
		last := first.Token()
		take := func(who string, from <-chan gained) {
			wg.Go(func() {
				g := <-from
				if g.Err != nil {
					t.Errorf("%s: %v", who, g.Err)
					return
				}
				note(who)
				if g.Lock.Token() <= last {
					t.Errorf("%s has token %d after %d", who, g.Lock.Token(), last)
				}
				last = g.Lock.Token()
				if err := g.Lock.Release(context.Background()); err != nil {
					t.Errorf("%s: %v", who, err)
				}
			})
		}
		take("rival", rival)
		for i := range goroutines {
			take(fmt.Sprint(i), wants(t, l))
		}
		mustRelease(t, first)
		wg.Wait()
		// The first holder's turn ends with two more; then the rival; then the rest.
		if want := []string{"0", "1", "rival", "2", "3", "4", "5"}; !slices.Equal(order, want) {
			t.Errorf("they had it in the order %v; want %v", order, want)
		}
		synctest.Wait()
		if keys := queueKeys(nodes); keys != nil {
			t.Errorf("left behind: %v", keys)
		}
	})
}

type requestKey struct{}

// The connections on which a Locker is called outlive the one who waited first: they
// must not keep the values of his context, nor show them to a client's hooks.
func TestASubscriptionKeepsNothingOfTheFirstWaitersContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		holder, nodes := newLocker(t, 1)
		var saw atomic.Int32
		o := nodes.Node(0).Options()
		dial := o.Dialer
		o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if ctx.Value(requestKey{}) != nil {
				saw.Add(1)
			}
			return dial(ctx, network, addr)
		}
		client := redis.NewClient(o)
		defer func() { must(t, client.Close()) }()
		l := lockerWith(t, []redis.UniversalClient{client}, redlock.WithNodeNames(nodes.Names()...))
		lock := mustAcquire(t, holder, "orders/42")
		done := make(chan gained, 1)
		go func() {
			next, err := l.Acquire(context.WithValue(t.Context(), requestKey{}, "a request"), "orders/42")
			done <- gained{Lock: next, Err: err}
		}()
		synctest.Wait()
		mustRelease(t, lock)
		mustRelease(t, got(t, done).Lock)
		if n := saw.Load(); n > 0 {
			t.Errorf("%d connections were made with the values of one acquisition's context", n)
		}
		must(t, l.Close())
	})
}

// Who gives up keeps the process's place for the goroutine behind it. Where that one
// quits at the same moment, nobody is left to come when the place is called.
func TestAPlaceThatIsKeptForNobodyIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 3)
		other := separateLocker(t, nodes)
		lock := mustAcquire(t, l, "orders/42")
		ctx, cancel := context.WithCancel(t.Context())
		results := make(chan error, 2)
		for range 2 {
			go func() {
				_, err := other.Acquire(ctx, "orders/42")
				results <- err
			}()
		}
		time.Sleep(time.Second)
		free := redlock.KeepNames(other)
		cancel()
		synctest.Wait() // the first has seen that there is another, who goes as well
		free()
		for range 2 {
			wantError(t, "Acquire", <-results, context.Canceled)
		}
		time.Sleep(time.Second)
		if keys := queueKeys(nodes); keys != nil {
			t.Errorf("nobody waits, and the process stands in line: %v", keys)
		}
		mustRelease(t, lock)
	})
}

// A process has one connection for calls to each node, no matter the number of
// names that its goroutines wait for.
func TestOneSubscriptionANodeWhateverTheNumberOfNames(t *testing.T) {
	testkit.Unraced(t)
	synctest.Test(t, func(t *testing.T) {
		const names = 40
		l, nodes := newLocker(t, 3)
		other := separateLocker(t, nodes)
		warm(t, other)
		count := sent(nodes)
		var locks []*redlock.Lock
		var waiting sync.WaitGroup
		for i := range names {
			name := fmt.Sprint("orders/", i)
			locks = append(locks, mustAcquire(t, l, name))
			waiting.Go(func() {
				lock, err := other.Acquire(t.Context(), name)
				if err != nil {
					t.Error(err)
					return
				}
				_ = lock.Release(t.Context()) // unconfirmed: not what is tested
			})
		}
		time.Sleep(time.Second)
		for i := range nodes.Nodes() {
			if n := count(i, "subscribe"); n != 1 {
				t.Errorf("node %d: %d subscriptions for %d names; want one", i, n, names)
			}
		}
		for _, lock := range locks {
			mustRelease(t, lock)
		}
		waiting.Wait()
	})
}

// TryAcquire has its answer in one round trip, also where the name is held: one
// command to each node, and nothing of it is left to give back.
func TestTryAcquireOfAHeldNameIsOneCommandToEachNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 5)
		other := separateLocker(t, nodes)
		warm(t, other)
		lock := mustAcquire(t, l, "orders/42", redlock.WithFixedLease())
		synctest.Wait() // it is on all nodes
		count := sent(nodes)
		_, err := other.TryAcquire(t.Context(), "orders/42")
		wantError(t, "TryAcquire", err, redlock.ErrNotAcquired)
		synctest.Wait()
		for i := range nodes.Nodes() {
			if asked, gave := count(i, "acquire"), count(i, "release")+count(i, "release_batch"); asked > 1 || gave > 0 {
				t.Errorf("node %d: %d acquires, %d releases; want one, and nothing to give back", i, asked, gave)
			}
		}
		mustRelease(t, lock)
	})
}

// Ten processes that want a name at one moment split its votes. Each has had it
// soon: no lease has to end for that, and nobody has to come back by chance.
func TestASplitVoteOfTenResolvesQuickly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const contenders = 10
		_, nodes := newLocker(t, 5)
		var lockers []*redlock.Locker
		for range contenders {
			lockers = append(lockers, separateLocker(t, nodes))
			warm(t, lockers[len(lockers)-1])
		}
		time.Sleep(time.Second)
		began := time.Now()
		var all sync.WaitGroup
		for _, l := range lockers {
			all.Go(func() {
				lock, err := l.Acquire(t.Context(), "orders/42")
				if err != nil {
					t.Error(err)
					return
				}
				_ = lock.Release(t.Context()) // unconfirmed: not what is tested
			})
		}
		all.Wait()
		if took := time.Since(began); took > redlock.DefaultTTL/4 {
			t.Errorf("ten contenders took %v to have it once each; want a fraction of a lease", took)
		}
		time.Sleep(time.Second)
		if keys := queueKeys(nodes); keys != nil {
			t.Errorf("all have had it, and there are %v", keys)
		}
	})
}

// A call that comes twice, or many times, brings about questions, and one lock.
func TestACallThatIsDoubledBringsOneLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := newLocker(t, 5)
		warm(t, l)
		stranger(t, nodes)
		next := wants(t, l)
		freed(nodes, 0, 1, 2, 3, 4)
		count := sent(nodes)
		for range 5 {
			calls(t, nodes, 0, 1, 2, 3, 4)
		}
		lock := got(t, next).Lock
		time.Sleep(time.Second)
		if on := holders(nodes); len(on) != 1 {
			t.Errorf("five calls of each node brought the locks %v; want one", on)
		}
		for i := range nodes.Nodes() {
			if n := count(i, "ask"); n > 1 {
				t.Errorf("node %d: %d asks for five calls; want one: it granted", i, n)
			}
		}
		mustRelease(t, lock)
		synctest.Wait()
		wantNoLocks(t, nodes, "in the end")
	})
}

// Anyone who learns that a lock has ended, by Done, Err or a Release of his own,
// finds its name free for the Locker's next acquire. Here the name can't become
// free for a while, so that nobody may learn of the end meanwhile.
func TestNobodySeesTheEndBeforeTheNameIsFree(t *testing.T) {
	nodes := redlocktest.Start(t, 1)
	l := separateLocker(t, nodes)
	lock := mustAcquire(t, l, "orders/42")
	var seen sync.WaitGroup
	saw := make(chan string, 4)
	see := func(how string, end func()) {
		seen.Go(func() {
			end()
			saw <- how
		})
	}
	free := redlock.KeepNames(l)
	done := lock.Done()
	see("Done", func() { <-done })
	see("Release", func() { _ = lock.Release(t.Context()) })
	pollUntil(t, 5*time.Second, "the release has been sent", func() bool { return len(locksOn(nodes.Node(0))) == 0 })
	see("Err", func() { _ = lock.Err() })
	see("a second Release", func() { _ = lock.Release(t.Context()) })
	pause(20 * time.Millisecond) // long enough for all of them to learn too early
	early := len(saw)
	free()
	seen.Wait()
	for range early {
		t.Errorf("%s told the end while the name was still taken", <-saw)
	}
	next, err := l.TryAcquire(t.Context(), "orders/42")
	must(t, err)
	mustRelease(t, next)
}
