package yourcode

import (
	"context"
	"testing"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/chaos"
)

// reporter is a worker: the one under test, or a twin of it that is broken.
type reporter interface {
	Report(ctx context.Context, lock *redlock.Lock) error
}

// underFaults is what the lab runs, once for each client: the worker's life.
func underFaults(store **Store, worker func(Worker) reporter) func(context.Context, *chaos.Client) error {
	return func(ctx context.Context, c *chaos.Client) error {
		locker, err := c.Locker() // over connections that the faults are between
		if err != nil {
			return err
		}
		for ctx.Err() == nil {
			lock, err := locker.Acquire(ctx, resource)
			if err != nil {
				return err
			}
			at := c.Enter(lock) // from here on nobody else may be at work
			_ = worker(Worker{Store: *store, Step: c.Step, Wrote: at.Wrote}).Report(ctx, lock)
			at.Leave()
			_ = lock.Release(ctx) // unconfirmed: it lapses
		}
		return nil
	}
}

// plans are those that every worker is put under: everything that redlock bears, and
// pauses that outlast a lease.
func plans(seed uint64) []chaos.Plan {
	pauses := chaos.Mix{Clients: 3, Kinds: []chaos.Break{chaos.Pause}, Every: 2 * time.Second, Longest: 9 * time.Second}
	links := chaos.Mix{Clients: 3, Kinds: []chaos.Break{chaos.Cut, chaos.Slow, chaos.Crash}, Every: time.Second, Longest: 8 * time.Second}
	return []chaos.Plan{chaos.NewPlan(seed, time.Minute, pauses), chaos.NewPlan(seed, time.Minute, links)}
}

func TestTheWorkerBearsEveryPlan(t *testing.T) {
	for seed := range uint64(3) {
		for _, plan := range plans(seed) {
			var store *Store
			v := chaos.Test(t, plan, underFaults(&store, func(w Worker) reporter { return &w }),
				chaos.WithSetup(func() { store = &Store{} }))
			if v.Writes < 20 {
				t.Errorf("got %v; the run shows nothing", v)
			}
		}
	}
}

// The worker that does not heed the loss of its lock is convicted: two are at work at once.
// Pauses show it. In the other plan, servers that crash each second may leave so few votes
// that nobody gets the lock behind it.
func TestTheUnheedingWorkerIsConvicted(t *testing.T) {
	var store *Store
	chaos.Test(t, plans(0)[0], underFaults(&store, func(w Worker) reporter { return &unheeding{w} }),
		chaos.WithSetup(func() { store = &Store{} }), chaos.WithConviction(chaos.TwoHolders))
}
