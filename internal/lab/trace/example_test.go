package trace_test

import (
	"fmt"
	"strings"

	"github.com/quorumkit/redlock/internal/lab/trace"
)

// A trace of one's own is judged as those of this package are.
func ExampleJudge_Judge() {
	records, err := trace.Read(strings.NewReader(`
		{"at": 0,          "kind": "asked", "hold": 1, "client": "ann", "resource": "report"}
		{"at": 1000000,    "kind": "held",  "hold": 1, "client": "ann", "resource": "report", "until": 30000000}
		{"at": 2000000,    "kind": "asked", "hold": 2, "client": "bob", "resource": "report"}
		{"at": 20000000,   "kind": "held",  "hold": 2, "client": "bob", "resource": "report", "until": 50000000}
		{"at": 21000000,   "kind": "wrote", "hold": 2, "resource": "report"}
		{"at": 22000000,   "kind": "wrote", "hold": 1, "resource": "report"}
	`))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(trace.Judge{}.Judge(records))
	// Output:
	// 2 rounds: 2 won, 0 lost; 2 writes, 0 refused; two holders for 10ms; longest wait 18ms
	//   20ms two holders "report": ann (hold 1) since 1ms and bob (hold 2), for 10ms
	//   22ms stale write "report": ann (hold 1) wrote after a later holder had
}
