package redlock_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/quorumkit/redlock"
)

// Who holds the lock is asked for it, finishes what it does, and releases.
func ExampleLocker_Revoke() {
	nodes := fiveNodes()
	defer nodes.Close()
	locker, operator := lockerOn(nodes), lockerOn(nodes)
	defer locker.Close()
	defer operator.Close()

	lock, err := locker.Acquire(context.Background(), "reports/nightly", redlock.WithRevocation())
	if err != nil {
		log.Fatal(err)
	}
	go func() {
		select {
		case <-lock.Revoked():
			fmt.Println("asked for, and done")
			_ = lock.Release(context.Background()) // unconfirmed: it lapses
		case <-lock.Done():
		}
	}()

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := operator.Revoke(ctx, "reports/nightly"); err != nil {
		log.Fatal(err)
	}
	fmt.Println("nobody who held it does any more")
	// Output:
	// asked for, and done
	// nobody who held it does any more
}

// A hold that can be asked for has a channel that says so.
func ExampleWithRevocation() {
	nodes := fiveNodes()
	defer nodes.Close()
	locker := lockerOn(nodes)
	defer locker.Close()

	lock, err := locker.Acquire(context.Background(), "reports/nightly", redlock.WithRevocation())
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = lock.Release(context.Background()) }() // unconfirmed: it lapses
	fmt.Println("can be asked for:", lock.Revoked() != nil)
	// Output: can be asked for: true
}

// A long task looks between two steps whether somebody asks for its lock.
func ExampleLock_Revoked() {
	nodes := fiveNodes()
	defer nodes.Close()
	locker, operator := lockerOn(nodes), lockerOn(nodes)
	defer locker.Close()
	defer operator.Close()

	started, asked := make(chan struct{}), make(chan error)
	go func() {
		<-started
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		asked <- operator.Revoke(ctx, "reports/nightly")
	}()
	err := locker.Do(context.Background(), "reports/nightly", func(ctx context.Context, lock *redlock.Lock) error {
		close(started)
		for {
			select {
			case <-lock.Revoked():
				fmt.Println("the rest is done next time")
				return nil
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(time.Millisecond): // a step of the task
			}
		}
	}, redlock.WithRevocation())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(<-asked)
	// Output:
	// the rest is done next time
	// <nil>
}

// A set is asked for by each of its names.
func ExampleMultiLock_Revoked() {
	nodes := fiveNodes()
	defer nodes.Close()
	locker, operator := lockerOn(nodes), lockerOn(nodes)
	defer locker.Close()
	defer operator.Close()

	accounts, err := locker.AcquireAll(context.Background(), []string{"accounts/7", "accounts/3"}, redlock.WithRevocation())
	if err != nil {
		log.Fatal(err)
	}
	go func() {
		<-accounts.Revoked()
		_ = accounts.Release(context.Background()) // unconfirmed: they lapse
	}()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	fmt.Println(operator.Revoke(ctx, "accounts/3"))
	// Output: <nil>
}
