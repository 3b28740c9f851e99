package bubble

import (
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"
)

// turns counts the plays in virtual time that go on.
var turns struct {
	mu         sync.Mutex // guards the rest
	plays      int
	processors int   // that the process had before the first
	garbage    int   // its GOGC
	limit      int64 // its memory limit
}

// TakeTurns makes all goroutines of the process share one processor until the
// function that it returns is called, of several plays the last one's. Virtual
// time stands still while anybody is at work: of two goroutines with something to
// do at one moment, Go chooses the first, and on one processor it makes
// the same choice each time, or nearly so. Nothing is lost by it: a bubble has seldom
// work for two. For the same reason the garbage collector, which stops
// goroutines wherever they are, rests meanwhile: see [TidyUp].
func TakeTurns() (end func()) {
	turns.mu.Lock()
	defer turns.mu.Unlock()
	if turns.plays++; turns.plays == 1 {
		turns.processors = runtime.GOMAXPROCS(1)
		turns.garbage = debug.SetGCPercent(-1)
		if turns.limit = debug.SetMemoryLimit(-1); turns.limit == math.MaxInt64 {
			debug.SetMemoryLimit(tidyLimit)
		}
	}
	return sync.OnceFunc(func() {
		turns.mu.Lock()
		defer turns.mu.Unlock()
		if turns.plays--; turns.plays == 0 {
			runtime.GOMAXPROCS(turns.processors)
			debug.SetGCPercent(turns.garbage)
			debug.SetMemoryLimit(turns.limit)
		}
	})
}

const (
	// tidyEvery is how often it is looked whether there is garbage. The odd part
	// keeps it from the moments of others.
	tidyEvery = 10*time.Millisecond + 7*time.Nanosecond
	// tidyFor is for how long. Where everybody waits for good, nothing but this moves
	// the time on, and the bubble is to say so.
	tidyFor = 24 * time.Hour
	// tidyAbove is how much may gather.
	tidyAbove = 64 << 20
	// tidyLimit is where the collector no longer rests: somebody works without end,
	// and no moment comes.
	tidyLimit = 2 << 30
	// dialRests is how long a go-redis pool whose node is down may rest before it sees that it
	// was closed: a goroutine that outlives the bubble is a panic.
	dialRests = time.Second + time.Millisecond
)

// TidyUp collects garbage at moments of virtual time at which nobody else is at
// work, until the function that it returns is called, which also waits for the last
// goroutines of clients that were closed. It is called in a bubble, while turns are taken.
func TidyUp() (end func()) {
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		every, enough := time.NewTicker(tidyEvery), time.NewTimer(tidyFor)
		defer every.Stop()
		defer enough.Stop()
		for left := uint64(0); ; {
			select {
			case <-every.C:
			case <-enough.C:
				return
			case <-stop:
				return
			}
			if inUse() > left+tidyAbove {
				runtime.GC()
				left = inUse()
			}
		}
	}()
	return func() {
		close(stop)
		<-stopped
		time.Sleep(dialRests)
	}
}

// inUse is how many bytes objects take, those included that nobody uses any more.
func inUse() uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
