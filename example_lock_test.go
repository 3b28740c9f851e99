package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/quorumkit/redlock"
)

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

// ValidUntil is for logs; for decisions ask Remaining, Err or Context.
func ExampleLock_ValidUntil() {
	nodes := fiveNodes()
	defer nodes.Close()
	locker := lockerOn(nodes)
	defer locker.Close()

	lock := acquire(locker, "orders/42")
	fmt.Println(lock.ValidUntil().After(time.Now()))
	_ = lock.Release(context.Background())
	fmt.Println(lock.ValidUntil().IsZero())
	// Output:
	// true
	// true
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
	for i := range nodes.Len() {
		nodes.Node(i).Hang()
	}
	select {
	case <-lock.Done():
		fmt.Println(errors.Is(lock.Err(), redlock.ErrLost))
	case <-time.After(time.Minute):
		fmt.Println("still held")
	}
	for i := range nodes.Len() {
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
	for i := range nodes.Len() {
		nodes.Node(i).Hang()
	}
	err := lock.Release(context.Background())
	fmt.Println(errors.Is(err, redlock.ErrNoQuorum), errors.Is(lock.Err(), redlock.ErrReleased))
	for i := range nodes.Len() {
		nodes.Node(i).Resume() // what was sent is carried out now
	}
	// Output: true true
}

// A token is a plain number, to be stored and compared as one.
func ExampleToken_String() {
	fmt.Println(redlock.Token(1700000000000042))
	// Output: 1700000000000042
}
