package dispatch_test

import (
	"slices"
	"testing"
	"testing/synctest"

	"github.com/quorumkit/redlock/internal/dispatch"
)

// An observer hangs: routine events fill half of the room, the others have the rest.
// What was kept is told in its order, and Close waits for it.
func TestWhatASlowObserverIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []int
		hang := make(chan struct{})
		d := dispatch.New([]func(int){func(e int) { <-hang; told = append(told, e) }})
		if !d.Observed() || !d.Send(0, true) {
			t.Fatal("the first event is refused")
		}
		synctest.Wait() // it is with the observer
		var kept []int
		for e := range 3 * dispatch.Bound {
			if d.Send(1+e, e < 2*dispatch.Bound) {
				kept = append(kept, 1+e)
			}
		}
		if len(kept) != 2*dispatch.Bound || kept[dispatch.Bound-1] != dispatch.Bound || kept[dispatch.Bound] != 1+2*dispatch.Bound {
			t.Errorf("%d events were kept; want %d routine ones, and as many of the others", len(kept), dispatch.Bound)
		}
		close(hang)
		d.Close()
		if want := append([]int{0}, kept...); !slices.Equal(told, want) {
			t.Errorf("the observer was told %d events; want the %d that were kept, in order", len(told), len(want))
		}
		if d.Send(1, false) {
			t.Error("an event was taken after Close; want it refused")
		}
	})
}

func TestNobodyObserves(t *testing.T) {
	d := dispatch.New[int](nil)
	if d.Observed() {
		t.Error("somebody is said to observe")
	}
	d.Close() // returns at once
}
