package adapters

import (
	"errors"
	"fmt"
	"time"

	"github.com/quorumkit/redlock"
)

// ErrOption means that an argument of a constructor is not usable. Nothing was
// sent.
var ErrOption = errors.New("adapters: bad argument")

// Option changes how an adapter locks.
type Option func(*settings)

// WithAcquireOptions passes options to every acquire, such as redlock.WithTTL.
func WithAcquireOptions(opts ...redlock.AcquireOption) Option {
	return func(s *settings) { s.acquire = append(s.acquire, opts...) }
}

// WithHoldAtLeast keeps each lock for d from when it was taken, however soon it
// is unlocked: so that a short job does not run again in another process that asks
// later, by its clock or by the scatter of two timers. A job that may end within seconds
// needs it. Unlocking does not block meanwhile, and a failure
// of the release that follows is reported. Closing the Locker ends it early. d
// must be longer than the clocks are apart, and shorter than the jobs' period.
func WithHoldAtLeast(d time.Duration) Option {
	return func(s *settings) { s.atLeast, s.atLeastSet = d, true }
}

// WithReport has f told what no caller is there to hear: that a lock was lost
// while it was held (errors.Is: redlock.ErrLost, ErrMaxHold or ErrClosed), that a
// job could not ask for its lock, or that a release could not be confirmed. It is
// not told that another holds the lock. f may be called from several goroutines
// at once. Without it, such errors go nowhere.
func WithReport(f func(error)) Option {
	return func(s *settings) { s.report = f }
}

// settings are an adapter's.
type settings struct {
	locker     *redlock.Locker
	acquire    []redlock.AcquireOption
	atLeast    time.Duration
	atLeastSet bool
	report     func(error)
}

func newSettings(locker *redlock.Locker, opts []Option) (*settings, error) {
	s := &settings{locker: locker}
	for _, opt := range opts {
		if opt == nil {
			return nil, fmt.Errorf("%w: an option is nil", ErrOption)
		}
		opt(s)
	}
	switch {
	case locker == nil:
		return nil, fmt.Errorf("%w: the Locker is nil", ErrOption)
	case s.atLeastSet && s.atLeast <= 0:
		return nil, fmt.Errorf("%w: WithHoldAtLeast(%v): it must be positive", ErrOption, s.atLeast)
	}
	if s.report == nil {
		s.report = func(error) {}
	}
	return s, nil
}

// exclusive refuses options of redlock by which several may hold one name. Their values
// tell by a method that redlock's documentation does not show.
func (s *settings) exclusive(constructor string) error {
	for _, opt := range s.acquire {
		if several, ok := opt.(interface{ Several() string }); ok && several.Several() != "" {
			return fmt.Errorf("%w: %s: redlock.%s lets several hold one name: leave it out", ErrOption, constructor, several.Several())
		}
	}
	return nil
}
