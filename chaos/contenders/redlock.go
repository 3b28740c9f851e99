package contenders

import (
	"context"
	"fmt"
	"time"

	"github.com/quorumkit/redlock"
)

var redlockSpec = spec{
	name: "redlock", module: "github.com/quorumkit/redlock", servers: "5 Redis masters, no persistence",
	fence: "token", notice: "library: `Lock.Done`, `Lock.Context`, before the lease ends",
	start: startMasters, open: openRedlock,
}

// masterNames are the same for all processes: some reach the masters by proxies.
var masterNames = []string{"m0", "m1", "m2", "m3", "m4"}

func redlockOptions() []redlock.Option {
	return []redlock.Option{redlock.WithTTL(lease), redlock.WithMaxTTL(lease), redlock.WithNodeNames(masterNames...)}
}

// startMasters starts five masters and makes them a cluster that votes at once: they
// are new, so nobody holds anything.
func startMasters(ctx context.Context) (*system, error) {
	s, err := startRedis(len(masterNames))
	if err != nil {
		return nil, err
	}
	err = found(ctx, s.addrs())
	if err != nil {
		s.close()
		return nil, fmt.Errorf("found the cluster: %w", err)
	}
	return s, nil
}

// found admits all masters. On a machine that starts everything else too a call may
// find its timeout over, with some of them taken in: it is sent again.
func found(ctx context.Context, addrs []string) error {
	l, err := redlock.Open(ctx, addrs, redlockOptions()...)
	if err != nil {
		return err
	}
	defer func() { _ = l.Close() }() // what it held, nobody needs
	ctx, cancel := context.WithTimeout(ctx, startBound)
	defer cancel()
	for {
		err := l.Cluster().Admit(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pollEvery):
		}
	}
}

type redlockClient struct{ locker *redlock.Locker }

func openRedlock(ctx context.Context, addrs []string) (client, error) {
	l, err := redlock.Open(ctx, addrs, redlockOptions()...)
	if err != nil {
		return nil, err
	}
	return redlockClient{l}, nil
}

func (c redlockClient) acquire(ctx context.Context, name string) (lock, error) {
	l, err := c.locker.Acquire(ctx, name)
	if err != nil {
		return nil, err
	}
	return &redlockLock{l, forward(l.Done(), byLibrary)}, nil
}

func (c redlockClient) close() error { return c.locker.Close() }

type redlockLock struct {
	lock *redlock.Lock
	news <-chan string
}

func (l *redlockLock) held() bool          { return l.lock.Err() == nil }
func (l *redlockLock) counts() string      { return byLibrary }
func (l *redlockLock) told() <-chan string { return l.news }
func (l *redlockLock) fence() string       { return fmt.Sprint(uint64(l.lock.Token())) }

func (l *redlockLock) ask(context.Context) (bool, error) { return l.lock.Err() == nil, nil }
func (l *redlockLock) release(ctx context.Context) error { return l.lock.Release(ctx) }

// forward makes news of a channel that closes.
func forward(done <-chan struct{}, by string) <-chan string {
	news := make(chan string, 1)
	go func() {
		<-done
		news <- by
	}()
	return news
}
