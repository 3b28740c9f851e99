package contenders

import (
	"context"
	"errors"
	"time"

	"github.com/go-redsync/redsync/v4"
	pool "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

var redsyncSpec = spec{
	name: "redsync", module: "github.com/go-redsync/redsync/v4", servers: "5 Redis masters, no persistence",
	fence: "none", notice: "nobody; `Until` can be looked at, `Extend` called",
	start: func(context.Context) (*system, error) { return startRedis(len(masterNames)) }, open: openRedsync, plain: openRedsyncPlain,
}

// redsyncClient is redsync over one go-redis client per master.
type redsyncClient struct {
	clients []*redis.Client
	sync    *redsync.Redsync
	options []redsync.Option // of each mutex
}

func openRedsync(_ context.Context, addrs []string) (client, error) {
	return redsyncOver(addrs, goRedis, redsync.WithExpiry(lease)), nil
}

// openRedsyncPlain has redsync's own lease, of eight seconds, and go-redis's own
// timeouts, which heed no context.
func openRedsyncPlain(_ context.Context, addrs []string) (client, error) {
	return redsyncOver(addrs, func(addr string) *redis.Client { return redis.NewClient(&redis.Options{Addr: addr}) }), nil
}

func redsyncOver(addrs []string, clientOf func(addr string) *redis.Client, opts ...redsync.Option) *redsyncClient {
	c := &redsyncClient{options: opts}
	var pools []pool.Pool
	for _, addr := range addrs {
		one := clientOf(addr)
		c.clients = append(c.clients, one)
		pools = append(pools, goredis.NewPool(one))
	}
	c.sync = redsync.New(pools...)
	return c
}

// acquire is redsync's own waiting: 32 tries, 50 to 250 ms apart. Who wants to wait
// longer calls it again.
func (c *redsyncClient) acquire(ctx context.Context, name string) (lock, error) {
	m := c.sync.NewMutex(name, c.options...)
	if err := m.LockContext(ctx); err != nil {
		return nil, err
	}
	sent := monotonic() + int64(time.Until(m.Until())-countedLease) // of the last try
	return &redsyncLock{renew(sent, byRenewal, extendRedsync(m)), m}, nil
}

func extendRedsync(m *redsync.Mutex) func(ctx context.Context) error {
	return func(ctx context.Context) error {
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
}

func (c *redsyncClient) close() error {
	var errs []error
	for _, one := range c.clients {
		errs = append(errs, one.Close())
	}
	return errors.Join(errs...)
}

type redsyncLock struct {
	*renewed
	mutex *redsync.Mutex
}

func (l *redsyncLock) fence() string { return "" }

func (l *redsyncLock) ask(ctx context.Context) (bool, error) {
	l.end()
	err := extendRedsync(l.mutex)(ctx)
	if errors.Is(err, errNotHeld) {
		return false, nil
	}
	return err == nil, err
}

func (l *redsyncLock) release(ctx context.Context) error {
	l.end()
	ok, err := l.mutex.UnlockContext(ctx)
	if ok {
		return nil // it tells of the masters that failed beside a quorum, too
	}
	return err
}
