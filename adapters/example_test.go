package adapters_test

import (
	"context"
	"fmt"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/adapters"
	"github.com/quorumkit/redlock/fencing"
	"github.com/quorumkit/redlock/redlocktest"
)

// A job that a cron library may run in many processes, and that one of them does.
func ExampleNewJob() {
	nodes, err := redlocktest.Run(3)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer nodes.Close()
	locker, err := redlock.New(nodes.Clients(), redlock.WithNodeNames(nodes.Names()...),
		redlock.WithNodeTimeout(2*time.Second)) // the nodes may share a busy machine
	if err != nil {
		fmt.Println(err)
		return
	}
	defer locker.Close()
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
