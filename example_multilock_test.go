package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/fencing"
)

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
