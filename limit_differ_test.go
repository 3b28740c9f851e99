package redlock_test

import (
	"testing"
	"testing/synctest"

	"github.com/quorumkit/redlock"
)

// docs/BEYOND.md: callers who disagree on the number are as many as the largest says.
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
