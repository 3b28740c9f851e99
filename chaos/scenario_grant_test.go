package chaos_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock/chaos"
	"github.com/quorumkit/redlock/internal/lab/trace"
	"github.com/quorumkit/redlock/internal/testkit"
)

// granted are how many nodes told a client in [from, until) that it was granted the lock.
func granted(records []chaos.Record, client string, from, until time.Duration) (nodes int) {
	told := map[string]bool{}
	for _, r := range records {
		if r.Kind == trace.Granted && r.Client == client && from <= r.At && r.At < until {
			told[r.Node] = true
		}
	}
	return len(told)
}

// when is the first record of a kind, of a client, or of a fault of that kind.
func when(t *testing.T, records []chaos.Record, k trace.Kind, client string, f chaos.Break) time.Duration {
	t.Helper()
	for _, r := range records {
		if r.Kind == k && r.Client == client && (f == "" || r.Fault.Kind == f) {
			return r.At
		}
	}
	t.Fatalf("nothing was %s (%s %s)", k, client, f)
	return 0
}

// That the rules hold says nothing, unless the grant came, or failed to come, as the
// scenario has it.
func TestScenariosOfGrantsAreAboutGrants(t *testing.T) {
	const end = time.Hour
	for name, look := range map[string]func(t *testing.T, records []chaos.Record){
		"lost-grants": func(t *testing.T, records []chaos.Record) {
			t.Helper()
			held := when(t, records, trace.Held, "cara", "")
			if bob, cara := granted(records, "bob", 0, end), granted(records, "cara", 0, held); bob != 0 || cara != 2 {
				t.Errorf("bob was told by %d nodes, cara by %d; want 0 and 2", bob, cara)
			}
		},
		"heir-stops": func(t *testing.T, records []chaos.Record) {
			t.Helper()
			woken, cara := when(t, records, trace.Mended, "", chaos.Suspend), when(t, records, trace.Held, "cara", "")
			held, mended := when(t, records, trace.Held, "bob", ""), when(t, records, trace.Mended, "", chaos.Pause)
			if n := granted(records, "bob", woken, mended); cara > woken || n < 3 || held < mended {
				t.Errorf("%d nodes told bob of an earlier grant, cara had the lock at %v, and bob at %v; want three, before %v, and after %v", n, cara, held, woken, mended)
			}
			if after := cara - when(t, records, trace.Broke, "", chaos.Suspend); after < 2900*time.Millisecond {
				t.Errorf("cara has it after %v; want the grant to last three seconds", after)
			}
		},
		"heir-leaves": func(t *testing.T, records []chaos.Record) {
			t.Helper()
			quit := when(t, records, trace.Quit, "bob", "")
			if before, after := granted(records, "bob", 0, quit), granted(records, "bob", quit, end); before != 0 || after < 3 {
				t.Errorf("%d nodes told bob before he left, %d after; want none, and a quorum", before, after)
			}
		},
		"split-grant": func(t *testing.T, records []chaos.Record) {
			t.Helper()
			mended := when(t, records, trace.Mended, "", chaos.CutRequests)
			first, held := granted(records, "bob", 0, mended), when(t, records, trace.Held, "bob", "")
			if then := granted(records, "bob", mended, end); first != 2 || then < 3 || held < mended {
				t.Errorf("%d nodes granted to bob at first, %d then, and he had it at %v; want 2, the others, and after %v", first, then, held, mended)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, ok := chaos.FindScenario(name)
			kit, err := chaos.ScenarioKit(trace.NameRenewing)
			testkit.Must(t, err)
			if !ok {
				t.Fatal("there is no such scenario")
			}
			look(t, perform(t, s, kit, true))
		})
	}
}

// An heir that left has no entry and no key on any node.
func TestAnHeirThatLeavesLeavesNothing(t *testing.T) {
	s, _ := chaos.FindScenario("heir-leaves")
	kit, err := chaos.ScenarioKit(trace.NameRenewing)
	testkit.Must(t, err)
	synctest.Test(t, func(t *testing.T) {
		stage, err := chaos.NewVirtual(1, s.Nodes)
		testkit.Must(t, err)
		_, err = s.Play(t.Context(), stage, kit, true)
		testkit.Must(t, err)
		for i, node := range connect(t, stage, "looker") {
			entries, err := node.ZRange(t.Context(), "redlock:queue:report", 0, -1).Result()
			testkit.Must(t, err)
			keys, err := node.Exists(t.Context(), "report").Result()
			testkit.Must(t, err)
			if len(entries) != 0 || keys != 0 {
				t.Errorf("node %d: entries %q and %d keys; want none", i, entries, keys)
			}
		}
		testkit.Must(t, stage.Close())
	})
}
