package chaos

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
)

// planVariable names the environment variable with the plan that
// TestRepeatAPlan repeats.
const planVariable = "REDLOCK_CHAOS_PLAN"

// shownOfTrace is how many records before a violation a failed test prints.
const shownOfTrace = 40

// PlayVirtual plays a plan on a virtual stage in a testing/synctest bubble, and
// returns the trace. That the plan can't be played ends the test. t must not be
// of a bubble. Meanwhile the process has one processor: the same plan then gives
// the same trace.
func PlayVirtual(t *testing.T, p Plan, kit Kit) []Record {
	t.Helper()
	defer takeTurns()()
	var records []Record
	synctest.Test(t, func(t *testing.T) {
		defer tidyUp()()
		stage, err := NewVirtual(p.Seed, p.Nodes)
		if err != nil {
			t.Fatal(err)
		}
		records, err = p.Play(stage, kit)
		if err != nil {
			t.Error(err)
		}
		if err := stage.Close(); err != nil {
			t.Error(err)
		}
	})
	return records
}

// Explore plays a plan with a kit and returns the verdict. If a rule was broken,
// the test fails with a plan that was shrunk, the end of its trace, and the
// command that repeats it with redlock's own kit.
func Explore(t *testing.T, p Plan, kit Kit) Verdict {
	t.Helper()
	v := p.Judge().Judge(PlayVirtual(t, p, kit))
	if len(v.Violations) == 0 {
		return v
	}
	rule := v.Violations[0].Rule
	small := Shrink(p, func(p Plan) bool {
		return p.Judge().Judge(PlayVirtual(t, p, kit)).Count(rule) > 0
	})
	records := PlayVirtual(t, small, kit)
	verdict := small.Judge().Judge(records)
	seen := Run{About: About{Scenario: t.Name(), Contender: kit.Name, Guarded: true, Backend: string(Virtual), Seed: p.Seed, Judge: small.Judge()}, Records: records, Verdict: verdict}
	t.Errorf("%s: %v\nshrunk to %d faults of %d, where %v\n%s\nrepeat it: %s='%v' go test -run TestRepeatAPlan -v ./chaos\n%s",
		kit.Name, v, len(small.Faults), len(p.Faults), verdict, tail(records, verdict), planVariable, small, LeavePage(t, seen))
	return v
}

// tail is what the trace has before the first violation.
func tail(records []Record, v Verdict) string {
	if len(v.Violations) == 0 {
		return "(it does not show every time: the run leans on something beside the seed)"
	}
	var lines []string
	for _, r := range records {
		if r.At > v.Violations[0].At {
			break
		}
		lines = append(lines, fmt.Sprintf("  %v %s %s %s hold %d token %d until %v %s", r.At, r.Kind, r.Client, r.Resource, r.Hold, r.Token, r.Until, r.Text))
	}
	return strings.Join(lines[max(0, len(lines)-shownOfTrace):], "\n")
}
