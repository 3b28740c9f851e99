package chaos_test

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/chaos"
)

// at is a record of a story that is told in milliseconds.
func at(ms int, r chaos.Record) chaos.Record {
	r.At = time.Duration(ms) * time.Millisecond
	return r
}

// story is a trace in which everything happens that a picture shows.
func story() chaos.Run {
	stall, step := chaos.Fault{Kind: chaos.Stall, Node: 1}, chaos.Fault{Kind: chaos.Step, Node: 0, Delay: 20 * time.Second}
	pause := chaos.Fault{Kind: chaos.Pause, Client: "ann"}
	ms := time.Millisecond
	run := chaos.Run{
		About: chaos.About{
			Scenario: "story", Claim: "a claim", Lesson: "a lesson", Contender: "kit", Guarded: true, Backend: "virtual", Seed: 7,
			Nodes: []string{"node-0", "node-1"}, Claimed: &chaos.Showing{Contender: "kit", Breaks: []chaos.Rule{chaos.TwoHolders}, Refused: 1},
		},
		Records: []chaos.Record{
			at(0, chaos.Record{Kind: chaos.Turned, Node: "node-0", Text: chaos.Member}),
			at(10, chaos.Record{Kind: chaos.Asked, Client: "ann", Resource: "report", Hold: 1}),
			at(12, chaos.Record{Kind: chaos.Held, Client: "ann", Hold: 1, Token: 5, Until: 1000 * ms}),
			at(14, chaos.Record{Kind: chaos.Stored, Node: "node-0", Client: "ann", Resource: "report", Hold: 1, Until: 1010 * ms}),
			at(50, chaos.Record{Kind: chaos.Broke, Fault: &step, Text: step.String()}),
			at(51, chaos.Record{Kind: chaos.Stored, Node: "node-0", Resource: "report"}),
			at(60, chaos.Record{Kind: chaos.Broke, Fault: &stall, Text: stall.String()}),
			at(70, chaos.Record{Kind: chaos.Broke, Fault: &pause, Text: pause.String()}),
			at(80, chaos.Record{Kind: chaos.Turned, Node: "node-1", Text: chaos.Silent}),
			at(90, chaos.Record{Kind: chaos.Asked, Client: "bob", Resource: "report", Hold: 2}),
			at(95, chaos.Record{Kind: chaos.Failed, Client: "bob", Resource: "report", Hold: 2}),
			at(99, chaos.Record{Kind: chaos.Asked, Client: "bob", Resource: "report", Hold: 3}),
			at(100, chaos.Record{Kind: chaos.Held, Client: "bob", Hold: 3, Token: 6, Until: 2000 * ms}),
			at(150, chaos.Record{Kind: chaos.Wrote, Resource: "report", Hold: 3, Token: 6}),
			at(160, chaos.Record{Kind: chaos.Mended, Fault: &pause}),
			at(170, chaos.Record{Kind: chaos.Refused, Resource: "report", Hold: 1, Token: 5}),
			at(200, chaos.Record{Kind: chaos.Lost, Hold: 1}),
			at(500, chaos.Record{Kind: chaos.Mended, Fault: &step}),
			at(600, chaos.Record{Kind: chaos.Released, Hold: 3}),
		},
	}
	run.Verdict = chaos.Judge{}.Judge(run.Records)
	return run
}

func page(t *testing.T, write func(io.Writer, ...chaos.Run) error, runs ...chaos.Run) string {
	t.Helper()
	var b strings.Builder
	if err := write(&b, runs...); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// What each kind of record becomes: a mark of its own shape that says all there is.
func TestAPictureShowsWhatHappened(t *testing.T) {
	html := page(t, chaos.WritePage, story())
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
		mark := regexp.MustCompile(`<g class="mark ` + want.shape + ` ?c?\d?"[^>]*><title>([^<]*)</title>`)
		says := []string{}
		for _, m := range mark.FindAllStringSubmatch(html, -1) {
			says = append(says, strings.ReplaceAll(m[1], "\n", " "))
		}
		if !slices.Contains(says, want.says) {
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
	run.About.Claimed = &chaos.Showing{Contender: "kit"}
	if html := page(t, chaos.WritePage, run); !strings.Contains(html, "<small>not as claimed</small>") {
		t.Error("got a page without the words")
	}
}

// A page is opened from a disk, years later, and mailed around.
func TestAPageNeedsNoNetwork(t *testing.T) {
	for name, text := range map[string]string{
		"page": page(t, chaos.WritePage, story()), "picture": page(t, chaos.WritePicture, story()),
	} {
		for _, bad := range []string{"http:", "https:", "src=", "@import", "url(//", "<link rel=\"stylesheet\""} {
			clean := strings.ReplaceAll(text, "http://www.w3.org/2000/svg", "") // a name, not an address
			if strings.Contains(clean, bad) {
				t.Errorf("the %s has %q", name, bad)
			}
		}
	}
}

// Two writes of one instant lay upon each other, and their labels too: bob's was not to be seen.
func TestWritesOfOneInstantAreOneMarkThatNamesAll(t *testing.T) {
	run := story()
	var writes []chaos.Record
	for hold, client := range map[int64]string{91: "cid", 92: "dan"} {
		writes = append(writes,
			at(0, chaos.Record{Kind: chaos.Asked, Client: client, Resource: "alone", Hold: hold}),
			at(1, chaos.Record{Kind: chaos.Held, Client: client, Resource: "alone", Hold: hold, Token: redlock.Token(hold)}),
			at(2, chaos.Record{Kind: chaos.Wrote, Client: client, Resource: "alone", Hold: hold, Token: redlock.Token(hold)}))
	}
	slices.SortStableFunc(writes, func(a, b chaos.Record) int { return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Hold, b.Hold)) })
	run.Records = writes
	run.Verdict = chaos.Judge{}.Judge(run.Records)
	svg := page(t, chaos.WritePicture, run)
	if !strings.Contains(svg, "2 writes: cid, dan") {
		t.Error("got a picture without \"2 writes: cid, dan\"")
	}
	for _, client := range []string{"cid", "dan"} {
		if !strings.Contains(svg, client+" writes to") {
			t.Errorf("got no tip of the write of %s", client)
		}
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
			if *field != "" && *field != chaos.Silent {
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
	run.Verdict = chaos.Judge{}.Judge(run.Records)
	run.Verdict.Violations = append(run.Verdict.Violations, chaos.Violation{Rule: evil, Resource: evil, Text: evil})
	html := page(t, chaos.WritePage, run)
	if n := strings.Count(html, "<script>"); n != 1 {
		t.Errorf("got %d scripts; want the page's own", n)
	}
	if strings.Contains(html, "<img") || strings.Contains(html, `"'>`) {
		t.Error("got markup of the trace's own")
	}
	if !strings.Contains(html, "alert(1)&lt;/script&gt;") {
		t.Error("got a page that does not show what the trace says")
	}
	wellFormed(t, page(t, chaos.WritePicture, run))
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
	tells := func(ms int, node, client string, token redlock.Token) chaos.Record {
		return at(ms, chaos.Record{Kind: chaos.Granted, Node: node, Client: client, Resource: "report", Token: token})
	}
	records := []chaos.Record{
		at(0, chaos.Record{Kind: chaos.Asked, Client: "ann", Resource: "report", Hold: 1}),
		at(1, chaos.Record{Kind: chaos.Held, Client: "ann", Hold: 1, Token: 5}),
		at(2, chaos.Record{Kind: chaos.Asked, Client: "bob", Resource: "report", Hold: 2}),
		at(3, chaos.Record{Kind: chaos.Asked, Client: "cara", Resource: "report", Hold: 3}),
		at(100, chaos.Record{Kind: chaos.Released, Hold: 1}),
		tells(101, "node-0", "bob", 6),
		tells(102, "node-1", "bob", 6),
		at(102, chaos.Record{Kind: chaos.Held, Client: "bob", Hold: 2, Token: 6}),
		at(200, chaos.Record{Kind: chaos.Released, Hold: 2}),
		tells(201, "node-1", "cara", 8),
		tells(300, "node-2", "bob", 6),
		tells(301, "node-2", "dave", 9), // who is in no lane
	}
	html := page(t, chaos.WritePage, chaos.Run{About: chaos.About{Nodes: []string{"node-0", "node-1", "node-2"}}, Records: records})
	got := []string{}
	for _, m := range regexp.MustCompile(`<g class="mark grant[^>]*><title>([^<]*)</title>`).FindAllStringSubmatch(html, -1) {
		got = append(got, strings.ReplaceAll(m[1], "\n", " "))
	}
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
	for name, records := range map[string][]chaos.Record{
		"nothing":       nil,
		"one record":    {{Kind: chaos.Noted, Text: "a note"}},
		"an open wait":  {{Kind: chaos.Asked, Client: "ann", Resource: "r", Hold: 1}},
		"no expiry":     {{Kind: chaos.Asked, Client: "ann", Resource: "r", Hold: 1}, at(5, chaos.Record{Kind: chaos.Held, Hold: 1})},
		"what is wrong": {{Kind: chaos.Released, Hold: 9}, {Kind: chaos.Mended, Fault: &chaos.Fault{Kind: chaos.Cut, Node: 77}}, {Kind: "?"}},
		"no such node":  {{Kind: chaos.Broke, Fault: &chaos.Fault{Kind: chaos.Cut, Node: 77}}},
		"unsorted":      {at(9, chaos.Record{Kind: chaos.Held, Hold: 1}), {Kind: chaos.Asked, Client: "ann", Resource: "r", Hold: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			run := chaos.Run{Records: records, Verdict: chaos.Judge{}.Judge(records)}
			wellFormed(t, page(t, chaos.WritePicture, run))
			if html := page(t, chaos.WritePage, run); strings.Contains(html, "NaN") || strings.Contains(html, "Inf") {
				t.Error("got a picture with numbers that are none")
			}
		})
	}
}

func TestRunsAreReadAsTheyWereWritten(t *testing.T) {
	first, second := story(), story()
	second.About.Contender, second.About.Judge = "another", chaos.Judge{Lease: time.Second}
	var b bytes.Buffer
	if err := chaos.WriteRuns(&b, first, second); err != nil {
		t.Fatal(err)
	}
	runs, err := chaos.ReadRuns(&b)
	if err != nil || len(runs) != 2 {
		t.Fatalf("got %d runs, %v; want 2", len(runs), err)
	}
	if runs[1].About.Contender != "another" || runs[1].About.Judge.Lease != time.Second || !slices.Equal(runs[0].About.Nodes, first.About.Nodes) {
		t.Errorf("got %+v; want %+v", runs[1].About, second.About)
	}
	if got, want := page(t, chaos.WritePicture, runs...), page(t, chaos.WritePicture, first, second); got != want {
		t.Error("the pictures differ from those of before")
	}
	if _, err := chaos.ReadRuns(strings.NewReader("")); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("no record: got %v; want io.ErrUnexpectedEOF", err)
	}
	plain, err := chaos.ReadRuns(strings.NewReader(`{"at":0,"kind":"noted"}`))
	if err != nil || len(plain) != 1 {
		t.Errorf("a trace without a head: got %d runs, %v; want 1", len(plain), err)
	}
}

// What nodes store, and how they are, is in the trace of a scenario.
func TestAScenariosTraceKnowsTheNodes(t *testing.T) {
	i := slices.IndexFunc(chaos.Scenarios(), func(s chaos.Scenario) bool { return s.Name == "amnesia-majority" })
	s := chaos.Scenarios()[i]
	for _, name := range []string{chaos.NameRedlock, chaos.NameTextbook} {
		kit, err := chaos.ScenarioKit(name)
		if err != nil {
			t.Fatal(err)
		}
		stored, blank := map[string]map[string]bool{}, map[string]bool{}
		for _, r := range perform(t, s, kit, true) {
			switch {
			case r.Kind == chaos.Turned && r.Text == chaos.Blank:
				blank[r.Node] = true
			case r.Kind == chaos.Stored && r.Client != "":
				if stored[r.Client] == nil {
					stored[r.Client] = map[string]bool{}
				}
				stored[r.Client][r.Node] = true
				if r.Hold == 0 || r.Until < chaos.ScenarioLease {
					t.Errorf("%s: got %+v; want the attempt and the expiry", name, r)
				}
			}
		}
		second := 0
		if name == chaos.NameTextbook {
			second = 3
		}
		if len(stored["ann"]) != 5 || len(stored["bob"]) != second || len(blank) != 3 || len(stored["another"]) != 0 {
			t.Errorf("%s: got keys %v and blank nodes %v; want ann's on 5, bob's on %d, and 3 blank", name, stored, blank, second)
		}
	}
}

// Two share, one beside them on a node; one has a slot; and an observer is told of them.
func TestAPictureShowsWhoSharesWhoHasASlotAndWhoIsSeen(t *testing.T) {
	ms := time.Millisecond
	run := chaos.Run{About: chaos.About{Contender: "kit"}, Records: []chaos.Record{
		at(10, chaos.Record{Kind: chaos.Asked, Client: "ann", Resource: "report", Hold: 1, Shared: true, Value: "ann/1"}),
		at(11, chaos.Record{Kind: chaos.Held, Client: "ann", Hold: 1, Token: 5, Until: 900 * ms, Shared: true}),
		at(12, chaos.Record{Kind: chaos.Stored, Node: "node-0", Client: "ann", Resource: "report", Hold: 1, Until: 900 * ms, Shared: true}),
		at(20, chaos.Record{Kind: chaos.Asked, Client: "bob", Resource: "report", Hold: 2, Shared: true}),
		at(21, chaos.Record{Kind: chaos.Held, Client: "bob", Hold: 2, Token: 5, Until: 900 * ms, Shared: true}),
		at(22, chaos.Record{Kind: chaos.Stored, Node: "node-0", Client: "bob", Resource: "report", Hold: 2, Until: 900 * ms, Shared: true}),
		at(30, chaos.Record{Kind: chaos.Asked, Client: "cid", Resource: "report", Hold: 3, Limit: 2}),
		at(31, chaos.Record{Kind: chaos.Held, Client: "cid", Hold: 3, Token: 6, Until: 900 * ms, Limit: 2, Slot: 1}),
		at(40, chaos.Record{Kind: chaos.Saw, Client: "eve", Resource: "report", Value: "ann/1", Token: 5}),
		at(50, chaos.Record{Kind: chaos.Stored, Node: "node-0", Client: "bob", Resource: "report", Hold: 2, Shared: true}),
		at(60, chaos.Record{Kind: chaos.Saw, Client: "eve", Resource: "report"}),
		at(900, chaos.Record{Kind: chaos.Noted}),
	}}
	html := strings.ReplaceAll(page(t, chaos.WritePage, run), "\n", " ")
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
	if html := page(t, chaos.WritePage, story()); strings.Contains(html, `<li class="shares">`) || strings.Contains(html, `<li class="observes">`) {
		t.Error("got a legend of what is not in the picture")
	}
}
