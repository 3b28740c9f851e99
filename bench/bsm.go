package main

import (
	"context"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"
)

// bsmLocks is bsm/redislock on the first master alone: no quorum and no token,
// so it shows the price of five.
type bsmLocks struct {
	client *redis.Client
	locks  *redislock.Client
}

func openBSM(_ context.Context, e *env) (contender, error) {
	c := redis.NewClient(&redis.Options{Addr: e.addrs[0]})
	return &bsmLocks{c, redislock.New(c)}, nil
}

func (b *bsmLocks) acquire(ctx context.Context, resource string) (held, error) {
	l, err := b.locks.Obtain(ctx, resource, ttl, nil)
	if err != nil {
		return nil, err
	}
	return bsmLock{l}, nil
}

func (b *bsmLocks) close() error { return b.client.Close() }

type bsmLock struct{ lock *redislock.Lock }

func (l bsmLock) extend(ctx context.Context) error  { return l.lock.Refresh(ctx, ttl, nil) }
func (l bsmLock) release(ctx context.Context) error { return l.lock.Release(ctx) }
