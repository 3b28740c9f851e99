package chaos_test

import (
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/quorumkit/redlock/chaos"
	"github.com/quorumkit/redlock/internal/lab/trace"
	"github.com/quorumkit/redlock/internal/testkit"
)

// realVariable, set to "full", has every scenario played on server processes:
// `make chaos`.
const realVariable = "REDLOCK_CHAOS_REAL"

// quick are the scenarios that the normal tests play there, with whom.
var quick = map[string][]string{
	"failover":             {trace.NameRedlock, trace.NameSingle},
	"clock-forward-quorum": {trace.NameTextbook},

	"grow-and-shrink":         {trace.NameRenewing},
	"operator-dies":           {trace.NameRenewing},
	"partition-between-lists": {trace.NameRedlock, trace.NameWithoutMembership},
	"removed-node-old-data":   {trace.NameRedlock, trace.NameWithoutMembership},
	"removed-node-emptied":    {trace.NameRedlock},
}

// The same claims on server processes, replicas, proxies and clocks that are set.
// With a lagging replica, one master has two holders, and five have one. All play at once, on
// dozens of servers: under the race detector, while other tests were compiled, none of them had
// a reply in six seconds. The embedded stage has the same code under it.
func TestScenariosOnServerProcesses(t *testing.T) {
	testkit.Unraced(t)
	inRealTime(t, chaos.Real, quick)
}

// And on the virtual stage in real time.
func TestScenariosOnTheEmbeddedStage(t *testing.T) {
	testkit.Full(t)
	inRealTime(t, chaos.Embedded, map[string][]string{"failover": {trace.NameSingle}})
}

// inRealTime plays some of the scenarios, or all if the variable says so.
func inRealTime(t *testing.T, b chaos.Backend, some map[string][]string) {
	t.Helper()
	full := os.Getenv(realVariable) == "full"
	var all sync.WaitGroup
	defer all.Wait()
	for _, s := range chaos.Scenarios() {
		crowd := strings.Contains(s.Name, "herd") || strings.Contains(s.Name, "vote")
		for _, want := range s.Showings {
			if !full && !slices.Contains(some[s.Name], want.Contender) {
				continue
			}
			play := func(t *testing.T) {
				t.Helper()
				needThere(t, s.Fit(b))
				if full && !crowd {
					t.Parallel() // they wait, most of the time; crowds do not
				}
				v := performOn(t, b, s, want)
				if !want.Fits(v) || v.Rounds == 0 {
					t.Errorf("got %v; want the broken rules %q and %d refused", v, want.Breaks, want.Refused)
				}
			}
			if name := s.Name + ", " + want.String(); full {
				t.Run(name, play)
			} else {
				all.Go(func() { t.Run(name, play) }) // a few, which wait for no processor
			}
		}
	}
}

// performOn plays a scenario in real time and judges it.
func performOn(t *testing.T, b chaos.Backend, s chaos.Scenario, want trace.Showing) chaos.Verdict {
	t.Helper()
	kit, err := chaos.ScenarioKit(want.Contender)
	testkit.Must(t, err)
	stage, err := chaos.OpenStage(t.Context(), b, 1, s.Nodes)
	testkit.Must(t, err)
	defer func() {
		if err := stage.Close(); err != nil {
			t.Error(err)
		}
	}()
	records, err := s.Play(t.Context(), stage, kit, want.Guarded)
	testkit.Must(t, err)
	return s.Judge().Judge(records)
}
