package broken_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock/chaos"
	"github.com/quorumkit/redlock/internal/lab/trace"
	"github.com/quorumkit/redlock/internal/testkit"
)

const (
	// variable names the environment variable with the way that is in force.
	variable = "REDLOCK_CHAOS_BROKEN"
	// nothing is its value where the broken build is to behave as the sound one.
	nothing = "nothing"
	// orderVariable makes a process of the broken build explore.
	orderVariable = "REDLOCK_CHAOS_ORDER"
	// planVariable makes it play one plan.
	planVariable = "REDLOCK_CHAOS_PLAN"
	// planLength is how long every plan of an exploration is.
	planLength = 30 * time.Second
)

// order is an exploration: the plans of Seed, Seed+Step and so on, at most Plans
// and for about AtMost, until one breaks a rule.
type order struct {
	Seed, Step uint64
	Plans      int
	AtMost     time.Duration
	Shrink     bool
	Kinds      []chaos.Break // of faults; none: all
	Load       load
	Loads      bool   // every other plan has one of the loads, in turn, and is aimed at what drawn plans seldom reach
	Pauses     bool   // the library stands still between its steps
	Scenario   string // this one, in the place of plans; empty if none
}

// load is how the clients of the plans get their locks.
type load int

const (
	drawn     load   = iota // as each plan has it
	asking                  // by asking again and again
	waiting                 // by waiting in line
	renewing                // the same, and leases are renewed: releases grant them
	sharing                 // the same, and every other wait is to share
	gathering               // the same, but every other wait is for a set
	electing                // the same, but every other wait is for an election
	slotting                // the same, but every other wait is for a slot
	staying                 // holders stay, by leases that are renewed; libraries are closed and opened
	passing                 // several goroutines of few processes wait for few names, and pass them on
	loads     = iota        // how many there are
)

// on makes a plan's clients get their locks so. Shared ones, and sets, come only where the
// load says so: without, it is the plan that it was before there were any.
func (l load) on(p *chaos.Plan) {
	if l == drawn {
		return
	}
	if l != staying {
		p.Waits = l >= waiting
	}
	p.Renews = l >= renewing
	p.Varied, p.Stays, p.Bursts, p.Tries, p.Does, p.Barges, p.Bounds, p.Reenters, p.Reopens, p.Turns = 0, 0, 0, 0, 0, 0, 0, 0, 0, 0
	p.Shares, p.Sets, p.Slots, p.Leads = 0, 0, 0, 0
	switch l {
	case sharing:
		p.Shares = 2
	case gathering:
		p.Shares, p.Sets = 5, 2
	case electing:
		p.Leads, p.Linger = 2, 2 // with reigns that observers see
	case slotting:
		p.Slots = 2
	case staying:
		p.Stays, p.Reopens = 2, 2
	case passing:
		p.Threads, p.Names, p.Clients = 4, min(p.Names, 2), min(p.Clients, 4)
		p.Faults = slices.DeleteFunc(p.Faults, func(f chaos.Fault) bool { return f.Client > "client-3" || len(f.Client) > len("client-3") })
	case drawn, asking, waiting, renewing:
	}
}

// aims makes a plan of this load reach, in each play, states that drawn plans seldom reach.
func (l load) aims(p *chaos.Plan) {
	switch l {
	case asking: // a clock that drifts is read again after long, beside those that do not
		p.Faults = []chaos.Fault{
			{Kind: chaos.Drift, At: time.Second, For: planLength, Delay: 5 * time.Millisecond},
			{Kind: chaos.Crash, At: 5 * time.Second, For: 15 * time.Second},
		}
	case renewing: // no word of a grant comes: a look finds it
		p.Faults = []chaos.Fault{{Kind: chaos.LoseCalls, At: 5 * time.Second, For: 20 * time.Second, Node: chaos.Everything}}
	case slotting:
		p.Tries = 3 // some ask once
	case sharing: // several goroutines share
		p.Threads, p.Names = 4, min(p.Names, 2)
	case drawn, waiting, gathering, electing, staying, passing:
	}
}

// found is what an exploration came to.
type found struct {
	Plans   int
	Rounds  int
	Won     int
	Faults  int
	Virtual time.Duration
	Took    time.Duration
	Seed    uint64       // of the plan that broke a rule
	Broken  []chaos.Rule // that it broke; empty if none
	First   string       // what broke first
	Plan    string       // it, or what it shrank to
	Small   int          // how many faults that has
}

// TestHunt is the inside of an exploration, in the broken build.
func TestHunt(t *testing.T) {
	text := os.Getenv(orderVariable)
	if text == "" {
		t.Skip(orderVariable + " has no order")
	}
	var o order
	testkit.Must(t, json.Unmarshal([]byte(text), &o))
	line, err := json.Marshal(hunt(t, o))
	testkit.Must(t, err)
	fmt.Printf("\nfound: %s\n", line)
}

func hunt(t *testing.T, o order) found {
	t.Helper()
	var f found
	if o.Scenario != "" {
		for start := time.Now(); f.Plans < o.Plans && time.Since(start) < o.AtMost && len(f.Broken) == 0; {
			plans := f.Plans + 1
			f = perform(t, o.Scenario, max(o.Seed, 1)+uint64(f.Plans))
			f.Plans, f.Took = plans, time.Since(start)
		}
		return f
	}
	for start := time.Now(); f.Plans < o.Plans && time.Since(start) < o.AtMost; f.Took = time.Since(start) {
		p := chaos.Swarm(o.Seed+o.Step*uint64(f.Plans), planLength, o.Kinds...)
		l := o.Load
		if o.Loads && f.Plans%2 == 1 {
			l = load(1 + f.Plans/2%(loads-1))
		}
		l.on(&p)
		if o.Loads {
			l.aims(&p)
		}
		v := play(t, p)
		f.Plans, f.Rounds, f.Won, f.Faults, f.Virtual = f.Plans+1, f.Rounds+v.Rounds, f.Won+v.Won, f.Faults+len(p.Faults), f.Virtual+p.For
		if f.Broken = v.Broken(); len(f.Broken) > 0 {
			f.Seed, f.First, f.Took = p.Seed, v.Violations[0].String(), time.Since(start)
			if o.Shrink {
				p = chaos.Shrink(p, func(p chaos.Plan) bool { return play(t, p).Count(v.Violations[0].Rule) > 0 })
			}
			f.Plan, f.Small = p.String(), len(p.Faults)
			return f
		}
	}
	return f
}

// perform plays a scenario, with leases that are lengthened, and the latencies of a seed.
func perform(t *testing.T, name string, seed uint64) (f found) {
	t.Helper()
	s, ok := chaos.FindScenario(name)
	kit, err := chaos.ScenarioKit(trace.NameRenewing)
	if !ok || err != nil {
		t.Fatalf("scenario %q: found %t, %v", name, ok, err)
	}
	synctest.Test(t, func(t *testing.T) {
		stage, err := chaos.NewVirtual(seed, s.Nodes)
		testkit.Must(t, err)
		records, err := s.Play(t.Context(), stage, kit, true)
		v := s.Judge().Judge(records)
		f = found{Seed: seed, Plans: 1, Rounds: v.Rounds, Won: v.Won, Broken: v.Broken()}
		if len(v.Violations) > 0 {
			f.First = v.Violations[0].String()
		}
		if len(f.Broken) == 0 && err != nil {
			t.Error(err)
		}
		if err := stage.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

func play(t *testing.T, p chaos.Plan) chaos.Verdict {
	t.Helper()
	return chaos.PlayVirtual(t, p, p.Redlock("redlock")).Verdict
}

// explore runs an exploration of the broken build in a process of its own.
func explore(t *testing.T, binary, way string, o order) found {
	t.Helper()
	text, err := json.Marshal(o)
	testkit.Must(t, err)
	out := inside(t, binary, "^TestHunt$", append(pausesIn(o.Pauses), variable+"="+way, orderVariable+"="+string(text))...)
	_, line, _ := strings.Cut(out, "\nfound: ")
	line, _, _ = strings.Cut(line, "\n")
	var f found
	if err := json.Unmarshal([]byte(line), &f); err != nil {
		t.Fatalf("%s: %v\n%s", way, err, out)
	}
	return f
}

// inside runs one of this package's tests in the broken build.
func inside(t *testing.T, binary, test string, env ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary, "-test.run="+test, "-test.v", "-test.timeout=0")
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%q: %v\n%s", env, err, out)
	}
	return string(out)
}
