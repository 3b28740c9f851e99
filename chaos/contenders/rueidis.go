package contenders

import (
	"context"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"github.com/quorumkit/redlock"
)

var rueidisSpec = spec{
	name: "rueidislock", module: "github.com/redis/rueidis", servers: "1 Redis master, no persistence",
	fence: "none", notice: "library: the lock's context ends",
	start: startMaster, open: openRueidis,
}

func startMaster(context.Context) (*system, error) { return startRedis(1) }

// rueidisClient is rueidislock as it comes: three keys on one server, of which two win.
type rueidisClient struct{ locker rueidislock.Locker }

func openRueidis(_ context.Context, addrs []string) (client, error) {
	l, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption:   rueidis.ClientOption{InitAddress: addrs, ForceSingleClient: true},
		KeyValidity:    lease,
		NoLoopTracking: true,
		TryNextAfter:   redlock.DefaultNodeTimeout, // its 20 ms are less than what a loaded machine takes
	})
	if err != nil {
		return nil, err
	}
	return rueidisClient{l}, nil
}

func (c rueidisClient) acquire(ctx context.Context, name string) (lock, error) {
	// The lock would end with a context that is done after the acquire.
	type result struct {
		ctx    context.Context //nolint:containedctx // it is what the library returns
		cancel context.CancelFunc
		err    error
	}
	own, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	got := make(chan result, 1)
	go func() {
		held, cancel, err := c.locker.WithContext(own, name)
		got <- result{held, cancel, err}
	}()
	select {
	case r := <-got:
		if r.err != nil {
			giveUp()
			return nil, r.err
		}
		return &rueidisLock{r.ctx, r.cancel, giveUp, forward(r.ctx.Done(), byLibrary)}, nil
	case <-ctx.Done():
		giveUp()
		if r := <-got; r.err == nil {
			r.cancel()
		}
		return nil, ctx.Err()
	}
}

func (c rueidisClient) close() error {
	c.locker.Close()
	return nil
}

type rueidisLock struct {
	ctx    context.Context //nolint:containedctx // it is the lock, as the library has it
	cancel context.CancelFunc
	giveUp context.CancelFunc
	news   <-chan string
}

func (l *rueidisLock) held() bool          { return l.ctx.Err() == nil }
func (l *rueidisLock) counts() string      { return byLibrary }
func (l *rueidisLock) told() <-chan string { return l.news }
func (l *rueidisLock) fence() string       { return "" }

// ask: there is no such call.
func (l *rueidisLock) ask(context.Context) (bool, error) { return l.ctx.Err() == nil, nil }

func (l *rueidisLock) release(context.Context) error {
	l.cancel() // returns when every key is deleted
	l.giveUp()
	return nil
}
