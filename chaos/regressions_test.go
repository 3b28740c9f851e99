package chaos_test

import (
	"testing"

	"github.com/quorumkit/redlock/chaos"
)

// Plans that explorations found and shrank: no rule may be broken in any of them.
func TestPlansThatOnceFailedKeepAllRules(t *testing.T) {
	for _, c := range []struct{ was, plan string }{
		{
			was: "a release that a restarted node refused, for want of the script, was taken for one that it had executed",
			plan: `{"seed":29,"nodes":7,"clients":4,"names":8,"lease":3000000000,"for":4994900688,"maxTTL":4000000000,
				"faults":[{"kind":"crash","at":1994900688,"for":2326853,"node":3}],"linger":50}`,
		},
	} {
		p, err := chaos.ParsePlan(c.plan)
		if err != nil {
			t.Fatal(err)
		}
		if v := p.Judge().Judge(chaos.PlayVirtual(t, p, p.Redlock("redlock"))); len(v.Violations) > 0 || v.Won == 0 {
			t.Errorf("%s: got %v", c.was, v)
		}
	}
}
