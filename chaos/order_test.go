package chaos_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/quorumkit/redlock/chaos"
	"github.com/quorumkit/redlock/internal/lab/trace"
	"github.com/quorumkit/redlock/internal/testkit"
)

// who is a step of a trace of one name.
type who struct {
	at     int // ms
	kind   trace.Kind
	client string
	hold   int64
	since  int // ms
}

func ms(n int) time.Duration { return time.Duration(n) * time.Millisecond }

func orderTrace(steps ...who) (records []chaos.Record) {
	for _, s := range steps {
		r := chaos.Record{At: ms(s.at), Kind: s.kind, Client: s.client, Hold: s.hold, Resource: "report", Since: ms(s.since)}
		if s.kind == trace.Held {
			r.Until = r.At + time.Second
		}
		records = append(records, r)
	}
	return records
}

func TestWhoStandsInLineIsServedBeforeWhoComesLater(t *testing.T) {
	waits := []who{{10, trace.Asked, "ann", 1, 0}}
	queued := who{2000, trace.Queued, "ann", 0, 20}
	comes, served := who{1000, trace.Asked, "bob", 2, 0}, who{2000, trace.Held, "bob", 2, 0}
	for _, c := range []struct {
		what  string
		judge trace.Judge
		trace []who
		want  int
	}{
		{"in line before bob came", trace.Judge{}, append(waits, comes, queued, served), 1},
		{"nobody says so", trace.Judge{}, append(waits, comes, served), 0},
		{"long enough before, by the judge's word", trace.Judge{Order: 500 * time.Millisecond}, append(waits, comes, served), 1},
		{"not long enough before", trace.Judge{Order: 2 * time.Second}, append(waits, comes, served), 0},
		{"in line again since bob came only", trace.Judge{}, append(waits, comes, who{2000, trace.Queued, "ann", 0, 1500}, served), 0},
		{"no longer in line", trace.Judge{}, append(waits, comes, queued, who{2000, trace.Unqueued, "ann", 0, 0}, served), 0},
		{"has quit", trace.Judge{Order: 1}, append(waits, comes, who{1500, trace.Quit, "ann", 0, 0}, served), 0},
		{"bob was there before", trace.Judge{}, append([]who{{5, trace.Asked, "bob#1", 3, 0}, waits[0]}, comes, queued, served), 0},
		{"bob is ann's own goroutine", trace.Judge{}, append(waits, who{1000, trace.Asked, "ann#1", 2, 0}, queued, who{2000, trace.Held, "ann#1", 2, 0}), 0},
		{"bob's old place was still there", trace.Judge{}, append(waits, who{1000, trace.Asked, "bob", 2, 5}, queued, served), 0},
		{"bob has just been away", trace.Judge{}, append([]who{{5, trace.Asked, "bob", 3, 0}, waits[0], {600, trace.Quit, "bob", 0, 0}}, comes, queued, served), 0},
		{"bob has been away for longer", trace.Judge{}, append([]who{{5, trace.Asked, "bob", 3, 0}, waits[0], {30, trace.Quit, "bob", 0, 0}}, comes, queued, served), 1},
	} {
		v := c.judge.Judge(orderTrace(c.trace...))
		if got := v.Count(chaos.Overtaken); got != c.want || len(v.Violations) != c.want {
			t.Errorf("%s: got %v; want %d overtaken", c.what, v, c.want)
		}
	}
}

func TestAProcessHasItsTurnsAndNoMore(t *testing.T) {
	const turns = 3
	for holds, want := range map[int]int{turns: 0, turns + 1: 1, turns + 2: 2} {
		steps := []who{{1, trace.Asked, "bob", 1, 0}, {5, trace.Asked, "ann", 100, 0}}
		for i := range holds {
			at := 100 * (i + 1)
			steps = append(steps,
				who{at, trace.Asked, fmt.Sprintf("bob#%d", i+1), int64(i + 2), 0}, who{at + 1, trace.Queued, "ann", 0, 10},
				who{at + 1, trace.Held, "bob", int64(i + 1), 0}, who{at + 50, trace.Released, "", int64(i + 1), 0})
			if i > 0 { // each hold is of the client that asked for it
				steps[len(steps)-2].client = fmt.Sprintf("bob#%d", i)
			}
		}
		v := trace.Judge{Turns: turns}.Judge(orderTrace(steps...))
		if got := v.Count(chaos.Overtaken); got != want {
			t.Errorf("%d in a row: got %v; want %d overtaken", holds, v, want)
		}
	}
}

// The goroutines of a plan stand in line as one process, and the trace says since
// when: else no order would be judged.
func TestAPlanThatWaitsSaysWhoIsQueued(t *testing.T) {
	testkit.Unraced(t)
	p := smallPlan(1, 20*time.Second, chaos.Mix{Kinds: []chaos.Break{chaos.LoseCalls}, Every: time.Second})
	p.Waits, p.Threads, p.Names = true, 2, 1
	records := chaos.PlayVirtual(t, p, p.Redlock("redlock")).Records
	of := map[trace.Kind]int{}
	for _, r := range records {
		of[r.Kind]++
		if r.Kind == trace.Queued && (r.Since <= 0 || r.Since > r.At || r.Client == "") {
			t.Errorf("got %+v; want who, and since when", r)
		}
	}
	if v := p.Judge().Judge(records); len(v.Violations) > 0 || of[trace.Queued] < 10 || of[trace.Unqueued] < 10 || v.Won < 20 {
		t.Errorf("got %v, %v", v, of)
	}
}
