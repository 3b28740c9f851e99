package clock

import (
	"sync"
	"sync/atomic"
	"time"
)

// simulations are those under way. A virtual run takes its time from a testing/synctest
// bubble, while the time spent suspended is read from the real machine, with a noise of
// some hundred nanoseconds: enough to make two runs of one seed differ.
var simulations atomic.Int64

// BeginSimulation has clocks that are made before the matching [EndSimulation] count no
// suspend.
func BeginSimulation() { simulations.Add(1) }

// EndSimulation ends what BeginSimulation began. Clocks stay as they were made.
func EndSimulation() { simulations.Add(-1) }

var walls sync.Map // *atomic.Int64, by client

// KeepWall has every Locker whose first client this is from now on have a wall clock that
// [StepWall] sets.
func KeepWall(client any) { walls.Store(client, new(atomic.Int64)) }

// StepWall sets that wall clock forward, or back.
func StepWall(client any, by time.Duration) {
	if of, ok := walls.Load(client); ok {
		of.(*atomic.Int64).Add(int64(by))
	}
}

// DropWall ends what KeepWall began. Lockers keep the clock that they have.
func DropWall(client any) { walls.Delete(client) }

// WallOf is by how much the wall clock is off of a Locker whose first client this is. It is
// nil where that is the machine's.
func WallOf(client any) func() time.Duration {
	of, ok := walls.Load(client)
	if !ok {
		return nil
	}
	by := of.(*atomic.Int64)
	return func() time.Duration { return time.Duration(by.Load()) }
}
