package contenders

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
)

var redissonSpec = spec{
	name: "Redisson RLock, by its scripts", servers: "1 Redis master, no persistence",
	fence: "none (RFencedLock has one)", notice: "nobody; `isHeldByCurrentThread` can be called",
	start: startMaster, open: openRedisson,
}

// The scripts of Redisson's RLock, by its source: a hash of who holds it and how often,
// and a channel for those who wait.
var (
	rlockTake = redis.NewScript(`
if (redis.call('exists', KEYS[1]) == 0) or (redis.call('hexists', KEYS[1], ARGV[2]) == 1) then
	redis.call('hincrby', KEYS[1], ARGV[2], 1)
	redis.call('pexpire', KEYS[1], ARGV[1])
	return nil
end
return redis.call('pttl', KEYS[1])`)
	rlockRenew = redis.NewScript(`
if redis.call('hexists', KEYS[1], ARGV[2]) == 1 then
	redis.call('pexpire', KEYS[1], ARGV[1])
	return 1
end
return 0`)
	rlockGive = redis.NewScript(`
if redis.call('hexists', KEYS[1], ARGV[2]) == 0 then
	return nil
end
if redis.call('hincrby', KEYS[1], ARGV[2], -1) > 0 then
	redis.call('pexpire', KEYS[1], ARGV[1])
	return 0
end
redis.call('del', KEYS[1])
redis.call('publish', KEYS[2], '0')
return 1`)
)

// rlockClient does what Redisson's client does for one thread.
type rlockClient struct {
	client *redis.Client
	thread string
}

func openRedisson(_ context.Context, addrs []string) (client, error) {
	return &rlockClient{goRedis(addrs[0]), uuid.NewString() + ":1"}, nil
}

func rlockChannel(name string) string { return "redisson_lock__channel:{" + name + "}" }

// acquire subscribes, and waits for a message or for the end of the holder's lease.
func (c *rlockClient) acquire(ctx context.Context, name string) (lock, error) {
	sub := c.client.Subscribe(ctx, rlockChannel(name))
	defer func() { _ = sub.Close() }()
	calls := sub.Channel()
	for {
		left, err := rlockTake.Run(ctx, c.client, []string{name}, lease.Milliseconds(), c.thread).Int64()
		if errors.Is(err, redis.Nil) {
			return c.watchdog(name), nil
		}
		if err != nil {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-calls:
		case <-time.After(time.Duration(left) * time.Millisecond):
		}
	}
}

// watchdog renews each third of the lease. When it finds the lock with somebody else
// it stops, and tells nobody: so is Redisson's.
func (c *rlockClient) watchdog(name string) *rlock {
	ctx, cancel := context.WithCancel(context.Background())
	l := &rlock{client: c, name: name, cancel: cancel}
	go func() {
		tick := time.NewTicker(lease / 3)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			is, err := rlockRenew.Run(ctx, c.client, []string{name}, lease.Milliseconds(), c.thread).Int()
			if err == nil && is == 0 {
				return
			}
		}
	}()
	return l
}

func (c *rlockClient) close() error { return c.client.Close() }

type rlock struct {
	client *rlockClient
	name   string
	cancel context.CancelFunc
	gone   atomic.Bool // an answer said so
}

// held: nothing in the process knows better until somebody asks the server.
func (l *rlock) held() bool          { return !l.gone.Load() }
func (l *rlock) counts() string      { return byLibrary }
func (l *rlock) told() <-chan string { return nil }
func (l *rlock) fence() string       { return "" }

func (l *rlock) ask(ctx context.Context) (bool, error) {
	is, err := l.client.client.HExists(ctx, l.name, l.client.thread).Result()
	if err == nil && !is {
		l.gone.Store(true)
	}
	return is, err
}

func (l *rlock) release(ctx context.Context) error {
	l.cancel()
	err := rlockGive.Run(ctx, l.client.client, []string{l.name, rlockChannel(l.name)}, lease.Milliseconds(), l.client.thread).Err()
	if errors.Is(err, redis.Nil) {
		return fmt.Errorf("attempt to unlock lock, not locked by current thread: %w", errNotHeld)
	}
	return err
}
