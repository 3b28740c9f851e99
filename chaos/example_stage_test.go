package chaos_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/quorumkit/redlock/chaos"
	"github.com/quorumkit/redlock/internal/lab/bubble"
	"github.com/quorumkit/redlock/internal/lab/trace"
)

// One node of five is cut off, and the lock is there all the same; the stage runs
// in real time here, and in a testing/synctest bubble in virtual time.
func ExampleActor() {
	stage, err := chaos.NewVirtual(1, 5)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stage.Close()
	history := chaos.NewHistory()
	ann, err := chaos.NewActor("ann", chaos.TextbookRedlock(), stage, history, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer ann.Close()
	if err := stage.Break(chaos.Fault{Kind: chaos.Cut, Node: 3, Client: "ann"}); err != nil {
		fmt.Println(err)
		return
	}
	tenure, err := ann.Ask(context.Background(), "report", 5*time.Second)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("wrote:", tenure.Write(context.Background()), "released:", tenure.Release(context.Background()))
	for _, r := range history.Records() {
		fmt.Println(r.Kind)
	}
	// Output:
	// wrote: <nil> released: <nil>
	// asked
	// held
	// wrote
	// released
}

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

// A scenario takes any stage and any kit: here nodes that forget, in real time.
func ExampleScenario_Play() {
	s, _ := chaos.FindScenario("amnesia-minority")
	var shown []string // a bubble keeps what is printed in it to itself
	err := bubble.Run(func() error {
		for _, kit := range []chaos.Kit{chaos.SingleMaster(), chaos.TextbookRedlock()} {
			stage, err := chaos.NewVirtual(1, 5)
			if err != nil {
				return err
			}
			records, err := s.Play(context.Background(), stage, kit, false)
			shown = append(shown, fmt.Sprint(kit.Name, " ", trace.Judge{}.Judge(records).Broken(), " ", err))
			if err := stage.Close(); err != nil {
				return err
			}
		}
		return nil
	})
	fmt.Println(strings.Join(shown, "\n"), err)
	fmt.Println(s.Lesson)
	// Output:
	// single master [stale write two holders] <nil>
	// textbook Redlock [] <nil> <nil>
	// five masters bear two that forget; one master bears none
}
