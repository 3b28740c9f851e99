package redlock_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock"
)

// docs/BESIDE.md: callers who disagree on the number are as many as the largest says.
func TestWhileLimitsDifferTheLargestHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, nodes := newLocker(t, 3)
		other, third := separateLocker(t, nodes), separateLocker(t, nodes)
		held := mustAcquire(t, first, "pool", redlock.WithLimit(1))
		_, err := other.TryAcquire(t.Context(), "pool", redlock.WithLimit(1))
		wantError(t, "TryAcquire of the only slot", err, redlock.ErrNotAcquired)
		beside, err := other.TryAcquire(t.Context(), "pool", redlock.WithLimit(2))
		must(t, err)
		if held.Slot() != 0 || beside.Slot() != 1 {
			t.Errorf("got slots %d and %d; want 0 and 1", held.Slot(), beside.Slot())
		}
		_, err = third.TryAcquire(t.Context(), "pool", redlock.WithLimit(2))
		wantError(t, "TryAcquire of two slots that are held", err, redlock.ErrNotAcquired)
		mustRelease(t, beside)
		mustRelease(t, held)
	})
}

// Who comes with a smaller number sees its first slots alone: it waits while these are
// held, though a higher one is free, and is granted none of the higher ones.
func TestASmallerLimitSeesItsFirstSlotsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, nodes := newLocker(t, 3)
		other, third := separateLocker(t, nodes), separateLocker(t, nodes)
		held := make([]*redlock.Lock, 3) // by slot
		for range held {
			lock := mustAcquire(t, first, "orders/42", redlock.WithLimit(3))
			held[lock.Slot()] = lock
		}
		next := wants(t, other, redlock.WithLimit(1))
		mustRelease(t, held[2])
		time.Sleep(30 * time.Second)
		select {
		case g := <-next:
			t.Fatalf("got %+v while the only slot that it may have is held; want it to wait", g)
		default:
		}
		wantTaken(t, "two of two slots are held", third, redlock.WithLimit(2))
		mustRelease(t, held[0])
		small := got(t, next).lock
		if small.Slot() != 0 {
			t.Errorf("with a limit of 1 it got slot %d; want 0", small.Slot())
		}
		wantTaken(t, "slot 1 is held, by one with a larger limit, and slot 0", third, redlock.WithLimit(2))
		wantTaken(t, "slot 0 is held", third, redlock.WithLimit(1))
		high, err := third.TryAcquire(t.Context(), "orders/42", redlock.WithLimit(3))
		must(t, err)
		if high.Slot() != 2 {
			t.Errorf("with a limit of 3 it got slot %d; want 2", high.Slot())
		}
		wantTaken(t, "as many hold as the largest limit says", other, redlock.WithLimit(3))
		mustRelease(t, small)
		again, err := other.TryAcquire(t.Context(), "orders/42", redlock.WithLimit(1)) // while 1 and 2 are held
		must(t, err)
		if again.Slot() != 0 {
			t.Errorf("with a limit of 1, beside slots 1 and 2, it got slot %d; want 0", again.Slot())
		}
		for _, lock := range []*redlock.Lock{again, high, held[1]} {
			must(t, lock.Err())
			mustRelease(t, lock)
		}
	})
}

// While limits differ, who waits for one of fewer slots stands before those who want any of
// more, and who is refused is told so.
func TestOneLineIsBeforeTheSlotsOfAllLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, nodes := newLocker(t, 3)
		other, third := separateLocker(t, nodes), separateLocker(t, nodes)
		held := mustAcquire(t, first, "orders/42", redlock.WithLimit(1))
		mustRelease(t, mustAcquire(t, third, "orders/42", redlock.WithLimit(3))) // it asks for that one first
		small := wants(t, other, redlock.WithLimit(1))
		_, err := third.TryAcquire(t.Context(), "orders/42", redlock.WithLimit(3))
		wantText(t, "one of three", fmt.Sprint(err), "a slot is free, and another waits before")
		large := wants(t, third, redlock.WithLimit(3))
		time.Sleep(5 * time.Second)
		wantWaiting(t, "behind one who waits for the only slot", small, large)
		mustRelease(t, held)
		for _, from := range []<-chan gained{small, large} {
			mustRelease(t, got(t, from).lock)
		}
	})
}
