package acquire

import (
	"testing"

	"github.com/quorumkit/redlock/internal/queue"
)

// A release is never passed by because the waiter asks at that moment: once the offer
// stands, it stands until a slot was given.
func TestAnOfferStandsWhileTheWaiterGoesOnAsking(t *testing.T) {
	q := queue.New(1 << 20)
	name, _ := q.Try("slots")
	acq := &acquisition{a: &Acquirer{base: &base{Config: Config{Queue: q}}}, name: name, terms: Terms{Limit: 1}, slot: &slotWay{}}
	offered, given, done := make(chan struct{}), &queue.Transfer{}, make(chan struct{})
	go func() {
		defer close(done)
		for told := false; ; {
			got, err := forSlot{acq}.await(t.Context(), atOnce)
			switch {
			case err != nil:
				return
			case got != nil:
				told = false
			case !told: // from here on the offer stands
				told = true
				select {
				case offered <- struct{}{}:
				case <-t.Context().Done():
					return
				}
			}
			if t.Context().Err() != nil {
				return
			}
		}
	}()
	t.Cleanup(func() { <-done }) // the context is done by then
	for range 300 {
		<-offered
		if !q.HandSlot("slots", 0, 1, func(*queue.Waiter) *queue.Transfer { return given }) {
			t.Fatal("the offer did not stand while the waiter asked")
		}
	}
}
