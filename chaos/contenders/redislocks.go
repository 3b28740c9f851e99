package contenders

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	pool "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"github.com/quorumkit/redlock"
)

// openRedsync is redsync over one go-redis client per master. Its waiting is its own: 32
// tries, 50 to 250 ms apart. Who wants to wait longer calls it again. Without options its
// lease is one of eight seconds.
func openRedsync(clientOf func(addr string) *redis.Client, opts ...redsync.Option) opener {
	return func(_ context.Context, addrs []string) (acquirer, error) {
		var pools []pool.Pool
		for _, addr := range addrs {
			pools = append(pools, goredis.NewPool(clientOf(addr)))
		}
		locks := redsync.New(pools...)
		return func(ctx context.Context, name string) (*lock, error) {
			m := locks.NewMutex(name, opts...)
			if err := m.LockContext(ctx); err != nil {
				return nil, err
			}
			extend := func(ctx context.Context) error {
				ok, err := m.ExtendContext(ctx)
				var taken *redsync.ErrTaken
				switch {
				case ok:
					return nil
				case errors.Is(err, redsync.ErrExtendFailed) || errors.As(err, &taken):
					return errNotHeld
				default:
					return err
				}
			}
			sent := monotonic() + int64(time.Until(m.Until())-countedLease) // of the last try
			r := renew(sent, byRenewal, extend)
			return r.lock(func(ctx context.Context) (bool, error) {
				r.end()
				return answer(extend(ctx))
			}, func(ctx context.Context) error {
				ok, err := m.UnlockContext(ctx)
				if ok {
					return nil // it tells of the masters that failed beside a quorum, too
				}
				return err
			}), nil
		}, nil
	}
}

// openBSM obtains without a retry strategy, so that the holder knows when the attempt
// was sent that won, and counts the lease from then.
func openBSM(_ context.Context, addrs []string) (acquirer, error) {
	locks := redislock.New(goRedis(addrs[0]))
	return func(ctx context.Context, name string) (*lock, error) {
		l, sent, err := poll(ctx, func() (*redislock.Lock, bool, error) {
			l, err := locks.Obtain(ctx, name, lease, nil)
			return l, errors.Is(err, redislock.ErrNotObtained), err
		})
		if err != nil {
			return nil, err
		}
		return renew(sent, byRenewal, func(ctx context.Context) error {
			err := l.Refresh(ctx, lease, nil)
			if errors.Is(err, redislock.ErrNotObtained) {
				return errNotHeld
			}
			return err
		}).lock(func(ctx context.Context) (bool, error) {
			left, err := l.TTL(ctx)
			return left > 0, err
		}, l.Release), nil
	}, nil
}

// openRueidis has rueidislock as it comes: three keys on one server, of which two win.
func openRueidis(_ context.Context, addrs []string) (acquirer, error) {
	locker, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption:   rueidis.ClientOption{InitAddress: addrs, ForceSingleClient: true},
		KeyValidity:    lease,
		NoLoopTracking: true,
		TryNextAfter:   redlock.DefaultNodeTimeout, // its 20 ms are less than what a loaded machine takes
	})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, name string) (*lock, error) {
		// The lock would end with a context that is done after the acquire.
		own, giveUp := context.WithCancel(context.WithoutCancel(ctx))
		bounded := context.AfterFunc(ctx, giveUp)
		held, give, err := locker.WithContext(own, name)
		if !bounded() && err == nil { // it has been given up meanwhile
			give()
			err = ctx.Err()
		}
		if err != nil {
			giveUp()
			return nil, err
		}
		return ofLibrary(held.Done(), func(context.Context) error {
			give() // returns when every key is deleted
			giveUp()
			return nil
		}), nil
	}, nil
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

// openRedisson does what Redisson's client does for one thread.
func openRedisson(_ context.Context, addrs []string) (acquirer, error) {
	client, thread := goRedis(addrs[0]), uuid.NewString()+":1"
	return func(ctx context.Context, name string) (*lock, error) {
		l := &rlock{client: client, thread: thread, keys: []string{name, "redisson_lock__channel:{" + name + "}"}}
		if err := l.take(ctx); err != nil {
			return nil, err
		}
		// The watchdog tells nobody when it finds the lock with somebody else, and nothing in
		// the process knows better until somebody asks the server: so it is with Redisson.
		watchdog := renew(monotonic(), "", l.renew)
		return &lock{held: func() bool { return !l.gone.Load() }, by: byLibrary, ask: l.ask, release: func(ctx context.Context) error {
			watchdog.end()
			return l.give(ctx)
		}}, nil
	}, nil
}

// rlock is a thread's hold.
type rlock struct {
	client *redis.Client
	thread string
	keys   []string    // the lock, and its channel
	gone   atomic.Bool // an answer said so
}

func (l *rlock) run(ctx context.Context, script *redis.Script) *redis.Cmd {
	return script.Run(ctx, l.client, l.keys, lease.Milliseconds(), l.thread)
}

// take subscribes, and waits for a message or for the end of the holder's lease.
func (l *rlock) take(ctx context.Context) error {
	sub := l.client.Subscribe(ctx, l.keys[1])
	defer func() { _ = sub.Close() }()
	calls := sub.Channel()
	for {
		left, err := l.run(ctx, rlockTake).Int64()
		if errors.Is(err, redis.Nil) {
			return nil
		}
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-calls:
		case <-time.After(time.Duration(left) * time.Millisecond):
		}
	}
}

func (l *rlock) renew(ctx context.Context) error {
	is, err := l.run(ctx, rlockRenew).Int()
	if err == nil && is == 0 {
		return errNotHeld
	}
	return err
}

func (l *rlock) ask(ctx context.Context) (bool, error) {
	is, err := l.client.HExists(ctx, l.keys[0], l.thread).Result()
	if err == nil && !is {
		l.gone.Store(true)
	}
	return is, err
}

func (l *rlock) give(ctx context.Context) error {
	err := l.run(ctx, rlockGive).Err()
	if errors.Is(err, redis.Nil) {
		return fmt.Errorf("attempt to unlock lock, not locked by current thread: %w", errNotHeld)
	}
	return err
}
