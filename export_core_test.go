package redlock

import (
	"context"
	"io"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock/internal/lua"
)

// What the tests that try to break the core need of the inside.

// SetSuspend has the Locker's clock take the time spent suspended from f, as if
// the system had told it. Call it in a bubble, before the Locker holds anything.
func SetSuspend(l *Locker, f func() time.Duration) {
	synctest.Wait() // nobody looks at the clock meanwhile
	l.clock.SuspendBy(f)
}

// KeepNames has no name of the Locker become free before its result is called.
// Call it while nobody releases.
func KeepNames(l *Locker) (free func()) {
	until := make(chan struct{})
	l.lines.freeing = func() { <-until }
	return func() { close(until) }
}

// WarmUp is what Open does once it has its clients.
func WarmUp(ctx context.Context, l *Locker) error { return l.warmUp(ctx) }

// Own has the Locker close c in the end, as a client of Open's.
func Own(l *Locker, c io.Closer) { l.own = append(l.own, c) }

// PollInterval is how often a Locker looks at its clock while it holds a lock.
const PollInterval = pollInterval

// TombstoneKey begins every tombstone's key.
const TombstoneKey = lua.TombstoneKey

// NodeKey is the hash that a node keeps.
const NodeKey = lua.NodeKey

// Script is a script's name, body and hash.
type Script struct{ Name, Body, Hash string }

// Scripts are all that are sent on behalf of locks.
func Scripts() []Script {
	var out []Script
	for _, s := range append(append([]*lua.Script{}, lua.VotingScripts...), lua.KeepingScripts...) {
		out = append(out, Script{s.Name, s.Body, s.Hash})
	}
	return out
}

// StripeOf is the stripe of a key.
func StripeOf(key string) int64 { return lua.StripeOf(key) }

// FillLine has so many places stand in one line, and returns what has them all quit
// it, the last one first.
func FillLine(places int) (leave func()) {
	ls := newLineup(1)
	ln, _ := ls.try("orders/42")
	stand := make([]*place, places)
	for i := range stand {
		stand[i] = &place{}
		ln.join(stand[i])
	}
	return func() {
		for i := places - 1; i >= 0; i-- {
			ls.quit(ln, stand[i])
		}
	}
}

// InLine is how many goroutines of the Locker wait for another of it.
func InLine(l *Locker, key string) int {
	l.lines.mu.Lock()
	defer l.lines.mu.Unlock()
	if ln := l.lines.names[key]; ln != nil {
		return ln.queue.Len()
	}
	return 0
}

// NewStood is a memory of the names that were waited for.
func NewStood() (has func(string) bool, add func(string)) {
	s := new(stood)
	return s.has, s.add
}

// CallEnded has all nodes call a Locker that is closed, and says what it has not released.
func CallEnded(l *Locker, key string) error {
	for i := range l.nodes {
		l.presence.called(i, key)
	}
	return l.unreleased()
}
