package chaos_test

import (
	"strings"
	"testing"
	"time"

	"github.com/quorumkit/redlock/chaos"
	"github.com/quorumkit/redlock/internal/lab/trace"
	"github.com/quorumkit/redlock/internal/testkit"
)

// calm is a plan without faults, whose clients have these habits.
func calm(waits bool, habits chaos.Profile) chaos.Plan {
	p := chaos.Plan{
		Seed: 1, Nodes: 3, Clients: 4, Names: 2, Lease: 3 * time.Second, MaxTTL: 4 * time.Second, For: time.Minute,
		Waits: waits, Renews: true, Threads: 2,
	}
	return p.With(habits)
}

// Each habit shows in the trace, and none without.
func TestClientsHaveTheHabitsOfTheirPlan(t *testing.T) {
	testkit.Unraced(t)
	var longest, least, most time.Duration
	var burst, barging, bounded int
	measure := func(p chaos.Plan) {
		longest, least, most, burst, barging, bounded = 0, time.Hour, 0, 0, 0, 0
		held, together := map[int64]time.Duration{}, map[time.Duration]int{}
		records := chaos.PlayVirtual(t, p, p.Redlock("redlock")).Records
		for _, r := range records {
			if r.Kind == trace.Asked {
				if r.Barging {
					barging++
				}
				together[r.At]++
				burst = max(burst, together[r.At])
			}
			if r.Kind == trace.Held {
				held[r.Hold] = r.At
				least, most = min(least, r.Until-r.At), max(most, r.Until-r.At)
				if r.Ends > 0 {
					bounded++
				}
			}
			if r.Kind == trace.Released {
				longest = max(longest, r.At-held[r.Hold])
			}
		}
		if v := p.Judge().Judge(records); len(v.Violations) > 0 || v.Won < 10 {
			t.Errorf("%+v: %v", p, v)
		}
	}
	for _, waits := range []bool{false, true} {
		measure(calm(waits, chaos.Profile{}))
		if longest > 6*time.Second || least < 2*time.Second || most > 3*time.Second || burst > 2 || barging+bounded > 0 {
			t.Errorf("without habits: holds of up to %v, leases of %v to %v, %d at once, %d barging, %d bounded", longest, least, most, burst, barging, bounded)
		}
		measure(calm(waits, chaos.Profile{Stays: 2}))
		if longest < 8*time.Second {
			t.Errorf("got holds of up to %v; want several leases", longest)
		}
		measure(calm(waits, chaos.Profile{Varied: 2, Bursts: 5, Barges: 3, Bounds: 3, Tries: 3, Does: 3, Reenters: 2, Reopens: 3, Turns: 2}))
		if least > 1500*time.Millisecond || most < 3500*time.Millisecond || burst < 16 || barging < 5 || bounded < 5 {
			t.Errorf("leases of %v to %v, %d at once, %d barging, %d bounded; want some of each", least, most, burst, barging, bounded)
		}
	}
}

// Contenders without any of this play such plans as well.
func TestAPlainLockPlaysPlansWithHabits(t *testing.T) {
	testkit.Unraced(t)
	p := calm(true, chaos.Profile{Varied: 2, Bursts: 5, Barges: 3, Bounds: 3, Tries: 3, Does: 3, Reenters: 2, Reopens: 3})
	if v := (trace.Judge{}).Judge(chaos.PlayVirtual(t, p, chaos.SingleMaster()).Records); v.Won < 50 || v.Count(chaos.Malformed) > 0 {
		t.Errorf("got %v", v)
	}
}

func TestAPlanRefusesNegativeHabits(t *testing.T) {
	p := calm(true, chaos.Profile{Barges: -1})
	if _, err := chaos.ParsePlan(p.String()); err == nil || !strings.Contains(err.Error(), "positive") {
		t.Errorf("got %v", err)
	}
}
