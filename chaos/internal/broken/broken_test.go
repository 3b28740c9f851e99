package broken_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock/chaos"
	"github.com/quorumkit/redlock/internal/testkit"
)

// exploreVariable names the environment variable that asks for the whole
// exploration, and says how long the sound protocol is explored: "10m".
const exploreVariable = "REDLOCK_EXPLORE"

// findWithin is how long an exploration may take to find a broken protocol.
const findWithin = time.Minute

type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}

func TestMain(m *testing.M) {
	redis.SetLogger(silence{}) // it tells of every failed dial on stderr
	os.Exit(m.Run())
}

// It begins, for each way, with the plan in which that is known to show. The plan is
// played to the sound protocol as well.
func TestTheExplorationFindsEveryBrokenProtocol(t *testing.T) {
	t.Parallel()
	testkit.NeedDeep(t)
	binary := mustBuild(t)
	for _, w := range ways {
		if w.pauses {
			continue // make explore has those with pauses
		}
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			o := order{Seed: w.seed, Step: 1, Plans: 1 << 20, AtMost: findWithin, Kinds: w.kinds, Load: w.load, Scenario: w.scenario}
			if w.far {
				o.Step = 0 // no other plan is near, and this one may have a trace that shows nothing
			}
			f := explore(t, binary, w.name, o)
			t.Logf("%s: got %q, by plan %d, the %d. from seed %d", w.takes, f.Broken, f.Seed, f.Plans, w.seed)
			if !w.shows(f) {
				t.Errorf("from seed %d, after %v: got %q (%s); want one of %q", w.seed, f.Took, f.Broken, f.First, w.finds)
			}
			if f := explore(t, binary, nothing, order{Seed: f.Seed, Plans: 1, AtMost: time.Hour, Kinds: w.kinds, Load: w.load, Scenario: w.scenario}); len(f.Broken) > 0 || f.Won < 3 {
				t.Errorf("the sound protocol: got %q (%s), %d locks; want none broken, and some locks", f.Broken, f.First, f.Won)
			}
		})
	}
}

// shows tells whether a rule was broken that this way breaks.
func (w *way) shows(f found) bool {
	return slices.ContainsFunc(w.finds, func(r chaos.Rule) bool { return slices.Contains(f.Broken, r) })
}

func mustBuild(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("go"); err != nil {
		t.Skipf("it builds with the Go tool: %v", err)
	}
	binary, err := build(t.Context(), t.TempDir())
	testkit.Must(t, err)
	return binary
}

// The whole exploration: the sound protocol for as long as one likes, and then
// each broken one, by plans of the same seeds, for a minute at most.
func TestExploreSoundAndBroken(t *testing.T) {
	text := os.Getenv(exploreVariable)
	if text == "" {
		t.Skip(exploreVariable + " does not say how long")
	}
	length, err := time.ParseDuration(text)
	testkit.Must(t, err)
	binary := mustBuild(t)
	t.Run(nothing, func(t *testing.T) { exploreSound(t, binary, length) })
	for _, w := range ways {
		if w.scenario != "" {
			continue // the quick form has it whole
		}
		t.Run(w.name, func(t *testing.T) {
			o := order{Step: 1, Plans: 1 << 20, AtMost: findWithin, Shrink: !w.pauses, Kinds: w.kinds, Load: w.load, Pauses: w.pauses}
			if w.far {
				o.Seed = w.seed
			}
			if w.pauses {
				o.AtMost *= 3
			}
			f := explore(t, binary, w.name, o)
			if !w.shows(f) {
				t.Fatalf("got %q after %v, %d plans, %d rounds; want one of %q", f.Broken, f.Took, f.Plans, f.Rounds, w.finds)
			}
			t.Logf("found by seed %d, after %v, %d plans, %d rounds: %s", f.Seed, f.Took.Round(10*time.Millisecond), f.Plans, f.Rounds, f.First)
			if w.pauses {
				return // seldom twice by the same plan
			}
			t.Logf("shrunk to %d faults; repeat it:\n%s", f.Small, repeat(w.name, f.Plan, false))
			again := inside(t, binary, "^TestRepeatAPlan$", variable+"="+w.name, planVariable+"="+f.Plan, insideVariable+"=1")
			if !slices.ContainsFunc(w.finds, func(r chaos.Rule) bool { return strings.Contains(again, " "+string(r)+" ") }) {
				t.Error("the plan that is left does not break it again")
			}
		})
	}
}

// exploreSound explores in as many processes as there are processors. In every other one the
// library stands still between its steps.
func exploreSound(t *testing.T, binary string, length time.Duration) {
	t.Helper()
	var (
		all  = make([]found, runtime.GOMAXPROCS(0))
		work sync.WaitGroup
		sum  found
	)
	for i := range all {
		work.Go(func() {
			all[i] = explore(t, binary, nothing, order{Seed: uint64(i), Step: uint64(len(all)), Plans: 1 << 40, AtMost: length, Shrink: true, Pauses: i%2 == 1})
		})
	}
	work.Wait()
	for i, f := range all {
		if len(f.Broken) > 0 {
			t.Errorf("seed %d breaks %q: %s\nshrunk to %d faults; repeat it:\n%s", f.Seed, f.Broken, f.First, f.Small, repeat(nothing, f.Plan, i%2 == 1))
		}
		sum.Plans, sum.Rounds, sum.Won, sum.Faults = sum.Plans+f.Plans, sum.Rounds+f.Rounds, sum.Won+f.Won, sum.Faults+f.Faults
		sum.Virtual, sum.Took = sum.Virtual+f.Virtual, max(sum.Took, f.Took)
	}
	t.Logf("%v in %v: %d plans with %d faults, %d rounds: %d won, %d lost",
		sum.Virtual, sum.Took.Round(time.Second), sum.Plans, sum.Faults, sum.Rounds, sum.Won, sum.Rounds-sum.Won)
}

// repeat is the command that repeats a plan, from the top of the tree. With pauses it may take
// several plays.
func repeat(way, plan string, pauses bool) string {
	set := append(pausesIn(pauses), fmt.Sprintf("%s='%s' %s='%s'", variable, way, planVariable, plan))
	return strings.Join(set, " ") + " go test -count=1 -run TestRepeatAPlan -v ./chaos/internal/broken"
}

// TestRepeatAPlan repeats what a failed exploration printed: outside, it builds
// the broken protocols and plays the plan there.
func TestRepeatAPlan(t *testing.T) {
	text, name := os.Getenv(planVariable), os.Getenv(variable)
	if text == "" || name == "" {
		t.Skip(planVariable + " and " + variable + " do not say which plan, of which protocol")
	}
	if _, known := wayNamed(name); !known && name != nothing {
		t.Fatalf("%s is %q, which is no way to break the protocol", variable, name)
	}
	if os.Getenv(insideVariable) == "" {
		fmt.Println(inside(t, mustBuild(t), "^TestRepeatAPlan$", insideVariable+"=1"))
		return
	}
	p, err := chaos.ParsePlan(text)
	testkit.Must(t, err)
	records := chaos.PlayVirtual(t, p, p.Redlock(name)).Records
	var trace strings.Builder
	testkit.Must(t, chaos.WriteTrace(&trace, records))
	fmt.Printf("%s%s: %v\n", trace.String(), name, p.Judge().Judge(records))
}

// insideVariable tells a process that it is of the broken build.
const insideVariable = "REDLOCK_CHAOS_INSIDE"
