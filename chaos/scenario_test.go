package chaos_test

import (
	"context"
	"errors"
	"flag"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/chaos"
	"github.com/quorumkit/redlock/internal/lab/bubble"
	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/lab/trace"
	"github.com/quorumkit/redlock/internal/testkit"
)

// What each scenario shows of each contender: the rules that it breaks.
func TestScenariosShowWhatTheyClaim(t *testing.T) {
	testkit.Unraced(t)
	for _, s := range chaos.Scenarios() {
		for _, want := range s.Showings {
			t.Run(s.Name+", "+want.String(), func(t *testing.T) {
				testkit.Must(t, s.Fit(chaos.Virtual))
				kit, err := chaos.ScenarioKit(want.Contender)
				testkit.Must(t, err)
				v := s.Judge().Judge(perform(t, s, kit, want.Guarded))
				if !want.Fits(v) || v.Rounds == 0 {
					t.Errorf("got %v; want the broken rules %q and %d refused", v, want.Breaks, want.Refused)
				}
			})
		}
	}
}

func TestAShowingIsHeldAgainstAllThatWasBroken(t *testing.T) {
	two := chaos.Verdict{Violations: []chaos.Violation{{Rule: chaos.TwoHolders}, {Rule: chaos.TwoHolders}}}
	claim := trace.Showing{Contender: trace.NameSingle, Breaks: []chaos.Rule{chaos.TwoHolders}}
	for _, c := range []struct {
		showing trace.Showing
		verdict chaos.Verdict
		want    bool
	}{
		{claim, two, true},
		{claim, chaos.Verdict{}, false},
		{trace.Showing{}, two, false},
		{trace.Showing{May: claim.Breaks}, two, true},
		{trace.Showing{May: claim.Breaks}, chaos.Verdict{}, true},
		{trace.Showing{Breaks: claim.Breaks, May: []chaos.Rule{chaos.Litter}}, two, true},
		{trace.Showing{}, chaos.Verdict{}, true},
		{trace.Showing{Contender: trace.NameTextbook}, chaos.Verdict{Violations: []chaos.Violation{{Rule: chaos.Litter}}}, true},
		{trace.Showing{Contender: trace.NameRedlock}, chaos.Verdict{Violations: []chaos.Violation{{Rule: chaos.Litter}}}, false},
		{trace.Showing{Refused: 1}, chaos.Verdict{}, false},
		{trace.Showing{}, chaos.Verdict{Refused: 1}, false},
	} {
		if got := c.showing.Fits(c.verdict); got != c.want {
			t.Errorf("%+v, %v: got %t; want %t", c.showing, c.verdict, got, c.want)
		}
	}
}

func TestScenarioKitsAreKnownByName(t *testing.T) {
	for _, name := range trace.Contenders() {
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
		stage, err := chaos.NewVirtual(1, s.Nodes)
		testkit.Must(t, err)
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

// What a machine lacks is told before a scenario is played.
func TestAScenarioSaysWhyItCannotBePlayed(t *testing.T) {
	clock, ok := chaos.FindScenario("clock-forward-quorum")
	flush, also := chaos.FindScenario("flushall")
	if _, there := chaos.FindScenario("flood"); !ok || !also || there {
		t.Fatal("scenarios are not found by name")
	}
	if err := clock.Fit("cloud"); err == nil {
		t.Error("it fits a backend that there is not")
	}
	t.Setenv("XDG_CACHE_HOME", t.TempDir()) // nothing is built there yet
	t.Setenv("CC", "/nowhere/cc")
	if err := flush.Fit(chaos.Real); err != nil && !errors.Is(err, redisserver.ErrNoServer) {
		t.Errorf("flushall: got %v; want that it needs no clock", err)
	}
	if err := clock.Fit(chaos.Real); !errors.Is(err, redisserver.ErrNoFakeClock) && !errors.Is(err, redisserver.ErrNoServer) {
		t.Errorf("clock-forward-quorum: got %v; want ErrNoFakeClock", err)
	}
	t.Setenv("REDLOCK_TEST_SERVER", "")
	t.Setenv("PATH", "")
	if err := flush.Fit(chaos.Real); !errors.Is(err, redisserver.ErrNoServer) {
		t.Errorf("flushall: got %v; want ErrNoServer", err)
	}
	for _, b := range []chaos.Backend{chaos.Virtual, chaos.Embedded} {
		if err := clock.Fit(b); err != nil {
			t.Errorf("%s: got %v; want that it needs nothing", b, err)
		}
	}
}

func TestAScenarioNeedsItsNodes(t *testing.T) {
	s, _ := chaos.FindScenario("replace-node")
	kit, err := chaos.ScenarioKit(trace.NameRedlock)
	testkit.Must(t, err)
	stage, err := chaos.NewVirtual(1, s.Nodes-1)
	testkit.Must(t, err)
	defer stage.Close()
	if _, err := s.Play(t.Context(), stage, kit, true); err == nil {
		t.Error("got a run with a node too few")
	}
}

// A kit of redlock's with other leases than the scenarios' is refused before it plays.
func TestAScenarioRefusesLeasesThatDoNotFit(t *testing.T) {
	const lease = chaos.ScenarioLease
	ttl, short, fixed := redlock.WithTTL(lease), redlock.WithMaxTTL(lease), redlock.WithFixedLease()
	told := atomic.Int64{}
	ears := redlock.WithObserver(func(redlock.Event) { told.Add(1) }) // of what finds out, which is no play
	for _, c := range []struct {
		scenario string
		kit      chaos.Kit
		take     string // what the error advises; empty: it plays
	}{
		{"gc-pause", chaos.Redlock("redlock", ttl, short, ears), "WithFixedLease()"},
		{"gc-pause", chaos.Redlock("redlock"), `ScenarioKit("redlock")`},
		{"gc-pause", chaos.Redlock("redlock", fixed), "WithMaxTTL(3*time.Second)"},
		{"gc-pause", chaos.Redlock("redlock", short), "WithTTL(3*time.Second)"},
		{"gc-pause", chaos.Redlock("redlock", ttl, short), "WithFixedLease()"},
		{"gc-pause", chaos.Redlock("redlock", redlock.WithTTL(time.Second), redlock.WithMaxTTL(time.Second), fixed), `ScenarioKit("redlock")`},
		{"late-revocation", chaos.Redlock("redlock"), `ScenarioKit("redlock, renewing")`},
		{"gc-pause", chaos.Redlock("mine", ttl, short, fixed), ""},
		{"kleppmann-clock", chaos.Redlock("mine", ttl, short), ""}, // it shows renewal
		{"amnesia-minority", chaos.Redlock(trace.NameRenewing, ttl, short), ""},
	} {
		runs, err := chaos.PlayScenario(c.scenario, c.kit)
		if c.take == "" && (err != nil || runs[0].Verdict.Rounds == 0) {
			t.Errorf("%s with %s: got %v; want a run", c.scenario, c.kit.Name, err)
		}
		if c.take != "" && (err == nil || !strings.Contains(err.Error(), "leases do not fit") || !strings.Contains(err.Error(), c.take)) {
			t.Errorf("%s with %s: got %v; want the advice %s", c.scenario, c.kit.Name, err, c.take)
		}
	}
	if n := told.Load(); n != 0 {
		t.Errorf("an observer was told of %d events; want none", n)
	}
}

// A play looks like a test to package testing, and go test's -skip is not for it.
func TestAPlayIsNotSkipped(t *testing.T) {
	skip := flag.Lookup("test.skip").Value
	was := skip.String()
	defer func() { testkit.Must(t, skip.Set(was)) }()
	testkit.Must(t, skip.Set("Nothing"))
	kit, err := chaos.ScenarioKit(trace.NameRedlock)
	_, failed := chaos.PlayScenario("gc-pause", kit)
	testkit.Must(t, err, failed)
}

// A step that can't be done says which it was, and no script goes on for ever.
func TestAScenarioSaysWhichStepFailed(t *testing.T) {
	long := chaos.Kit{Name: "long leases", Open: chaos.Redlock("").Open} // of another library, as far as Play knows
	kit, err := chaos.ScenarioKit(trace.NameRedlock)
	testkit.Must(t, err)
	runs, err := chaos.PlayScenario("gc-pause", long, kit)
	if len(runs) != 1 || runs[0].Verdict.Refused != 1 {
		t.Errorf("got %d runs; want that of the kit that can play, with one write that the guard refused", len(runs))
	}
	const wants = "chaos: gc-pause with long leases: bob waits for report, for which the scenario gives 9s: context deadline exceeded\n"
	if err == nil || !strings.HasPrefix(err.Error(), wants) {
		t.Errorf("got %v; want %q", err, wants)
	}
	for want, endless := range map[string]chaos.Scenario{"add node-1: no quorum": chaos.Unlistable(), "the scenario is not over after 5m0s": chaos.Endless()} {
		err = bubble.Run(func() error {
			stage, err := chaos.NewVirtual(1, 2)
			if err != nil {
				return err
			}
			_, err = endless.Play(context.Background(), stage, kit, true)
			return errors.Join(err, stage.Close())
		})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v; want %q in it", err, want)
		}
	}
}

// What nodes store, and how they are, is in the trace of a scenario.
func TestAScenariosTraceKnowsTheNodes(t *testing.T) {
	i := slices.IndexFunc(chaos.Scenarios(), func(s chaos.Scenario) bool { return s.Name == "amnesia-majority" })
	s := chaos.Scenarios()[i]
	for _, name := range []string{trace.NameRedlock, trace.NameTextbook} {
		kit, err := chaos.ScenarioKit(name)
		testkit.Must(t, err)
		stored, blank := map[string]map[string]bool{}, map[string]bool{}
		for _, r := range perform(t, s, kit, true) {
			switch {
			case r.Kind == trace.Turned && r.Text == trace.Blank:
				blank[r.Node] = true
			case r.Kind == trace.Stored && r.Client != "":
				if stored[r.Client] == nil {
					stored[r.Client] = map[string]bool{}
				}
				stored[r.Client][r.Node] = true
				if r.Hold == 0 || r.Until < chaos.ScenarioLease {
					t.Errorf("%s: got %+v; want the attempt and the expiry", name, r)
				}
			}
		}
		second := 0
		if name == trace.NameTextbook {
			second = 3
		}
		if len(stored["ann"]) != 5 || len(stored["bob"]) != second || len(blank) != 3 || len(stored["another"]) != 0 {
			t.Errorf("%s: got keys %v and blank nodes %v; want ann's on 5, bob's on %d, and 3 blank", name, stored, blank, second)
		}
	}
}
