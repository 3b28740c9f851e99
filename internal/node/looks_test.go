package node

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/membership"
)

// held is a connection whose replies are held back.
type held struct {
	processor
	sent  int
	reply chan struct{}
}

func (h *held) Process(context.Context, redis.Cmder) error {
	h.sent++
	<-h.reply
	return errors.New("no reply")
}

// Of two looks at one node that overlap nobody could tell which is newer.
func TestALookWaitsUntilTheOneBeforeIsPublished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &Node{looking: make(chan struct{}, 1), Clock: clock.New()}
		n.Tracker = membership.NewTracker(membership.NewConfig([]string{"a"}, time.Second, false), "", n.Clock)
		h := &held{reply: make(chan struct{})}
		look := func(ctx context.Context) { _, _ = n.observe(ctx, h, false, nil) }
		go look(t.Context())
		go look(t.Context())
		synctest.Wait()
		bounded, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		look(bounded) // it does not wait longer than its caller
		if h.sent != 1 {
			t.Errorf("got %d looks that were sent; want the first alone", h.sent)
		}
		h.reply <- struct{}{}
		synctest.Wait()
		if h.sent != 2 {
			t.Errorf("got %d looks that were sent; want the next behind the first", h.sent)
		}
		h.reply <- struct{}{}
	})
}
