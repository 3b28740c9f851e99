package adapters

import (
	"context"
	"errors"
	"fmt"

	"github.com/quorumkit/redlock"
)

// Job is work that one process at a time does: a Job of robfig/cron, and of
// all else that calls Run. A process that does not get the lock leaves this run
// out. Processes whose clocks are apart need [WithHoldAtLeast].
type Job struct {
	settings *settings
	resource string
	work     func(ctx context.Context)
}

// NewJob returns a job that does work under the lock of that name. work's context
// ends when the lock does, with its cause, and carries the fencing token as that
// of Locker.Do does. It fails with ErrOption.
func NewJob(locker *redlock.Locker, resource string, work func(ctx context.Context), opts ...Option) (*Job, error) {
	s, err := newSettings(locker, opts)
	if err != nil {
		return nil, err
	}
	if work == nil {
		return nil, fmt.Errorf("%w: the work of job %q is nil", ErrOption, resource)
	}
	return &Job{settings: s, resource: resource, work: work}, nil
}

// Run does the work, if one attempt gets the lock. It releases the lock also when
// the work panics.
func (j *Job) Run() {
	held, err := j.settings.try(context.Background(), j.resource)
	switch {
	case errors.Is(err, redlock.ErrNotAcquired):
		return
	case err != nil:
		j.settings.report(err)
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

// NewCron returns a wrapper of jobs for a chain of robfig/cron, by which one
// process at a time runs them under the lock of that name. J is cron.Job:
//
//	alone, err := adapters.NewCron[cron.Job](locker, "nightly-report")
//	c := cron.New(cron.WithChain(alone))
//
// The wrapped job does not learn that its lock was lost; only WithReport tells. A
// [Job] learns it. It fails with ErrOption, also if J is not an interface with the
// one method Run().
func NewCron[J interface{ Run() }](locker *redlock.Locker, resource string, opts ...Option) (func(J) J, error) {
	s, err := newSettings(locker, opts)
	if err != nil {
		return nil, err
	}
	if _, ok := any(&Job{}).(J); !ok {
		return nil, fmt.Errorf("%w: NewCron's type parameter must be cron.Job", ErrOption)
	}
	return func(inner J) J {
		job := &Job{settings: s, resource: resource, work: func(context.Context) { inner.Run() }}
		return any(job).(J) //nolint:forcetypeassert // tried above
	}, nil
}
