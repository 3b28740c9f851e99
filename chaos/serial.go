package chaos

import (
	"runtime"
	"sync"
)

// turns counts the plays in virtual time that go on.
var turns struct {
	mu         sync.Mutex // guards the rest
	plays      int
	processors int // that the process had before the first
}

// takeTurns has all goroutines of the process share one processor until the
// function that it returns is called, of several plays the last one's. Virtual
// time stands still while anybody is at work: of two goroutines with something to
// do at one moment, which is first is Go's choice, and on one processor it makes
// the same one each time, or nearly so. Nothing is lost by it: a bubble has seldom
// work for two.
func takeTurns() (end func()) {
	turns.mu.Lock()
	defer turns.mu.Unlock()
	if turns.plays++; turns.plays == 1 {
		turns.processors = runtime.GOMAXPROCS(1)
	}
	return sync.OnceFunc(func() {
		turns.mu.Lock()
		defer turns.mu.Unlock()
		if turns.plays--; turns.plays == 0 {
			runtime.GOMAXPROCS(turns.processors)
		}
	})
}
