package yourcode

import (
	"context"
	"fmt"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	pool "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/chaos"
)

// Redsync puts redsync v4 on a stage. It asks once: a scenario asks again by itself.
func Redsync() chaos.Kit {
	return chaos.Kit{Name: "redsync", Open: func(nodes []redis.UniversalClient, _ []string) (chaos.Contender, error) {
		pools := make([]pool.Pool, len(nodes))
		for i, node := range nodes {
			pools[i] = goredis.NewPool(node)
		}
		return redsyncLocks{redsync.New(pools...)}, nil
	}}
}

type redsyncLocks struct{ sync *redsync.Redsync }

func (r redsyncLocks) Close() error { return nil }

func (r redsyncLocks) Acquire(ctx context.Context, resource string, lease time.Duration) (chaos.Hold, error) {
	m := r.sync.NewMutex(resource, redsync.WithExpiry(lease))
	if err := m.TryLockContext(ctx); err != nil {
		return nil, err
	}
	return &redsyncHold{mutex: m}, nil
}

type redsyncHold struct {
	mutex    *redsync.Mutex
	released bool
}

func (h *redsyncHold) Token() redlock.Token  { return 0 }   // it has none
func (h *redsyncHold) Lost() <-chan struct{} { return nil } // nor does it tell of a loss

func (h *redsyncHold) Remaining() time.Duration {
	if h.released {
		return 0
	}
	return max(time.Until(h.mutex.Until()), 0)
}

func (h *redsyncHold) Extend(ctx context.Context, _ time.Duration) error {
	_, err := h.mutex.ExtendContext(ctx)
	return err
}

func (h *redsyncHold) Release(ctx context.Context) error {
	h.released = true
	_, err := h.mutex.UnlockContext(ctx)
	return err
}

// BSM puts bsm/redislock on a stage: on the first node, since it knows one.
func BSM() chaos.Kit {
	return chaos.Kit{Name: "bsm/redislock", Open: func(nodes []redis.UniversalClient, _ []string) (chaos.Contender, error) {
		if len(nodes) == 0 {
			return nil, fmt.Errorf("bsm/redislock: %w: no node", redlock.ErrInvalidNode)
		}
		return bsmLocks{redislock.New(nodes[0])}, nil
	}}
}

type bsmLocks struct{ client *redislock.Client }

func (b bsmLocks) Close() error { return nil }

func (b bsmLocks) Acquire(ctx context.Context, resource string, lease time.Duration) (chaos.Hold, error) {
	sent := time.Now()
	lock, err := b.client.Obtain(ctx, resource, lease, nil)
	if err != nil {
		return nil, err
	}
	return &bsmHold{lock, sent.Add(lease)}, nil
}

// bsmHold minds its lease by its own clock, from before it was asked for: the library
// leaves that to its user.
type bsmHold struct {
	lock  *redislock.Lock
	until time.Time
}

func (h *bsmHold) Token() redlock.Token     { return 0 }
func (h *bsmHold) Lost() <-chan struct{}    { return nil }
func (h *bsmHold) Remaining() time.Duration { return max(time.Until(h.until), 0) }

func (h *bsmHold) Extend(ctx context.Context, lease time.Duration) error {
	sent := time.Now()
	if err := h.lock.Refresh(ctx, lease, nil); err != nil {
		return err
	}
	h.until = sent.Add(lease)
	return nil
}

func (h *bsmHold) Release(ctx context.Context) error {
	h.until = time.Time{}
	return h.lock.Release(ctx)
}
