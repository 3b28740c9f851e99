package chaos_test

import (
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock/chaos"
	"github.com/quorumkit/redlock/internal/testkit"
)

// within is what a counter shows once it shows that, or else after a few seconds.
func within(t *testing.T, node redis.UniversalClient, key string, want int) {
	t.Helper()
	got := ""
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if got = node.Get(t.Context(), key).Val(); got == strconv.Itoa(want) {
			return
		}
	}
	t.Errorf("%s: got %q; want %d", key, got, want)
}

// A command takes effect twice, its client has the reply of its own connection, which in
// memory is the first, and nothing shifts: the next reply is the next command's.
func TestADeliveryTwiceExecutesEachCommandTwice(t *testing.T) {
	onStages(t, 2, func(t *testing.T, stage chaos.Stage, ann, bob []redis.UniversalClient) {
		t.Helper()
		ctx := t.Context()
		twice := chaos.Fault{Kind: chaos.Twice, Client: "ann", Node: 0}
		testkit.Must(t, ann[0].Incr(ctx, "before").Err())
		testkit.Must(t, stage.Break(twice))
		most := int64(1)
		if strings.HasSuffix(t.Name(), "/"+string(chaos.Real)) {
			most = 2 // the server may take the other connection's first
		}
		if got, err := ann[0].Incr(ctx, "one").Result(); err != nil || got < 1 || got > most {
			t.Errorf("got %d, %v; want the reply to the first of the two, or %d at most", got, err, most)
		}
		within(t, bob[0], "one", 2)
		long := strings.Repeat("x", 3000)
		_, err := ann[0].Pipelined(ctx, func(p redis.Pipeliner) error { // more than one write
			for i := range 20 {
				p.Set(ctx, "long", long, 0)
				p.Incr(ctx, "many")
				p.Set(ctx, "last", i, 0)
			}
			return nil
		})
		testkit.Must(t, err)
		within(t, bob[0], "many", 40)
		within(t, bob[0], "last", 19)
		if got := bob[0].Get(ctx, "long").Val(); got != long {
			t.Errorf("got a value of %d bytes; want %d", len(got), len(long))
		}
		_, err = ann[0].TxPipelined(ctx, func(p redis.Pipeliner) error { return p.Incr(ctx, "transaction").Err() })
		testkit.Must(t, err)
		testkit.Must(t, ann[1].Incr(ctx, "elsewhere").Err())
		testkit.Must(t, bob[0].Incr(ctx, "bob").Err())
		sub := ann[0].Subscribe(ctx, "calls")
		if _, err := sub.Receive(ctx); err != nil {
			t.Error(err)
		}
		if heard, err := ann[0].Publish(ctx, "calls", "x").Result(); err != nil || heard != 1 {
			t.Errorf("got %d listeners, %v; want the one", heard, err)
		}
		testkit.Must(t, sub.Close())
		testkit.Must(t, stage.Mend(twice))
		testkit.Must(t, ann[0].Incr(ctx, "mended").Err())
		within(t, bob[0], "before", 1)
		within(t, bob[0], "mended", 1)
		within(t, bob[0], "transaction", 1)
		within(t, bob[0], "bob", 1)
		within(t, bob[1], "elsewhere", 1)
	})
}

// The second delivery may be late, and then it comes behind what was sent meanwhile: also
// when its client has closed the connection.
func TestASecondDeliveryMayComeLate(t *testing.T) {
	onStages(t, 1, func(t *testing.T, stage chaos.Stage, ann, bob []redis.UniversalClient) {
		t.Helper()
		ctx := t.Context()
		twice := chaos.Fault{Kind: chaos.Twice, Client: "ann", Delay: 300 * time.Millisecond}
		testkit.Must(t, ann[0].Ping(ctx).Err())
		testkit.Must(t, stage.Break(twice))
		began := time.Now()
		testkit.Must(t, ann[0].Set(ctx, "k", 1, 0).Err())
		testkit.Must(t, stage.Mend(twice))
		testkit.Must(t, ann[0].Set(ctx, "k", 2, 0).Err())
		testkit.Must(t, ann[0].Close())
		within(t, bob[0], "k", 2)
		within(t, bob[0], "k", 1)
		if took := time.Since(began); took < twice.Delay {
			t.Errorf("got the second delivery after %v; want %v or more", took, twice.Delay)
		}
		testkit.Must(t, bob[0].Set(ctx, "k", 3, 0).Err())
		within(t, bob[0], "k", 3)
	})
}

// playWatched plays a plan in virtual time with a witness, so that orphans are judged, too.
func playWatched(t *testing.T, p chaos.Plan) chaos.Verdict {
	t.Helper()
	var records []chaos.Record
	synctest.Test(t, func(t *testing.T) {
		stage, err := chaos.NewVirtual(p.Seed, p.Nodes)
		testkit.Must(t, err)
		records, err = p.PlayWatched(stage, p.Redlock("redlock"))
		testkit.Must(t, err)
		testkit.Must(t, stage.Close())
	})
	return p.Judge().Judge(records)
}

// twicePlan has each message delivered twice for most of the time: the second that much
// later.
func twicePlan(seed uint64, later time.Duration) chaos.Plan {
	p := smallPlan(seed, 20*time.Second, chaos.Mix{Kinds: []chaos.Break{chaos.Twice}, Every: time.Second, Longest: 4 * time.Second})
	for i := range p.Faults {
		p.Faults[i].Delay = later
	}
	return p
}

// Each script has one effect, however often an attempt's command comes: where the copy
// comes right behind it, no rule is broken. Where it comes after the release it takes the
// name for nobody, until the lease is over: never is there a second holder.
func TestRedlockStandsCommandsThatAreDeliveredTwice(t *testing.T) {
	testkit.Unraced(t)
	for seed := range uint64(4) {
		if v := playWatched(t, twicePlan(seed, 0)); len(v.Violations) > 0 || v.Rounds == 0 {
			t.Errorf("seed %d: got %d rounds, %v; want no rule broken", seed, v.Rounds, v.Violations)
		}
		v := playWatched(t, twicePlan(seed, 300*time.Millisecond))
		orphans := 0
		for _, found := range v.Violations {
			switch r := found.Rule; {
			case r == chaos.Orphan:
				orphans++
			case r != chaos.NoProgress: // of those who want such a name
				t.Errorf("seed %d, late: got %v", seed, found)
			}
		}
		if orphans == 0 {
			t.Errorf("seed %d, late: got no name that was taken for nobody: was nothing delivered twice?", seed)
		}
	}
}
