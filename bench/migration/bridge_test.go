package migration_test

import (
	"context"

	"github.com/quorumkit/redlock"
)

// underBoth does its work under the old lock and the new one, for as long as
// clients of either kind alone are about.
func underBoth(ctx context.Context, old func(context.Context, func(context.Context) error) error, locker *redlock.Locker, work func(context.Context) error) error {
	return old(ctx, func(ctx context.Context) error { // the old one first, everywhere
		return locker.Do(ctx, "orders/42", func(ctx context.Context, _ *redlock.Lock) error { return work(ctx) })
	})
}
