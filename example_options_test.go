package redlock_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log"
	"strings"
	"sync/atomic"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/redlocktest"
)

func ExampleWithTLS() {
	authorities := x509.NewCertPool() // and authorities.AppendCertsFromPEM(...)
	locker, err := redlock.Open(context.Background(), []string{"rediss://127.0.0.1:1"},
		redlock.WithTLS(&tls.Config{RootCAs: authorities, MinVersion: tls.VersionTLS12}),
		redlock.WithNodeTimeout(10*time.Millisecond))
	if err != nil {
		fmt.Println("nobody is there:", errors.Is(err, redlock.ErrNoQuorum))
		return
	}
	defer locker.Close()
	// Output: nobody is there: true
}

// The password is read again for each connection: a new one needs no restart.
func ExampleWithCredentials() {
	nodes, err := redlocktest.Run(1, redlocktest.WithTCP())
	if err != nil {
		log.Fatal(err)
	}
	defer nodes.Close()
	nodes.Node(0).Miniredis().RequireUserAuth("locks", "today's")

	locker, err := redlock.Open(context.Background(), nodes.URLs(),
		redlock.WithCredentials(func(context.Context) (username, password string, err error) {
			return "locks", "today's", nil // or what a file, a vault or a cloud service says now
		}))
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close()
	fmt.Println("held:", acquire(locker, "orders/42").Err() == nil)
	// Output: held: true
}

// WithTTL serves the Locker and one acquisition; the latter wins.
func ExampleWithTTL() {
	nodes := fiveNodes()
	defer nodes.Close()
	locker := lockerOn(nodes, redlock.WithTTL(20*time.Second))
	defer locker.Close()

	long := acquire(locker, "orders/42")
	short := acquire(locker, "orders/43", redlock.WithTTL(5*time.Second))
	fmt.Println(long.Remaining() > 10*time.Second, short.Remaining() < 10*time.Second)
	// Output: true true
}

// A fixed lease is not renewed: a bound that holds even when the holder hangs.
func ExampleWithFixedLease() {
	nodes := fiveNodes()
	defer nodes.Close()
	locker := lockerOn(nodes, redlock.WithNodeTimeout(200*time.Millisecond))
	defer locker.Close()

	lock := acquire(locker, "orders/42", redlock.WithTTL(time.Second), redlock.WithFixedLease())
	<-lock.Done()
	fmt.Println(errors.Is(lock.Err(), redlock.ErrLost))
	// Output: true
}

// A lock that somebody forgot to release ends after its longest hold.
func ExampleWithMaxHold() {
	nodes := fiveNodes()
	defer nodes.Close()
	locker := lockerOn(nodes, redlock.WithMaxHold(100*time.Millisecond))
	defer locker.Close()

	lock := acquire(locker, "orders/42")
	<-lock.Done()
	fmt.Println(lock.Err())
	_, err := locker.Acquire(context.Background(), "orders/42") // it is free
	fmt.Println(err)
	// Output:
	// redlock: held for its maximum
	// <nil>
}

// A job that takes a moment is not done again by a machine whose clock is behind.
func ExampleWithMinHold() {
	nodes := fiveNodes()
	defer nodes.Close()
	locker, other := lockerOn(nodes), lockerOn(nodes)
	defer locker.Close()
	defer other.Close()

	report := func(context.Context, *redlock.Lock) error { return nil }
	fmt.Println(locker.Do(context.Background(), "report", report, redlock.WithMinHold(time.Minute)))
	_, err := other.TryAcquire(context.Background(), "report")
	fmt.Println(errors.Is(err, redlock.ErrNotAcquired))
	// Output:
	// <nil>
	// true
}

// A wait ends after its bound, no matter what the context allows.
func ExampleWithWait() {
	nodes := fiveNodes()
	defer nodes.Close()
	locker, other := lockerOn(nodes), lockerOn(nodes)
	defer locker.Close()
	defer other.Close()

	lock := acquire(locker, "orders/42")
	_, err := other.Acquire(context.Background(), "orders/42", redlock.WithWait(50*time.Millisecond))
	fmt.Println(lock.Err(), errors.Is(err, context.DeadlineExceeded))
	// Output: <nil> true
}

// An operator's tool need not queue behind the services.
func ExampleWithBarging() {
	nodes := fiveNodes()
	defer nodes.Close()
	locker := lockerOn(nodes)
	defer locker.Close()

	lock, err := locker.TryAcquire(context.Background(), "orders/42", redlock.WithBarging())
	fmt.Println(lock.Err(), err)
	// Output: <nil> <nil>
}

// With 1, the goroutines of a Locker do not go before other processes that wait.
func ExampleWithTurns() {
	nodes := fiveNodes()
	defer nodes.Close()
	locker := lockerOn(nodes, redlock.WithTurns(1))
	defer locker.Close()

	fmt.Println(acquire(locker, "orders/42").Err())
	// Output: <nil>
}

// A function that locks what its caller may hold already: inside that hold it is
// given a handle of its own, at once.
func ExampleWithReentry() {
	nodes := fiveNodes()
	defer nodes.Close()
	locker := lockerOn(nodes, redlock.WithReentry())
	defer locker.Close()
	ctx := context.Background()

	pay := func(ctx context.Context) error {
		return locker.Do(ctx, "orders/42", func(_ context.Context, lock *redlock.Lock) error {
			fmt.Println("paying", lock.Resource())
			return nil
		})
	}
	err := locker.Do(ctx, "orders/42", func(ctx context.Context, _ *redlock.Lock) error {
		return pay(ctx) // ctx carries the hold
	})
	fmt.Println(err, pay(ctx)) // outside of a hold, pay takes one
	// Output:
	// paying orders/42
	// paying orders/42
	// <nil> <nil>
}

// Nobody takes a longer lease than the cluster's MaxTTL.
func ExampleWithMaxTTL() {
	nodes := fiveNodes()
	defer nodes.Close()
	locker := lockerOn(nodes, redlock.WithMaxTTL(15*time.Second))
	defer locker.Close()

	_, err := locker.Acquire(context.Background(), "orders/42", redlock.WithTTL(time.Minute))
	fmt.Println(errors.Is(err, redlock.ErrInvalidTTL))
	// Output: true
}

// The node timeout is what a hung node may cost. It must be below the TTL.
func ExampleWithNodeTimeout() {
	nodes := fiveNodes()
	defer nodes.Close()
	locker := lockerOn(nodes, redlock.WithNodeTimeout(200*time.Millisecond))
	defer locker.Close()

	for i := range 3 {
		nodes.Node(i).Hang()
	}
	_, err := locker.TryAcquire(context.Background(), "orders/42")
	fmt.Println(errors.Is(err, redlock.ErrNoQuorum))

	_, err = redlock.New(nodes.NewClients(), redlock.WithTTL(time.Second), redlock.WithNodeTimeout(time.Second))
	fmt.Println(errors.Is(err, redlock.ErrInvalidOption))
	for i := range 3 {
		nodes.Node(i).Resume()
	}
	// Output:
	// true
	// true
}

// The drift factor shortens what a holder may trust: here by a tenth of the TTL,
// and 2 ms.
func ExampleWithDriftFactor() {
	nodes := fiveNodes()
	defer nodes.Close()
	locker := lockerOn(nodes, redlock.WithTTL(10*time.Second), redlock.WithDriftFactor(0.1))
	defer locker.Close()

	lock := acquire(locker, "orders/42")
	fmt.Println(lock.Remaining() <= 8998*time.Millisecond)
	// Output: true
}

// WithRetry sets how long Acquire pauses between two attempts.
func ExampleWithRetry() {
	nodes := fiveNodes()
	defer nodes.Close()
	locker := lockerOn(nodes, redlock.WithRetry(5*time.Millisecond, 20*time.Millisecond))
	other := lockerOn(nodes)
	defer locker.Close()
	defer other.Close()

	held := acquire(other, "orders/42")
	time.AfterFunc(50*time.Millisecond, func() { _ = held.Release(context.Background()) })
	lock, err := locker.Acquire(context.Background(), "orders/42")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(lock.Token() > held.Token())
	// Output: true
}

// The close timeout bounds Close when nodes do not answer.
func ExampleWithCloseTimeout() {
	nodes := fiveNodes()
	defer nodes.Close()
	locker := lockerOn(nodes, redlock.WithCloseTimeout(100*time.Millisecond))
	acquire(locker, "orders/42")
	for i := range nodes.Nodes() {
		nodes.Node(i).Hang()
	}

	fmt.Println(errors.Is(locker.Close(), redlock.ErrNoQuorum))
	for i := range nodes.Nodes() {
		nodes.Node(i).Resume()
	}
	// Output: true
}

// The prefix makes the key, so that applications may share the nodes.
func ExampleWithPrefix() {
	nodes := fiveNodes()
	defer nodes.Close()
	locker := lockerOn(nodes, redlock.WithPrefix("shop:"))
	defer locker.Close()

	lock := acquire(locker, "orders/42")
	seen, err := locker.Inspect(context.Background(), lock.Resource())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(seen.Resource, "is", seen.Key)
	// Output: orders/42 is shop:orders/42
}

// A label shows who holds a lock, to Inspect and to redis-cli.
func ExampleWithHolder() {
	nodes := fiveNodes()
	defer nodes.Close()
	locker := lockerOn(nodes, redlock.WithHolder("host-7/billing"))
	defer locker.Close()

	acquire(locker, "orders/42")
	seen, err := locker.Inspect(context.Background(), "orders/42")
	if err != nil {
		log.Fatal(err)
	}
	owner, _ := seen.Holder()
	fmt.Println(owner[:strings.LastIndex(owner, "/")])
	// Output: host-7/billing
}

// A value is published with one hold: here, under which address the holder is reached.
func ExampleWithValue() {
	nodes := fiveNodes()
	defer nodes.Close()
	locker := lockerOn(nodes, redlock.WithHolder("host-7"))
	defer locker.Close()

	lock, err := locker.TryAcquire(context.Background(), "orders/42", redlock.WithValue("10.0.0.7:8080"))
	if err != nil {
		log.Fatal(err)
	}
	seen, err := locker.Inspect(context.Background(), lock.Resource())
	if err != nil {
		log.Fatal(err)
	}
	owner, _ := seen.Holder()
	fmt.Println(strings.HasPrefix(owner, "host-7/10.0.0.7:8080#13#"))
	// Output: true
}

// Names stand in errors, in events and on the nodes themselves. Give them where
// clients see the same node under different addresses.
func ExampleWithNodeNames() {
	nodes := fiveNodes()
	defer nodes.Close()
	locker := lockerOn(nodes, redlock.WithNodeNames("paris", "berlin", "madrid", "rome", "oslo"))
	defer locker.Close()

	seen, err := locker.Inspect(context.Background(), "orders/42")
	if err != nil {
		log.Fatal(err)
	}
	for _, n := range seen.Nodes {
		fmt.Println(n.Name)
	}
	// Output:
	// paris
	// berlin
	// madrid
	// rome
	// oslo
}

// The observer is told what the Locker does and notices, by one goroutine, one
// event after the other. It may take its time: no lock waits for it.
func ExampleWithObserver() {
	nodes := fiveNodes()
	defer nodes.Close()
	down := make(chan redlock.Event, 1)
	locker := lockerOn(nodes, redlock.WithObserver(func(e redlock.Event) {
		if e.Kind == redlock.EventNodeDown {
			down <- e
		}
	}))
	defer locker.Close()

	nodes.Node(2).Stop()
	acquire(locker, "orders/42")
	e := <-down
	fmt.Println(e.Name+":", e.Kind)
	// Output: node-2: node down
}

// Without the clock watch, a step of a node's clock goes unnoticed, and the node
// votes although it may have dropped locks that are held. It is an option for
// experiments.
func ExampleWithoutClockWatch() {
	nodes := fiveNodes()
	defer nodes.Close()
	steps := func(told *atomic.Int64) redlock.Option {
		return redlock.WithObserver(func(e redlock.Event) {
			if e.Kind == redlock.EventNodeClockStepped {
				told.Add(1)
			}
		})
	}
	var seen, unseen atomic.Int64
	watching := lockerOn(nodes, steps(&seen))
	blind := lockerOn(nodes, steps(&unseen), redlock.WithoutClockWatch())
	defer watching.Close()
	defer blind.Close()
	acquire(watching, "orders/42")
	acquire(blind, "orders/43")

	nodes.Node(0).Miniredis().SetTime(time.Now().Add(time.Hour))
	for i := 0; seen.Load() == 0 && i < 5000; i++ { // each looks at the clocks while it works
		acquire(watching, fmt.Sprint("a/", i))
		acquire(blind, fmt.Sprint("b/", i))
	}
	fmt.Println("seen:", seen.Load() > 0, "unseen:", unseen.Load() > 0)
	// Output: seen: true unseen: false
}

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
