package chaos_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/chaos"
)

// A plan is decided by its seed, and goes round as one line.
func ExampleNewPlan() {
	p := chaos.NewPlan(7, time.Minute, chaos.Mix{Kinds: []chaos.Break{chaos.Forget}, Every: 20 * time.Second})
	again, err := chaos.ParsePlan(p.String())
	fmt.Println(len(again.Faults) == len(p.Faults), err)
	for _, f := range p.Faults[:1] {
		fmt.Println(f.Kind, "of a node")
	}
	// Output:
	// true <nil>
	// crash and forget of a node
}

// A plan that is written by hand: three of five nodes forget while a client stands still.
func ExamplePlan() {
	plan := chaos.Plan{
		Seed: 1, Nodes: 5, Clients: 3, Names: 1, Lease: 3 * time.Second, MaxTTL: 4 * time.Second, For: 20 * time.Second,
		Faults: []chaos.Fault{
			{Kind: chaos.Pause, At: 5 * time.Second, For: 9 * time.Second, Client: "client-0"}, // up to client-2
			{Kind: chaos.Forget, At: 6 * time.Second, Node: 0},                                 // by its index
			{Kind: chaos.Forget, At: 6 * time.Second, Node: 1},
			{Kind: chaos.Forget, At: 6 * time.Second, Node: 2},
		},
	}
	for _, kit := range []chaos.Kit{plan.Redlock("redlock"), plan.Redlock("bare", redlock.WithoutMembership())} {
		fmt.Println(kit.Name, "passed:", passes(func(t *testing.T) { //nolint:thelper // it is a test
			if chaos.PlayVirtual(t, plan, kit).Verdict.Count(chaos.TwoHolders) > 0 {
				t.Fail()
			}
		}))
	}
	// Output:
	// redlock passed: true
	// bare passed: false
}

// A page has any runs side by side, each by the name of its kit.
func ExampleWritePage() {
	plan := chaos.NewPlan(1, 5*time.Second, chaos.Mix{Kinds: []chaos.Break{chaos.Forget}})
	kits := []chaos.Kit{plan.Redlock("redlock"), plan.Redlock("bare", redlock.WithoutMembership())}
	var file strings.Builder                           // or a file
	fmt.Println("passed:", passes(func(t *testing.T) { //nolint:thelper // it is a test
		var runs []chaos.Run
		for _, kit := range kits {
			runs = append(runs, chaos.PlayVirtual(t, plan, kit))
		}
		err := chaos.WritePage(&file, runs...)
		if err != nil {
			t.Error(err)
		}
	}))
	for _, name := range []string{"redlock", "bare", "the trace", "virtual backend · seed 1"} {
		fmt.Println(name, strings.Contains(file.String(), ">"+name+"<"))
	}
	// Output:
	// passed: true
	// redlock true
	// bare true
	// the trace false
	// virtual backend · seed 1 true
}

// What happened is written as JSON lines.
func ExampleWriteTrace() {
	err := chaos.WriteTrace(os.Stdout, []chaos.Record{
		{At: 0, Kind: "asked", Client: "ann", Resource: "report", Hold: 1},
		{At: time.Millisecond, Kind: "failed", Client: "ann", Resource: "report", Hold: 1},
	})
	fmt.Println(err)
	// Output:
	// {"at":0,"kind":"asked","hold":1,"client":"ann","resource":"report"}
	// {"at":1000000,"kind":"failed","hold":1,"client":"ann","resource":"report"}
	// <nil>
}

// What is left of a plan is what makes it fail.
func ExampleShrink() {
	p := chaos.NewPlan(7, time.Minute, chaos.Mix{})
	first := func(f chaos.Fault) bool { return f.Kind == p.Faults[0].Kind }
	least := chaos.Shrink(p, func(less chaos.Plan) bool { return slices.ContainsFunc(less.Faults, first) })
	fmt.Println(len(p.Faults) > 5, len(least.Faults))
	// Output: true 1
}

// A lock of one's own is explored by a Kit of its own; this is redlock's.
func ExampleExplore() {
	p := chaos.Swarm(12, 5*time.Second, chaos.Crash, chaos.Cut)
	fmt.Println("passed:", passes(func(t *testing.T) { //nolint:thelper // it is a test
		chaos.Explore(t, p, p.Redlock("redlock"))
	}))
	fmt.Println("passed:", passes(func(t *testing.T) { //nolint:thelper // the same in steps
		verdict := chaos.PlayVirtual(t, p, p.Redlock("redlock")).Verdict
		for _, v := range verdict.Violations {
			t.Error(v.Rule, v.Text)
		}
	}))
	// Output:
	// passed: true
	// passed: true
}

// The same faults befall each kind of stage: here one in real time, for a program.
func ExampleOpenStage() {
	ctx := context.Background()
	stage, err := chaos.OpenStage(ctx, chaos.Embedded, 1, 3)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stage.Close()
	ann, err := stage.Connect("ann")
	if err != nil {
		fmt.Println(err)
		return
	}
	crash := chaos.Fault{Kind: chaos.Crash, Node: 0}
	fmt.Println(stage.Break(crash), ann[0].Ping(ctx).Err() != nil)
	fmt.Println(stage.Mend(crash), ann[0].Ping(ctx).Err())
	// Output:
	// <nil> true
	// <nil> <nil>
}

func ExampleFindScenario() {
	s, ok := chaos.FindScenario("amnesia-majority")
	fmt.Println(s.Name, s.Nodes, ok, s.Fit(chaos.Virtual))
	fmt.Println(len(chaos.Scenarios()) > 20)
	// Output:
	// amnesia-majority 5 true <nil>
	// true
}
