package main

import (
	"context"
	"errors"

	"github.com/go-redsync/redsync/v4"
	pool "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

// redsyncLocks is redsync v4 over one default go-redis client per node.
type redsyncLocks struct {
	clients []*redis.Client
	sync    *redsync.Redsync
}

func openRedsync(_ context.Context, e *env) (contender, error) {
	r := &redsyncLocks{}
	var pools []pool.Pool
	for _, addr := range e.addrs {
		c := redis.NewClient(&redis.Options{Addr: addr})
		r.clients = append(r.clients, c)
		pools = append(pools, goredis.NewPool(c))
	}
	r.sync = redsync.New(pools...)
	return r, nil
}

func (r *redsyncLocks) acquire(ctx context.Context, resource string) (held, error) {
	m := r.sync.NewMutex(resource, redsync.WithExpiry(ttl))
	if err := m.LockContext(ctx); err != nil {
		return nil, err
	}
	return redsyncLock{m}, nil
}

func (r *redsyncLocks) close() error {
	var errs []error
	for _, c := range r.clients {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

type redsyncLock struct{ mutex *redsync.Mutex }

func (l redsyncLock) extend(ctx context.Context) error {
	_, err := l.mutex.ExtendContext(ctx)
	return err
}

func (l redsyncLock) release(ctx context.Context) error {
	ok, err := l.mutex.UnlockContext(ctx)
	if ok {
		return nil // redsync reports the nodes that failed beside a quorum too
	}
	return err
}
