package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/quorumkit/redlock"
)

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
	locker := lockerOn(nodes, redlock.WithHolder("exporter/"))
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
