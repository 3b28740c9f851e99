package chaos_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/chaos"
	"github.com/quorumkit/redlock/internal/lab/trace"
	"github.com/quorumkit/redlock/internal/testkit"
)

// go-redis tells of every failed dial on stderr: thousands of lines here.
type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}

// frozenVariable holds the addresses of the nodes: a process of this binary that has it is a
// client.
const frozenVariable = "REDLOCK_CHAOS_FROZEN"

// TestMain plays a client, where a test has started this binary as one.
func TestMain(m *testing.M) {
	if os.Getenv(loudVariable) == "" {
		redis.SetLogger(silence{})
	}
	if addrs := os.Getenv(frozenVariable); addrs != "" {
		if err := playFrozen(context.Background(), addrs); err != nil {
			fmt.Fprintln(os.Stderr, "a client of its own:", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// smallPlan is a plan that takes a second or two of real time.
func smallPlan(seed uint64, length time.Duration, mix chaos.Mix) chaos.Plan {
	p := chaos.NewPlan(seed, length, mix)
	p.Clients, p.Names = 4, 2
	p.Faults = slices.DeleteFunc(p.Faults, func(f chaos.Fault) bool { return f.Client > "client-3" || len(f.Client) > 8 })
	return p
}

// A plan has as many nodes, clients and names as it is asked for, and its faults befall
// those.
func TestAPlanHasAsManyAsItIsAskedFor(t *testing.T) {
	mix := chaos.Mix{Nodes: 3, Clients: 2, Names: 1, Every: 100 * time.Millisecond}
	p := chaos.NewPlan(1, time.Minute, mix)
	if p.Nodes != 3 || p.Clients != 2 || p.Names != 1 || len(p.Faults) < 100 {
		t.Fatalf("got %d nodes, %d clients, %d names and %d faults; want 3, 2, 1, and many", p.Nodes, p.Clients, p.Names, len(p.Faults))
	}
	of := map[string]bool{}
	for _, f := range p.Faults {
		of[f.Client] = true
		if f.Node >= 3 {
			t.Errorf("got %v; want a fault of a node that there is", f)
		}
	}
	if len(of) != 3 || !of["client-0"] || !of["client-1"] {
		t.Errorf("got faults of %v; want them of all, and of client-0 and client-1", of)
	}
	if usual := chaos.NewPlan(1, time.Minute, chaos.Mix{}); usual.Nodes != 5 || usual.Clients != 20 || usual.Names != 8 {
		t.Errorf("got %d nodes, %d clients, %d names; want 5, 20, 8", usual.Nodes, usual.Clients, usual.Names)
	}
	stage, err := chaos.NewVirtual(1, 3)
	testkit.Must(t, err)
	defer stage.Close()
	bad := chaos.NewPlan(1, time.Minute, chaos.Mix{Clients: -1})
	if _, err := bad.Play(stage, bad.Redlock("redlock")); err == nil || !strings.Contains(err.Error(), "-1 clients") {
		t.Errorf("got %v; want an error that names -1 clients", err)
	}
}

// Byte by byte, for plans with every kind of fault among them; and two seeds give
// two traces.
func TestAPlanGivesTheSameTraceEachTime(t *testing.T) {
	testkit.Unraced(t)
	if raceDetector {
		t.Skip("the race detector has Go's scheduler draw who is next")
	}
	seen := map[string]uint64{}
	for _, kinds := range [][]chaos.Break{
		{chaos.Step, chaos.Failover, chaos.Forget},
		{chaos.Jitter, chaos.Reorder, chaos.Refuse},
		{chaos.HalfOpen, chaos.OtherList, chaos.Pause},
		{chaos.Old, chaos.Drift, chaos.Suspend},
		{chaos.Twice, chaos.WallClock},
		{chaos.ListChange, chaos.Crash},
	} {
		p := planWith(t, kinds...)
		first := playTrail(t, p)
		if again := playTrail(t, p); !bytes.Equal(first, again) { // a busy machine stopped a goroutine in one of them
			if third := playTrail(t, p); !bytes.Equal(first, third) && !bytes.Equal(again, third) {
				t.Errorf("seed %d: three runs differ, the first two %s", p.Seed, firstDifference(first, again))
			}
		}
		if other, there := seen[string(first)]; there && other != p.Seed {
			t.Errorf("seeds %d and %d give one trace", other, p.Seed)
		}
		seen[string(first)] = p.Seed
		p.Seed++
		if bytes.Equal(first, playTrail(t, p)) {
			t.Errorf("the faults of seed %d give one trace with two seeds", p.Seed-1)
		}
	}
}

// firstDifference is the first record that two traces do not share.
func firstDifference(first, again []byte) string {
	a, b := strings.Split(string(first), "\n"), strings.Split(string(again), "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Sprintf("from record %d on:\n%s\n%s", i, a[i], b[i])
		}
	}
	return fmt.Sprintf("in length: %d and %d records", len(a), len(b))
}

// planWith is the first small plan that has a fault of each kind. Its faults are
// short, so that they seldom meet: with a majority broken, attempts fail soon,
// and a caller may run ahead of the library's own goroutines.
func planWith(t *testing.T, kinds ...chaos.Break) chaos.Plan {
	t.Helper()
	mix := chaos.Mix{Every: time.Second, Longest: 800 * time.Millisecond, Kinds: append(kinds,
		chaos.Crash, chaos.Stall, chaos.Cut, chaos.CutReplies, chaos.LoseRequests, chaos.LoseReplies, chaos.Slow, chaos.Reset, chaos.Flush,
		chaos.Pause, chaos.Suspend, chaos.Old, chaos.Evict, chaos.Drift, chaos.Jitter, chaos.Reorder, chaos.HalfOpen, chaos.Refuse)}
	for seed := range uint64(1000) {
		p := smallPlan(seed, 15*time.Second, mix)
		missing := slices.ContainsFunc(kinds, func(k chaos.Break) bool {
			return !slices.ContainsFunc(p.Faults, func(f chaos.Fault) bool { return f.Kind == k })
		})
		if !missing {
			return p
		}
	}
	t.Fatalf("no plan has %q", kinds)
	return chaos.Plan{}
}

func trail(t *testing.T, records []chaos.Record) []byte {
	t.Helper()
	var b bytes.Buffer
	testkit.Must(t, trace.Write(&b, records))
	return b.Bytes()
}

func TestExploredPlansKeepAllRules(t *testing.T) {
	testkit.NotRaced(t)
	won := 0
	for seed := range uint64(3) {
		p := smallPlan(seed, 30*time.Second, chaos.Mix{Every: 3 * time.Second})
		v := chaos.Explore(t, p, p.Redlock("redlock"))
		won += v.Won
	}
	if won < 50 {
		t.Errorf("got %d locks in all; the runs show nothing", won)
	}
}

// The control: nodes that forget, one after the other, and a lock that lets them
// vote at once. What finds nothing here shows nothing above.
func TestExplorationFindsWhatAProtectionWasFor(t *testing.T) {
	testkit.Unraced(t)
	amnesia := chaos.Mix{Kinds: []chaos.Break{chaos.Forget}, Every: 300 * time.Millisecond, Longest: 20 * time.Millisecond}
	for _, kit := range []string{"redlock", "redlock without membership", "textbook Redlock"} {
		t.Run(kit, func(t *testing.T) {
			found := 0
			for seed := range uint64(3) {
				p := smallPlan(seed, 20*time.Second, amnesia)
				of := map[string]chaos.Kit{
					"redlock":                    p.Redlock(kit),
					"redlock without membership": p.Redlock(kit, redlock.WithoutMembership()),
					"textbook Redlock":           chaos.TextbookRedlock(),
				}[kit]
				v := trace.Judge{}.Judge(chaos.PlayVirtual(t, p, of).Records)
				found += v.Count(chaos.TwoHolders)
			}
			if (found > 0) != (kit != "redlock") {
				t.Errorf("got %d times two holders", found)
			}
		})
	}
}

// One rule can be looked for: what else a lock breaks does not matter then. A lock that
// tells nobody of a loss is never late to tell.
func TestAnExplorationLooksForTheRulesThatAreGiven(t *testing.T) {
	p := smallPlan(0, 20*time.Second, chaos.Mix{Kinds: []chaos.Break{chaos.Forget}, Every: 300 * time.Millisecond, Longest: 20 * time.Millisecond})
	p.Linger = 2 // holders rest past their leases
	v := chaos.PlayVirtual(t, p, chaos.TextbookRedlock()).Verdict
	if v.Count(chaos.TwoHolders) == 0 || v.Count(chaos.LateNotice) > 0 || len(v.Broken()) < 2 {
		t.Errorf("got %v; want two holders and more, and no late notice", v)
	}
	explore := func(rules ...chaos.Rule) (v chaos.Verdict, passed bool) {
		passed = passes(func(t *testing.T) { v = chaos.Explore(t, p, chaos.TextbookRedlock(), rules...) }) //nolint:thelper // it is a test
		return v, passed
	}
	if v, passed := explore(chaos.WrongList); !passed || len(v.Violations) > 0 {
		t.Errorf("got %v, passed: %t; want no word of another rule", v, passed)
	}
	if v, passed := explore(chaos.WrongList, chaos.TwoHolders); passed || !slices.Equal(v.Broken(), []chaos.Rule{chaos.TwoHolders}) {
		t.Errorf("got %v, passed: %t; want two holders, and no other rule", v, passed)
	}
}

func TestShrinkKeepsWhatIsNeededAndNothingElse(t *testing.T) {
	p := chaos.NewPlan(3, 10*time.Minute, chaos.Mix{})
	ofAll := slices.DeleteFunc(slices.Clone(p.Faults), func(f chaos.Fault) bool { return f.Client != "" }) // one that has a client keeps it
	needed := []chaos.Fault{ofAll[4], ofAll[10]}
	asked := 0
	got := chaos.Shrink(p, func(p chaos.Plan) bool {
		asked++
		return slices.Contains(p.Faults, needed[0]) && slices.Contains(p.Faults, needed[1]) && p.Clients >= 3 && p.For > needed[1].At+10*time.Second
	})
	if !slices.Equal(got.Faults, needed) {
		t.Errorf("got %v; want %v", got.Faults, needed)
	}
	if got.Clients >= p.Clients || got.For >= p.For {
		t.Errorf("got %d clients for %v of %d for %v; want less", got.Clients, got.For, p.Clients, p.For)
	}
	if asked > 200 {
		t.Errorf("got %d runs; want few", asked)
	}
}

func TestAPlanIsReadAsItWasWritten(t *testing.T) {
	p := chaos.NewPlan(9, time.Minute, chaos.Mix{})
	got, err := chaos.ParsePlan(p.String())
	if err != nil || got.String() != p.String() || len(got.Faults) == 0 {
		t.Errorf("got %v, %v; want %v", got, err, p)
	}
	for _, bad := range []string{"", "{}", `{"nodes":5,"clients":1,"names":1,"lease":10,"for":1,"maxTTL":9}`} {
		if _, err := chaos.ParsePlan(bad); err == nil {
			t.Errorf("%q: got no error", bad)
		}
	}
}

// A fault that could befall nobody is refused before anything is played, and what to give
// instead is said.
func TestAFaultThatBefallsNobodyIsRefused(t *testing.T) {
	for _, c := range []struct {
		fault chaos.Fault
		says  string
	}{
		{chaos.Fault{Kind: chaos.Crash, Node: 7}, "crash of node 7: there is no such node or moment: give a node of 0 to 4, and"},
		{chaos.Fault{Kind: chaos.OtherList, To: 5}, "give a node of 0 to 4"},
		{chaos.Fault{Kind: chaos.Pause, Where: "lunch"}, "pause of all clients at lunch: there is no such node or moment"},
		{chaos.Fault{Kind: chaos.Pause, Client: "ann"}, "pause of ann: there is no such client: give one of client-0 to client-2, or none for all"},
		{chaos.Fault{Kind: chaos.Step}, "clock step of node 0: without a Delay it does nothing: give one"},
		{chaos.Fault{Kind: chaos.Slow}, "without a Delay"},
		{chaos.Fault{Kind: chaos.Pause, At: 40 * time.Second}, "pause of all clients: at 40s the plan does not run: give an At from 0 to below 30s"},
		{chaos.Fault{Kind: chaos.Stall, At: -1}, "give an At from 0"},
		{chaos.Fault{Kind: chaos.ListChange, Node: -2}, "give a node of 0 to 4"},
		{chaos.Fault{Kind: chaos.ListChange, MaxTTL: 9 * time.Millisecond}, "maxTTL 9ms: give 10ms to 24h0m0s, in whole milliseconds, or none"},
		{chaos.Fault{Kind: chaos.ListChange, MaxTTL: 25 * time.Hour}, "maxTTL 25h0m0s: give 10ms to"},
		{chaos.Fault{Kind: chaos.ListChange, MaxTTL: time.Second + 1}, "maxTTL 1.000000001s: give"},
		{chaos.Fault{Kind: chaos.ListChange, Strict: "yes"}, `strict "yes": give "on" or "off", or none`},
		{chaos.Fault{Kind: chaos.Crash, MaxTTL: time.Second}, `maxTTL 1s, strict "": only a change of the list has them: leave them out`},
		{chaos.Fault{Kind: chaos.Crash, Strict: "on"}, `strict "on": only a change`},
	} {
		p := chaos.NewPlan(1, 30*time.Second, chaos.Mix{Clients: 3, Kinds: []chaos.Break{chaos.Crash}})
		p.Faults = append(p.Faults, c.fault)
		stage := openVirtual(t, 1, p.Nodes)
		if _, err := p.Play(stage, p.Redlock("redlock")); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v: got %v; want %q", c.fault, err, c.says)
		}
		if _, err := stage.Connect("founder"); err != nil {
			t.Errorf("%v: got %v; want nothing played", c.fault, err)
		}
		if _, err := chaos.ParsePlan(p.String()); err == nil {
			t.Errorf("%v: got no error where the plan is parsed", c.fault)
		}
	}
	p := chaos.NewPlan(1, time.Minute, chaos.Mix{Nodes: -1})
	if passes(func(t *testing.T) { chaos.PlayVirtual(t, p, p.Redlock("redlock")) }) { //nolint:thelper // it is a test
		t.Error("got a test that passes, of a plan without nodes")
	}
}

// REDLOCK_CHAOS_PLAN repeats what a failed exploration printed.
func TestRepeatAPlan(t *testing.T) {
	text := os.Getenv("REDLOCK_CHAOS_PLAN")
	if text == "" {
		t.Skip("REDLOCK_CHAOS_PLAN has no plan")
	}
	p, err := chaos.ParsePlan(text)
	testkit.Must(t, err)
	records := chaos.PlayVirtual(t, p, p.Redlock("redlock")).Records
	t.Logf("%s\n%v", trail(t, records), p.Judge().Judge(records))
}

func TestAStageRefusesWhatItDoesNotKnow(t *testing.T) {
	stage := openVirtual(t, 1, 3)
	if _, err := stage.Connect("ann"); err != nil {
		t.Fatal(err)
	}
	if _, err := stage.Connect("ann"); err == nil {
		t.Error("got a second client of one name; want an error")
	}
	for _, c := range []struct {
		fault chaos.Fault
		want  error
	}{
		{chaos.Fault{Kind: chaos.Crash, Node: 3}, chaos.ErrUnknownTarget},
		{chaos.Fault{Kind: chaos.Cut, Node: 0, Client: "bob"}, chaos.ErrUnknownTarget},
		{chaos.Fault{Kind: chaos.Suspend, Client: "bob"}, chaos.ErrUnknownTarget},
		{chaos.Fault{Kind: chaos.OtherList, Node: 1, To: 3}, chaos.ErrUnknownTarget},
		{chaos.Fault{Kind: "arson", Node: 0}, errors.ErrUnsupported},
	} {
		if err := stage.Break(c.fault); !errors.Is(err, c.want) {
			t.Errorf("%v: got %v; want %v", c.fault, err, c.want)
		}
	}
}

func TestFaultsAreSaidInWords(t *testing.T) {
	for want, f := range map[string]chaos.Fault{
		"crash of node 2 for 3s":                            {Kind: chaos.Crash, Node: 2, For: 3 * time.Second},
		"cut replies between ann and all nodes for 1s":      {Kind: chaos.CutReplies, Node: chaos.Everything, Client: "ann", For: time.Second},
		"slow by 200ms between all clients and node 0":      {Kind: chaos.Slow, Delay: 200 * time.Millisecond},
		"DEL report of node 1":                              {Kind: chaos.Delete, Key: "report", Node: 1},
		"pause of ann for 1m0s":                             {Kind: chaos.Pause, Client: "ann", For: time.Minute},
		"suspend of ann for 1m0s":                           {Kind: chaos.Suspend, Client: "ann", For: time.Minute},
		"client's wall clock step by -5s of ann":            {Kind: chaos.WallClock, Client: "ann", Delay: -5 * time.Second},
		"pause of all clients at release":                   {Kind: chaos.Pause, Where: chaos.AtRelease},
		"jitter by 2s between ann and node 1 for 1s":        {Kind: chaos.Jitter, Client: "ann", Node: 1, Delay: 2 * time.Second, For: time.Second},
		"reordering by 2s between ann and all nodes for 1s": {Kind: chaos.Reorder, Client: "ann", Node: chaos.Everything, Delay: 2 * time.Second, For: time.Second},
		"delivery twice between ann and node 1 for 1s":      {Kind: chaos.Twice, Client: "ann", Node: 1, For: time.Second},
		"delivery twice, 1s later, between ann and node 1":  {Kind: chaos.Twice, Client: "ann", Node: 1, Delay: time.Second},
		"half-open connections between ann and node 1":      {Kind: chaos.HalfOpen, Client: "ann", Node: 1, For: time.Second},
		"refused connections between ann and node 1 for 1s": {Kind: chaos.Refuse, Client: "ann", Node: 1, For: time.Second},
		"another node list of ann: node 2 in the place of node 1, for 1s": {
			Kind: chaos.OtherList, Client: "ann", Node: 1, To: 2, For: time.Second,
		},
		"change of the list by node 1":                                 {Kind: chaos.ListChange, Node: 1},
		"change of the list by a close, whose operator dies at settle": {Kind: chaos.ListChange, Node: chaos.Everything, Where: chaos.AtSettle},
		"change of the list by node 1 and MaxTTL 6s and strict recovery off, and another comes after 1s": {
			Kind: chaos.ListChange, Node: 1, MaxTTL: 6 * time.Second, Strict: "off", For: time.Second,
		},
		"clock step by -20s of node 1":                       {Kind: chaos.Step, Delay: -20 * time.Second, Node: 1},
		"clock drift by 5ms a second of node 1":              {Kind: chaos.Drift, Delay: 5 * time.Millisecond, Node: 1},
		"eviction report of node 1":                          {Kind: chaos.Evict, Key: "report", Node: 1},
		"failover to a replica that lags of node 1 for 2s":   {Kind: chaos.Failover, Node: 1, For: 2 * time.Second},
		"crash and come back with old data of node 1 for 2s": {Kind: chaos.Old, Node: 1, For: 2 * time.Second},
		fmt.Sprintf("%s of all nodes", chaos.Flush):          {Kind: chaos.Flush, Node: chaos.Everything},
	} {
		if got := f.String(); got != want {
			t.Errorf("got %q; want %q", got, want)
		}
	}
}

func TestASwarmOfPlansDiffers(t *testing.T) {
	shapes, kinds, share, sets := map[[3]int]bool{}, map[int]bool{}, 0, 0
	beside := map[chaos.Break]int{chaos.Twice: 0, chaos.Step: 0, chaos.WallClock: 0, chaos.ListChange: 0} // in how many plans
	for seed := range uint64(50) {
		p := chaos.Swarm(seed, time.Minute)
		if got, err := chaos.ParsePlan(p.String()); err != nil || got.String() != p.String() {
			t.Fatalf("seed %d: got %v, %v; want a plan", seed, got, err)
		}
		if again := chaos.Swarm(seed, time.Minute); again.String() != p.String() {
			t.Fatalf("seed %d gives two plans", seed)
		}
		of := map[chaos.Break]bool{}
		for _, f := range p.Faults {
			of[f.Kind] = true
			if f.At < time.Second {
				t.Fatalf("seed %d: %v at %v, before the clients are there", seed, f, f.At)
			}
		}
		if of[chaos.Step] {
			delete(of, chaos.Cut) // with each step a client is cut off
		}
		for k := range beside {
			if of[k] {
				beside[k]++
			}
			delete(of, k)
		}
		shapes[[3]int{p.Nodes, p.Clients, p.Names}], kinds[len(of)] = true, true
		share, sets = share+min(p.Shares, 1), sets+min(p.Sets, 1)
	}
	if share < 15 || share > 35 || sets < 20 || sets > 45 {
		t.Errorf("of 50 plans %d share, and %d have sets; want about half, and two of three", share, sets)
	}
	for k, n := range beside {
		if n < 4 || n > 20 {
			t.Errorf("got %d of 50 plans with %s; want some, and not most", n, k)
		}
	}
	if len(shapes) < 30 || len(kinds) < 5 || kinds[6] {
		t.Errorf("got %d shapes, and plans with %v kinds; want many, and up to five kinds", len(shapes), kinds)
	}
}
