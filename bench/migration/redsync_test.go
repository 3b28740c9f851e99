package migration_test

import (
	"context"
	"errors"
	"time"

	"github.com/go-redsync/redsync/v4"

	"github.com/quorumkit/redlock"
)

func redsyncBefore(ctx context.Context, rs *redsync.Redsync, work func(context.Context) error) error {
	mutex := rs.NewMutex("orders/42", redsync.WithExpiry(10*time.Second))
	if err := mutex.LockContext(ctx); err != nil {
		return err
	}
	err := work(ctx) // does not learn that the lock is over
	_, unlockErr := mutex.UnlockContext(ctx)
	return errors.Join(err, unlockErr)
}

func redsyncAfter(ctx context.Context, locker *redlock.Locker, work func(context.Context) error) error {
	return locker.Do(ctx, "orders/42", func(ctx context.Context, _ *redlock.Lock) error {
		return work(ctx) // ctx ends with the lock, and carries its token
	})
}

// The closest to a redsync.Mutex: a lease that nobody renews.
func redsyncAsItWas(ctx context.Context, locker *redlock.Locker, work func(context.Context) error) error {
	lock, err := locker.Acquire(ctx, "orders/42", redlock.WithTTL(10*time.Second), redlock.WithFixedLease())
	if err != nil {
		return err
	}
	err = work(ctx)
	return errors.Join(err, lock.Release(ctx)) // ErrNotHeld and ErrLost, if work took longer
}
