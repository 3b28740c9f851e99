package chaos

import (
	"context"
	"time"

	"github.com/quorumkit/redlock"
)

// revoker is a [Contender] whose library lets others ask a holder to give up.
type revoker interface {
	Contender

	// Revocable locks a resource so that it can be asked for. With wait it blocks until it
	// has it or ctx is done; else it makes one attempt.
	Revocable(ctx context.Context, resource string, lease time.Duration, wait bool) (revocableHold, error)
	// Revoke asks who holds a resource to give it up, and blocks until they have.
	Revoke(ctx context.Context, resource string) error
}

// revocableHold is a lock that can be asked for.
type revocableHold interface {
	Hold

	// Revoked is closed once it was asked for.
	Revoked() <-chan struct{}
}

// Revocable is revoker.Revocable.
func (c *redlockContender) Revocable(ctx context.Context, resource string, lease time.Duration, wait bool) (revocableHold, error) {
	take := c.locker.TryAcquire
	if wait {
		take = c.locker.Acquire
	}
	lock, err := take(ctx, resource, redlock.WithTTL(lease), redlock.WithRevocation())
	if err != nil {
		return nil, err
	}
	return redlockHold{lock}, nil
}

// Revoke is revoker.Revoke.
func (c *redlockContender) Revoke(ctx context.Context, resource string) error {
	return c.locker.Revoke(ctx, resource)
}

// Revoked is closed once the hold was asked for; nil: it can't be.
func (h redlockHold) Revoked() <-chan struct{} { return h.lock.Revoked() }

// Revoked is closed once the tenure was asked for; nil: it can't be.
func (t *Tenure) Revoked() <-chan struct{} {
	if o, ok := t.hold.(one); ok {
		if r, ok := o.Hold.(revocableHold); ok {
			return r.Revoked()
		}
	}
	return nil
}
