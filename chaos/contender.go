package chaos

import (
	"context"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lab/trace"
)

// Contender is one client of a lock library. It is used by one goroutine at a
// time.
type Contender interface {
	// Acquire makes one attempt to lock resource for lease, and never waits for a
	// holder. ctx bounds the attempt.
	Acquire(ctx context.Context, resource string, lease time.Duration) (Hold, error)
	// Close ends the client; it does not close the connections' clients.
	Close() error
}

// Hold is a lock as its holder sees it.
type Hold interface {
	// Token is the fencing token; 0 if the library has none.
	Token() redlock.Token
	// Remaining is how long the holder may believe that it holds, as of now, by
	// its own clock; 0 when it no longer does.
	Remaining() time.Duration
	// Lost is closed when the library tells the holder that it holds no longer;
	// nil if it never tells.
	Lost() <-chan struct{}
	// Extend lengthens the lease to lease from now.
	Extend(ctx context.Context, lease time.Duration) error
	// Release gives the lock up.
	Release(ctx context.Context) error
}

// Kit makes contenders of one kind. To put another library on stage, fill one
// in: no scenario needs to know of it.
type Kit struct {
	// Name is how tables and traces call it.
	Name string
	// Open makes a contender that locks over nodes, which have names. Anyone who
	// calls it keeps the clients.
	Open func(nodes []redis.UniversalClient, names []string) (Contender, error)
}

// Redlock is this module's lock, under name, with any of its options: such as
// redlock.WithoutMembership, to see what that protection is worth.
func Redlock(name string, opts ...redlock.Option) Kit {
	return Kit{Name: name, Open: func(nodes []redis.UniversalClient, names []string) (Contender, error) {
		locker, err := redlock.New(nodes, append([]redlock.Option{redlock.WithNodeNames(names...)}, opts...)...)
		if err != nil {
			return nil, err
		}
		return &redlockContender{locker}, nil
	}}
}

type redlockContender struct{ locker *redlock.Locker }

func (c *redlockContender) Acquire(ctx context.Context, resource string, lease time.Duration) (Hold, error) {
	lock, err := c.locker.TryAcquire(ctx, resource, redlock.WithTTL(lease))
	if err != nil {
		return nil, err
	}
	return redlockHold{lock}, nil
}

func (c *redlockContender) Close() error { return c.locker.Close() }

type redlockHold struct{ lock *redlock.Lock }

func (h redlockHold) Token() redlock.Token { return h.lock.Token() }

func (h redlockHold) Remaining() time.Duration { return h.lock.Remaining() }

func (h redlockHold) Lost() <-chan struct{} { return h.lock.Done() }

func (h redlockHold) Extend(ctx context.Context, lease time.Duration) error {
	return h.lock.Extend(ctx, lease)
}

func (h redlockHold) Release(ctx context.Context) error { return h.lock.Release(ctx) }

// requestTerms are what a client may ask for besides, of one resource.
type requestTerms struct {
	// Barging: past those who wait for it.
	Barging bool
	// MaxHold ends the hold, renewals included, so long after it was asked for. 0: never.
	MaxHold time.Duration
	// Reentry lets the hold be entered again.
	Reentry bool
}

// chooser is a [Contender] whose library knows the terms of a request.
type chooser interface {
	Contender

	// Choose is Acquire or, with wait, Wait, on terms; to share it if w.Shared is set.
	Choose(ctx context.Context, w request, lease time.Duration, wait bool) (Hold, error)
	// Do runs fn while it holds, which it waits for, and releases when fn returns.
	Do(ctx context.Context, w request, lease time.Duration, fn func(context.Context, Hold) error) error
}

// reentrantHold is a lock that can be entered again.
type reentrantHold interface {
	Hold

	// Reenter takes the resource once more, inside the hold.
	Reenter(ctx context.Context) (Hold, error)
}

// options are those of a want of one resource.
func (w request) options(lease time.Duration) []redlock.AcquireOption {
	opts := []redlock.AcquireOption{redlock.WithTTL(lease)}
	if w.Shared {
		opts = append(opts, redlock.WithShared())
	}
	if w.Barging {
		opts = append(opts, redlock.WithBarging())
	}
	if w.MaxHold > 0 {
		opts = append(opts, redlock.WithMaxHold(w.MaxHold))
	}
	if w.Reentry {
		opts = append(opts, redlock.WithReentry())
	}
	return opts
}

// Choose is chooser.Choose.
func (c *redlockContender) Choose(ctx context.Context, w request, lease time.Duration, wait bool) (Hold, error) {
	take := c.locker.TryAcquire
	if wait {
		take = c.locker.Acquire
	}
	lock, err := take(ctx, w.Resources[0], w.options(lease)...)
	if err != nil {
		return nil, err
	}
	if w.Reentry {
		return redlockEntered{redlockHold{lock}, c.locker, w.options(lease)}, nil
	}
	return redlockHold{lock}, nil
}

// Do is chooser.Do.
func (c *redlockContender) Do(ctx context.Context, w request, lease time.Duration, fn func(context.Context, Hold) error) error {
	return c.locker.Do(ctx, w.Resources[0], func(ctx context.Context, lock *redlock.Lock) error {
		return fn(ctx, redlockHold{lock})
	}, w.options(lease)...)
}

// redlockEntered is a hold that can be entered again.
type redlockEntered struct {
	redlockHold

	locker *redlock.Locker
	opts   []redlock.AcquireOption
}

// Reenter is reentrantHold.Reenter.
func (h redlockEntered) Reenter(ctx context.Context) (Hold, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	lock, err := h.locker.TryAcquire(h.lock.Context(), h.lock.Resource(), h.opts...) //nolint:contextcheck // the lock's own says that it is inside
	if err != nil {
		return nil, err
	}
	return redlockHold{lock}, nil
}

// Reenter enters the tenure again, writes, and leaves it, if the actor's library can:
// the tenure stays.
func (t *Tenure) Reenter(ctx context.Context) error {
	hold, ok := t.hold.(one)
	if !ok {
		return nil
	}
	outer, ok := hold.Hold.(reentrantHold)
	if !ok || t.Remaining() == 0 {
		return nil
	}
	inner, err := outer.Reenter(ctx)
	if err != nil {
		return err
	}
	err = t.Write(ctx)
	_ = inner.Release(ctx) // nothing is sent
	return err
}

// Do holds the resources by the actor's library while work runs, and waits for work. Where
// the library can't, the actor waits, works and releases. On failure the actor has quit.
func (a *actor) Do(ctx context.Context, w request, lease time.Duration, pause func() time.Duration, work func(context.Context, *Tenure) error) error {
	chooser, ok := a.contender.(chooser)
	if !ok {
		t, err := a.WaitFor(ctx, w, lease, pause)
		if err != nil {
			return err
		}
		err = work(ctx, t)
		_ = t.Release(ctx) // what it leaves behind is the trace's matter
		return err
	}
	a.rest(AtAsk)
	c := &campaign{actor: a, want: w, once: true}
	c.asks()
	err := chooser.Do(ctx, w, lease, func(inner context.Context, hold Hold) error {
		return c.leads(ctx, inner, hold, work)
	})
	if c.open {
		a.history.Add(Record{Kind: trace.Failed, Client: a.Name, Resource: w.Resources[0], Hold: c.ids[0]})
		a.quit(w)
	}
	return err
}

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

// take takes as much of a want as the contender's library can do.
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
