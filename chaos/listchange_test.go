package chaos_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorumkit/redlock/chaos"
	"github.com/quorumkit/redlock/internal/lab/trace"
	"github.com/quorumkit/redlock/internal/testkit"
)

// Drawn plans whose lists change: most of the changes are done, though faults go on, operators
// die at each step, and others want another list meanwhile.
func TestDrawnPlansChangeTheListOfNodes(t *testing.T) {
	testkit.Unraced(t)
	done, all, rivals, dead := 0, 0, 0, map[chaos.Moment]bool{}
	for seed := range uint64(16) {
		p := chaos.Swarm(seed, 30*time.Second, chaos.ListChange)
		records := chaos.PlayVirtual(t, p, p.Redlock("redlock")).Records
		if v := p.Judge().Judge(records); len(v.Violations) > 0 || v.Rounds == 0 {
			t.Errorf("seed %d: got %v; want no rule broken", seed, v)
		}
		at := 0 // operators that are at work
		for _, r := range records {
			switch of := r.Fault != nil && r.Fault.Kind == chaos.ListChange; {
			case of && r.Kind == trace.Broke:
				all++
				at++
				rivals += at / 2
				dead[r.Fault.Where] = true
			case of:
				done++
				at--
			case r.Kind == trace.Noted && strings.HasPrefix(r.Text, "redlock: "): // the change before it was not done
				done--
			}
		}
	}
	if done < all/2 || all < 16 || rivals < 8 || len(dead) < 5 {
		t.Errorf("got %d of %d changes done, %d with a rival, operators who die at %v; want most, some, and each step", done, all, rivals, dead)
	}
}

// A plan keeps one node that never forgets in each of its lists.
func TestADrawnListKeepsANodeThatRemembers(t *testing.T) {
	for seed := range uint64(200) {
		p := chaos.Swarm(seed, 30*time.Second, chaos.ListChange, chaos.Forget, chaos.Old, chaos.Flush)
		stays := func(node int) bool {
			return !slices.ContainsFunc(p.Faults, func(f chaos.Fault) bool { return f.Node == node })
		}
		kept := false
		for node := range p.List {
			kept = kept || stays(node)
		}
		if p.List < 1 || p.List >= p.Nodes || !kept {
			t.Errorf("seed %d: got a list of %d of %d, and %v", seed, p.List, p.Nodes, p.Faults)
		}
	}
}
