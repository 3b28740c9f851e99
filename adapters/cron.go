package adapters

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/quorumkit/redlock"
)

// cronHoldsAtLeast is NewCron's WithMinHold, unless one is given.
const cronHoldsAtLeast = 500 * time.Millisecond

// Job is work that one process at a time does: a Job of robfig/cron, and of
// all else that calls Run. A process that does not get the lock leaves this run
// out. Give it [WithMinHold] for all work that may end within seconds: else a
// process that asks some milliseconds later does it again. It has no default, for Run
// may be called at any time, also by many goroutines at once, and a lock that is still
// kept would leave that run out.
type Job struct {
	settings *settings
	resource string
	work     func(ctx context.Context)
}

// NewJob returns a job that does work under the lock of that name. work's context
// ends when the lock does, with its cause, and carries the fencing token as that
// of Locker.Do does. It fails with ErrInvalidOption.
func NewJob(locker *redlock.Locker, resource string, work func(ctx context.Context), opts ...Option) (*Job, error) {
	s, err := newSettings(locker, resource, opts)
	if err != nil {
		return nil, err
	}
	if work == nil {
		return nil, fmt.Errorf("adapters: %w: the work of job %q is nil", redlock.ErrInvalidOption, resource)
	}
	return &Job{settings: s, resource: resource, work: work}, nil
}

// Run does the work, if one attempt gets the lock, and blocks until it is done. It
// releases the lock also when the work panics.
func (j *Job) Run() {
	held, err := j.settings.try(context.Background(), j.resource)
	if err != nil {
		j.settings.reportUnasked(err)
		return
	}
	defer func() {
		// A lock that was lost is reported already.
		if err := held.release(); err != nil && !errors.Is(err, redlock.ErrNotHeld) {
			j.settings.report(err)
		}
	}()
	j.work(held.lock.Context())
}

// NewCron returns a wrapper of one job for a chain of robfig/cron, by which one
// process at a time runs it under the lock of that name. J is cron.Job:
//
//	alone, err := adapters.NewCron[cron.Job](locker, "nightly-report", adapters.WithMinHold(30*time.Second))
//	c := cron.New()
//	_, err = c.AddJob("@daily", cron.NewChain(alone).Then(report))
//
// Each wrapper is one lock, so each job needs a wrapper of its own, and cron.WithChain,
// which wraps every job of a cron, is no place for it: the jobs of one tick would
// exclude each other, and all but one be left out. A wrapper that is called for a second
// job panics with ErrInvalidOption, while cron is set up.
//
// Give WithMinHold for every job that may end within seconds. Without it the lock is
// held for at least half a second: two timers with the same clock are some milliseconds
// apart, so a shorter job would run again in the next process, at every few ticks. That
// is below the shortest period of robfig/cron, which is a second, so it leaves no
// later tick out. Clocks may be further apart, and only you know by how much.
//
// The wrapped job does not learn that its lock was lost; only WithReport tells. A
// [Job] learns it. NewCron fails with ErrInvalidOption, also if J is not an interface with the
// one method Run().
func NewCron[J interface{ Run() }](locker *redlock.Locker, resource string, opts ...Option) (func(J) J, error) {
	s, err := newSettings(locker, resource, append([]Option{WithMinHold(cronHoldsAtLeast)}, opts...))
	if err != nil {
		return nil, err
	}
	if _, ok := any(&Job{}).(J); !ok {
		return nil, fmt.Errorf("adapters: %w: NewCron's type parameter must be cron.Job", redlock.ErrInvalidOption)
	}
	var wrapped atomic.Bool
	return func(inner J) J {
		if wrapped.Swap(true) {
			panic(fmt.Errorf("adapters: %w: NewCron: the wrapper of %q is called for a second job, and both would have one lock: make one for each job, and add it by AddJob(spec, cron.NewChain(wrapper).Then(job))", redlock.ErrInvalidOption, resource))
		}
		job := &Job{settings: s, resource: resource, work: func(context.Context) { inner.Run() }}
		return any(job).(J) //nolint:forcetypeassert // tried above
	}, nil
}

// Gocron is a Locker of gocron v2: of several schedulers that have a job, the one
// that gets the lock runs it, and the others leave this run out. L is gocron.Lock:
//
//	locks, err := adapters.NewGocron[gocron.Lock](locker, adapters.WithMinHold(30*time.Second))
//	scheduler, err := gocron.NewScheduler(gocron.WithDistributedLocker(locks))
//
// The key is the job's name: give each job one (gocron.WithName), for without it
// the key is that of the Go function. Give [WithMinHold] for every job that may end
// within seconds: else a scheduler that asks some milliseconds later runs it again. It
// has no default, for a job of gocron may have any period, and a lock that is still kept
// would leave its next run out. It is safe for use by many goroutines at once.
type Gocron[L any] struct{ settings *settings }

// NewGocron returns a Locker for gocron. It fails with ErrInvalidOption, also if L is
// not an interface with the one method Unlock(context.Context) error.
func NewGocron[L any](locker *redlock.Locker, opts ...Option) (*Gocron[L], error) {
	s, err := newSettings(locker, anyName, opts)
	if err != nil {
		return nil, err
	}
	if _, ok := any(unlocker{}).(L); !ok {
		return nil, fmt.Errorf("adapters: %w: NewGocron's type parameter must be gocron.Lock", redlock.ErrInvalidOption)
	}
	return &Gocron[L]{s}, nil
}

// Lock makes one attempt at the lock, and never waits for a holder. Its error is
// TryAcquire's: the job is not run. It is reported too (WithReport), but not that another holds
// the lock: gocron shows it to an AfterLockError listener alone.
func (g *Gocron[L]) Lock(ctx context.Context, key string) (L, error) {
	var none L
	held, err := g.settings.try(ctx, key)
	if err != nil {
		if ctx.Err() == nil {
			g.settings.reportUnasked(err)
		}
		return none, err
	}
	return any(unlocker{held}).(L), nil //nolint:forcetypeassert // NewGocron has tried it
}

// unlocker is a lock as gocron sees it.
type unlocker struct{ held *grip }

// Unlock releases the lock, also if ctx is cancelled, as a scheduler's is that
// shuts down. It returns ErrNotHeld with the cause if the lock was lost during the
// job.
func (u unlocker) Unlock(context.Context) error { return u.held.release() }
