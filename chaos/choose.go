package chaos

import (
	"context"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lab/trace"
)

// requestTerms are what a client may ask for besides, of one resource.
type requestTerms struct {
	// Barging: past those who wait for it.
	Barging bool
	// MaxHold ends the hold, renewals included, so long after it was asked for. 0: never.
	MaxHold time.Duration
	// Reentry lets the hold be entered again.
	Reentry bool
}

// chooser is a [Contender] whose library knows [Terms].
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

// Reenter has the actor enter the tenure again, write, and leave it, if its library can:
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

// Do has the actor's library hold what is wanted while work runs, which it waits for. Where
// it can't, the actor waits, works and releases. On failure the actor has quit.
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
