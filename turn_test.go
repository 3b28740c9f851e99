package redlock_test

import (
	"sync"
	"testing"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/redlocktest"
)

// Anyone who learns that a lock has ended, by Done, Err or a Release of his own,
// finds its name free for the Locker's next acquire. Here the name can't become
// free for a while, so that nobody may learn of the end meanwhile.
func TestNobodySeesTheEndBeforeTheNameIsFree(t *testing.T) {
	nodes := redlocktest.Start(t, 1)
	l := separateLocker(t, nodes)
	lock := mustAcquire(t, l, "orders/42")
	var seen sync.WaitGroup
	saw := make(chan string, 4)
	see := func(how string, end func()) {
		seen.Go(func() {
			end()
			saw <- how
		})
	}
	free := redlock.KeepNames(l)
	done := lock.Done()
	see("Done", func() { <-done })
	see("Release", func() { _ = lock.Release(t.Context()) })
	pollUntil(t, 5*time.Second, "the release has been sent", func() bool { return len(locksOn(nodes.Node(0))) == 0 })
	see("Err", func() { _ = lock.Err() })
	see("a second Release", func() { _ = lock.Release(t.Context()) })
	pause(20 * time.Millisecond) // long enough for all of them to learn too early
	early := len(saw)
	free()
	seen.Wait()
	for range early {
		t.Errorf("%s told the end while the name was still taken", <-saw)
	}
	next, err := l.TryAcquire(t.Context(), "orders/42")
	must(t, err)
	mustRelease(t, next)
}
