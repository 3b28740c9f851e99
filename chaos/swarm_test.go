package chaos_test

import (
	"slices"
	"testing"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/chaos"
	"github.com/quorumkit/redlock/internal/testkit"
)

// Redlock bears a plan of drawn steps of a clock, and a lock that does not watch the clocks is
// convicted by it.
func TestADrawnStepShowsALockWithoutClockWatch(t *testing.T) {
	testkit.Unraced(t)
	p := chaos.Swarm(153, 30*time.Second)
	p.For = 8 * time.Second // more is not needed, from this seed on
	p.Faults = slices.DeleteFunc(p.Faults, func(f chaos.Fault) bool { return f.At > p.For })
	if !slices.ContainsFunc(p.Faults, func(f chaos.Fault) bool { return f.Kind == chaos.Step }) {
		t.Fatal("the seed draws no step")
	}
	judged := func(opts ...redlock.Option) chaos.Verdict {
		return chaos.PlayVirtual(t, p, p.Redlock("redlock", opts...)).Verdict
	}
	if v := judged(); len(v.Violations) > 0 || v.Rounds == 0 {
		t.Errorf("got %d rounds, %v; want no rule broken", v.Rounds, v.Violations)
	}
	if v := judged(redlock.WithoutClockWatch()); !slices.ContainsFunc(v.Violations, func(x chaos.Violation) bool { return x.Rule == chaos.TwoHolders }) {
		t.Errorf("without clock watch: got %v; want two holders", v.Violations)
	}
}

// Where a quorum forgot, tokens lean on the wall clock of one client: clients' wall clocks step
// in plans only in which a quorum always remembers. Others have such steps, and nodes that
// forget.
func TestWallClocksStepWhereAQuorumRemembers(t *testing.T) {
	forgets := []chaos.Break{chaos.Crash, chaos.Forget, chaos.Old, chaos.Failover, chaos.Flush, chaos.Evict, chaos.Step}
	steps, both := 0, 0
	for seed := range uint64(400) {
		p, wall, forgot := chaos.Swarm(seed, 30*time.Second), false, map[int]bool{}
		for _, f := range p.Faults {
			wall = wall || f.Kind == chaos.WallClock
			if slices.Contains(forgets, f.Kind) {
				forgot[f.Node] = true
			}
		}
		if !wall {
			continue
		}
		steps++
		if len(forgot) > 0 {
			both++
		}
		if forgot[chaos.Everything] || p.Nodes-len(forgot) <= p.Nodes/2 {
			t.Errorf("seed %d: got wall clocks that step; of %d nodes %d may forget", seed, p.Nodes, len(forgot))
		}
	}
	if steps < 20 || both == 0 {
		t.Errorf("got %d of 400 plans whose wall clocks step, %d of them with a node that forgets; want more", steps, both)
	}
}

// befalls tells whether a fault is one of the node, of its links, or of a client's messages
// to all nodes.
func befalls(o chaos.Fault, node int) bool {
	if o.Kind == chaos.Drift || o.Kind == chaos.WallClock {
		return false // the first is within what leases allow for, the second of no message
	}
	if o.Kind == chaos.Pause {
		return o.Where == chaos.AtReplies
	}
	if o.Kind == chaos.Suspend || o.Kind == chaos.OtherList {
		return true
	}
	return o.Node == node || o.Node == chaos.Everything
}

// Of each plan one clock steps, by more than the drift hides, for long enough to be seen and
// at times that the watch can tell apart; and of plans in which libraries are opened again
// none. From MaxTTL before to MaxTTL after nothing else is wrong with its node, nor with the
// way there, but a drift. At other times there are such faults, of each kind.
func TestDrawnStepsLastUntilTheyAreSeenAndTheirNodeHasNoOtherFault(t *testing.T) {
	steps, drifting, apart := 0, 0, map[chaos.Break]int{}
	for seed := range uint64(700) {
		p, node, right := chaos.Swarm(seed, 30*time.Second), -1, time.Duration(0)
		for _, f := range p.Faults {
			if f.Kind != chaos.Step {
				continue
			}
			if node < 0 {
				node = f.Node
			}
			if steps++; f.Node != node || p.Reopens > 0 || f.Delay.Abs() < 2*time.Second || f.At < right+time.Second {
				t.Errorf("seed %d: got %v at %v, the one before mended at %v, of a plan whose libraries open again %d times", seed, f, f.At, right, p.Reopens)
			}
			if right = f.At + f.For; min(right, p.For) < f.At+time.Second { // the plan's end mends it
				t.Errorf("seed %d: got %v at %v of a plan of %v; want it to last for a second", seed, f, f.At, p.For)
			}
			for _, o := range p.Faults {
				switch near := o.At < f.At+f.For+p.MaxTTL && f.At < o.At+o.For+o.Delay+p.MaxTTL; {
				case near && o.Kind == chaos.Drift && (o.Node == node || o.Node == chaos.Everything):
					drifting++
				case o.Kind == chaos.Step || !befalls(o, node):
				case near:
					t.Errorf("seed %d: got %v at %v along with %v at %v", seed, o, o.At, f, f.At)
				default:
					apart[o.Kind]++
				}
			}
		}
	}
	if steps < 100 || drifting == 0 {
		t.Errorf("got %d steps in 700 plans, %d of a clock that drifts; want more", steps, drifting)
	}
	for _, k := range []chaos.Break{
		chaos.Crash, chaos.Forget, chaos.Old, chaos.Failover, chaos.Stall, chaos.Flush, chaos.Evict, chaos.Cut, chaos.CutRequests, chaos.CutReplies,
		chaos.LoseRequests, chaos.LoseReplies, chaos.Slow, chaos.Jitter, chaos.Reorder, chaos.Reset, chaos.HalfOpen, chaos.Refuse, chaos.Twice, chaos.Pause, chaos.Suspend,
	} {
		if apart[k] == 0 {
			t.Errorf("got no %v of a node whose clock steps at another time: is it told from one near?", k)
		}
	}
}
