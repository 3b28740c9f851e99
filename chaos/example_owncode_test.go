package chaos_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorumkit/redlock/chaos"
)

// reportUnderFaults is a test of one's own, which go test wants to be called
// TestReport or the like: a few clients write a report, while faults that follow from
// the seed befall nodes, links and clients. It fails, with the end of the trace, if
// two of them are at work at once.
func reportUnderFaults(t *testing.T) { //nolint:thelper // it is a test
	plan := chaos.Swarm(12, 20*time.Second)
	verdict := chaos.Test(t, plan, func(ctx context.Context, c *chaos.Client) error {
		locker, err := c.Locker() // over connections that the faults are between
		if err != nil {
			return err
		}
		for ctx.Err() == nil {
			lock, err := locker.Acquire(ctx, "report")
			if err != nil {
				return err
			}
			at := c.Enter(lock) // from here on, nobody else may be at work
			time.Sleep(50 * time.Millisecond)
			_ = at.Write(ctx) // the code under test; a stale write is refused
			at.Leave()
			_ = lock.Release(ctx) // unconfirmed: it lapses
		}
		return nil
	})
	if verdict.Writes < 20 {
		t.Errorf("got %v; the run shows nothing", verdict)
	}
}

// A few lines put one's own code under faults, in virtual time: the test is
// reportUnderFaults, and takes less than a second.
func ExampleTest() {
	fmt.Println("passed:", passes(reportUnderFaults))
	// Output:
	// passed: true
}

// Code that is broken on purpose is convicted, or the plan would find nothing: this one goes
// on after it has released. WithSetup makes what the clients share, before each play.
func ExampleWithConviction() {
	var written atomic.Int32
	fmt.Println("convicted:", passes(func(t *testing.T) { //nolint:thelper // it is a test
		chaos.Test(t, chaos.Swarm(12, 20*time.Second), func(ctx context.Context, c *chaos.Client) error {
			locker, err := c.Locker()
			if err != nil {
				return err
			}
			for ctx.Err() == nil {
				lock, err := locker.Acquire(ctx, "report")
				if err != nil {
					return err
				}
				at := c.Enter(lock)
				_ = lock.Release(ctx)
				time.Sleep(50 * time.Millisecond)
				written.Add(1)
				at.Leave()
			}
			return nil
		}, chaos.WithConviction(chaos.TwoHolders), chaos.WithSetup(func() { written.Store(0) }), chaos.WithoutGuard())
	}))
	// Output: convicted: true
}
