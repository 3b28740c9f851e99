package yourcode

import (
	"bytes"
	"testing"
	"time"

	"github.com/quorumkit/redlock/chaos"
)

// amnesia has nodes crash and forget, one after another.
func amnesia(seed uint64) chaos.Plan {
	return chaos.NewPlan(seed, 20*time.Second, chaos.Mix{
		Clients: 4, Names: 2, Kinds: []chaos.Break{chaos.Forget}, Every: 300 * time.Millisecond, Longest: 20 * time.Millisecond,
	})
}

// Nodes that forget give these locks two holders. Redlock keeps the rules: Explore fails
// the test if it doesn't.
func TestOtherLocksAreConvicted(t *testing.T) {
	for _, kit := range []chaos.Kit{Redsync(), BSM()} {
		plan, found := amnesia(1), 0
		for seed := uint64(1); seed < 4 && found == 0; seed++ {
			plan = amnesia(seed)
			found = chaos.PlayVirtual(t, plan, kit).Verdict.Count(chaos.TwoHolders)
		}
		if found == 0 {
			t.Errorf("%s: got no two holders in three plans", kit.Name)
		}
		chaos.Explore(t, plan, plan.Redlock("redlock"))
	}
}

// One seed is one run, no matter what random values a library draws.
func TestOtherLocksRepeatFromASeed(t *testing.T) {
	for _, kit := range []chaos.Kit{Redsync(), BSM()} {
		traces := map[string]int{}
		for range 3 { // on a busy machine one run in hundreds is another one
			var b bytes.Buffer
			if err := chaos.WriteTrace(&b, chaos.PlayVirtual(t, amnesia(1), kit).Records); err != nil {
				t.Fatal(err)
			}
			traces[b.String()]++
		}
		if len(traces) == 3 && !raceDetector {
			t.Errorf("%s: got three traces of one plan", kit.Name)
		}
	}
}
