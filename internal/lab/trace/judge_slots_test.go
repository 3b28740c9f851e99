package trace_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lab/trace"
)

var slotJudgements = []judgement{
	{name: "two have the two slots", judge: trace.Judge{Progress: 10 * time.Millisecond}, trace: `
		0 asked 1 ann of=2
		0 asked 2 bob of=2
		1 held 1 ann of=2 slot=0 t=5 u=50
		1 held 2 bob of=2 slot=1 t=5 u=50
		2 asked 3 cid of=2
		3 wrote 2 t=5
		4 wrote 1 t=5
		40 released 1
		49 held 3 cid of=2 slot=0 t=6 u=90`},
	{name: "two have one slot", trace: `
		0 asked 1 ann of=2
		0 asked 2 bob of=2
		1 held 1 ann of=2 slot=1 t=5 u=50
		2 held 2 bob of=2 slot=1 t=6 u=50`, want: []trace.Rule{trace.TwoHolders}},
	{name: "three have slots of two, since limits differ", trace: `
		0 asked 1 ann of=3
		0 asked 2 bob of=2
		0 asked 3 cid of=3
		0 asked 4 dan of=2
		1 held 1 ann of=3 slot=0 u=20
		2 held 2 bob of=2 slot=1 u=50
		3 held 3 cid of=3 slot=2 u=30
		20 held 4 dan of=2 slot=0 u=50`},
	{name: "three have slots of two when the larger limit has gone", trace: `
		0 asked 1 ann of=3
		0 asked 2 bob of=2
		0 asked 3 cid of=3
		0 asked 4 dan of=2
		1 held 1 ann of=3 slot=2 u=20
		2 held 2 bob of=2 slot=1 u=50
		21 asked 5 eve of=2
		22 held 4 dan of=2 slot=0 u=50
		22 asked 6 fay of=1
		23 held 6 fay of=1 slot=0 u=24
		`, want: []trace.Rule{trace.TooMany, trace.TwoHolders}},
	{name: "a slot is reused when its lease is over", trace: `
		0 asked 1 ann of=1
		1 held 1 ann of=1 t=5 u=20
		2 asked 2 bob of=1
		20 held 2 bob of=1 t=6 u=50`},
	{name: "a slot that is not there", trace: `
		0 asked 1 ann of=2
		1 held 1 ann of=2 slot=2`, want: []trace.Rule{trace.Malformed}},
	{name: "another limit than was asked for", trace: `
		0 asked 1 ann of=2
		1 held 1 ann of=3 slot=2`, want: []trace.Rule{trace.Malformed}},
	{name: "tokens of two slots have no order, and each slot's own have", trace: `
		0 asked 1 ann of=2
		1 held 1 ann of=2 slot=0 t=9 u=90
		2 asked 2 bob of=2
		3 held 2 bob of=2 slot=1 t=4
		4 released 2
		5 asked 3 cid of=2
		6 held 3 cid of=2 slot=1 t=3`, want: []trace.Rule{trace.TokenOrder}},
	{name: "a token of a slot is given out again", trace: `
		0 asked 1 ann of=2
		1 held 1 ann of=2 slot=1 t=5
		2 released 1
		3 asked 2 bob of=2
		4 held 2 bob of=2 slot=1 t=5`, want: []trace.Rule{trace.TokenRepeated}},
	{name: "a write is stale within its slot", trace: `
		0 asked 1 ann of=2
		1 held 1 ann of=2 slot=1 t=5 u=10
		10 asked 2 bob of=2
		11 held 2 bob of=2 slot=1 t=6
		12 wrote 2 t=6
		13 wrote 1 t=5`, want: []trace.Rule{trace.StaleWrite}},
	{name: "who is alone, and who has a slot, do not exclude each other", trace: `
		0 asked 1 ann
		0 asked 2 bob of=1
		1 held 1 ann t=5
		2 held 2 bob of=1 t=5`},
	{name: "a slot is free, and somebody asks", judge: trace.Judge{Progress: 10 * time.Millisecond}, trace: `
		0 asked 1 ann of=2
		1 held 1 ann of=2 slot=0 u=90
		2 asked 2 bob of=2
		13 held 2 bob of=2 slot=1 u=90`, want: []trace.Rule{trace.NoProgress}},
	{name: "of two slots the one that ends first is free", judge: trace.Judge{Progress: 10 * time.Millisecond}, trace: `
		0 asked 1 ann of=2
		0 asked 2 bob of=2
		1 held 1 ann of=2 slot=0 u=90
		1 held 2 bob of=2 slot=1 u=20
		2 asked 3 cid of=2
		31 held 3 cid of=2 slot=1 u=90`, want: []trace.Rule{trace.NoProgress}},
	{name: "of two slots both are taken up to the end", judge: trace.Judge{Progress: 10 * time.Millisecond}, trace: `
		0 asked 1 ann of=2
		0 asked 2 bob of=2
		1 held 1 ann of=2 slot=0 u=90
		1 held 2 bob of=2 slot=1 u=30
		2 asked 3 cid of=2
		25 released 2
		26 extended 1 u=99
		35 held 3 cid of=2 slot=1 u=90`},
	{name: "what was released in time is taken late", judge: trace.Judge{Progress: 10 * time.Millisecond}, trace: `
		0 asked 1 ann of=2
		0 asked 2 bob of=2
		1 held 1 ann of=2 slot=0 u=90
		1 held 2 bob of=2 slot=1 u=30
		2 asked 3 cid of=2
		22 released 2
		33 held 3 cid of=2 slot=1 u=90`, want: []trace.Rule{trace.NoProgress}},
	{name: "one in line for a slot is overtaken", trace: `
		0 asked 1 ann of=2
		1 held 1 ann of=2 u=90
		2 asked 2 bob of=2
		3 queued bob of=2 s=3
		4 asked 3 cid of=2
		5 held 3 cid of=2 slot=1 u=90`, want: []trace.Rule{trace.Overtaken}},
	{name: "one in line for a slot is not overtaken by one who is alone", trace: `
		0 asked 1 ann of=2
		1 held 1 ann of=2 u=90
		2 asked 2 bob of=2
		3 queued bob of=2 s=3
		4 asked 3 cid
		5 held 3 cid u=90`},
}

var seenJudgements = []judgement{
	{name: "an observer is told of each in turn", judge: trace.Judge{Seen: 20 * time.Millisecond}, trace: `
		0 saw obs
		1 asked 1 ann v=ann
		2 held 1 ann t=5 u=50
		3 saw obs v=ann
		4 saw obs v=ann t=5
		30 asked 2 bob v=bob
		50 lost 1
		51 held 2 bob t=6 u=90
		69 saw obs v=ann t=5
		70 saw obs
		71 saw obs v=bob t=6`},
	{name: "an observer is told of who has it before he believes so", judge: trace.Judge{Seen: 20 * time.Millisecond}, trace: `
		1 asked 1 ann v=ann
		2 saw obs v=ann t=5
		40 held 1 ann t=5 u=50`},
	{name: "an observer is told too late", judge: trace.Judge{Seen: 20 * time.Millisecond}, trace: `
		1 asked 1 ann v=ann
		2 held 1 ann t=5 u=90
		40 released 1
		61 saw obs v=ann t=5`, want: []trace.Rule{trace.Stale}},
	{name: "what was given up may stand for a lease", judge: trace.Judge{Seen: 20 * time.Millisecond, Lease: 10 * time.Millisecond, Transit: time.Millisecond}, trace: `
		1 asked 1 ann v=ann
		2 held 1 ann t=5 u=90
		40 released 1
		71 saw obs v=ann t=5`},
	{name: "and no longer", judge: trace.Judge{Seen: 20 * time.Millisecond, Lease: 10 * time.Millisecond, Transit: time.Millisecond}, trace: `
		1 asked 1 ann v=ann
		2 held 1 ann t=5 u=90
		40 released 1
		72 saw obs v=ann t=5`, want: []trace.Rule{trace.Stale}},
	{name: "an attempt in vain is seen too late", judge: trace.Judge{Seen: 20 * time.Millisecond}, trace: `
		1 asked 1 ann v=ann
		9 failed 1
		30 saw obs v=ann`, want: []trace.Rule{trace.Stale}},
	{name: "an observer is told of nobody, though one held all the time", judge: trace.Judge{Seen: 20 * time.Millisecond}, trace: `
		1 asked 1 ann v=ann
		2 held 1 ann t=5 u=50
		22 saw obs`, want: []trace.Rule{trace.Stale}},
	{name: "an observer is told of nobody, when a quorum had been sick", judge: trace.Judge{Seen: 20 * time.Millisecond}, trace: `
		0 sick
		1 asked 1 ann v=ann
		2 held 1 ann t=5 u=50
		3 well
		22 saw obs`},
	{name: "an observer is told of another than who held all the time, within the lease", judge: trace.Judge{Seen: 20 * time.Millisecond, Lease: time.Second}, trace: `
		0 asked 1 ann v=ann
		1 held 1 ann t=5 u=10
		2 asked 2 bob v=bob
		10 lost 1
		11 held 2 bob t=6 u=90
		31 saw obs v=ann`, want: []trace.Rule{trace.Stale}},
	{name: "an observer is told of one who never asked", judge: trace.Judge{Seen: 20 * time.Millisecond}, trace: `
		1 asked 1 ann v=ann
		2 saw obs v=bob`, want: []trace.Rule{trace.Stale}},
	{name: "an observer is told of a token of somebody else", judge: trace.Judge{Seen: 20 * time.Millisecond}, trace: `
		1 asked 1 ann v=ann
		2 held 1 ann t=5 u=10
		3 saw obs v=ann t=6`, want: []trace.Rule{trace.Stale}},
	{name: "what an observer is told is not judged unless it is asked for", trace: `
		2 saw obs v=bob`},
}

// The sweep over slots against every set of holds at every moment.
func TestTheJudgeCountsWhoHasASlot(t *testing.T) {
	random := rand.New(rand.NewPCG(2, 0))
	seen := map[bool]int{}
	for range 3000 {
		records := randomTrace(random)
		limits := map[int64]int{}
		for i := range records {
			r := &records[i]
			if limits[r.Hold] == 0 {
				limits[r.Hold] = 1 + random.IntN(4)
			}
			r.Shared, r.Limit = false, limits[r.Hold]
			if r.Kind == trace.Held {
				r.Slot, r.Token = random.IntN(r.Limit), redlock.Token(0)
			}
		}
		got := trace.Judge{Limit: 1000}.Judge(records).Count(trace.TooMany) > 0
		if want := tooMany(records); got != want {
			t.Fatalf("got %t; want %t for %+v", got, want, records)
		}
		seen[got]++
	}
	if seen[true] < 100 || seen[false] < 100 {
		t.Errorf("got %v of the random traces; want some of both", seen)
	}
}

// tooMany looks at each moment at which somebody begins.
func tooMany(records []trace.Record) bool {
	from, until, limit := map[int64]time.Duration{}, map[int64]time.Duration{}, map[int64]int{}
	for _, r := range records {
		if r.Kind == trace.Held {
			from[r.Hold], until[r.Hold], limit[r.Hold] = r.At, r.Until, r.Limit
		}
		if r.Kind == trace.Released {
			until[r.Hold] = min(until[r.Hold], r.At)
		}
	}
	for _, at := range from {
		n, most := 0, 0
		for id := range from {
			if from[id] <= at && at < until[id] {
				n, most = n+1, max(most, limit[id])
			}
		}
		if n > most {
			return true
		}
	}
	return false
}

func ExampleJudge_slots() {
	v := trace.Judge{}.Judge([]trace.Record{
		{At: 1, Kind: trace.Asked, Client: "ann", Resource: "pool", Hold: 1, Limit: 1},
		{At: 1, Kind: trace.Asked, Client: "bob", Resource: "pool", Hold: 2, Limit: 1},
		{At: 2, Kind: trace.Held, Client: "ann", Resource: "pool", Hold: 1, Limit: 1, Until: 9},
		{At: 3, Kind: trace.Held, Client: "bob", Resource: "pool", Hold: 2, Limit: 1, Until: 9},
	})
	for _, b := range v.Violations {
		fmt.Println(b)
	}
	// Output:
	// 3ns too many "pool": bob (hold 2) is the 2. at once, and 1 may be
	// 3ns two holders "pool": ann (hold 1) since 2ns and bob (hold 2), for 6ns
}
