package migration_test

import (
	"context"

	"github.com/quorumkit/redlock"
)

// RReadWriteLock, InterProcessReadWriteLock, createReadWriteLock.
func readThenWrite(ctx context.Context, locker *redlock.Locker, read, write func(context.Context) error) error {
	err := locker.Do(ctx, "orders/42", func(ctx context.Context, _ *redlock.Lock) error {
		return read(ctx) // beside others that read
	}, redlock.WithShared())
	if err != nil {
		return err
	}
	return locker.Do(ctx, "orders/42", func(ctx context.Context, _ *redlock.Lock) error {
		return write(ctx) // alone; what was read may have changed since
	})
}

// RMultiLock, InterProcessMultiLock, createMultiLock.
func underAll(ctx context.Context, locker *redlock.Locker, work func(context.Context) error) error {
	return locker.DoAll(ctx, []string{"orders/42", "stock/7", "stock/3"}, func(ctx context.Context, _ *redlock.MultiLock) error {
		return work(ctx) // ctx ends with the first that is lost, and carries a token for each
	})
}

// LeaderSelector, concurrency.Election.
func whileLeading(ctx context.Context, locker *redlock.Locker, lead func(context.Context, redlock.Token) error) error {
	return locker.Campaign(ctx, "orders", func(ctx context.Context, lock *redlock.Lock) error {
		return lead(ctx, lock.Token()) // to return is to resign; after a loss there is another campaign
	}, redlock.WithValue("10.0.0.7:80"))
}

// LeaderSelector.getLeader, Election.Leader; all that follow are Election.Observe.
func whoLeads(ctx context.Context, locker *redlock.Locker) (redlock.Leader, error) {
	for leader, err := range locker.Observe(ctx, "orders") {
		return leader, err
	}
	return redlock.Leader{}, ctx.Err()
}
