package migration_test

import (
	"context"
	"errors"
	"time"

	"github.com/bsm/redislock"

	"github.com/quorumkit/redlock"
)

func bsmBefore(ctx context.Context, old *redislock.Client, work func(context.Context) error) error {
	lock, err := old.Obtain(ctx, "orders/42", 10*time.Second, nil)
	if err != nil {
		return err // ErrNotObtained: somebody else has it
	}
	err = work(ctx) // and lock.Refresh(ctx, ttl, nil) from time to time
	return errors.Join(err, lock.Release(ctx))
}

func bsmAfter(ctx context.Context, locker *redlock.Locker, work func(context.Context) error) error {
	lock, err := locker.TryAcquire(ctx, "orders/42")
	if err != nil {
		return err // ErrNotAcquired: somebody else has it; ErrNoQuorum: nobody can say
	}
	err = work(lock.Context()) // renewed meanwhile; ends with the lock
	return errors.Join(err, lock.Release(ctx))
}
