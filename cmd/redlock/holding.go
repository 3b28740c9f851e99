package main

import (
	"context"
	"fmt"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/cli"
)

// grip is a lock, or a set of locks that are held as one.
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
	slot   int // of --limit; -1: there is none
}

// heldKey is one of them, as --json shows it.
type heldKey struct {
	Key   string `json:"key"`
	Token uint64 `json:"token"`
}

func holdingOf(lock *redlock.Lock) *holding {
	return &holding{lock, []heldKey{{lock.Resource(), uint64(lock.Token())}}, lock.Shared(), lock.Slot()}
}

func holdingAll(set *redlock.MultiLock, shared bool) *holding {
	h := &holding{grip: set, shared: shared, slot: -1}
	for _, key := range set.Resources() {
		h.keys = append(h.keys, heldKey{key, uint64(set.Token(key))})
	}
	return h
}

// tells makes an event of what is held. The first key stands where a single one does.
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

// label is what messages call the keys.
func (h *holding) label() string {
	keys := make([]string, len(h.keys))
	for i, k := range h.keys {
		keys[i] = k.Key
	}
	return labelOf(keys)
}

func labelOf(keys []string) string {
	if len(keys) == 1 {
		return keys[0]
	}
	return fmt.Sprintf("%s and %d more", keys[0], len(keys)-1)
}

// checkKeys says what is wrong with the keys of a command, before a node is asked.
func checkKeys(keys []string) error {
	if n := len(keys); n > redlock.MaxSet {
		return cli.Usagef("%d keys: at most %d are held together", n, redlock.MaxSet)
	}
	seen := map[string]bool{}
	for _, key := range keys {
		switch {
		case key == "":
			return cli.Usagef("a KEY is empty: give each a name")
		case seen[key]:
			return cli.Usagef("the key %q is given twice: give each key once", key)
		}
		seen[key] = true
	}
	return nil
}
