// Package wallclock lets a simulation set a client's wall clock, and nothing else of its
// time.
package wallclock

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

var off sync.Map // *atomic.Int64, by client

// Keep has every Locker whose first client this is from now on have a wall clock that
// [Step] sets.
func Keep(client *redis.Client) { off.Store(client, new(atomic.Int64)) }

// Step sets that wall clock forward, or back.
func Step(client *redis.Client, by time.Duration) {
	if of, ok := off.Load(client); ok {
		of.(*atomic.Int64).Add(int64(by))
	}
}

// Drop ends what Keep began. Lockers keep the clock that they have.
func Drop(client *redis.Client) { off.Delete(client) }

// Of is by how much the wall clock is off of a Locker whose first client this is; nil: it
// is the machine's.
func Of(client *redis.Client) func() time.Duration {
	of, ok := off.Load(client)
	if !ok {
		return nil
	}
	by := of.(*atomic.Int64)
	return func() time.Duration { return time.Duration(by.Load()) }
}
