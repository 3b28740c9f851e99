package chaos_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/chaos"
	"github.com/quorumkit/redlock/internal/lab/trace"
	"github.com/quorumkit/redlock/internal/testkit"
)

// Drawn plans whose lists change: most of the changes are done, though faults go on, operators
// die at each step, and others want another list meanwhile.
func TestDrawnPlansChangeTheListOfNodes(t *testing.T) {
	testkit.Unraced(t)
	done, all, rivals, dead := 0, 0, 0, map[chaos.Moment]bool{}
	for seed := range uint64(10) {
		p := chaos.Swarm(seed, time.Minute, chaos.ListChange)
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

// Each field of the configuration changes, while clients take leases of all lengths: the nodes
// have what was wanted, and no lock has a longer lease than that allows. Without membership
// nobody asks the nodes' records, and one has.
func TestEachFieldOfTheConfigurationIsChangedAndJudged(t *testing.T) {
	testkit.Unraced(t)
	change := func(at int, f chaos.Fault) chaos.Fault {
		f.Kind, f.At = chaos.ListChange, time.Duration(at)*time.Second
		return f
	}
	p := chaos.Plan{
		Seed: 1, Nodes: 4, Clients: 4, Names: 2, Lease: 2 * time.Second, MaxTTL: 4 * time.Second, For: 90 * time.Second, List: 3,
		Faults: []chaos.Fault{
			change(2, chaos.Fault{Node: chaos.Everything, MaxTTL: 6 * time.Second}),
			change(16, chaos.Fault{Node: chaos.Everything, Strict: "on"}),
			change(32, chaos.Fault{Node: 3, MaxTTL: 3 * time.Second, Strict: "off"}), // with a close behind it
			change(60, chaos.Fault{Node: 0}),
			change(75, chaos.Fault{Node: chaos.Everything}),
		},
	}
	if again, err := chaos.ParsePlan(p.String()); err != nil || !slices.Equal(again.Faults, p.Faults) {
		t.Fatalf("got %v, %v; want the plan", again, err)
	}
	p.Varied, p.Renews = 2, true
	run := chaos.PlayVirtual(t, p, p.Redlock("redlock"))
	if len(run.Verdict.Violations) > 0 || run.Verdict.Won < 50 {
		t.Errorf("got %v; want no rule broken, and locks", run.Verdict)
	}
	var done []chaos.Fault
	has := map[string]string{} // by generation
	for _, r := range run.Records {
		if r.Kind == trace.Mended && r.Text == trace.Done(*r.Fault) {
			done = append(done, *r.Fault)
		}
		if words := strings.Fields(r.Text); r.Kind == trace.Listed {
			has[words[0]] = strings.Join(append([]string{fmt.Sprint(len(strings.Fields(r.Value)))}, words[2:]...), " ")
		}
	}
	if !slices.Equal(done, p.Faults) {
		t.Errorf("got %v done; want all of them", done)
	}
	for gen, want := range []string{"3 4000ms", "3 6000ms", "3 6000ms strict", "4 3000ms", "4 3000ms", "3 3000ms", "3 3000ms"} {
		if got := has[fmt.Sprint(gen)]; got != want {
			t.Errorf("generation %d: got %q; want %q", gen, got, want)
		}
	}
	if v := chaos.PlayVirtual(t, p, p.Redlock("redlock without membership", redlock.WithoutMembership())).Verdict; v.Count(chaos.LongLease) == 0 {
		t.Errorf("without membership: got %v; want a long lease", v)
	}
}

// Of plans whose list changes half change the rest of the configuration, too: MaxTTL up and
// down, strict recovery on and off, with a node and without, and closes. The nodes' part of the
// plan is the same.
func TestDrawnPlansChangeTheRestOfTheConfiguration(t *testing.T) {
	kinds, plans := map[string]int{}, 0
	for seed := range uint64(200) {
		p := chaos.Swarm(seed, 30*time.Second, chaos.ListChange)
		changes := slices.DeleteFunc(slices.Clone(p.Faults), func(f chaos.Fault) bool { return f.Kind != chaos.ListChange })
		if slices.ContainsFunc(changes, func(f chaos.Fault) bool { return f.Node == chaos.Everything }) {
			plans++
		}
		for _, f := range changes {
			if _, err := chaos.ParsePlan(p.String()); err != nil || f.MaxTTL != 0 && f.MaxTTL < p.Lease {
				t.Fatalf("seed %d: got %v, %v; want no MaxTTL below the lease %v", seed, f, err, p.Lease)
			}
			kinds[fmt.Sprintf("node %t up %t down %t %s", f.Node >= 0, f.MaxTTL > p.MaxTTL, f.MaxTTL > 0 && f.MaxTTL < p.MaxTTL, f.Strict)]++
		}
	}
	if plans < 70 || plans > 130 || len(kinds) != 2*3*3 {
		t.Errorf("got %d of 200 plans, and %v; want half, and changes of each kind", plans, kinds)
	}
}

// Hundreds of plans that change all fields, beside faults.
func TestManyDrawnPlansThatChangeTheConfigurationKeepAllRules(t *testing.T) {
	testkit.NeedDeep(t)
	won := 0
	for seed := range uint64(500) {
		p := chaos.Swarm(1000+seed, 30*time.Second, chaos.ListChange)
		if !slices.ContainsFunc(p.Faults, func(f chaos.Fault) bool { return f.Kind == chaos.ListChange && f.Node == chaos.Everything }) {
			continue
		}
		v := chaos.PlayVirtual(t, p, p.Redlock("redlock")).Verdict
		if won += v.Won; len(v.Violations) > 0 {
			t.Errorf("seed %d: got %v; want no rule broken", p.Seed, v)
		}
	}
	if won < 500 {
		t.Errorf("got %d locks; want many", won)
	}
}
