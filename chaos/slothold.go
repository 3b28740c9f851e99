package chaos

import (
	"context"
	"time"

	"github.com/quorumkit/redlock"
)

// limiter is a [Contender] whose library lets several hold a resource at once, each in a
// slot of its own.
type limiter interface {
	Contender

	// Enter locks one of limit slots of a resource. With wait it blocks until it has one or
	// ctx is done; else it makes one attempt.
	Enter(ctx context.Context, resource string, limit int, lease time.Duration, wait bool) (slotHold, error)
}

// slotHold is a slot of a resource, as its holder sees it.
type slotHold interface {
	Hold

	// Slot is which one it is, from 0.
	Slot() int
}

// Enter is limiter.Enter.
func (c *redlockContender) Enter(ctx context.Context, resource string, limit int, lease time.Duration, wait bool) (slotHold, error) {
	take := c.locker.TryAcquire
	if wait {
		take = c.locker.Acquire
	}
	lock, err := take(ctx, resource, redlock.WithTTL(lease), redlock.WithLimit(limit))
	if err != nil {
		return nil, err
	}
	return redlockSlot{redlockHold{lock}}, nil
}

type redlockSlot struct{ redlockHold }

func (s redlockSlot) Slot() int { return s.lock.Slot() }

// slotIn is the slot of what was taken; 0: it is none.
func slotIn(h setHold) int {
	if o, ok := h.(one); ok {
		if s, ok := o.Hold.(slotHold); ok {
			return s.Slot()
		}
	}
	return 0
}
