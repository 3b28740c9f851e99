package chaos

import (
	"context"
	"slices"
	"time"

	"github.com/quorumkit/redlock"
)

// request is what a client asks for: a resource, or a set of them, of which it is to get all
// or none.
type request struct {
	Resources []string
	Shared    bool // beside others who share it
	// Limit: a slot of the first resource, which so many may have at once. 0: all of it.
	Limit int
	// Revocable: others may ask for it.
	Revocable bool
	// Value is what observers are told of the holder; of a campaign. Empty: nothing.
	Value string
	requestTerms
}

// sharer is a [Contender] whose library can share a resource. One that is a [Waiter] too
// waits for that as well.
type sharer interface {
	Contender

	// Share is Acquire or, with wait, Wait, of a shared hold.
	Share(ctx context.Context, resource string, lease time.Duration, wait bool) (Hold, error)
}

// gatherer is a [Contender] whose library takes several resources at once.
type gatherer interface {
	Contender

	// Gather takes all of these resources or none, to share them if shared is set. With
	// wait it blocks until it has them or ctx is done; else it makes one attempt.
	Gather(ctx context.Context, resources []string, shared bool, lease time.Duration, wait bool) (setHold, error)
}

// setHold is a set of locks as its holder sees it: it is held as a whole.
type setHold interface {
	// Token is the fencing token of one of the resources; 0 if the library has none.
	Token(resource string) redlock.Token
	// Remaining, Lost, Extend and Release are as those of a [Hold].
	Remaining() time.Duration
	Lost() <-chan struct{}
	Extend(ctx context.Context, lease time.Duration) error
	Release(ctx context.Context) error
}

// Share is sharer.Share.
func (c *redlockContender) Share(ctx context.Context, resource string, lease time.Duration, wait bool) (Hold, error) {
	take := c.locker.TryAcquire
	if wait {
		take = c.locker.Acquire
	}
	lock, err := take(ctx, resource, redlock.WithTTL(lease), redlock.WithShared())
	if err != nil {
		return nil, err
	}
	return redlockHold{lock}, nil
}

// Gather is gatherer.Gather.
func (c *redlockContender) Gather(ctx context.Context, resources []string, shared bool, lease time.Duration, wait bool) (setHold, error) {
	take := c.locker.TryAcquireAll
	if wait {
		take = c.locker.AcquireAll
	}
	opts := []redlock.AcquireOption{redlock.WithTTL(lease)}
	if shared {
		opts = append(opts, redlock.WithShared())
	}
	locks, err := take(ctx, resources, opts...)
	if err != nil {
		return nil, err
	}
	return redlockSet{locks}, nil
}

type redlockSet struct{ *redlock.MultiLock }

func (s redlockSet) Lost() <-chan struct{} { return s.Done() }

// one is a hold of one resource, as a set.
type one struct{ Hold }

func (o one) Token(string) redlock.Token { return o.Hold.Token() }

// can is what of a want the contender's library can do: who can't share is alone, and who
// can't take a set takes the first of it.
func can(c Contender, w request) request {
	if _, gathers := c.(gatherer); !gathers && len(w.Resources) > 1 {
		w.Resources = w.Resources[:1]
	}
	if _, shares := c.(sharer); !shares {
		w.Shared = false
	}
	if _, limits := c.(limiter); !limits {
		w.Limit = 0
	}
	if _, revocable := c.(revoker); !revocable {
		w.Revocable = false
	}
	if _, chooses := c.(chooser); !chooses || len(w.Resources) > 1 || w.Limit > 0 || w.Revocable {
		w.requestTerms = requestTerms{}
	}
	return w
}

// take has the contender's library take what it can do of a want.
func take(ctx context.Context, c Contender, w request, lease time.Duration, wait bool) (setHold, error) {
	var (
		hold Hold
		err  error
	)
	switch first := w.Resources[0]; {
	case len(w.Resources) > 1:
		return c.(gatherer).Gather(ctx, slices.Clone(w.Resources), w.Shared, lease, wait) //nolint:forcetypeassert // it can
	case w.Limit > 0:
		hold, err = c.(limiter).Enter(ctx, first, w.Limit, lease, wait) //nolint:forcetypeassert // it can
	case w.requestTerms != requestTerms{}:
		hold, err = c.(chooser).Choose(ctx, w, lease, wait) //nolint:forcetypeassert // it can
	case w.Revocable:
		hold, err = c.(revoker).Revocable(ctx, first, lease, wait) //nolint:forcetypeassert // it can
	case w.Shared:
		hold, err = c.(sharer).Share(ctx, first, lease, wait) //nolint:forcetypeassert // it can
	case wait:
		hold, err = c.(Waiter).Wait(ctx, first, lease) //nolint:forcetypeassert // it can
	default:
		hold, err = c.Acquire(ctx, first, lease)
	}
	if err != nil {
		return nil, err
	}
	return one{hold}, nil
}
