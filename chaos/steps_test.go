package chaos_test

import (
	"cmp"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/quorumkit/redlock/chaos"
	"github.com/quorumkit/redlock/internal/testkit"
)

// stepsFor is how long the steps are explored: a duration.
const stepsFor = "REDLOCK_CHAOS_STEPS"

// withSteps adds clocks that step to a plan, of one node or of any, about one
// every five seconds: by up to twice the longest lease, either way.
func withSteps(p chaos.Plan, one bool) chaos.Plan {
	random := rand.New(rand.NewPCG(p.Seed, 2))
	only := random.IntN(p.Nodes)
	for at := time.Second; at < p.For; at += time.Duration(random.Int64N(int64(10 * time.Second))) {
		f := chaos.Fault{Kind: chaos.Step, At: at, Node: only, Delay: 8*time.Second - time.Duration(random.Int64N(int64(16*time.Second)))}
		f.For = time.Duration(random.Int64N(int64(8 * time.Second)))
		if !one {
			f.Node = random.IntN(p.Nodes)
		}
		p.Faults = append(p.Faults, f)
	}
	slices.SortStableFunc(p.Faults, func(a, b chaos.Fault) int { return cmp.Compare(a.At, b.At) })
	return p
}

// stepped is what was explored.
type stepped struct {
	plans, steps, won int
	overlaps          []time.Duration // of the plans that had two holders
	virtual           time.Duration
	rules             map[chaos.Rule]int
}

func (s *stepped) add(p chaos.Plan, v chaos.Verdict) {
	s.plans, s.won, s.virtual = s.plans+1, s.won+v.Won, s.virtual+p.For
	for _, f := range p.Faults {
		if f.Kind == chaos.Step {
			s.steps++
		}
	}
	if v.Overlap > 0 {
		s.overlaps = append(s.overlaps, v.Overlap)
	}
	for _, r := range v.Broken() {
		s.rules[r]++
	}
}

// Why a clock that steps is not among the faults of an exploration: what it breaks,
// and how often, on top of all other faults. The guard must hold all the same, and
// the tokens.
//
//	REDLOCK_CHAOS_STEPS=5m go test -timeout 0 -run TestHowOftenAStepBreaksARule -v ./chaos
func TestHowOftenAStepBreaksARule(t *testing.T) {
	testkit.Unraced(t)
	length, err := time.ParseDuration(os.Getenv(stepsFor))
	if os.Getenv(stepsFor) == "" {
		length, err = 0, nil // a few plans
	}
	testkit.Must(t, err)
	for _, one := range []bool{true, false} {
		name := map[bool]string{true: "of one node", false: "of any node"}[one]
		t.Run(name, func(t *testing.T) {
			sum, start := stepped{rules: map[chaos.Rule]int{}}, time.Now()
			for sum.plans < 3 || time.Since(start) < length {
				p := withSteps(chaos.Swarm(uint64(sum.plans)+1, 30*time.Second), one)
				sum.add(p, chaos.PlayVirtual(t, p, p.Redlock("redlock")).Verdict)
			}
			t.Logf("steps %s: %d plans, %.1f virtual hours, %d steps, %d locks: plans that broke a rule: %v; two holders for %v",
				name, sum.plans, sum.virtual.Hours(), sum.steps, sum.won, sum.rules, sum.overlaps)
			for _, r := range []chaos.Rule{chaos.StaleWrite, chaos.TokenRepeated, chaos.TokenOrder} {
				if sum.rules[r] > 0 {
					t.Errorf("%q in %d plans: want none, however clocks step", r, sum.rules[r])
				}
			}
		})
	}
}
