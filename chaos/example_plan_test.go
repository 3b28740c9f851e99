package chaos_test

import (
	"fmt"
	"os"
	"time"

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
