package chaos_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quorumkit/redlock/chaos"
	"github.com/quorumkit/redlock/internal/testkit"
)

const (
	// rateOf is how long the rate is measured: REDLOCK_CHAOS_RATE is a duration, or
	// 1, which is a minute.
	rateOf = "REDLOCK_CHAOS_RATE"
	// rateFrom tells a process which seed to begin with, and has it print what it
	// explored: "3/8" is every eighth, from the third on.
	rateFrom = "REDLOCK_CHAOS_RATE_FROM"
	// ratePlan is how long the plans are that are measured: as many virtual minutes
	// each, so that the processes end at about one time.
	ratePlan = 3 * time.Minute
)

// explored is what was explored so far.
type explored struct {
	Rounds, Won    int
	Faults, Writes int
	Virtual        time.Duration
}

func (e *explored) add(o explored) {
	e.Rounds, e.Won, e.Faults, e.Writes, e.Virtual = e.Rounds+o.Rounds, e.Won+o.Won, e.Faults+o.Faults, e.Writes+o.Writes, e.Virtual+o.Virtual
}

// TestExplorationRate says how much is explored in a minute of real time, in as
// many processes as there are processors: five nodes, twenty clients, eight names
// with half of the load on the first, every kind of fault that redlock promises to
// bear, one about every eight seconds.
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
	if from := os.Getenv(rateFrom); from != "" {
		exploreFrom(t, from, length)
		return
	}
	var (
		processes = runtime.GOMAXPROCS(0)
		all       = make([]explored, processes)
		sum       explored
		work      sync.WaitGroup
	)
	start := time.Now()
	for i := range processes {
		work.Go(func() { all[i] = exploreElsewhere(t, fmt.Sprintf("%d/%d", i, processes)) })
	}
	work.Wait()
	minutes := time.Since(start).Minutes()
	for _, e := range all {
		sum.add(e)
	}
	per := func(n int) int { return int(float64(n) / minutes) }
	t.Logf("%d processes for %.2f minutes: %d rounds a minute: %d won, %d lost; %d writes, %d faults; %.2f virtual hours a minute",
		processes, minutes, per(sum.Rounds), per(sum.Won), per(sum.Rounds-sum.Won), per(sum.Writes), per(sum.Faults), sum.Virtual.Hours()/minutes)
	if float64(sum.Faults) < sum.Virtual.Minutes() {
		t.Errorf("got %d faults in %v; want one a minute at least", sum.Faults, sum.Virtual)
	}
}

// exploreFrom explores, and prints what.
func exploreFrom(t *testing.T, from string, length time.Duration) {
	t.Helper()
	var seed, step uint64
	if _, err := fmt.Sscanf(from, "%d/%d", &seed, &step); err != nil {
		t.Fatal(err)
	}
	var sum explored
	for start := time.Now(); time.Since(start) < length; seed += step {
		p := chaos.NewPlan(seed, ratePlan, chaos.Mix{})
		v := chaos.Explore(t, p, p.Redlock("redlock"))
		sum.add(explored{v.Rounds, v.Won, len(p.Faults), v.Writes, p.For})
	}
	line, err := json.Marshal(sum)
	testkit.Must(t, err)
	fmt.Printf("\nexplored: %s\n", line)
}

// exploreElsewhere is exploreFrom in a process of its own.
func exploreElsewhere(t *testing.T, from string) (e explored) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestExplorationRate$", "-test.v", "-test.timeout=0")
	cmd.Env = append(os.Environ(), rateFrom+"="+from)
	out, err := cmd.CombinedOutput()
	_, line, _ := strings.Cut(string(out), "\nexplored: ")
	line, _, _ = strings.Cut(line, "\n")
	if err != nil || json.Unmarshal([]byte(line), &e) != nil {
		t.Errorf("from %s: %v\n%s", from, err, out)
	}
	return e
}
