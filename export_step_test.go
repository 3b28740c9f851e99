package redlock

import "time"

// StepBetween judges two samples of a node's clock: each was asked for, answered
// by a server that showed a time, and received, all since some origin.
func StepBetween(sent, received [2]time.Duration, server [2]time.Duration, factor float64) time.Duration {
	r := func(i int) reading {
		return readClock(instant(sent[i]), instant(received[i]), time.Unix(0, int64(server[i])))
	}
	return r(0).stepTo(r(1), factor)
}
