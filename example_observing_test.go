package redlock_test

import (
	"context"
	"fmt"
	"log"

	"github.com/quorumkit/redlock"
)

// Stats are counted whether anybody observes or not.
func ExampleLocker_Stats() {
	nodes := fiveNodes()
	defer nodes.Close()
	locker := lockerOn(nodes)
	defer locker.Close()

	lock := acquire(locker, "orders/42")
	if _, err := locker.TryAcquire(context.Background(), "orders/42"); err == nil {
		log.Fatal("taken twice")
	}
	s := locker.Stats()
	fmt.Println("held:", s.Held, "acquired:", s.Acquired, "refused:", s.NotAcquired)
	if err := lock.Release(context.Background()); err != nil {
		log.Fatal(err)
	}
	s = locker.Stats()
	fmt.Println("held:", s.Held, "released:", s.Released, "lost:", s.Lost)
	// Output:
	// held: 1 acquired: 1 refused: 1
	// held: 0 released: 1 lost: 0
}

// Reasons and turns read as the labels of metrics.
func ExampleReason_String() {
	fmt.Println(redlock.ReasonNoQuorum, redlock.ReasonLapsed)
	// Output: no_quorum lapsed
}

func ExampleTurn_String() {
	fmt.Println(redlock.TurnFirst, redlock.TurnHandedOver)
	// Output: first handed_over
}
