package chaos

import (
	"errors"
	"fmt"
	"time"

	"github.com/quorumkit/redlock/internal/lab/redisserver"
)

// skew is how far a server's clock is off: by offset when the process began, and
// by gain more for every second since.
type skew struct {
	offset time.Duration
	gain   float64
	since  time.Time
}

// at is the skew at a time.
func (s skew) at(now time.Time) time.Duration {
	return s.offset + time.Duration(s.gain*float64(now.Sub(s.since)))
}

// from is the skew of a process that begins now and whose clock goes on as it
// was.
func (s skew) from(now time.Time) skew { return skew{s.at(now), s.gain, now} }

// by is the skew after the clock was moved, and its rate changed: fakeclock.c
// counts the rate from the beginning of the process, so that the offset has to
// take back what the new rate would have gained until now.
func (s skew) by(step time.Duration, gain float64, now time.Time) skew {
	after := skew{gain: s.gain + gain, since: s.since}
	after.offset = s.at(now) + step - after.at(now)
	return after
}

// String is the skew in fakeclock.c's words.
func (s skew) String() string {
	return fmt.Sprintf("%+.6f x%.9f", s.offset.Seconds(), 1+s.gain)
}

// skews steps the node's clock or changes its rate; mended, it is right again, as
// far as this fault goes.
func (n *realNode) skews(f Fault, broken bool) error {
	if !n.server.Config.FakeClock {
		return fmt.Errorf("%w: %w", cantBreak(f), redisserver.ErrNoFakeClock)
	}
	if f.Kind == Step {
		step := f.Delay
		if !broken {
			step = -step
		}
		n.clock = n.clock.by(step, 0, time.Now())
		return n.setClock()
	}
	gain, now := f.Delay.Seconds(), time.Now()
	begun, drifts := n.drifts[f]
	switch {
	case broken && n.clock.gain+gain <= -1:
		return fmt.Errorf("chaos: %v: a clock that stands still, or goes back: %w", f, errors.ErrUnsupported)
	case broken:
		n.drifts[f] = now
		n.clock = n.clock.by(0, gain, now)
	case drifts:
		delete(n.drifts, f)
		n.clock = n.clock.by(-time.Duration(gain*float64(now.Sub(begun))), -gain, now)
	}
	return n.setClock()
}

// setClock tells the process.
func (n *realNode) setClock() error {
	if !n.server.Config.FakeClock {
		return nil
	}
	return n.server.SetClock(n.clock.String())
}
