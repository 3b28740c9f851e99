package contenders

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// What a record tells. The first group is written by holders, the second by the play.
const (
	ready     = "ready"
	asking    = "asking"    // a call to acquire begins
	acquired  = "acquired"  // it has returned with the lock
	holds     = "holds"     // at that instant the holder believed that it holds
	ended     = "ended"     // it stopped believing by its own count of the lease
	told      = "told"      // it was told that it holds no longer; the text says by whom
	answered  = "answered"  // what the servers said when it asked whether it still holds
	releasing = "releasing" // a call to release begins
	released  = "released"
	gaveUp    = "gave up" // a call to acquire ended without the lock
	failed    = "failed"

	stopped   = "stopped" // SIGSTOP
	continued = "continued"
	killed    = "killed" // SIGKILL
	cut       = "cut"    // its connections deliver nothing
	healed    = "healed"
	down      = "down" // servers were killed
	up        = "up"   // they run again
	stepped   = "stepped"
)

// record is a line of a trace.
type record struct {
	At    int64  `json:"at"` // nanoseconds of CLOCK_MONOTONIC, which processes of a machine share
	Who   string `json:"who"`
	What  string `json:"what"`
	Text  string `json:"text,omitempty"`
	Fence string `json:"fence,omitempty"` // the number of the hold that a resource can compare
}

// monotonic is the time of records.
func monotonic() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(fmt.Sprintf("contenders: CLOCK_MONOTONIC: %v", err)) // every system that has SIGSTOP has it
	}
	return t.Nano()
}

// between is the time from one record's instant to another's.
func between(from, to int64) time.Duration { return time.Duration(to - from) }
