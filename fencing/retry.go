package fencing

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// Pauses between attempts. Whom the database gave up for another waits about as
// long as a short transaction takes; doubled, so that many do not meet again.
const (
	firstPause   = 5 * time.Millisecond
	longestPause = 500 * time.Millisecond
)

// Retry runs attempt, and again while it returns an error for which Retryable is
// true. An attempt is a whole transaction, from its beginning to its commit, under
// the same token: a call of Write, or Check in a transaction of your own.
//
// Between attempts it pauses for a random time, from 2.5 to 5 ms at first, twice
// as long each time, to 500 ms at most. It has no bound of its own: it blocks until
// an attempt ends otherwise, or ctx is done. Give it a context with a deadline, or
// Lock.Context, which ends with the lock.
//
// It returns the last attempt's error, untouched, nil if that succeeded. When ctx
// is done in a pause, the error wraps ctx's cause and the last attempt's error.
// A stale token is returned at once: see Retryable.
func (g *SQL) Retry(ctx context.Context, attempt func(context.Context) error) error {
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		err := attempt(ctx)
		if !g.Retryable(err) {
			return err
		}
		if !rest(ctx, pause/2+rand.N(pause/2)) {
			return fmt.Errorf("fencing: retry: %w: the last attempt: %w", context.Cause(ctx), err)
		}
	}
}

// rest waits, and reports false if ctx is done before.
func rest(ctx context.Context, d time.Duration) bool {
	over, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	<-over.Done()
	return ctx.Err() == nil
}
