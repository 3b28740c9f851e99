// Package adapters fits a redlock.Locker into what others already use: gocron v2
// ([Gocron], [Elector]), certmagic ([Certmagic]) and robfig/cron ([NewCron],
// [Job]).
//
// It imports none of them. Their interfaces are met by their method sets, and
// where one of them names a type of its own, by a type parameter. The module
// adaptertest beside it holds the package against the real ones and runs them.
//
// All of them renew a lock for as long as it is held, release it no matter what became
// of the context they were called with, and report a lock that was lost while
// somebody worked under it ([WithReport]). What they don't do is stop work that
// can't be stopped: only [Job] hands its work a context. Nor does the Locker's Close wait
// for it: stop schedulers before, and wait for their jobs. An Elector resigns in time.
//
// Their constructors send nothing, and fail with redlock.ErrInvalidOption for an argument
// that is not usable: also for a name or an option with which each acquire would be refused,
// joined with what the acquire returns.
package adapters

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/fault"
)

// Option changes how an adapter locks.
type Option interface{ apply(s *settings) }

type optionFunc func(*settings)

func (f optionFunc) apply(s *settings) { f(s) }

// WithAcquireOptions passes options to every acquire, such as redlock.WithTTL. This package
// has a [WithMinHold] of its own, in place of redlock's.
func WithAcquireOptions(opts ...redlock.AcquireOption) Option {
	return optionFunc(func(s *settings) { s.acquire = append(s.acquire, opts...) })
}

// WithMinHold keeps each lock for d from when it was taken, as redlock.WithMinHold does
// for Do, however soon it is unlocked: so that a short job does not run again in another process that asks
// later, by its clock or by the scatter of two timers. A job that may end within seconds
// needs it. Unlocking does not block meanwhile, and a failure
// of the release that follows is reported. Closing the Locker ends it early. d
// must be longer than the clocks are apart, and shorter than the jobs' period.
func WithMinHold(d time.Duration) Option {
	return optionFunc(func(s *settings) { s.atLeast, s.atLeastSet = d, true })
}

// WithReport calls f for errors that no caller is there to receive: a lock that was lost
// while it was held (errors.Is: redlock.ErrLost, ErrMaxHold or ErrClosed), a job that
// could not ask for its lock, a campaign that failed, or a release that could not be confirmed.
// It does not report that another holds the lock. f may be called from several goroutines
// at once. Without it, such errors go nowhere: gocron tells nobody of what its Locker or its
// Elector returns.
func WithReport(f func(error)) Option {
	return optionFunc(func(s *settings) { s.report = f })
}

// settings are an adapter's.
type settings struct {
	locker     *redlock.Locker
	acquire    []redlock.AcquireOption
	atLeast    time.Duration
	atLeastSet bool
	report     func(error)
}

// anyName stands for the names that an adapter is only given later.
const anyName = "x"

func newSettings(locker *redlock.Locker, resource string, opts []Option) (*settings, error) {
	s := &settings{locker: locker}
	for _, opt := range opts {
		if opt == nil {
			return nil, fmt.Errorf("adapters: %w: an option is nil", redlock.ErrInvalidOption)
		}
		opt.apply(s)
	}
	switch {
	case locker == nil:
		return nil, fmt.Errorf("adapters: %w: the Locker is nil", redlock.ErrInvalidOption)
	case s.atLeastSet && s.atLeast <= 0:
		return nil, fmt.Errorf("adapters: %w: WithMinHold(%v): it must be positive", redlock.ErrInvalidOption, s.atLeast)
	}
	if s.report == nil {
		s.report = func(error) {}
	}
	return s, s.check(resource)
}

// check makes the calls that the adapter will make, under a context with which they check their
// arguments alone: what they refuse then, they always would, and a scheduler tells nobody.
func (s *settings) check(resource string) error {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(fault.ErrOnlyChecked)
	_, err := s.locker.TryAcquire(ctx, resource, s.acquire...)
	if s.atLeastSet && errors.Is(err, fault.ErrOnlyChecked) {
		kept := append(slices.Clip(s.acquire), redlock.WithMinHold(s.atLeast))
		err = s.locker.Do(ctx, resource, func(context.Context, *redlock.Lock) error { return nil }, kept...)
	}
	if errors.Is(err, fault.ErrOnlyChecked) {
		return nil
	}
	said := fault.Once(fault.Once(err, "redlock: acquire "+fault.Printable(resource)+": "), "invalid option: ")
	return fmt.Errorf("adapters: %w: %w", redlock.ErrInvalidOption, said)
}

// exclusive refuses options of redlock by which several may hold one name. Their values
// tell by a method that redlock's documentation does not show.
func (s *settings) exclusive(constructor string) error {
	for _, opt := range s.acquire {
		if several, ok := opt.(interface{ Several() string }); ok && several.Several() != "" {
			return fmt.Errorf("adapters: %w: %s: redlock.%s lets several hold one name: leave it out", redlock.ErrInvalidOption, constructor, several.Several())
		}
	}
	return nil
}

// grip is a lock in an adapter's hands.
type grip struct {
	*settings

	lock  *redlock.Lock
	since time.Time
	kept  atomic.Bool // nobody works under it any more: WithMinHold keeps it
}

// grasp takes care of a lock that was just acquired: it reports a loss. If Close ends a lock
// that is merely kept, that is no loss.
func (s *settings) grasp(lock *redlock.Lock) *grip {
	g := &grip{settings: s, lock: lock, since: time.Now()}
	held := lock.Context()
	context.AfterFunc(held, func() {
		cause := context.Cause(held)
		closed := g.kept.Load() && errors.Is(cause, redlock.ErrClosed)
		if !closed && !errors.Is(cause, redlock.ErrReleased) {
			s.report(fmt.Errorf("adapters: lock %q ended while it was held: %w", lock.Resource(), cause))
		}
	})
	return g
}

// release gives the lock back, now or when it was held for long enough. Its error
// is of a lock that had ended before, or of a release that nobody confirmed.
func (g *grip) release() error {
	if g.lock.Err() != nil {
		return fmt.Errorf("adapters: unlock %q: %w", g.lock.Resource(), g.lock.Release(context.Background())) // it touches nothing
	}
	if rest := g.atLeast - time.Since(g.since); rest > 0 {
		g.kept.Store(true)
		time.AfterFunc(rest, func() {
			// A lock that was lost meanwhile is reported already, and nobody worked
			// under it any more.
			if err := g.lock.Release(context.Background()); err != nil && !errors.Is(err, redlock.ErrNotHeld) {
				g.report(err)
			}
		})
		return nil
	}
	return g.lock.Release(context.Background())
}

// reportUnasked reports why a job could not ask for its lock: not that another holds it.
func (s *settings) reportUnasked(err error) {
	if !errors.Is(err, redlock.ErrNotAcquired) {
		s.report(err)
	}
}

// try makes one attempt.
func (s *settings) try(ctx context.Context, resource string) (*grip, error) {
	lock, err := s.locker.TryAcquire(ctx, resource, s.acquire...)
	if err != nil {
		return nil, err
	}
	return s.grasp(lock), nil
}
