package chaos_test

import (
	"slices"
	"testing"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/chaos"
)

// The steps of clocks that are drawn by default are those that redlock bears, and a lock that
// does not watch the clocks is convicted by them.
func TestADrawnStepShowsALockWithoutClockWatch(t *testing.T) {
	p := chaos.Swarm(1198, 30*time.Second)
	p.For = 8 * time.Second // more is not needed, from this seed on
	p.Faults = slices.DeleteFunc(p.Faults, func(f chaos.Fault) bool { return f.At > p.For })
	if !slices.ContainsFunc(p.Faults, func(f chaos.Fault) bool { return f.Kind == chaos.Step }) {
		t.Fatal("the seed draws no step")
	}
	judged := func(opts ...redlock.Option) chaos.Verdict {
		return p.Judge().Judge(chaos.PlayVirtual(t, p, p.Redlock("redlock", opts...)))
	}
	if v := judged(); len(v.Violations) > 0 || v.Rounds == 0 {
		t.Errorf("got %d rounds, %v; want no rule broken", v.Rounds, v.Violations)
	}
	if v := judged(redlock.WithoutClockWatch()); !slices.ContainsFunc(v.Violations, func(x chaos.Violation) bool { return x.Rule == chaos.TwoHolders }) {
		t.Errorf("without clock watch: got %v; want two holders", v.Violations)
	}
}

// Of each plan one clock steps, by more than the drift hides, with nothing else wrong with
// its node, and of plans in which libraries are opened again none.
func TestDrawnStepsAreThoseThatAreBorne(t *testing.T) {
	steps := 0
	for seed := range uint64(200) {
		p, node := chaos.Swarm(seed, 30*time.Second), -1
		for _, f := range p.Faults {
			if f.Kind != chaos.Step {
				continue
			}
			if node < 0 {
				node = f.Node
			}
			if steps++; f.Node != node || p.Reopens > 0 || f.Delay.Abs() < 2*time.Second {
				t.Errorf("seed %d: got %v, of a plan whose libraries open again %d times", seed, f, p.Reopens)
			}
			for _, o := range p.Faults {
				if o.Kind == chaos.Forget && o.Node == f.Node && o.At < f.At+f.For && f.At < o.At+o.For+p.MaxTTL {
					t.Errorf("seed %d: got %v at %v along with %v at %v", seed, o, o.At, f, f.At)
				}
			}
		}
	}
	if steps < 50 {
		t.Errorf("got %d steps in 200 plans; want more", steps)
	}
}
