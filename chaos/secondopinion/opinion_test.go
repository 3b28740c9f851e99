package secondopinion_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/chaos"
	"github.com/quorumkit/redlock/chaos/secondopinion"
	"github.com/quorumkit/redlock/internal/lab/trace"
)

type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}

func TestMain(m *testing.M) {
	redis.SetLogger(silence{}) // it tells of every failed dial on stderr
	os.Exit(m.Run())
}

// agree fails the test if the judge and porcupine do not say the same of a trace.
func agree(t *testing.T, records []chaos.Record) secondopinion.Opinion {
	t.Helper()
	v := trace.Judge{Limit: 1 << 20}.Judge(records)
	if v.Count(chaos.Malformed) > 0 {
		t.Fatalf("the trace is malformed: %v", v)
	}
	o := secondopinion.Ask(records)
	for _, c := range []struct {
		what  string
		rules []chaos.Rule
		got   []string
	}{
		{"locks", []chaos.Rule{chaos.TwoHolders}, o.Locks},
		{"tokens", []chaos.Rule{chaos.TokenRepeated, chaos.TokenOrder}, o.Tokens},
		{"writes", []chaos.Rule{chaos.StaleWrite}, o.Writes},
	} {
		var want []string
		for _, violation := range v.Violations {
			if slices.Contains(c.rules, violation.Rule) {
				want = append(want, violation.Resource)
			}
		}
		slices.Sort(want)
		if want = slices.Compact(want); !slices.Equal(c.got, want) {
			t.Fatalf("%s: porcupine finds no order for %q; the judge blames %q: %v", c.what, c.got, want, v)
		}
	}
	return o
}

func TestJudgeAndPorcupineAgreeOnRandomTraces(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	seen := map[string]int{}
	for range 3000 {
		o := agree(t, randomTrace(random))
		for what, bad := range map[string][]string{"locks": o.Locks, "tokens": o.Tokens, "writes": o.Writes} {
			seen[fmt.Sprint(what, " sound: ", len(bad) == 0)]++
		}
	}
	if len(seen) != 6 {
		t.Errorf("got only %v", seen)
	}
	for what, n := range seen {
		if n < 50 {
			t.Errorf("%s: only %d of the random traces", what, n)
		}
	}
}

// randomTrace has up to eight locks of three resources, one of which has two slots: with extensions before and
// after a lapse, ends of every kind, and writes at any time.
func randomTrace(random *rand.Rand) []chaos.Record {
	var records []chaos.Record
	for id := range 1 + random.Int64N(8) {
		at := random.IntN(200)
		token := redlock.Token(1 + at/3 + random.IntN(12))
		if id%4 == 3 {
			token = 0
		}
		r := chaos.Record{Client: fmt.Sprint(id), Resource: fmt.Sprint("r", random.IntN(3)), Hold: id + 1, Shared: random.IntN(2) == 0}
		if r.Resource == "r2" {
			r.Limit, r.Slot, r.Shared = 2, random.IntN(2), false
		}
		add := func(k trace.Kind, until int, token redlock.Token) {
			r.At, r.Kind, r.Until, r.Token = time.Duration(at)*time.Millisecond, k, time.Duration(until)*time.Millisecond, token
			records = append(records, r)
		}
		add(trace.Asked, 0, 0)
		if at += random.IntN(20); random.IntN(6) == 0 {
			add(trace.Failed, 0, 0)
			continue
		}
		add(trace.Held, at+random.IntN(15), token)
		for range random.IntN(4) {
			if at += random.IntN(12); random.IntN(2) == 0 {
				add(trace.Extended, at+1+random.IntN(15), token)
			} else {
				add(trace.Wrote, 0, token)
			}
		}
		at += random.IntN(12)
		switch random.IntN(4) {
		case 0:
			add(trace.Lost, 0, 0)
		case 1, 2:
			add(trace.Released, 0, 0)
		}
	}
	slices.SortStableFunc(records, func(a, b chaos.Record) int { return int(a.At - b.At) })
	return records
}

// plan is a short one on which a few clients contend.
func plan(seed uint64, mix chaos.Mix) chaos.Plan {
	p := chaos.NewPlan(seed, 15*time.Second, mix)
	p.Clients, p.Names = 4, 2
	p.Faults = slices.DeleteFunc(p.Faults, func(f chaos.Fault) bool { return f.Client > "client-3" || len(f.Client) > 8 })
	return p
}

func TestWhatRedlockDoesUnderFaultsHasAnOrder(t *testing.T) {
	operations := 0
	for seed := range uint64(2) {
		p := plan(seed, chaos.Mix{Every: 2 * time.Second})
		o := agree(t, chaos.PlayVirtual(t, p, p.Redlock("redlock")).Records)
		if !o.Sound() {
			t.Errorf("seed %d: got %+v; want an order for everything", seed, o)
		}
		operations += o.Operations
	}
	if operations < 100 {
		t.Errorf("got %d operations in all; the runs show nothing", operations)
	}
}

func TestWhatUnprotectedLocksDoUnderAmnesiaHasNone(t *testing.T) {
	amnesia := chaos.Mix{Kinds: []chaos.Break{chaos.Forget}, Every: 300 * time.Millisecond, Longest: 20 * time.Millisecond}
	textbook, err := chaos.ScenarioKit(trace.NameTextbook)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		kit  func(chaos.Plan) chaos.Kit
	}{
		{"without membership", func(p chaos.Plan) chaos.Kit { return p.Redlock("bare", redlock.WithoutMembership()) }},
		{"textbook", func(chaos.Plan) chaos.Kit { return textbook }},
	} {
		t.Run(c.name, func(t *testing.T) {
			bad := 0
			for seed := range uint64(2) {
				p := plan(seed, amnesia)
				bad += len(agree(t, chaos.PlayVirtual(t, p, c.kit(p)).Records).Locks)
			}
			if bad == 0 {
				t.Error("got an order for everything; want two holders")
			}
		})
	}
}
