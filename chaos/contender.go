package chaos

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
)

// Contender is one client of a lock library. It is used by one goroutine at a
// time.
type Contender interface {
	// Acquire makes one attempt to lock resource for lease, and never waits for a
	// holder. ctx bounds the attempt.
	Acquire(ctx context.Context, resource string, lease time.Duration) (Hold, error)
	// Close ends the client; it does not close the connections' clients.
	Close() error
}

// Hold is a lock as its holder sees it.
type Hold interface {
	// Token is the fencing token; 0 if the library has none.
	Token() redlock.Token
	// Remaining is how long the holder may believe that it holds, as of now, by
	// its own clock; 0 when it no longer does.
	Remaining() time.Duration
	// Lost is closed when the library tells the holder that it holds no longer;
	// nil if it never tells.
	Lost() <-chan struct{}
	// Extend lengthens the lease to lease from now.
	Extend(ctx context.Context, lease time.Duration) error
	// Release gives the lock up.
	Release(ctx context.Context) error
}

// Kit makes contenders of one kind. To put another library on stage, fill one
// in: no scenario needs to know of it.
type Kit struct {
	// Name is how tables and traces call it.
	Name string
	// Open makes a contender that locks over nodes, which have names. Anyone who
	// calls it keeps the clients.
	Open func(nodes []redis.UniversalClient, names []string) (Contender, error)
}

// Redlock is this module's lock, under name, with any of its options: such as
// redlock.WithoutMembership, to see what that protection is worth.
func Redlock(name string, opts ...redlock.Option) Kit {
	return Kit{Name: name, Open: func(nodes []redis.UniversalClient, names []string) (Contender, error) {
		locker, err := redlock.New(nodes, append([]redlock.Option{redlock.WithNodeNames(names...)}, opts...)...)
		if err != nil {
			return nil, err
		}
		return &redlockContender{locker}, nil
	}}
}

type redlockContender struct{ locker *redlock.Locker }

func (c *redlockContender) Acquire(ctx context.Context, resource string, lease time.Duration) (Hold, error) {
	lock, err := c.locker.TryAcquire(ctx, resource, redlock.WithTTL(lease))
	if err != nil {
		return nil, err
	}
	return redlockHold{lock}, nil
}

func (c *redlockContender) Close() error { return c.locker.Close() }

type redlockHold struct{ lock *redlock.Lock }

func (h redlockHold) Token() redlock.Token { return h.lock.Token() }

func (h redlockHold) Remaining() time.Duration { return h.lock.Remaining() }

func (h redlockHold) Lost() <-chan struct{} { return h.lock.Done() }

func (h redlockHold) Extend(ctx context.Context, lease time.Duration) error {
	return h.lock.Extend(ctx, lease)
}

func (h redlockHold) Release(ctx context.Context) error { return h.lock.Release(ctx) }
