package main

// What a command holds: one lock, or several that are held as one. The commands look at it in
// one way, so that exec --also and hold KEY... have the rules of a single key.

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/cli"
	"github.com/quorumkit/redlock/internal/fault"
)

// grip is a lock, or a set of locks that are held as one: *redlock.Lock or
// *redlock.MultiLock. A set remains for as long as the first of its locks to end.
type grip interface {
	Remaining() time.Duration
	Err() error
	Done() <-chan struct{}
	Revoked() <-chan struct{}
	Extend(ctx context.Context, ttl time.Duration) error
	Release(ctx context.Context) error
}

// holding is the keys that a command holds.
type holding struct {
	grip

	keys   []heldKey // in the order in which they were given
	shared bool
	slot   int // of --limit; -1 if there is none
}

// holdingOf is a lock of one name.
func holdingOf(lock *redlock.Lock) *holding {
	return &holding{lock, []heldKey{{lock.Resource(), uint64(lock.Token())}}, lock.Shared(), lock.Slot()}
}

// holdingAll is a set of names.
func holdingAll(set *redlock.MultiLock, shared bool) *holding {
	h := &holding{grip: set, shared: shared, slot: -1}
	for _, key := range set.Resources() {
		h.keys = append(h.keys, heldKey{key, uint64(set.Token(key))})
	}
	return h
}

// tells makes an event of what is held. The first key stands where a single one does, so
// that a reader written for one key finds it.
func (h *holding) tells(name string) event {
	e := event{Event: name, Key: h.keys[0].Key, Token: h.keys[0].Token, Shared: h.shared, Left: h.Remaining().Milliseconds()}
	if len(h.keys) > 1 {
		e.Keys = h.keys
	}
	if h.slot >= 0 {
		e.Slot = &h.slot
	}
	return e
}

// label is the name of the keys in messages.
func (h *holding) label() string {
	keys := make([]string, len(h.keys))
	for i, k := range h.keys {
		keys[i] = k.Key
	}
	return labelOf(keys)
}

// labelOf is short: a set has up to 64 keys, and a message has to fit into a log's line.
func labelOf(keys []string) string {
	if len(keys) == 1 {
		return keys[0]
	}
	return fmt.Sprintf("%s and %d more", keys[0], len(keys)-1)
}

// endedBy is the error of a lock that ended under its holder: 123 if it was due to
// (--max-hold), 124 if not. Any cause but that counts as a loss, since the holder may not
// have been alone at the end.
func endedBy(key string, cause error) error {
	if cause == nil {
		cause = errors.New("its validity was about to end")
	}
	code := exitLost
	if errors.Is(cause, redlock.ErrMaxHold) {
		code = exitMaxHold
	}
	return &cli.StatusError{Code: code, Cause: awayError{fmt.Errorf("%s: %w", key, cause)}}
}

// awayError is the end of a lock. One that nodes no longer have says first what has that effect.
type awayError struct{ error }

// Error leaves out the renewal that found it, whose caller is the library.
func (e awayError) Error() string {
	text := e.error.Error()
	var lost *redlock.QuorumError
	if !errors.As(e.error, &lost) || !errors.Is(lost, redlock.ErrLost) {
		return text
	}
	key := fault.Printable(lost.Resource)
	if _, nodes, found := strings.Cut(text, "extend "+key+": lost: "); found {
		return key + " was taken away (release --force, DEL, eviction): " + nodes
	}
	return text
}

// Unwrap returns the cause.
func (e awayError) Unwrap() error { return e.error }

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
// seconds at first, no matter its TTL: a plan made by that, or a figure told to a script,
// would be wrong a moment later. It sends nothing if enough is left.
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
