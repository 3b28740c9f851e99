package adapters_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/adapters"
	"github.com/quorumkit/redlock/fencing"
	"github.com/quorumkit/redlock/redlocktest"
)

// opened is a Locker over three masters in this process.
func opened() (locker *redlock.Locker, closing func()) {
	nodes, err := redlocktest.Run(3)
	if err != nil {
		log.Fatal(err)
	}
	locker, err = redlock.New(nodes.Clients(), redlock.WithNodeNames(nodes.Names()...),
		redlock.WithNodeTimeout(2*time.Second)) // the nodes may share a busy machine
	if err != nil {
		log.Fatal(err)
	}
	return locker, func() { _ = errors.Join(locker.Close(), nodes.Close()) }
}

// A job that a cron library may run in many processes, and that one of them does.
func ExampleNewJob() {
	locker, closing := opened()
	defer closing()
	job, err := adapters.NewJob(locker, "nightly-report", func(ctx context.Context) {
		token, err := fencing.FromContext(ctx, "nightly-report")
		fmt.Println("writing the report", token > 0, err)
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	job.Run()
	// Output: writing the report true <nil>
}

// In a program, J is cron.Job, and alone goes into cron.NewChain.
func ExampleNewCron() {
	locker, closing := opened()
	defer closing()
	alone, err := adapters.NewCron[runner](locker, "nightly-report")
	if err != nil {
		log.Fatal(err)
	}
	alone(job(func() { fmt.Println("writing the report") })).Run()
	// Output: writing the report
}

// In a program, L is gocron.Lock, and gocron calls Lock and Unlock. A scheduler that asks a
// little later leaves this run out.
func ExampleNewGocron() {
	locker, closing := opened()
	defer closing()
	locks, err := adapters.NewGocron[unlock](locker, adapters.WithMinHold(30*time.Second),
		adapters.WithReport(func(err error) { log.Print(err) }))
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	lock, err := locks.Lock(ctx, "nightly-report")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(lock.Unlock(ctx))
	_, err = locks.Lock(ctx, "nightly-report")
	fmt.Println(errors.Is(err, redlock.ErrNotAcquired))
	// Output:
	// <nil>
	// true
}

// The process that leads says so to gocron, and its jobs send the token.
func ExampleNewElector() {
	locker, closing := opened()
	defer closing()
	elector, err := adapters.NewElector(locker, "scheduler")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(elector.IsLeader(context.Background()), elector.Token() > 0)
	fmt.Println(elector.Close(), elector.Token())
	// Output:
	// <nil> true
	// <nil> 0
}

func ExampleNewCertmagic() {
	locker, closing := opened()
	defer closing()
	locks, err := adapters.NewCertmagic(locker, adapters.WithAcquireOptions(redlock.WithTTL(20*time.Second)))
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	fmt.Println(locks.Lock(ctx, "issue_cert_example.org"))
	fmt.Println(locks.TryLock(ctx, "issue_cert_example.org"))
	fmt.Println(locks.Unlock(ctx, "issue_cert_example.org"))
	// Output:
	// <nil>
	// false <nil>
	// <nil>
}
