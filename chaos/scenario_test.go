package chaos_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/chaos"
)

// What each scenario shows of each contender: the rules that it breaks.
func TestScenariosShowWhatTheyClaim(t *testing.T) {
	lease := []redlock.Option{redlock.WithFixedLease(), redlock.WithTTL(chaos.ScenarioLease), redlock.WithMaxTTL(chaos.ScenarioLease)}
	ours := chaos.Redlock("redlock", lease...)
	bare := chaos.Redlock("redlock without membership", append(lease, redlock.WithoutMembership())...)
	single, textbook := chaos.SingleMaster(), chaos.TextbookRedlock()
	two, stale := []chaos.Rule{chaos.TwoHolders}, []chaos.Rule{chaos.StaleWrite}
	for _, c := range []struct {
		scenario  string
		kit       chaos.Kit
		unguarded bool
		want      []chaos.Rule
		refused   int
	}{
		{scenario: "gc-pause", kit: ours, refused: 1},
		{scenario: "gc-pause", kit: ours, unguarded: true, want: stale},
		{scenario: "gc-pause", kit: single, want: stale},
		{scenario: "gc-pause", kit: textbook, want: stale},
		{scenario: "amnesia-minority", kit: ours},
		{scenario: "amnesia-minority", kit: bare},
		{scenario: "amnesia-minority", kit: textbook},
		{scenario: "amnesia-minority", kit: single, want: two},
		{scenario: "amnesia-majority", kit: ours},
		{scenario: "amnesia-majority", kit: bare, want: []chaos.Rule{chaos.TokenOrder, chaos.TwoHolders}},
		{scenario: "amnesia-majority", kit: textbook, want: two},
		{scenario: "partition-holder", kit: ours},
		{scenario: "partition-holder", kit: textbook},
		{scenario: "partition-holder", kit: single},
		{scenario: "hung-node", kit: ours},
		{scenario: "hung-node", kit: textbook},
	} {
		name := c.scenario + ", " + c.kit.Name
		if c.unguarded {
			name += ", unguarded"
		}
		t.Run(name, func(t *testing.T) {
			i := slices.IndexFunc(chaos.Scenarios(), func(s chaos.Scenario) bool { return s.Name == c.scenario })
			v := chaos.Judge{}.Judge(perform(t, chaos.Scenarios()[i], c.kit, !c.unguarded))
			if !slices.Equal(v.Broken(), c.want) || v.Refused != c.refused || v.Won == 0 {
				t.Errorf("got %v; want the broken rules %q and %d refused", v, c.want, c.refused)
			}
			if c.scenario == "hung-node" && v.LongestWait > 250*time.Millisecond {
				t.Errorf("got a wait of %v; want a node timeout at most", v.LongestWait)
			}
		})
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
		if s.Name == "" || s.Claim == "" || s.Lesson == "" || seen[s.Name] {
			t.Errorf("got %+v; want a name of its own, a claim and a lesson", s)
		}
		seen[s.Name] = true
	}
}
