package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/quorumkit/redlock"
)

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
	locker := lockerOn(nodes, redlock.WithHolder("reader/"))
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
