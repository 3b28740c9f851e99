// Package nosuspend lets a simulation say that the machine's suspends are not
// its own. A virtual run takes its time from a testing/synctest bubble, while the
// time spent suspended is read from the real machine, with a noise of some
// hundred nanoseconds: enough to make two runs of one seed differ.
package nosuspend

import "sync/atomic"

var simulations atomic.Int64

// Begin has clocks that are made before the matching [End] count no suspend.
func Begin() { simulations.Add(1) }

// End ends what Begin began. Clocks stay as they were made.
func End() { simulations.Add(-1) }

// Now tells whether a simulation is under way.
func Now() bool { return simulations.Load() > 0 }
