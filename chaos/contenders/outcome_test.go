package contenders

import (
	"errors"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/chaos"
	"github.com/quorumkit/redlock/internal/lab/trace"
	"github.com/quorumkit/redlock/internal/testkit"
)

// line is a record, in milliseconds.
type line struct {
	who  string
	kind trace.Kind
	ms   int
	text string // of one that is held: the number
}

func parsed(lines ...line) []record {
	var records []record
	for _, l := range lines {
		r := record{At: time.Duration(l.ms) * time.Millisecond, Client: l.who, Kind: l.kind, Text: l.text}
		if l.kind == trace.Held {
			n, _ := strconv.ParseUint(l.text, 10, 64)
			r.Token, r.Text = redlock.Token(n), ""
		}
		if l.kind == trace.Broke || l.kind == trace.Mended {
			r.Fault = &trace.Fault{Kind: trace.Suspend, Client: l.who}
		}
		records = append(records, r)
	}
	return records
}

// believes is looks of a holder, each lookEvery from one moment to another.
func believes(who string, from, until int) []line {
	var lines []line
	for ms := from; ms <= until; ms += int(lookEvery / time.Millisecond) {
		lines = append(lines, line{who: who, kind: trace.Extended, ms: ms})
	}
	return lines
}

func TestTwoHoldersAreWhoBelieveAtOneMoment(t *testing.T) {
	a, b := line{who: first, kind: trace.Held, ms: 100}, line{who: second, kind: trace.Held, ms: 1000}
	for _, c := range []struct {
		name string
		more [][]line
		want time.Duration
	}{
		{"one after the other", [][]line{{a}, believes(first, 100, 990), {b}, believes(second, 1000, 2000)}, 0},
		{"the first goes on for 200 ms", [][]line{{a}, believes(first, 100, 1200), {b}, believes(second, 1000, 2000)}, 210 * time.Millisecond},
		{"the first was stopped, and wakes for 50 ms", [][]line{{a}, believes(first, 100, 500), {b}, believes(second, 1000, 3000), believes(first, 2000, 2050)}, 60 * time.Millisecond},
		{"the first was stopped, and wakes when the second has given up", [][]line{
			{a}, believes(first, 100, 500), {b}, believes(second, 1000, 1500), {{who: second, kind: trace.Released, ms: 1500}}, believes(first, 2000, 2050),
		}, 0},
		{"the same one twice", [][]line{
			{a},
			believes(first, 100, 500),
			{{who: first, kind: trace.Released, ms: 505}},
			{{who: first, kind: trace.Held, ms: 600}},
			believes(first, 610, 700),
		}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := twoHolders(spans(parsed(slices.Concat(c.more...)...)))
			if got != c.want {
				t.Errorf("got %v; want %v", got, c.want)
			}
		})
	}
}

func TestWhoToldIsTheFirstAfterTheFault(t *testing.T) {
	records := parsed(
		line{first, trace.Told, 50, byCount}, line{second, trace.Told, 150, byLibrary},
		line{first, trace.Told, 300, bySession}, line{first, trace.Told, 200, byCount},
	)
	by, at := learned(records, first, 100*time.Millisecond)
	if by != byCount || at != 200*time.Millisecond {
		t.Errorf("got %q at %v; want its own count at 200ms", by, at)
	}
	if by, _ := learned(records, third, 0); by != "" {
		t.Errorf("got %q; want nobody", by)
	}
}

func TestNumbersFenceOnlyWhereEachIsGreater(t *testing.T) {
	for _, c := range []struct {
		fences []redlock.Token
		want   bool
	}{
		{nil, false},
		{[]redlock.Token{0, 0}, false},
		{[]redlock.Token{9, 10}, true},
		{[]redlock.Token{9, 9}, false},
		{[]redlock.Token{10, 9}, false},
		{[]redlock.Token{3, 0}, false},
		{[]redlock.Token{math.MaxUint64 - 1, math.MaxUint64}, true},
	} {
		if got := rising(c.fences); got != c.want {
			t.Errorf("%v: got %v; want %v", c.fences, got, c.want)
		}
	}
}

func TestLateIsWhoLearnsWhenTheNextOneHolds(t *testing.T) {
	for _, c := range []struct {
		told int
		want bool
	}{{900, false}, {1100, true}} {
		o := &outcome{}
		o.judge(parsed(
			line{first, trace.Held, 100, "1"}, line{first, trace.Extended, 110, ""},
			line{second, trace.Held, 1000, "2"}, line{first, trace.Told, c.told, byLibrary},
		), first, 500*time.Millisecond)
		if o.Late != c.want || !o.Rising || o.After != time.Duration(c.told-500)*time.Millisecond {
			t.Errorf("told at %d ms: got late %v, rising %v, after %v", c.told, o.Late, o.Rising, o.After)
		}
	}
}

func TestTheTableSaysWhatWasNotPlayedAndWhoHeldTwice(t *testing.T) {
	results := []*result{
		{spec: spec{name: "one", fence: "token"}, servers: system{version: "one 1", memory: 5 << 20}, outcomes: []*outcome{
			{Scenario: "pause", Two: 56 * time.Millisecond, Next: 3100 * time.Millisecond, Told: byLibrary, After: 60 * time.Millisecond, Late: true, Fences: []redlock.Token{2, 1}},
			{Scenario: "hung-server", Trip: &trip{150 * time.Millisecond, 5 * time.Second}, Plain: &trip{}},
		}},
		{spec: spec{name: "two"}, missing: errors.New("etcd: not installed")},
	}
	text := table(results, []scenario{{name: "pause", what: "it stops", next: "the stop"}}, time.Unix(0, 0))
	for _, want := range []string{
		"**two holders for 56 ms**; next after 3.1 s; told after 60 ms by library, when the next one held",
		"held after 150 ms, given back in 5.0 s; as it comes: nobody held within 30.0 s",
		"token; not rising in pause", "not played: etcd: not installed", "5 MB",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("got\n%s\nwant %q in it", text, want)
		}
	}
}

// Where nobody is locked out two are at work by design. A late write is bad that counts.
func TestWhereNobodyIsLockedOutALateWriteCounts(t *testing.T) {
	s := spec{name: "one", fence: "version", optimistic: true}
	for _, c := range []struct {
		write, said, fence string
		breach             bool
	}{
		{"", "two at work; next one's write after 5 ms", "version", false},
		{writeRefused, "two at work; next one's write after 5 ms; late write refused", "version; refused every late write", false},
		{writeDone, "two at work; next one's write after 5 ms; **late write: accepted**", "version; late write not refused in pause", true},
		{"no answer", "two at work; next one's write after 5 ms; **late write: no answer**", "version; late write not refused in pause", true},
	} {
		o := &outcome{Scenario: "pause", Optimistic: true, Two: time.Second, Next: 5 * time.Millisecond, Write: c.write, Fences: []redlock.Token{1, 1}}
		r := &result{spec: s, outcomes: []*outcome{o}}
		if got := o.String(); got != c.said || r.fence() != c.fence || o.breach() != c.breach {
			t.Errorf("got %q, %q, a breach: %v; want %q, %q, %v", got, r.fence(), o.breach(), c.said, c.fence, c.breach)
		}
	}
	for scenario, want := range map[string]string{"hand-over": "nobody waits: at work again after 5 ms", "given-up": "at work after 5 ms"} {
		if got := (&outcome{Scenario: scenario, Optimistic: true, Next: 5 * time.Millisecond}).String(); got != want {
			t.Errorf("%s: got %q; want %q", scenario, got, want)
		}
	}
	if got := (&outcome{Scenario: "pause", Optimistic: true}).String(); got != "no write of the next one within 15.0 s" {
		t.Errorf("got %q; want that no write came about", got)
	}
}

func TestThePageDrawsBeliefsAndGapsOnOneScale(t *testing.T) {
	o := &outcome{Contender: "one", Scenario: "pause", zero: time.Second, Next: time.Second, Records: parsed(slices.Concat(
		[]line{{first, trace.Asked, 400, ""}, {first, trace.Held, 500, ""}}, believes(first, 500, 1000),
		[]line{{first, trace.Broke, 1000, ""}, {first, trace.Mended, 5000, ""}}, believes(first, 5000, 5100), []line{{first, trace.Told, 5100, byLibrary}})...)}
	o.Records = slices.DeleteFunc(o.Records, func(r record) bool { // a busy machine: it stood nowhere still, and looked late
		return r.Kind == trace.Extended && r.At > 6e8 && r.At < 9e8
	})
	run := o.shown(scenario{name: "pause"})
	held, again := kinds(run, trace.Held), kinds(run, trace.Extended)
	if len(held) != 1 || len(again) != 1 || held[0].At != faultAt-500*time.Millisecond || held[0].Until != faultAt || again[0].Until != faultAt+4100*time.Millisecond {
		t.Errorf("got %+v, %+v; want two beliefs, to the stop and to the word of the library", held, again)
	}
	broke, mended := kinds(run, trace.Broke), kinds(run, trace.Mended)
	if len(broke) != 1 || len(mended) != 1 || broke[0].At != faultAt || *broke[0].Fault != *mended[0].Fault {
		t.Errorf("got %+v, %+v; want one standstill, at the same moment in each picture", broke, mended)
	}
	dir := t.TempDir()
	testkit.Must(t, write(dir, []*result{{outcomes: []*outcome{o}}}, []scenario{{name: "pause"}}))
	if page := readText(t, filepath.Join(dir, "pause.html")); strings.Count(page, "A believes") < 2 {
		t.Errorf("got no two beliefs in\n%s", page)
	}
}

// kinds are the records of a kind.
func kinds(run chaos.Run, kind trace.Kind) []chaos.Record {
	return slices.DeleteFunc(slices.Clone(run.Records), func(r chaos.Record) bool { return r.Kind != kind })
}

func TestThePageDrawsWhatIsUnderWay(t *testing.T) {
	o := &outcome{zero: time.Second, Records: parsed(
		line{second, trace.Asked, 1000, ""}, line{third, trace.Asked, 1000, ""}, line{second, trace.Held, 2000, ""}, line{second, trace.Released, 3000, ""},
		line{second, returned, 8000, ""}, line{third, trace.Quit, 9000, ""}, line{"", trace.Mended, 20000, ""},
	)}
	run := o.shown(scenario{name: "hung-server"})
	asked, held, quit := kinds(run, trace.Asked), kinds(run, trace.Held), kinds(run, trace.Quit)
	if len(asked) != 2 || len(held) != 1 || len(quit) != 1 || held[0].Hold != asked[0].Hold || quit[0].Hold != asked[1].Hold {
		t.Fatalf("got %+v; want two who ask, of whom one gets it", run.Records)
	}
	if asked[0].At != faultAt || held[0].At != faultAt+time.Second || quit[0].At != faultAt+8*time.Second || asked[0].Resource == asked[1].Resource {
		t.Errorf("got %+v; want waits of one second and of eight, each for a name of its own", run.Records)
	}
	if back := kinds(run, trace.Released); len(back) != 1 || back[0].At != faultAt+2*time.Second {
		t.Errorf("got %+v; want the release after a second", back)
	}
}

func TestAContenderIsFoundByWhatStandsBeforeItsComma(t *testing.T) {
	for word, want := range map[string]string{"Redisson RLock": "Redisson RLock, by its scripts", "memcached": "memcached, add with expiry", "etcd": "etcd"} {
		r := &run{}
		if err := r.choose(word, ""); err != nil || len(r.contenders) != 1 || r.contenders[0].name != want {
			t.Errorf("%s: got %+v, %v; want %q", word, r.contenders, err, want)
		}
	}
}

func TestARunInWhichRedlockHoldsTwiceIsAnError(t *testing.T) {
	for _, c := range []struct {
		name string
		o    outcome
		want bool
	}{
		{"redlock", outcome{Fences: []redlock.Token{1, 2}, Rising: true}, false},
		{"redlock", outcome{Two: time.Millisecond}, true},
		{"redlock", outcome{Fences: []redlock.Token{2, 1}}, true},
		{"redlock", outcome{Failed: "it did not start"}, true},
		{"redsync", outcome{Two: time.Millisecond}, false},
	} {
		err := convicted([]*result{{spec: spec{name: c.name}, outcomes: []*outcome{{}, &c.o}}})
		if (err != nil) != c.want {
			t.Errorf("%s with %+v: got %v; want an error: %v", c.name, c.o, err, c.want)
		}
	}
}

func TestUnknownNamesAreRefusedWithThoseThatThereAre(t *testing.T) {
	for _, args := range [][]string{{"-contenders", "chubby"}, {"-scenarios", "flood"}} {
		err := compare(t.Context(), args, &strings.Builder{})
		if err == nil {
			t.Errorf("%q: got no error", args)
		} else if args[1] == "chubby" && !strings.Contains(err.Error(), "memcached") {
			t.Errorf("got %v; want the names that there are", err)
		}
	}
}
