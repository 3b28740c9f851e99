package main

import (
	"context"
	"errors"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
)

// redlockLocks is this library as Open builds it.
type redlockLocks struct {
	locker *redlock.Locker
	own    []*redis.Client // what New was given
}

func openRedlock(ctx context.Context, e *env) (contender, error) {
	l, err := redlock.Open(ctx, e.addrs, e.options...)
	if err != nil {
		return nil, err
	}
	return &redlockLocks{locker: l}, nil
}

// openBare is this library without its protections.
func openBare(ctx context.Context, e *env) (contender, error) {
	bare := *e
	bare.options = append(slices.Clone(e.options), redlock.WithoutMembership(), redlock.WithoutClockWatch())
	return openRedlock(ctx, &bare)
}

// openRedlockDefault is this library over default go-redis clients.
func openRedlockDefault(_ context.Context, e *env) (contender, error) {
	r := &redlockLocks{}
	var clients []redis.UniversalClient
	for _, addr := range e.addrs {
		c := redis.NewClient(&redis.Options{Addr: addr})
		r.own, clients = append(r.own, c), append(clients, c)
	}
	var err error
	r.locker, err = redlock.New(clients, e.options...) //nolint:contextcheck // a Locker lives until it is closed
	return r, err
}

func (r *redlockLocks) acquire(ctx context.Context, resource string) (held, error) {
	l, err := r.locker.Acquire(ctx, resource)
	if err != nil {
		return nil, err
	}
	return redlockLock{l}, nil
}

func (r *redlockLocks) close() error {
	errs := []error{r.locker.Close()}
	for _, c := range r.own {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

type redlockLock struct{ lock *redlock.Lock }

func (l redlockLock) extend(ctx context.Context) error  { return l.lock.Extend(ctx, ttl) }
func (l redlockLock) release(ctx context.Context) error { return l.lock.Release(ctx) }

func (l redlockLock) token() uint64 { return uint64(l.lock.Token()) }
