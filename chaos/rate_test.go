package chaos_test

import (
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorumkit/redlock/chaos"
)

// rateOf is how long the rate is measured: REDLOCK_CHAOS_RATE is a duration, or
// 1, which is a minute.
const rateOf = "REDLOCK_CHAOS_RATE"

// The plans that are measured: as many virtual minutes each, so that the workers
// end at about one time.
const ratePlan = 3 * time.Minute

// explored is what was explored so far, by all workers.
type explored struct {
	mu             sync.Mutex // guards the rest
	rounds, won    int
	faults, writes int
	virtual        time.Duration
}

func (e *explored) add(p chaos.Plan, v chaos.Verdict) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.rounds += v.Rounds
	e.won += v.Won
	e.writes += v.Writes
	e.faults += len(p.Faults)
	e.virtual += p.For
}

// TestExplorationRate says how much is explored in a minute of real time, one
// bubble for each processor: five nodes, twenty clients, eight names with half of
// the load on the first, every kind of fault, one about every eight seconds.
//
//	REDLOCK_CHAOS_RATE=1 go test -run TestExplorationRate -v ./chaos
func TestExplorationRate(t *testing.T) {
	length, err := time.ParseDuration(os.Getenv(rateOf))
	switch {
	case os.Getenv(rateOf) == "":
		t.Skip(rateOf + " is not set")
	case os.Getenv(rateOf) == "1":
		length = time.Minute
	case err != nil:
		t.Fatal(err)
	}
	var (
		sum   explored
		seeds atomic.Uint64
	)
	start := time.Now()
	t.Run("bubbles", func(t *testing.T) {
		for i := range runtime.GOMAXPROCS(0) {
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				t.Parallel()
				for time.Since(start) < length {
					p := chaos.NewPlan(seeds.Add(1), ratePlan, chaos.Mix{})
					sum.add(p, chaos.Explore(t, p, p.Redlock("redlock")))
				}
			})
		}
	})
	minutes := time.Since(start).Minutes()
	per := func(n int) int { return int(float64(n) / minutes) }
	t.Logf("%d bubbles for %.2f minutes: %d rounds a minute: %d won, %d lost; %d writes, %d faults; %.2f virtual hours a minute",
		runtime.GOMAXPROCS(0), minutes, per(sum.rounds), per(sum.won), per(sum.rounds-sum.won), per(sum.writes), per(sum.faults),
		sum.virtual.Hours()/minutes)
	if float64(sum.faults) < sum.virtual.Minutes() {
		t.Errorf("got %d faults in %v; want one a minute at least", sum.faults, sum.virtual)
	}
}
