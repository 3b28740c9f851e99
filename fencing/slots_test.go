package fencing_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/fencing"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/redlocktest"
)

// guardedBySlot is docs/FENCING.md's way to guard what several use at once.
func guardedBySlot(ctx context.Context, guard *fencing.Memory, lock *redlock.Lock, write func(context.Context) error) error {
	place := fmt.Sprintf("%s/%d", lock.Resource(), lock.Slot())
	return guard.Write(ctx, place, lock.Token(), write)
}

// Tokens of two slots say nothing of each other: a guard by the name alone refuses a
// valid holder. By the name and the slot it refuses the slot's earlier holders only.
func TestAGuardByNameAndSlotRefusesWhoIsLateOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := redlocktest.Start(t, 3)
		locker, err := redlock.New(nodes.Clients(), redlock.WithNodeNames(nodes.Names()...))
		testkit.Must(t, err)
		defer func() { _ = locker.Close() }()
		var held [2]*redlock.Lock
		acquire := func() *redlock.Lock {
			lock, err := locker.Acquire(t.Context(), "exports", redlock.WithLimit(2))
			testkit.Must(t, err)
			held[lock.Slot()] = lock
			return lock
		}
		acquire()
		late := acquire()
		for range 3 { // the slot that was released last is taken first
			testkit.Must(t, held[late.Slot()].Release(t.Context()))
			if next := acquire(); next.Slot() != late.Slot() {
				t.Fatalf("got slot %d; want %d again", next.Slot(), late.Slot())
			}
		}
		newest, other := held[late.Slot()], held[1-late.Slot()]
		write := func(context.Context) error { return nil }

		place := fmt.Sprintf("exports/%d", other.Slot())
		if token, err := fencing.FromContext(other.Context(), place); token != other.Token() || err != nil {
			t.Errorf("the context's token for %s: got %d, %v; want %d", place, token, err, other.Token())
		}
		if token, err := fencing.FromContext(other.Context(), "exports"); !errors.Is(err, fencing.ErrNoToken) {
			t.Errorf("the context's token for the name alone: got %d, %v; want ErrNoToken", token, err)
		}

		byName := new(fencing.Memory)
		testkit.Must(t, byName.Write(newest.Context(), "exports", newest.Token(), write))
		if err := byName.Write(other.Context(), "exports", other.Token(), write); other.Err() != nil || !errors.Is(err, fencing.ErrStale) {
			t.Errorf("by the name alone: got %v; want a holder refused that holds its slot", err)
		}

		bySlot := new(fencing.Memory)
		for _, lock := range []*redlock.Lock{late, newest, other, newest} {
			if err := guardedBySlot(t.Context(), bySlot, lock, write); err != nil {
				t.Errorf("slot %d, token %d: %v", lock.Slot(), lock.Token(), err)
			}
		}
		if err := guardedBySlot(t.Context(), bySlot, late, write); !errors.Is(err, fencing.ErrStale) {
			t.Errorf("got %v; want the slot's earlier holder refused", err)
		}
	})
}
