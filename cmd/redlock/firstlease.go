package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorumkit/redlock"
)

const (
	// A lock is renewed at a third of its TTL, so two thirds are left of it in good
	// times. --kill-after is half of the TTL at most.
	renewedShare = 3
	// lengthenPause is the longest pause after an extension that no quorum confirmed;
	// it is shorter when little is left.
	lengthenPause = 250 * time.Millisecond
)

// lengthen returns when the lock has at least two thirds of ttl left, as one that is
// renewed in time has. A lock that the release of another granted has two to three
// seconds at first, no matter its TTL: what is planned by that, or told to a script,
// would be wrong a moment later. It sends nothing where enough is left.
//
// It blocks for one round trip, or until the lock ends where no quorum answers. Where
// the lock has ended its error has exit status 124. Any other error leaves the lock
// held: ctx's, with the last extension's, or Extend's.
//
// A missing quorum is no loss yet: a command that runs goes on meanwhile, and its lock
// is tried again until its validity ends. So it is here too. A lost message does not
// cost a lock that may have been waited for long. Nothing is started with the little
// that is left, because it would have to be ended at once. When that has passed, it is
// a lock that was lost before the start.
func lengthen(ctx context.Context, lock *holding, ttl time.Duration) error {
	var unconfirmed error
	for lock.Remaining() < ttl-ttl/renewedShare {
		err := lock.Extend(ctx, ttl)
		if err == nil {
			return nil
		}
		cause := lock.Err()
		switch {
		case cause != nil && unconfirmed != nil:
			return endedBy(lock.label(), fmt.Errorf("%w; it was not lengthened: %w", cause, unconfirmed))
		case cause != nil:
			return endedBy(lock.label(), cause)
		case ctx.Err() != nil || !errors.Is(err, redlock.ErrNoQuorum):
			return err
		}
		unconfirmed = err
		t := newTimer(max(min(lengthenPause, lock.Remaining()/4), time.Millisecond))
		select {
		case <-t.C:
		case <-lock.Done():
		case <-ctx.Done():
		}
		t.Stop()
	}
	return nil
}
