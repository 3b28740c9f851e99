package simnode

import (
	"slices"
	"time"
)

// clock is a node's wall clock: the process's, which is a testing/synctest
// bubble's inside of one, and what went wrong with it.
type clock struct {
	ahead  time.Duration // by steps
	drifts []drift
}

// drift is a rate that is wrong since some time.
type drift struct {
	gain  time.Duration // a second
	since time.Time
}

// at is what the clock shows at a time.
func (c *clock) at(now time.Time) time.Time {
	now, really := now.Add(c.ahead), now
	for _, d := range c.drifts {
		seconds := really.Sub(d.since).Seconds()
		now = now.Add(time.Duration(seconds * float64(d.gain)))
	}
	return now
}

// right ends the drift that gains so much.
func (c *clock) right(gain time.Duration) {
	i := slices.IndexFunc(c.drifts, func(d drift) bool { return d.gain == gain })
	if i >= 0 {
		c.drifts = slices.Delete(c.drifts, i, i+1)
	}
}
