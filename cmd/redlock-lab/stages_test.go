package main_test

import (
	"os"
	"strings"
	"testing"

	"github.com/quorumkit/redlock/chaos"
)

// Every scenario from the command, with all contenders that it claims something about. In
// virtual time nobody may outlive the play: silent-head's first in line once did, and the
// program died of it in every run.
func TestLabPlaysEveryScenario(t *testing.T) {
	t.Parallel()
	for _, s := range chaos.Scenarios() {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			playsAsClaimed(t, s, chaos.Virtual)
		})
	}
}

// The same in real time takes some minutes on either backend: REDLOCK_CHAOS_REAL=full.
func TestLabPlaysEveryScenarioInRealTime(t *testing.T) {
	t.Parallel()
	if os.Getenv("REDLOCK_CHAOS_REAL") != "full" {
		t.Skip("REDLOCK_CHAOS_REAL is not full")
	}
	for _, s := range chaos.Scenarios() {
		for _, b := range []chaos.Backend{chaos.Embedded, chaos.Real} {
			t.Run(s.Name+", "+string(b), func(t *testing.T) {
				t.Parallel()
				if err := s.Fit(b); err != nil {
					t.Skip(err)
				}
				playsAsClaimed(t, s, b)
			})
		}
	}
}

// playsAsClaimed makes the command play a scenario with its contenders.
func playsAsClaimed(t *testing.T, s chaos.Scenario, b chaos.Backend) {
	t.Helper()
	r := run(t, "play", s.Name, "--backend", string(b), "--json")
	all := playedLines(t, r)
	if r.code != 0 || len(all) != len(s.Showings) || strings.Contains(r.errs, "panic") {
		t.Fatalf("got exit status %d and %d contenders of %d\n%s%s", r.code, len(all), len(s.Showings), r.out, r.errs)
	}
	for i, p := range all {
		if want := s.Showings[i]; p.Contender != want.Contender || p.Guarded != want.Guarded || p.AsClaimed == nil || !*p.AsClaimed {
			t.Errorf("got %+v; want %v, as claimed", p, want)
		}
	}
}
