package chaos

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/quorumkit/redlock/internal/lab/bubble"
	"github.com/quorumkit/redlock/internal/lab/trace"
)

// shownOfTrace is how many records before a violation a failed test prints.
const shownOfTrace = 40

// PlayVirtual plays a plan on a virtual stage in a testing/synctest bubble, and
// returns the trace. That the plan can't be played ends the test. t must not be
// of a bubble. Meanwhile the process has one processor: the same plan then gives
// the same trace.
func PlayVirtual(t *testing.T, p Plan, kit Kit) []Record {
	t.Helper()
	return playVirtual(t, p, kit, Plan.Play)
}

// playVirtual plays a plan as play does.
func playVirtual(t *testing.T, p Plan, kit Kit, play func(Plan, Stage, Kit) ([]Record, error)) []Record {
	t.Helper()
	defer bubble.TakeTurns()()
	var records []Record
	synctest.Test(t, func(t *testing.T) {
		defer bubble.TidyUp()()
		stage, err := NewVirtual(p.Seed, p.Nodes)
		if err != nil {
			t.Fatal(err)
		}
		records, err = play(p, stage, kit)
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
// command that repeats it with the same kit, from the same test, as [Test] does.
// A run in which no attempt ended fails too: it shows nothing.
func Explore(t *testing.T, p Plan, kit Kit) Verdict {
	t.Helper()
	p = planned(t, p)
	play := func(p Plan, watched bool) (Run, error) {
		play := Plan.Play
		if watched {
			play = Plan.PlayWatched
		}
		run := Run{About: trace.About{
			Scenario: t.Name(), Claim: fmt.Sprintf("%d faults, %d clients, %v", len(p.Faults), p.Clients, p.For), Contender: kit.Name,
			Guarded: true, Backend: string(Virtual), Seed: p.Seed, Judge: p.Judge(), Nodes: nodeNames(p.Nodes),
		}, Records: playVirtual(t, p, kit, play)}
		run.Verdict = run.About.Judge.Judge(run.Records)
		return run, nil
	}
	seen, _ := play(p, false)
	switch {
	case seen.Verdict.Rounds == 0:
		t.Errorf("%s: no attempt ended: the run shows nothing\nthe plan: %v", kit.Name, p)
	case len(seen.Verdict.Violations) > 0:
		t.Errorf("%v", convicted(t, p, seen, play))
	}
	return seen.Verdict
}

// nodeNames are those that the nodes of a virtual stage have.
func nodeNames(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = virtualName(i)
	}
	return names
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
