package migration_test

import (
	"context"

	"github.com/redis/rueidis/rueidislock"

	"github.com/quorumkit/redlock"
)

func rueidislockBefore(ctx context.Context, old rueidislock.Locker, work func(context.Context) error) error {
	ctx, cancel, err := old.WithContext(ctx, "orders/42")
	if err != nil {
		return err
	}
	defer cancel()
	return work(ctx) // ctx ends with the lock
}

func rueidislockAfter(ctx context.Context, locker *redlock.Locker, work func(context.Context) error) error {
	return locker.Do(ctx, "orders/42", func(ctx context.Context, _ *redlock.Lock) error {
		return work(ctx) // ctx ends with the lock, and carries its token
	})
}
