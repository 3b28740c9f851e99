package redlock_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/redlocktest"
)

func Example() {
	ctx := context.Background()

	// Five masters inside this process, for a first try. For real use, give Open the
	// URLs of your own: "redis://user:password@10.0.0.1:6379", and so on.
	nodes, err := redlocktest.Run(5, redlocktest.WithTCP())
	if err != nil {
		log.Fatal(err)
	}
	defer nodes.Close()

	// A second for a node to answer: a busy laptop is slower than a data centre.
	locker, err := redlock.Open(ctx, nodes.URLs(), redlock.WithNodeTimeout(time.Second))
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close()

	err = locker.Do(ctx, "orders/42", func(ctx context.Context, lock *redlock.Lock) error {
		// ctx is cancelled when the lock is lost. Send the token along with each
		// write, and let the resource refuse one below the largest it has seen.
		fmt.Println("holding", lock.Resource(), "with a token:", lock.Token() > 0)
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: holding orders/42 with a token: true
}
