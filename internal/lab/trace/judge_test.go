package trace_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lab/trace"
	"github.com/quorumkit/redlock/internal/testkit"
)

// parsed reads records in short: "10 held 2 bob t=7 u=30" is bob's hold 2 of r,
// at 10 ms, with token 7, until 30 ms; "10 held 2 bob shared r=b set=1" is a shared one of
// b, in set 1; "slot=1 of=2" is the second of two slots, and "v=" the value.
func parsed(t *testing.T, text string) []trace.Record {
	t.Helper()
	var records []trace.Record
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		r := trace.Record{Kind: trace.Kind(fields[1]), Resource: "r"}
		number := func(s string) int64 {
			n, err := strconv.ParseInt(s, 10, 64)
			if err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			return n
		}
		r.At = time.Duration(number(fields[0])) * time.Millisecond
		for _, f := range fields[2:] {
			switch {
			case f == "shared":
				r.Shared = true
			case f == "barging":
				r.Barging = true
			case f == "untold":
				r.Untold = true
			case strings.HasPrefix(f, "r="):
				r.Resource = f[2:]
			case strings.HasPrefix(f, "slot="):
				r.Slot = int(number(f[5:]))
			case strings.HasPrefix(f, "of="):
				r.Limit = int(number(f[3:]))
			case strings.HasPrefix(f, "v="):
				r.Value = f[2:]
			case strings.HasPrefix(f, "set="):
				r.Set = number(f[4:])
			case strings.HasPrefix(f, "e="):
				r.Ends = time.Duration(number(f[2:])) * time.Millisecond
			case strings.HasPrefix(f, "s="):
				r.Since = time.Duration(number(f[2:])) * time.Millisecond
			case strings.HasPrefix(f, "t="):
				r.Token = redlock.Token(number(f[2:]))
			case strings.HasPrefix(f, "u="):
				r.Until = time.Duration(number(f[2:])) * time.Millisecond
			case strings.HasPrefix(f, "n="):
				r.Node = f[2:]
			case strings.HasPrefix(f, "o="):
				r.Owner = f[2:]
			case f[0] >= '0' && f[0] <= '9':
				r.Hold = number(f)
			default:
				r.Client = f
			}
		}
		records = append(records, r)
	}
	return records
}

var judgements = []struct {
	name  string
	judge trace.Judge
	trace string
	want  []trace.Rule
}{
	{name: "one after the other", trace: `
		0 asked 1 ann
		1 held 1 ann t=5 u=90
		2 wrote 1 t=5
		10 released 1
		10 asked 2 bob
		10 held 2 bob t=6 u=90
		11 wrote 2 t=6
		12 refused 1 t=5`},
	{name: "one begins when the other's validity ends", trace: `
		0 asked 1 ann
		0 asked 2 bob
		1 held 1 ann t=5 u=50
		50 held 2 bob t=6 u=90
		60 lost 1`},
	{name: "one begins before the other's validity ends", trace: `
		0 asked 1 ann
		0 asked 2 bob
		1 held 1 ann t=5 u=50
		49 held 2 bob t=6 u=90
		60 lost 1`, want: []trace.Rule{trace.TwoHolders}},
	{name: "a long belief, then a short one, then a third within the first", trace: `
		0 asked 1 ann
		0 asked 2 bob
		0 asked 3 cid
		1 held 1 ann u=100
		2 held 2 bob u=3
		50 held 3 cid u=60`, want: []trace.Rule{trace.TwoHolders}},
	{name: "a belief without an end, another at the last record", trace: `
		0 asked 1 ann
		1 held 1 ann
		2 asked 2 bob
		5 held 2 bob`, want: []trace.Rule{trace.TwoHolders}},
	{name: "an extension lasts into the next hold", trace: `
		0 asked 1 ann
		1 held 1 ann u=20
		10 extended 1 u=40
		20 asked 2 bob
		30 held 2 bob u=60`, want: []trace.Rule{trace.TwoHolders}},
	{name: "an extension revives a lapsed hold, and between there was another", trace: `
		0 asked 1 ann
		1 held 1 ann u=20
		20 asked 2 bob
		21 held 2 bob u=60
		30 released 2
		31 extended 1 u=60`},
	{name: "one token twice", trace: `
		0 asked 1 ann
		1 held 1 ann t=5
		2 released 1
		3 asked 2 bob
		4 held 2 bob t=5`, want: []trace.Rule{trace.TokenRepeated}},
	{name: "tokens fall", trace: `
		0 asked 1 ann
		1 held 1 ann t=5
		2 released 1
		3 asked 2 bob
		4 held 2 bob t=4`, want: []trace.Rule{trace.TokenOrder}},
	{name: "a smaller token of an attempt that began before", trace: `
		0 asked 1 ann
		0 asked 2 bob
		1 held 1 ann t=5
		2 released 1
		4 held 2 bob t=4`},
	{name: "the guard lets a stale write in", trace: `
		0 asked 1 ann
		1 held 1 ann t=5 u=20
		20 asked 2 bob
		21 held 2 bob t=6
		22 wrote 2 t=6
		23 wrote 1 t=5`, want: []trace.Rule{trace.StaleWrite}},
	{name: "a stale write without tokens", trace: `
		0 asked 1 ann
		1 held 1 ann u=20
		20 asked 2 bob
		21 held 2 bob
		22 wrote 2
		23 wrote 1`, want: []trace.Rule{trace.StaleWrite}},
	{name: "a late write before the next holder's first", trace: `
		0 asked 1 ann
		1 held 1 ann t=5 u=20
		20 asked 2 bob
		21 held 2 bob t=6
		22 wrote 1 t=5
		23 wrote 2 t=6`},
	{name: "shown after its release", trace: `
		1 cleaned n=a o=x
		2 shown n=b o=x u=9
		3 shown n=a o=y u=9
		4 shown n=a o=x u=9`, want: []trace.Rule{trace.Litter}},
	{name: "a key without an expiry", judge: trace.Judge{Lease: 10 * time.Millisecond}, trace: `
		1 shown n=a o=x`, want: []trace.Rule{trace.Litter}},
	{name: "a key for longer than a lease", judge: trace.Judge{Lease: 10 * time.Millisecond}, trace: `
		1 shown n=a o=x u=12`, want: []trace.Rule{trace.Litter}},
	{name: "a key long after all clients", judge: trace.Judge{Lease: 10 * time.Millisecond, Transit: 5 * time.Millisecond}, trace: `
		0 asked 1 ann
		1 failed 1
		16 shown n=a o=x u=17
		17 shown n=a o=x u=18`, want: []trace.Rule{trace.Litter}},
	{name: "nobody gets it", judge: trace.Judge{Progress: 10 * time.Millisecond}, trace: `
		0 asked 1 ann
		1 failed 1
		11 quit ann`},
	{name: "nobody gets it, to the end", judge: trace.Judge{Progress: 10 * time.Millisecond}, trace: `
		0 asked 1 ann
		1 failed 1
		11 asked 2 ann`, want: []trace.Rule{trace.NoProgress}},
	{name: "nobody gets it, but the quorum was not healthy", judge: trace.Judge{Progress: 10 * time.Millisecond}, trace: `
		0 asked 1 ann
		5 sick
		30 well
		39 held 1 ann`},
	{name: "nobody gets it before the quorum falls sick", judge: trace.Judge{Progress: 10 * time.Millisecond}, trace: `
		0 asked 1 ann
		15 sick
		16 held 1 ann`, want: []trace.Rule{trace.NoProgress}},
	{name: "a holder is progress, and so is one whose validity just ended", judge: trace.Judge{Progress: 10 * time.Millisecond}, trace: `
		0 asked 1 ann
		1 held 1 ann u=30
		2 asked 2 bob
		40 held 2 bob`},
	{name: "one client waits while others come and go", judge: trace.Judge{Progress: 10 * time.Millisecond, Patience: 20 * time.Millisecond}, trace: `
		0 asked 1 ann
		1 asked 2 bob
		1 held 2 bob
		8 released 2
		9 failed 1
		9 asked 3 ann
		10 asked 4 bob
		11 held 4 bob
		22 released 4`, want: []trace.Rule{trace.Starved}},
	{name: "one client's wait while the cluster is sick does not count", judge: trace.Judge{Patience: 20 * time.Millisecond}, trace: `
		0 asked 1 ann
		10 sick
		50 well
		60 held 1 ann`},
	{name: "lines out of the order of time", trace: `
		49 held 2 bob t=6 u=90
		1 held 1 ann t=5 u=50
		0 asked 1 ann
		0 asked 2 bob`, want: []trace.Rule{trace.TwoHolders}},
	{name: "a hold from nowhere", trace: `
		1 held 1 ann`, want: []trace.Rule{trace.Malformed}},
	{name: "a write of an attempt that failed", trace: `
		0 asked 1 ann
		1 failed 1
		2 wrote 1`, want: []trace.Rule{trace.Malformed}},
	{name: "two attempts of one number", trace: `
		0 asked 1 ann
		1 asked 1 bob`, want: []trace.Rule{trace.Malformed}},
	{name: "held twice", trace: `
		0 asked 1 ann
		1 held 1 ann
		1 held 1 ann`, want: []trace.Rule{trace.Malformed}},
	{name: "an unknown kind", trace: `
		1 stolen 1`, want: []trace.Rule{trace.Malformed}},
}

func TestJudgeFindsWhatIsBrokenAndNothingElse(t *testing.T) {
	for _, c := range slices.Concat(judgements, sharedJudgements, setJudgements, slotJudgements, seenJudgements, noticeJudgements) {
		t.Run(c.name, func(t *testing.T) {
			v := c.judge.Judge(parsed(t, c.trace))
			if !slices.Equal(v.Broken(), c.want) {
				t.Errorf("got %v; want the broken rules %q", v, c.want)
			}
		})
	}
}

func TestJudgeCounts(t *testing.T) {
	v := trace.Judge{}.Judge(parsed(t, `
		0 asked 1 ann
		1 held 1 ann t=5 u=50
		1 asked 2 bob
		2 failed 2
		2 wrote 1 t=5
		3 asked 3 bob
		40 held 3 bob t=6 u=90
		41 wrote 3 t=6
		42 refused 1 t=5`))
	got := [...]any{v.Rounds, v.Won, v.Writes, v.Refused, v.Overlap, v.LongestWait}
	want := [...]any{3, 2, 2, 1, 10 * time.Millisecond, 39 * time.Millisecond}
	if got != want {
		t.Errorf("got %v; want %v", got, want)
	}
}

// The sweep against a second version that compares every pair.
func TestJudgeAgreesWithTheComparisonOfAllPairs(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	seen := map[string]int{}
	for range 3000 {
		records := randomTrace(random)
		v := trace.Judge{Limit: 1000}.Judge(records)
		overlap, repeated, order := allPairs(records)
		for rule, want := range map[trace.Rule]bool{trace.TwoHolders: overlap, trace.TokenRepeated: repeated, trace.TokenOrder: order} {
			if got := v.Count(rule) > 0; got != want {
				t.Fatalf("%s: got %t; want %t for %+v", rule, got, want, records)
			}
			seen[fmt.Sprint(rule, want)]++
		}
	}
	for key, n := range seen {
		if n < 100 {
			t.Errorf("%s: only %d of the random traces", key, n)
		}
	}
}

// randomTrace has up to six locks of one resource with ends of every kind.
func randomTrace(random *rand.Rand) []trace.Record {
	var records []trace.Record
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	for id := range 1 + random.Int64N(6) {
		asked := random.IntN(100)
		held := asked + random.IntN(20)
		until := held + 1 + random.IntN(20)
		token := redlock.Token(1 + held/3 + random.IntN(12))
		r := trace.Record{Client: fmt.Sprint(id), Resource: "r", Hold: id + 1, Shared: random.IntN(2) == 0}
		add := func(at int, k trace.Kind, until int, token redlock.Token) {
			r.At, r.Kind, r.Until, r.Token = ms(at), k, ms(until), token
			records = append(records, r)
		}
		add(asked, trace.Asked, 0, 0)
		add(held, trace.Held, until, token)
		if random.IntN(2) == 0 {
			add(held+random.IntN(20), trace.Released, 0, 0)
		}
	}
	slices.SortStableFunc(records, func(a, b trace.Record) int { return int(a.At - b.At) })
	return records
}

// allPairs is the dumb version of three rules, for traces without extensions.
func allPairs(records []trace.Record) (overlap, repeated, order bool) {
	type lock struct {
		asked, held int // places in the trace
		from, until time.Duration
		token       redlock.Token
		shared      bool
	}
	locks := map[int64]*lock{}
	for i, r := range records {
		if r.Kind == trace.Asked {
			locks[r.Hold] = &lock{asked: i}
			continue
		}
		l := locks[r.Hold]
		if r.Kind == trace.Held {
			l.held, l.from, l.until, l.token, l.shared = i, r.At, r.Until, r.Token, r.Shared
		} else {
			l.until = min(l.until, r.At)
		}
	}
	for i, a := range locks {
		for j, b := range locks {
			if i == j {
				continue
			}
			beside := a.shared && b.shared
			if max(a.from, b.from) < min(a.until, b.until) && !beside {
				overlap = true
			}
			repeated = repeated || a.token == b.token && !beside
			order = order || (a.held < b.asked && a.token > b.token)
		}
	}
	return overlap, repeated, order
}

// hundredThousand operations on eight names, without a fault.
func hundredThousand() []trace.Record {
	var records []trace.Record
	now := time.Duration(0)
	for i := int64(1); len(records) < 100_000; i++ {
		r := trace.Record{Client: fmt.Sprint("client-", i%20), Resource: fmt.Sprint("name-", i%8), Hold: i}
		for _, k := range []trace.Kind{trace.Asked, trace.Held, trace.Wrote, trace.Released} {
			now += time.Microsecond
			r.At, r.Kind, r.Token, r.Until = now, k, 0, 0
			if k == trace.Held || k == trace.Wrote {
				r.Token = redlock.Token(i)
			}
			if k == trace.Held {
				r.Until = now + 10*time.Second
			}
			records = append(records, r)
		}
	}
	return records
}

func TestJudgeTakesTensOfMillisecondsForAHundredThousandOperations(t *testing.T) {
	testkit.Full(t)
	records := hundredThousand()
	best := time.Hour
	for range 5 {
		start := time.Now()
		if v := (trace.Judge{Lease: time.Minute, Progress: time.Second, Patience: time.Second}).Judge(records); len(v.Violations) > 0 || v.Won != 25_000 {
			t.Fatalf("got %v; want 25,000 won and nothing broken", v)
		}
		best = min(best, time.Since(start))
	}
	// A sweep that compared pairs would take minutes: the bound is wide because
	// the race detector and a busy machine are slow.
	if best > time.Second {
		t.Errorf("got %v for %d records; want tens of milliseconds", best, len(records))
	}
}

func BenchmarkJudge(b *testing.B) {
	records := hundredThousand()
	b.ReportAllocs()
	for b.Loop() {
		trace.Judge{}.Judge(records)
	}
}

func TestATraceIsReadAsItWasWritten(t *testing.T) {
	records := []trace.Record{
		{Kind: trace.Asked, Client: "ann", Resource: "r", Hold: 1},
		{At: 3 * time.Second, Kind: trace.Held, Client: "ann", Resource: "r", Hold: 1, Token: redlock.MaxToken, Until: 4 * time.Second},
		{At: 3 * time.Second, Kind: trace.Noted, Text: "a\nline"},
	}
	var b bytes.Buffer
	testkit.Must(t, trace.Write(&b, records))
	if got := strings.Count(b.String(), "\n"); got != len(records) {
		t.Errorf("got %d lines; want %d: %s", got, len(records), b.String())
	}
	if got, err := trace.Read(&b); err != nil || !slices.Equal(got, records) {
		t.Errorf("got %+v, %v; want %+v", got, err, records)
	}
}

func TestReadTraceSaysWhichRecordIsNone(t *testing.T) {
	for _, bad := range []string{"{\"at\":1,\"kind\":\"sick\"}\n{\"at\":\"soon\"}", "{\"at\":1,\"kind\":\"sick\"}\n{\"when\":1}", "{\"at\":1,\"kind\":\"sick\"}\n{"} {
		_, err := trace.Read(strings.NewReader(bad))
		if err == nil || !strings.Contains(err.Error(), "record 2") {
			t.Errorf("%q: got %v; want an error that names record 2", bad, err)
		}
	}
}
