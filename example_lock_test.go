package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/fencing"
	"github.com/quorumkit/redlock/redlocktest"
)

// Of docs/GETTING-STARTED.md.
func TestWorkEndsWhenItsLockIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // in virtual time a lease takes none
		nodes := redlocktest.Start(t, 3)
		locker, err := redlock.New(nodes.Clients(), redlock.WithNodeNames(nodes.Names()...))
		if err != nil {
			t.Fatal(err)
		}
		defer locker.Close()
		err = locker.Do(t.Context(), "orders/42", func(ctx context.Context, _ *redlock.Lock) error {
			nodes.Node(0).Hang()
			nodes.Node(1).Hang()
			<-ctx.Done() // your work
			return context.Cause(ctx)
		})
		if !errors.Is(err, redlock.ErrLost) {
			t.Errorf("got %v; want ErrLost", err)
		}
	})
}

func ExampleLock_Resource() {
	nodes := fiveNodes()
	defer nodes.Close()
	locker := lockerOn(nodes, redlock.WithPrefix("shop:"))
	defer locker.Close()

	lock := acquire(locker, "orders/42")
	fmt.Println(lock.Resource()) // without the prefix that its key has
	// Output: orders/42
}

// Each token is greater than every one before it for the same resource. That is
// what lets a resource refuse a holder whose time has passed.
func ExampleLock_Token() {
	nodes := fiveNodes()
	defer nodes.Close()
	locker := lockerOn(nodes)
	defer locker.Close()
	ctx := context.Background()

	largest := redlock.Token(0) // what the resource remembers
	write := func(token redlock.Token, text string) {
		if token < largest {
			fmt.Println("refused:", text)
			return
		}
		largest = token
		fmt.Println("written:", text)
	}

	first := acquire(locker, "orders/42")
	if err := first.Release(ctx); err != nil {
		log.Fatal(err)
	}
	second := acquire(locker, "orders/42")
	write(second.Token(), "by the second holder")
	write(first.Token(), "by the first, who was paused")
	// Output:
	// written: by the second holder
	// refused: by the first, who was paused
}

// Remaining consults the clock now. Ask it before a step that takes a known
// time.
func ExampleLock_Remaining() {
	nodes := fiveNodes()
	defer nodes.Close()
	locker := lockerOn(nodes)
	defer locker.Close()

	lock := acquire(locker, "orders/42", redlock.WithTTL(10*time.Second))
	left := lock.Remaining() // less than the TTL: the drift, and the time since the sending
	fmt.Println(left > 5*time.Second, left < 10*time.Second)
	_ = lock.Release(context.Background())
	fmt.Println(lock.Remaining())
	// Output:
	// true true
	// 0s
}

// The lock's context carries the values of the one that Acquire was given, not
// its cancellation. It ends with the lock, with the reason as its cause.
func ExampleLock_Context() {
	nodes := fiveNodes()
	defer nodes.Close()
	locker := lockerOn(nodes)
	defer locker.Close()
	type key struct{}

	ctx, cancel := context.WithCancel(context.WithValue(context.Background(), key{}, "request 7"))
	lock, err := locker.Acquire(ctx, "orders/42")
	if err != nil {
		log.Fatal(err)
	}
	cancel()
	held := lock.Context()
	fmt.Println(held.Value(key{}), held.Err())
	_ = lock.Release(context.Background())
	fmt.Println(held.Err(), "because", context.Cause(held))
	// Output:
	// request 7 <nil>
	// context canceled because redlock: released
}

// A lock that is not renewed ends with its lease, no matter what the nodes do.
func ExampleLock_Done() {
	nodes := fiveNodes()
	defer nodes.Close()
	locker := lockerOn(nodes, redlock.WithNodeTimeout(200*time.Millisecond))
	defer locker.Close()

	lock := acquire(locker, "orders/42", redlock.WithTTL(time.Second), redlock.WithFixedLease())
	for i := range nodes.Nodes() {
		nodes.Node(i).Hang()
	}
	select {
	case <-lock.Done():
		fmt.Println(errors.Is(lock.Err(), redlock.ErrLost))
	case <-time.After(time.Minute):
		fmt.Println("still held")
	}
	for i := range nodes.Nodes() {
		nodes.Node(i).Resume()
	}
	// Output: true
}

// Err says why a lock ended. It may know before Done closes.
func ExampleLock_Err() {
	nodes := fiveNodes()
	defer nodes.Close()
	locker := lockerOn(nodes)
	defer locker.Close()

	lock := acquire(locker, "orders/42")
	fmt.Println(lock.Err())
	_ = lock.Release(context.Background())
	fmt.Println(errors.Is(lock.Err(), redlock.ErrReleased))
	// Output:
	// <nil>
	// true
}

func ExampleLock_Extend() {
	nodes := fiveNodes()
	defer nodes.Close()
	locker := lockerOn(nodes)
	defer locker.Close()
	ctx := context.Background()

	lock := acquire(locker, "orders/42", redlock.WithTTL(5*time.Second), redlock.WithFixedLease())
	if err := lock.Extend(ctx, 20*time.Second); err != nil {
		log.Fatal(err)
	}
	fmt.Println("longer:", lock.Remaining() > 5*time.Second)
	fmt.Println("shorter:", errors.Is(lock.Extend(ctx, time.Second), redlock.ErrInvalidTTL))
	// Output:
	// longer: true
	// shorter: true
}

// Release ends the hold at once. A second one says that it had ended.
func ExampleLock_Release() {
	nodes := fiveNodes()
	defer nodes.Close()
	locker := lockerOn(nodes)
	defer locker.Close()
	ctx := context.Background()

	lock := acquire(locker, "orders/42")
	fmt.Println(lock.Release(ctx))
	err := lock.Release(ctx)
	fmt.Println(errors.Is(err, redlock.ErrNotHeld), errors.Is(err, redlock.ErrReleased))
	// Output:
	// <nil>
	// true true
}

// Without a quorum nobody confirms a release; the hold is over all the same, and
// nothing is left to do.
func ExampleLock_Release_unconfirmed() {
	nodes := fiveNodes()
	defer nodes.Close()
	locker := lockerOn(nodes, redlock.WithNodeTimeout(200*time.Millisecond))
	defer locker.Close()

	lock := acquire(locker, "orders/42")
	for i := range nodes.Nodes() {
		nodes.Node(i).Hang()
	}
	err := lock.Release(context.Background())
	fmt.Println(errors.Is(err, redlock.ErrNoQuorum), errors.Is(lock.Err(), redlock.ErrReleased))
	for i := range nodes.Nodes() {
		nodes.Node(i).Resume() // what was sent is carried out now
	}
	// Output: true true
}

// A token is a plain number, to be stored and compared as one.
func ExampleToken_String() {
	fmt.Println(redlock.Token(1700000000000042))
	// Output: 1700000000000042
}

// At most two hold a name at once. Who comes third waits with Acquire, or is told so.
func ExampleWithLimit() {
	nodes := fiveNodes()
	defer nodes.Close()
	locker, other := lockerOn(nodes), lockerOn(nodes)
	defer locker.Close()
	defer other.Close()
	ctx := context.Background()

	var held []*redlock.Lock
	for _, l := range []*redlock.Locker{locker, other} {
		lock, err := l.Acquire(ctx, "exports", redlock.WithLimit(2))
		if err != nil {
			log.Fatal(err)
		}
		held = append(held, lock)
	}
	fmt.Println("two slots:", held[0].Slot()+held[1].Slot() == 1)
	_, err := other.TryAcquire(ctx, "exports", redlock.WithLimit(2))
	fmt.Println("all are taken:", errors.Is(err, redlock.ErrNotAcquired))

	_ = held[0].Release(ctx)
	lock, err := other.Acquire(ctx, "exports", redlock.WithLimit(2))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("the freed one:", lock.Slot() == held[0].Slot())
	// Output:
	// two slots: true
	// all are taken: true
	// the freed one: true
}

// A resource that several use at once keeps the largest token of each slot.
func ExampleLock_Slot() {
	nodes := fiveNodes()
	defer nodes.Close()
	locker := lockerOn(nodes)
	defer locker.Close()

	largest := map[int]redlock.Token{} // the resource's, by slot
	err := locker.Do(context.Background(), "exports", func(_ context.Context, lock *redlock.Lock) error {
		if lock.Token() >= largest[lock.Slot()] {
			largest[lock.Slot()] = lock.Token()
			fmt.Println("written by the holder of slot", lock.Slot())
		}
		return nil
	}, redlock.WithLimit(1))
	if err != nil {
		log.Fatal(err)
	}
	// Output: written by the holder of slot 0
}

// Inspect shows who holds which slot.
func ExampleInspection_Slots() {
	nodes := fiveNodes()
	defer nodes.Close()
	locker := lockerOn(nodes, redlock.WithHolder("exporter"))
	defer locker.Close()
	ctx := context.Background()
	if _, err := locker.Acquire(ctx, "exports", redlock.WithLimit(1)); err != nil {
		log.Fatal(err)
	}

	seen, err := locker.Inspect(ctx, "exports")
	if err != nil {
		log.Fatal(err)
	}
	for _, one := range seen.Slots() {
		fmt.Println(one.Slot, one.Owner[:9], one.Remaining > 0)
	}
	// Output: 0 exporter/ true
}

// Two who read share a name. Who writes is kept out until both have released, and has a
// greater token.
func ExampleWithShared() {
	nodes := fiveNodes()
	defer nodes.Close()
	locker, other := lockerOn(nodes), lockerOn(nodes)
	defer locker.Close()
	defer other.Close()
	ctx := context.Background()

	first, err := locker.TryAcquire(ctx, "catalogue", redlock.WithShared())
	if err != nil {
		log.Fatal(err)
	}
	second, err := other.TryAcquire(ctx, "catalogue", redlock.WithShared())
	if err != nil {
		log.Fatal(err)
	}
	_, err = other.TryAcquire(ctx, "catalogue")
	fmt.Println("somebody writes beside them:", !errors.Is(err, redlock.ErrNotAcquired))
	_, _ = first.Release(ctx), second.Release(ctx)

	writer := acquire(other, "catalogue")
	fmt.Println("the writer's token is greater:", writer.Token() > first.Token() && writer.Token() > second.Token())
	// Output:
	// somebody writes beside them: false
	// the writer's token is greater: true
}

func ExampleLock_Shared() {
	nodes := fiveNodes()
	defer nodes.Close()
	locker := lockerOn(nodes)
	defer locker.Close()

	lock, err := locker.TryAcquire(context.Background(), "catalogue", redlock.WithShared())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(lock.Shared(), acquire(locker, "orders/42").Shared())
	// Output: true false
}

// Inspect shows each who shares a name, with what remains of its own lease.
func ExampleInspection_Sharers() {
	nodes := fiveNodes()
	defer nodes.Close()
	locker := lockerOn(nodes, redlock.WithHolder("reader"))
	defer locker.Close()
	ctx := context.Background()
	for range 2 {
		if _, err := locker.TryAcquire(ctx, "catalogue", redlock.WithShared()); err != nil {
			log.Fatal(err)
		}
	}

	seen, err := locker.Inspect(ctx, "catalogue")
	if err != nil {
		log.Fatal(err)
	}
	_, alone := seen.Holder()
	fmt.Println("somebody holds it alone:", alone)
	for _, sharer := range seen.Sharers() {
		fmt.Println(sharer.Owner[:7], sharer.Remaining > 0)
	}
	// Output:
	// somebody holds it alone: false
	// reader/ true
	// reader/ true
}

// acquireAll takes names that nobody holds.
func acquireAll(locker *redlock.Locker, resources ...string) *redlock.MultiLock {
	locks, err := locker.AcquireAll(context.Background(), resources)
	if err != nil {
		log.Fatal(err)
	}
	return locks
}

// A transfer takes both accounts. Another one in the other direction gives them in the
// other order, and nobody waits for ever.
func ExampleLocker_AcquireAll() {
	nodes := fiveNodes()
	defer nodes.Close()
	locker := lockerOn(nodes)
	defer locker.Close()
	ctx := context.Background()

	done := make(chan string)
	transfer := func(from, to string) {
		locks, err := locker.AcquireAll(ctx, []string{from, to})
		if err != nil {
			log.Fatal(err)
		}
		defer func() { _ = locks.Release(ctx) }()
		done <- "transferred"
	}
	go transfer("accounts/alice", "accounts/bob")
	go transfer("accounts/bob", "accounts/alice")
	fmt.Println(<-done)
	fmt.Println(<-done)
	// Output:
	// transferred
	// transferred
}

func ExampleLocker_TryAcquireAll() {
	nodes := fiveNodes()
	defer nodes.Close()
	locker := lockerOn(nodes)
	defer locker.Close()
	ctx := context.Background()

	lock := acquire(locker, "accounts/bob")
	_, err := locker.TryAcquireAll(ctx, []string{"accounts/alice", "accounts/bob"})
	fmt.Println(errors.Is(err, redlock.ErrNotAcquired))
	_ = lock.Release(ctx)
	// Output: true
}

func ExampleLocker_DoAll() {
	nodes := fiveNodes()
	defer nodes.Close()
	locker := lockerOn(nodes)
	defer locker.Close()

	accounts := []string{"accounts/alice", "accounts/bob"}
	err := locker.DoAll(context.Background(), accounts, func(ctx context.Context, locks *redlock.MultiLock) error {
		for _, account := range locks.Resources() {
			token, err := fencing.FromContext(ctx, account) // send it with every write to that account
			fmt.Println(account, err == nil && token == locks.Token(account))
		}
		return nil
	})
	fmt.Println(err)
	// Output:
	// accounts/alice true
	// accounts/bob true
	// <nil>
}

func ExampleMultiLock_Resources() {
	nodes := fiveNodes()
	defer nodes.Close()
	locker := lockerOn(nodes)
	defer locker.Close()

	fmt.Println(acquireAll(locker, "b", "a").Resources()) // as they were given
	// Output: [b a]
}

func ExampleMultiLock_Token() {
	nodes := fiveNodes()
	defer nodes.Close()
	locker := lockerOn(nodes)
	defer locker.Close()

	locks := acquireAll(locker, "a", "b")
	fmt.Println(locks.Token("a") > 0, locks.Token("b") > 0, locks.Token("c"))
	// Output: true true 0
}

func ExampleMultiLock_Remaining() {
	nodes := fiveNodes()
	defer nodes.Close()
	locker := lockerOn(nodes)
	defer locker.Close()

	locks := acquireAll(locker, "a", "b")
	fmt.Println(locks.Remaining() > 5*time.Second)
	_ = locks.Release(context.Background())
	fmt.Println(locks.Remaining())
	// Output:
	// true
	// 0s
}

func ExampleMultiLock_Err() {
	nodes := fiveNodes()
	defer nodes.Close()
	locker := lockerOn(nodes)
	defer locker.Close()

	locks := acquireAll(locker, "a", "b")
	fmt.Println(locks.Err())
	_ = locks.Release(context.Background())
	fmt.Println(locks.Err())
	// Output:
	// <nil>
	// redlock: released
}

// What is done under the locks runs with their context: it is over when one of them is.
func ExampleMultiLock_Context() {
	nodes := fiveNodes()
	defer nodes.Close()
	locker := lockerOn(nodes)
	defer locker.Close()

	locks := acquireAll(locker, "a", "b")
	ctx := locks.Context()
	_ = locks.Release(context.Background())
	<-ctx.Done()
	fmt.Println(context.Cause(ctx))
	// Output: redlock: released
}

func ExampleMultiLock_Done() {
	nodes := fiveNodes()
	defer nodes.Close()
	locker := lockerOn(nodes)
	defer locker.Close()

	locks := acquireAll(locker, "a", "b")
	_ = locks.Release(context.Background())
	<-locks.Done()
	fmt.Println("over")
	// Output: over
}

func ExampleMultiLock_Extend() {
	nodes := fiveNodes()
	defer nodes.Close()
	locker := lockerOn(nodes)
	defer locker.Close()

	locks := acquireAll(locker, "a", "b")
	if err := locks.Extend(context.Background(), 20*time.Second); err != nil {
		log.Fatal(err)
	}
	fmt.Println(locks.Remaining() > 15*time.Second)
	// Output: true
}

func ExampleMultiLock_Release() {
	nodes := fiveNodes()
	defer nodes.Close()
	locker := lockerOn(nodes)
	defer locker.Close()

	locks := acquireAll(locker, "a", "b")
	fmt.Println(locks.Release(context.Background()))
	// Output: <nil>
}
