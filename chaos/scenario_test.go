package chaos_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock/chaos"
)

// What each scenario shows of each contender: the rules that it breaks.
func TestScenariosShowWhatTheyClaim(t *testing.T) {
	for _, s := range chaos.Scenarios() {
		for _, want := range s.Showings {
			t.Run(s.Name+", "+want.String(), func(t *testing.T) {
				kit, err := chaos.ScenarioKit(want.Contender)
				if err != nil {
					t.Fatal(err)
				}
				v := chaos.Judge{}.Judge(perform(t, s, kit, want.Guarded))
				if !want.Fits(v) || v.Won == 0 {
					t.Errorf("got %v; want the broken rules %q and %d refused", v, want.Breaks, want.Refused)
				}
				if s.Name == "hung-node" && v.LongestWait > 250*time.Millisecond {
					t.Errorf("got a wait of %v; want a node timeout at most", v.LongestWait)
				}
			})
		}
	}
}

func TestAShowingIsHeldAgainstAllThatWasBroken(t *testing.T) {
	two := chaos.Verdict{Violations: []chaos.Violation{{Rule: chaos.TwoHolders}, {Rule: chaos.TwoHolders}}}
	claim := chaos.Showing{Contender: chaos.NameSingle, Breaks: []chaos.Rule{chaos.TwoHolders}}
	for _, c := range []struct {
		showing chaos.Showing
		verdict chaos.Verdict
		want    bool
	}{
		{claim, two, true},
		{claim, chaos.Verdict{}, false},
		{chaos.Showing{}, two, false},
		{chaos.Showing{}, chaos.Verdict{}, true},
		{chaos.Showing{Refused: 1}, chaos.Verdict{}, false},
		{chaos.Showing{}, chaos.Verdict{Refused: 1}, false},
	} {
		if got := c.showing.Fits(c.verdict); got != c.want {
			t.Errorf("%+v, %v: got %t; want %t", c.showing, c.verdict, got, c.want)
		}
	}
}

func TestScenarioKitsAreKnownByName(t *testing.T) {
	for _, name := range chaos.ScenarioKits() {
		if kit, err := chaos.ScenarioKit(name); err != nil || kit.Name != name {
			t.Errorf("%s: got %q, %v", name, kit.Name, err)
		}
	}
	if _, err := chaos.ScenarioKit("mutex"); err == nil {
		t.Error("got a kit of no known name; want an error")
	}
}

// perform plays a scenario in a bubble.
func perform(t *testing.T, s chaos.Scenario, kit chaos.Kit, guarded bool) []chaos.Record {
	t.Helper()
	var records []chaos.Record
	synctest.Test(t, func(t *testing.T) {
		stage, err := chaos.NewVirtual(1, 5)
		if err != nil {
			t.Fatal(err)
		}
		if records, err = s.Play(t.Context(), stage, kit, guarded); err != nil {
			t.Error(err)
		}
		if err := stage.Close(); err != nil {
			t.Error(err)
		}
	})
	return records
}

func TestEveryScenarioSaysWhatItShows(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range chaos.Scenarios() {
		if s.Name == "" || s.Claim == "" || s.Lesson == "" || len(s.Showings) == 0 || seen[s.Name] {
			t.Errorf("got %+v; want a name of its own, a claim, a lesson, and what it shows of somebody", s)
		}
		seen[s.Name] = true
	}
}
