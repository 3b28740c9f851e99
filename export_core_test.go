package redlock

import (
	"context"
	"io"
	"testing/synctest"
	"time"
)

// What the tests that try to break the core need of the inside.

// SetSuspend makes the Locker's clock take the time spent suspended from f, as if
// the system had told it. Call it in a bubble, before the Locker holds anything.
func SetSuspend(l *Locker, f func() time.Duration) {
	synctest.Wait() // nobody looks at the clock meanwhile
	l.clock.SuspendBy(f)
}

// KeepNames has no name of the Locker become free before its result is called.
// Call it while nobody releases.
func KeepNames(l *Locker) (free func()) {
	until := make(chan struct{})
	l.queue.Freeing = func() { <-until }
	return func() { close(until) }
}

// WarmUp is what Open does once it has its clients.
func WarmUp(ctx context.Context, l *Locker) error { return l.warmUp(ctx) }

// Own makes the Locker close c in the end, as a client of Open's.
func Own(l *Locker, c io.Closer) { l.own = append(l.own, c) }

// CallEnded calls a closed Locker from all nodes, and returns what it has not released.
func CallEnded(l *Locker, key string) error {
	for i := range l.nodes {
		l.presence.Hear(i, key)
	}
	return l.unreleased()
}

// ErrForeignType is of a key that holds what is not a lock.
var ErrForeignType = errForeignType

// RevocableHolds is how many holds of a Locker can be asked for.
func RevocableHolds(l *Locker) int { return l.requests.Len() }

// Silence makes the last reply of each node so old. Call it while nobody holds or waits.
func Silence(l *Locker, d time.Duration) {
	for _, n := range l.nodes {
		n.ReadAt.Store(int64(l.clock.Early()) - int64(d))
	}
}

// Tell makes a Locker tell an event.
func Tell(l *Locker, e Event) { l.recorder.tell(e) }

// RefusalOf and EndingOf are the reasons that an error and the cause of an end stand
// for.
var (
	RefusalOf = refusal
	EndingOf  = ending
)
