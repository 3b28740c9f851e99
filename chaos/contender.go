package chaos

import (
	"context"
	"iter"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
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

// Waiter is a [Contender] whose library waits for a holder by itself. Several
// goroutines may use it at once.
type Waiter interface {
	Contender

	// Wait locks resource for lease, and blocks until it is held or ctx is done.
	Wait(ctx context.Context, resource string, lease time.Duration) (Hold, error)
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

	redlock bool // it opens a redlockContender
}

// Redlock is this module's lock, under name, with any of its options: such as
// redlock.WithoutMembership, to see what that protection is worth. A plan has a kit of its
// own ([Plan.Redlock]), and so have scenarios ([ScenarioKit]).
func Redlock(name string, opts ...redlock.Option) Kit {
	return Kit{Name: name, redlock: true, Open: func(nodes []redis.UniversalClient, names []string) (Contender, error) {
		locker, err := redlock.New(nodes, append([]redlock.Option{redlock.WithNodeNames(names...)}, opts...)...)
		if err != nil {
			return nil, err
		}
		return &redlockContender{locker}, nil
	}}
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

// requestTerms are what a client may ask for besides, of one resource.
type requestTerms struct {
	// Barging: past those who wait for it.
	Barging bool
	// MaxHold ends the hold, renewals included, so long after it was asked for. 0: never.
	MaxHold time.Duration
	// Reentry lets the hold be entered again.
	Reentry bool
}

// only is a request for these resources, and nothing else.
func only(resources ...string) request { return request{Resources: resources} }

// options are those of a request; of a lease of 0, it is the library's own.
func (w request) options(lease time.Duration) []redlock.AcquireOption {
	var opts []redlock.AcquireOption
	if lease > 0 {
		opts = append(opts, redlock.WithTTL(lease))
	}
	if w.Shared {
		opts = append(opts, redlock.WithShared())
	}
	if w.Limit > 0 {
		opts = append(opts, redlock.WithLimit(w.Limit))
	}
	if w.Revocable {
		opts = append(opts, redlock.WithRevocation())
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

// library is a [Contender] that knows all that a request may ask for. Others get a lock on
// the first resource alone.
type library interface {
	Waiter

	// Take is Acquire or, with wait, Wait, for a request of one resource.
	Take(ctx context.Context, w request, lease time.Duration, wait bool) (Hold, error)
	// Gather takes all resources of a request or none. With wait it blocks until it has them
	// or ctx is done; else it makes one attempt.
	Gather(ctx context.Context, w request, lease time.Duration, wait bool) (setHold, error)
	// Do runs fn while it holds, which it waits for, and releases when fn returns.
	Do(ctx context.Context, w request, lease time.Duration, fn func(context.Context, Hold) error) error
	// Revoke asks who holds a resource to give it up, and blocks until they have.
	Revoke(ctx context.Context, resource string) error
	// Campaign stands for an election, with a value that observers are told. It runs lead
	// each time that it is elected, with a context that ends with the leadership, and stands
	// again after a loss. It returns when lead has returned of its own accord, or ctx is done.
	Campaign(ctx context.Context, election, value string, lease time.Duration, lead func(context.Context, Hold) error) error
	// Observe yields who leads, at first and at every change, until ctx is done.
	Observe(ctx context.Context, election string) iter.Seq2[redlock.Leader, error]
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

// one is a hold of one resource, as a set.
type one struct{ Hold }

func (o one) Token(string) redlock.Token { return o.Hold.Token() }

// can is what of a request the contender's library can do.
func can(c Contender, w request) request {
	if _, all := c.(library); !all {
		return request{Resources: w.Resources[:1], Value: w.Value}
	}
	if len(w.Resources) > 1 || w.Limit > 0 || w.Revocable {
		w.requestTerms = requestTerms{}
	}
	return w
}

// take takes what a request asks for, as far as the contender's library can do it.
func take(ctx context.Context, c Contender, w request, lease time.Duration, wait bool) (setHold, error) {
	var hold Hold
	var err error
	switch all, ok := c.(library); {
	case ok && len(w.Resources) > 1:
		return all.Gather(ctx, w, lease, wait)
	case ok:
		hold, err = all.Take(ctx, w, lease, wait)
	case wait:
		hold, err = c.(Waiter).Wait(ctx, w.Resources[0], lease) //nolint:forcetypeassert // it can
	default:
		hold, err = c.Acquire(ctx, w.Resources[0], lease)
	}
	if err != nil {
		return nil, err
	}
	return one{hold}, nil
}

// redlockContender is the library of this module.
type redlockContender struct{ locker *redlock.Locker }

func (c *redlockContender) Close() error { return c.locker.Close() }

func (c *redlockContender) Acquire(ctx context.Context, resource string, lease time.Duration) (Hold, error) {
	return c.Take(ctx, only(resource), lease, false)
}

// Wait is Waiter.Wait: in the line that the nodes keep.
func (c *redlockContender) Wait(ctx context.Context, resource string, lease time.Duration) (Hold, error) {
	return c.Take(ctx, only(resource), lease, true)
}

func (c *redlockContender) Take(ctx context.Context, w request, lease time.Duration, wait bool) (Hold, error) {
	take := c.locker.TryAcquire
	if wait {
		take = c.locker.Acquire
	}
	lock, err := take(ctx, w.Resources[0], w.options(lease)...)
	if err != nil {
		return nil, err
	}
	return redlockHold{lock}, nil
}

func (c *redlockContender) Gather(ctx context.Context, w request, lease time.Duration, wait bool) (setHold, error) {
	take := c.locker.TryAcquireAll
	if wait {
		take = c.locker.AcquireAll
	}
	locks, err := take(ctx, slices.Clone(w.Resources), w.options(lease)...)
	if err != nil {
		return nil, err
	}
	return redlockSet{locks}, nil
}

func (c *redlockContender) Do(ctx context.Context, w request, lease time.Duration, fn func(context.Context, Hold) error) error {
	return c.locker.Do(ctx, w.Resources[0], func(ctx context.Context, lock *redlock.Lock) error {
		return fn(ctx, redlockHold{lock})
	}, w.options(lease)...)
}

func (c *redlockContender) Revoke(ctx context.Context, resource string) error {
	return c.locker.Revoke(ctx, resource)
}

func (c *redlockContender) Campaign(ctx context.Context, election, value string, lease time.Duration, lead func(context.Context, Hold) error) error {
	return c.locker.Campaign(ctx, election, func(ctx context.Context, lock *redlock.Lock) error {
		return lead(ctx, redlockHold{lock})
	}, redlock.WithTTL(lease), redlock.WithValue(value))
}

func (c *redlockContender) Observe(ctx context.Context, election string) iter.Seq2[redlock.Leader, error] {
	return c.locker.Observe(ctx, election)
}

// redlockHold is a lock of redlock's.
type redlockHold struct{ *redlock.Lock }

// Lost is Hold.Lost.
func (h redlockHold) Lost() <-chan struct{} { return h.Done() }

// redlockSet is a set of redlock's.
type redlockSet struct{ *redlock.MultiLock }

// Lost is setHold.Lost.
func (s redlockSet) Lost() <-chan struct{} { return s.Done() }

// lockOf is the lock behind a hold of one resource; nil if redlock's is none.
func lockOf(h setHold) *redlock.Lock {
	o, _ := h.(one)
	held, _ := o.Hold.(redlockHold)
	return held.Lock
}

// slotIn is the slot of what was taken; 0 if it is none.
func slotIn(h setHold) int {
	if lock := lockOf(h); lock != nil {
		return max(lock.Slot(), 0)
	}
	return 0
}
