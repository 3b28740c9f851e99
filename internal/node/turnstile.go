package node

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock/internal/clock"
)

const (
	// turnPoll is how often a command that found no connection tries to get one.
	turnPoll = time.Millisecond
	// turnGiven is how long the writer sends nothing where somebody waits for a
	// connection: time enough for a few tries.
	turnGiven = 4 * turnPoll
)

// turnstile has commands wait for a connection of a pool that has no more. A pool
// with MaxActiveConns refuses at once what it has no connection for, and nothing was
// sent then, so a second try is no second command. It is a hook of the node's own
// copy of the client, not of the program's, and only where MaxActiveConns is set.
type turnstile struct {
	longest time.Duration // that a command waits; the node timeout bounds it all
	clock   *clock.Clock
	waiting atomic.Int64
}

// DialHook changes nothing.
func (*turnstile) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook has one command wait.
func (t *turnstile) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return t.pass(ctx, func() error { return next(ctx, cmd) }, cmd)
	}
}

// ProcessPipelineHook has a pipeline wait.
func (t *turnstile) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		return t.pass(ctx, func() error { return next(ctx, cmds) }, cmds...)
	}
}

// pass sends as soon as there is a connection. Out of time, the pool's refusal stays.
func (t *turnstile) pass(ctx context.Context, send func() error, cmds ...redis.Cmder) error {
	err := send()
	if !errors.Is(err, redis.ErrPoolExhausted) {
		return err
	}
	t.waiting.Add(1)
	defer t.waiting.Add(-1)
	until := t.clock.Early().Add(t.longest)
	for errors.Is(err, redis.ErrPoolExhausted) && t.clock.Early() < until && t.pause(ctx, turnPoll) {
		for _, c := range cmds {
			c.SetErr(nil)
		}
		err = send()
	}
	return err
}

// pause returns false when ctx was done first.
func (t *turnstile) pause(ctx context.Context, d time.Duration) bool {
	timer := t.clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
