package contenders

import (
	"context"
	"errors"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"
)

var bsmSpec = spec{
	name: "bsm/redislock", module: "github.com/bsm/redislock", servers: "1 Redis master, no persistence",
	fence: "none", notice: "nobody; `TTL` and `Refresh` can be called",
	start: startMaster, open: openBSM,
}

type bsmClient struct {
	client *redis.Client
	locks  *redislock.Client
}

func openBSM(_ context.Context, addrs []string) (client, error) {
	c := goRedis(addrs[0])
	return &bsmClient{c, redislock.New(c)}, nil
}

// acquire obtains without a retry strategy, so that the holder knows when the attempt
// was sent that won, and counts the lease from then.
func (c *bsmClient) acquire(ctx context.Context, name string) (lock, error) {
	l, sent, err := poll(ctx, func() (*redislock.Lock, bool, error) {
		l, err := c.locks.Obtain(ctx, name, lease, nil)
		return l, errors.Is(err, redislock.ErrNotObtained), err
	})
	if err != nil {
		return nil, err
	}
	return &bsmLock{renew(sent, byRenewal, func(ctx context.Context) error {
		err := l.Refresh(ctx, lease, nil)
		if errors.Is(err, redislock.ErrNotObtained) {
			return errNotHeld
		}
		return err
	}), l}, nil
}

func (c *bsmClient) close() error { return c.client.Close() }

type bsmLock struct {
	*renewed
	lock *redislock.Lock
}

func (l *bsmLock) fence() string { return "" }

func (l *bsmLock) ask(ctx context.Context) (bool, error) {
	left, err := l.lock.TTL(ctx)
	return left > 0, err
}

func (l *bsmLock) release(ctx context.Context) error {
	l.end()
	return l.lock.Release(ctx)
}
