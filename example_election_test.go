package redlock_test

import (
	"context"
	"fmt"
	"log"

	"github.com/quorumkit/redlock"
)

// Who is elected leads until it returns, or is told that it leads no more.
func ExampleLocker_Campaign() {
	nodes := fiveNodes()
	defer nodes.Close()
	locker := lockerOn(nodes)
	defer locker.Close()

	err := locker.Campaign(context.Background(), "billing/leader", func(ctx context.Context, lock *redlock.Lock) error {
		fmt.Println("leading:", lock.Resource())
		return nil // resigns
	}, redlock.WithValue("10.0.0.7:8080"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("resigned")
	// Output:
	// leading: billing/leader
	// resigned
}

// Observe tells who leads, at first and at every change.
func ExampleLocker_Observe() {
	nodes := fiveNodes()
	defer nodes.Close()
	locker := lockerOn(nodes)
	defer locker.Close()
	ctx, resign := context.WithCancel(context.Background())
	defer resign()

	for leader, err := range locker.Observe(context.Background(), "billing/leader") {
		switch {
		case err != nil:
			log.Fatal(err)
		case leader.Held:
			fmt.Println("ask", leader.Value)
			return
		default:
			fmt.Println("nobody leads")
			go func() {
				_ = locker.Campaign(ctx, "billing/leader", func(ctx context.Context, _ *redlock.Lock) error {
					<-ctx.Done()
					return nil
				}, redlock.WithValue("10.0.0.7:8080"))
			}()
		}
	}
	// Output:
	// nobody leads
	// ask 10.0.0.7:8080
}
