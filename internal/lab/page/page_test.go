package page_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lab/page"
	"github.com/quorumkit/redlock/internal/lab/trace"
	"github.com/quorumkit/redlock/internal/testkit"
)

// at is a record of a story that is told in milliseconds.
func at(ms int, r trace.Record) trace.Record {
	r.At = time.Duration(ms) * time.Millisecond
	return r
}

// story is a trace in which everything happens that a picture shows.
func story() trace.Run {
	stall, step := trace.Fault{Kind: trace.Stall, Node: 1}, trace.Fault{Kind: trace.Step, Node: 0, Delay: 20 * time.Second}
	pause := trace.Fault{Kind: trace.Pause, Client: "ann"}
	ms := time.Millisecond
	run := trace.Run{
		About: trace.About{
			Scenario: "story", Claim: "a claim", Lesson: "a lesson", Contender: "kit", Guarded: true, Backend: "virtual", Seed: 7,
			Nodes: []string{"node-0", "node-1"}, Claimed: &trace.Showing{Contender: "kit", Breaks: []trace.Rule{trace.TwoHolders}, Refused: 1},
		},
		Records: []trace.Record{
			at(0, trace.Record{Kind: trace.Turned, Node: "node-0", Text: trace.Member}),
			at(10, trace.Record{Kind: trace.Asked, Client: "ann", Resource: "report", Hold: 1}),
			at(12, trace.Record{Kind: trace.Held, Client: "ann", Hold: 1, Token: 5, Until: 1000 * ms}),
			at(14, trace.Record{Kind: trace.Stored, Node: "node-0", Client: "ann", Resource: "report", Hold: 1, Until: 1010 * ms}),
			at(50, trace.Record{Kind: trace.Broke, Fault: &step, Text: step.String()}),
			at(51, trace.Record{Kind: trace.Stored, Node: "node-0", Resource: "report"}),
			at(60, trace.Record{Kind: trace.Broke, Fault: &stall, Text: stall.String()}),
			at(70, trace.Record{Kind: trace.Broke, Fault: &pause, Text: pause.String()}),
			at(80, trace.Record{Kind: trace.Turned, Node: "node-1", Text: trace.Silent}),
			at(90, trace.Record{Kind: trace.Asked, Client: "bob", Resource: "report", Hold: 2}),
			at(95, trace.Record{Kind: trace.Failed, Client: "bob", Resource: "report", Hold: 2}),
			at(99, trace.Record{Kind: trace.Asked, Client: "bob", Resource: "report", Hold: 3}),
			at(100, trace.Record{Kind: trace.Held, Client: "bob", Hold: 3, Token: 6, Until: 2000 * ms}),
			at(150, trace.Record{Kind: trace.Wrote, Resource: "report", Hold: 3, Token: 6}),
			at(160, trace.Record{Kind: trace.Mended, Fault: &pause}),
			at(170, trace.Record{Kind: trace.Refused, Resource: "report", Hold: 1, Token: 5}),
			at(200, trace.Record{Kind: trace.Lost, Hold: 1}),
			at(500, trace.Record{Kind: trace.Mended, Fault: &step}),
			at(600, trace.Record{Kind: trace.Released, Hold: 3}),
		},
	}
	run.Verdict = trace.Judge{}.Judge(run.Records)
	return run
}

func written(t *testing.T, write func(io.Writer, ...trace.Run) error, runs ...trace.Run) string {
	t.Helper()
	var b strings.Builder
	testkit.Must(t, write(&b, runs...))
	return b.String()
}

// found are the first groups of all matches.
func found(text, expression string) (all []string) {
	for _, m := range regexp.MustCompile(expression).FindAllStringSubmatch(text, -1) {
		all = append(all, strings.ReplaceAll(m[1], "\n", " "))
	}
	return all
}

// What each kind of record becomes: a mark of its own shape that says all there is.
func TestAPictureShowsWhatHappened(t *testing.T) {
	html := written(t, page.Write, story())
	for _, want := range []struct{ shape, says string }{
		{"belief", "ann believes it holds &#34;report&#34; from 12 ms to 200 ms, for 188 ms token 5, #1 of 2; lost"},
		{"belief", "bob believes it holds &#34;report&#34; from 100 ms to 600 ms, for 500 ms token 6, #2 of 2; released"},
		{"wait", "bob asks for &#34;report&#34; from 90 ms to 100 ms 1 attempt in vain, then it has the lock"},
		{"key", "node-0 has the key of &#34;report&#34; for ann (attempt 1) from 14 ms to 51 ms"},
		{"silent", "node-1 is silent from 80 ms to 600 ms it does not answer"},
		{"forward", "clock step by 20s of node 0 at 50 ms"},
		{"back", "the clock is right again at 500 ms"},
		{"bolt", "stall of node 1 from 60 ms to 600 ms"},
		{"fault", "pause of ann from 70 ms to 160 ms"},
		{"band", "two holders of &#34;report&#34;: ann and bob from 100 ms to 200 ms, for 100 ms"},
		{"wrote", "bob writes to &#34;report&#34; at 150 ms token 6, #2 of 2 is accepted"},
		{"refused", "ann writes to &#34;report&#34; at 170 ms token 5, #1 of 2 is refused: the guard has seen a greater token"},
	} {
		if says := found(html, `<g class="mark `+want.shape+` ?c?\d?"[^>]*><title>([^<]*)</title>`); !slices.Contains(says, want.says) {
			t.Errorf("%s: got %q; want %q among them", want.shape, says, want.says)
		}
	}
	for _, want := range []string{">two holders for 100 ms<", "<small>as claimed</small>", "Take away:</strong> a lesson.", "<td>2 of 3</td>", "seed 7"} {
		if !strings.Contains(html, want) {
			t.Errorf("got a page without %q", want)
		}
	}
}

func TestAPageSaysWhatIsNotAsClaimed(t *testing.T) {
	run := story()
	run.About.Claimed = &trace.Showing{Contender: "kit"}
	if html := written(t, page.Write, run); !strings.Contains(html, "<small>not as claimed</small>") {
		t.Error("got a page without the words")
	}
}

// All that a trace says is shown as it stands, and runs nowhere.
func TestAPageEscapesWhatATraceSays(t *testing.T) {
	const evil = `</title></style></script><script>alert(1)</script>"'><img src=x onerror=alert(1)>`
	run := story()
	run.About.Scenario, run.About.Claim, run.About.Lesson, run.About.Contender, run.About.Backend = evil, evil, evil, evil, evil
	run.About.Nodes = []string{evil, "node-1"}
	for i := range run.Records {
		r := &run.Records[i]
		for _, field := range []*string{&r.Client, &r.Resource, &r.Text} {
			if *field != "" && *field != trace.Silent {
				*field = evil
			}
		}
		if r.Node == "node-0" {
			r.Node = evil
		}
		if r.Fault != nil {
			f := *r.Fault
			f.Kind = evil
			r.Fault = &f
		}
	}
	run.Verdict = trace.Judge{}.Judge(run.Records)
	run.Verdict.Violations = append(run.Verdict.Violations, trace.Violation{Rule: evil, Resource: evil, Text: evil})
	html := written(t, page.Write, run)
	if n := strings.Count(html, "<script>"); n != 1 {
		t.Errorf("got %d scripts; want the page's own", n)
	}
	if strings.Contains(html, "<img") || strings.Contains(html, `"'>`) {
		t.Error("got markup of the trace's own")
	}
	if !strings.Contains(html, "alert(1)&lt;/script&gt;") {
		t.Error("got a page that does not show what the trace says")
	}
	wellFormed(t, written(t, page.WritePicture, run))
}

func wellFormed(t *testing.T, svg string) {
	t.Helper()
	for d := xml.NewDecoder(strings.NewReader(svg)); ; {
		_, err := d.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatalf("got an SVG file that is no XML: %v", err)
		}
	}
}

// A grant is an arrow from the one who released to the one who was told; what comes late goes to
// the release of then, and not to one that has been since.
func TestAPictureShowsWhatAReleaseGranted(t *testing.T) {
	tells := func(ms int, node, client string, token redlock.Token) trace.Record {
		return at(ms, trace.Record{Kind: trace.Granted, Node: node, Client: client, Resource: "report", Token: token})
	}
	records := []trace.Record{
		at(0, trace.Record{Kind: trace.Asked, Client: "ann", Resource: "report", Hold: 1}),
		at(1, trace.Record{Kind: trace.Held, Client: "ann", Hold: 1, Token: 5}),
		at(2, trace.Record{Kind: trace.Asked, Client: "bob", Resource: "report", Hold: 2}),
		at(3, trace.Record{Kind: trace.Asked, Client: "cara", Resource: "report", Hold: 3}),
		at(100, trace.Record{Kind: trace.Released, Hold: 1}),
		tells(101, "node-0", "bob", 6),
		tells(102, "node-1", "bob", 6),
		at(102, trace.Record{Kind: trace.Held, Client: "bob", Hold: 2, Token: 6}),
		at(200, trace.Record{Kind: trace.Released, Hold: 2}),
		tells(201, "node-1", "cara", 8),
		tells(300, "node-2", "bob", 6),
		tells(301, "node-2", "dave", 9), // who is in no lane
	}
	html := written(t, page.Write, trace.Run{About: trace.About{Nodes: []string{"node-0", "node-1", "node-2"}}, Records: records})
	got := found(html, `<g class="mark grant[^>]*><title>([^<]*)</title>`)
	if want := []string{
		"ann releases &#34;report&#34; at 100 ms, which grants it to bob 2 of 3 nodes tell it from 101 ms to 102 ms",
		"ann releases &#34;report&#34; at 100 ms, which grants it to bob 1 of 3 nodes tell it at 300 ms",
		"bob releases &#34;report&#34; at 200 ms, which grants it to cara 1 of 3 nodes tell it at 201 ms",
	}; !slices.Equal(got, want) {
		t.Errorf("got %q; want %q", got, want)
	}
	if want := "<td>node-1</td><td>tells cara that it was granted report, token 8</td>"; !strings.Contains(html, want) {
		t.Errorf("got a page without %s", want)
	}
}

// Nothing, very little, and times that end nowhere.
func TestOddTracesAreDrawnToo(t *testing.T) {
	for name, records := range map[string][]trace.Record{
		"nothing":       nil,
		"one record":    {{Kind: trace.Noted, Text: "a note"}},
		"an open wait":  {{Kind: trace.Asked, Client: "ann", Resource: "r", Hold: 1}},
		"no expiry":     {{Kind: trace.Asked, Client: "ann", Resource: "r", Hold: 1}, at(5, trace.Record{Kind: trace.Held, Hold: 1})},
		"what is wrong": {{Kind: trace.Released, Hold: 9}, {Kind: trace.Mended, Fault: &trace.Fault{Kind: trace.Cut, Node: 77}}, {Kind: "?"}},
		"no such node":  {{Kind: trace.Broke, Fault: &trace.Fault{Kind: trace.Cut, Node: 77}}},
		"unsorted":      {at(9, trace.Record{Kind: trace.Held, Hold: 1}), {Kind: trace.Asked, Client: "ann", Resource: "r", Hold: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			run := trace.Run{Records: records, Verdict: trace.Judge{}.Judge(records)}
			wellFormed(t, written(t, page.WritePicture, run))
			if html := written(t, page.Write, run); strings.Contains(html, "NaN") || strings.Contains(html, "Inf") {
				t.Error("got a picture with numbers that are none")
			}
		})
	}
}

func TestRunsAreReadAsTheyWereWritten(t *testing.T) {
	first, second := story(), story()
	second.About.Contender, second.About.Judge = "another", trace.Judge{Lease: time.Second}
	var b bytes.Buffer
	testkit.Must(t, trace.WriteRuns(&b, first, second))
	runs, err := trace.ReadRuns(&b)
	if err != nil || len(runs) != 2 {
		t.Fatalf("got %d runs, %v; want 2", len(runs), err)
	}
	if runs[1].About.Contender != "another" || runs[1].About.Judge.Lease != time.Second || !slices.Equal(runs[0].About.Nodes, first.About.Nodes) {
		t.Errorf("got %+v; want %+v", runs[1].About, second.About)
	}
	if got, want := written(t, page.WritePicture, runs...), written(t, page.WritePicture, first, second); got != want {
		t.Error("the pictures differ from the earlier ones")
	}
	if _, err := trace.ReadRuns(strings.NewReader("")); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("no record: got %v; want io.ErrUnexpectedEOF", err)
	}
	plain, err := trace.ReadRuns(strings.NewReader(`{"at":0,"kind":"noted"}`))
	if err != nil || len(plain) != 1 {
		t.Errorf("a trace without a head: got %d runs, %v; want 1", len(plain), err)
	}
}

// Two share, one beside them on a node; one has a slot; and an observer is told of them.
func TestAPictureShowsWhoSharesWhoHasASlotAndWhoIsSeen(t *testing.T) {
	ms := time.Millisecond
	run := trace.Run{About: trace.About{Contender: "kit"}, Records: []trace.Record{
		at(10, trace.Record{Kind: trace.Asked, Client: "ann", Resource: "report", Hold: 1, Shared: true, Value: "ann/1"}),
		at(11, trace.Record{Kind: trace.Held, Client: "ann", Hold: 1, Token: 5, Until: 900 * ms, Shared: true}),
		at(12, trace.Record{Kind: trace.Stored, Node: "node-0", Client: "ann", Resource: "report", Hold: 1, Until: 900 * ms, Shared: true}),
		at(20, trace.Record{Kind: trace.Asked, Client: "bob", Resource: "report", Hold: 2, Shared: true}),
		at(21, trace.Record{Kind: trace.Held, Client: "bob", Hold: 2, Token: 5, Until: 900 * ms, Shared: true}),
		at(22, trace.Record{Kind: trace.Stored, Node: "node-0", Client: "bob", Resource: "report", Hold: 2, Until: 900 * ms, Shared: true}),
		at(30, trace.Record{Kind: trace.Asked, Client: "cid", Resource: "report", Hold: 3, Limit: 2}),
		at(31, trace.Record{Kind: trace.Held, Client: "cid", Hold: 3, Token: 6, Until: 900 * ms, Limit: 2, Slot: 1}),
		at(40, trace.Record{Kind: trace.Saw, Client: "eve", Resource: "report", Value: "ann/1", Token: 5}),
		at(50, trace.Record{Kind: trace.Stored, Node: "node-0", Client: "bob", Resource: "report", Hold: 2, Shared: true}),
		at(60, trace.Record{Kind: trace.Saw, Client: "eve", Resource: "report"}),
		at(900, trace.Record{Kind: trace.Noted}),
	}}
	html := strings.ReplaceAll(written(t, page.Write, run), "\n", " ")
	for _, want := range []string{
		`class="mark belief shared c0"`, "ann believes it shares &#34;report&#34; from 11 ms to 900 ms",
		"cid believes it holds &#34;report&#34;, slot 1 of 2 from 31 ms", "slot 1 · token #1",
		`class="mark key shared c1"`, "node-0 has the key of &#34;report&#34; for bob (attempt 2) from 22 ms to 50 ms",
		`class="mark sight c0"`, "eve is told that ann/1 has &#34;report&#34;, by token 5 from 40 ms to 60 ms",
		`class="mark sight nobody c0"`, "eve is told that nobody has &#34;report&#34; from 60 ms",
		`<li class="shares">`, `<li class="observes">`,
	} {
		if !strings.Contains(html, want) {
			t.Errorf("got a page without %q", want)
		}
	}
	if strings.Contains(html, ">two holders for") {
		t.Error("got a red band over two that share")
	}
	tall := regexp.MustCompile(`class="mark key shared c\d" [^>]*>.*?<rect class="tint"[^>]* y="(\d+)"`)
	if rows := tall.FindAllStringSubmatch(html, -1); len(rows) != 2 || rows[0][1] == rows[1][1] {
		t.Errorf("got keys at %q; want two that share in two rows", rows)
	}
	if html := written(t, page.Write, story()); strings.Contains(html, `<li class="shares">`) || strings.Contains(html, `<li class="observes">`) {
		t.Error("got a legend of what is not in the picture")
	}
}

func TestAPictureShowsWhichListOfNodesIsInForce(t *testing.T) {
	run := story()
	joins, leaves := trace.Fault{Kind: trace.ListChange, Node: 1, Where: trace.AtForce}, trace.Fault{Kind: trace.ListChange, Node: 0, MaxTTL: time.Second, Strict: trace.StrictOff}
	run.Records = append(run.Records,
		at(601, trace.Record{Kind: trace.Broke, Fault: &joins, Value: "0"}), at(700, trace.Record{Kind: trace.Mended, Fault: &joins, Value: "0 1"}),
		at(800, trace.Record{Kind: trace.Broke, Fault: &leaves, Value: "0 1"}), at(850, trace.Record{Kind: trace.Mended, Fault: &leaves, Value: "1"}))
	html := written(t, page.Write, run)
	want := []string{"nodes in the list: 0 from ", "nodes in the list: 0 1 from 700 ms to 850 ms", "nodes in the list: 1 from 850 ms to "}
	got := found(html, `<g class="mark sight nobody c\d"[^>]*><title>([^<]*)</title>`)
	if !slices.EqualFunc(got, want, strings.HasPrefix) {
		t.Errorf("got the lists %q; want %q", got, want)
	}
	if got, want := found(html, `>(joins[^<]*|leaves[^<]*)</text>`), []string{"leaves and MaxTTL 1s and strict recovery off", "joins; operator dies at force"}; !slices.Equal(got, want) {
		t.Errorf("got the labels %q; want %q", got, want)
	}
}

// The failover gets the mark; the replica's earlier lag is its cause.
func TestAFailoverIsMarkedWhenItHappens(t *testing.T) {
	run := story()
	f := trace.Fault{Kind: trace.Failover, Node: 0}
	run.Records = append(run.Records,
		at(601, trace.Record{Kind: trace.Broke, Fault: &f}), at(700, trace.Record{Kind: trace.Mended, Fault: &f}), at(701, trace.Record{Kind: trace.Noted}))
	html := written(t, page.Write, run)
	title := `"[^>]*><title>(failover[^<]*)</title>`
	if got, want := found(html, `<g class="mark bolt c\d`+title), []string{"failover to a replica that lags of node 0 at 700 ms"}; !slices.Equal(got, want) {
		t.Errorf("got the marks %q; want %q", got, want)
	}
	if got, want := found(html, `<g class="mark fault c\d`+title), []string{"failover to a replica that lags of node 0 its replica lags from 601 ms to 700 ms"}; !slices.Equal(got, want) {
		t.Errorf("got the spans %q; want %q", got, want)
	}
}
