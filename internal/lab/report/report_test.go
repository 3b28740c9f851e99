package report

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

const ms = time.Millisecond

// story is a run of 600 ms, in which ann and bob hold a report at once.
func story() Run {
	return Run{
		Name: "kit", How: "seed 7", Summary: "all figures", Timeline: Timeline{
			Last: 600 * ms, End: 600 * ms, Clients: []string{"ann", "bob"}, Nodes: []string{"node-0"},
			Beliefs: []Belief{
				{Client: "ann", Resource: "report", Token: 5, From: 12 * ms, Until: 200 * ms, How: "lost"},
				{Client: "bob", Resource: "report", Token: 6, From: 100 * ms, Until: 600 * ms, How: "released"},
			},
			Waits:    []Wait{{Client: "bob", Resource: "report", From: 90 * ms, Until: 100 * ms, Failed: 1, Held: true}},
			Keys:     []Key{{Node: "node-0", Client: "ann", Resource: "report", Hold: 1, From: 14 * ms, Until: 51 * ms}},
			Faults:   []Fault{{Words: "pause of ann", Kind: "pause", From: 70 * ms, Until: 160 * ms, AtClients: []string{"ann"}}},
			Writes:   []Write{{At: 150 * ms, Client: "bob", Resource: "report", Token: 6}, {At: 170 * ms, Client: "ann", Resource: "report", Token: 5, Refused: true}},
			Overlaps: []Overlap{{Resource: "report", First: "ann", Then: "bob", From: 100 * ms, Until: 200 * ms}},
		},
	}
}

// marks are those of a lane, each as its shape, its place and width in percent, and its label.
func marks(p picture, lane string) (all []string) {
	for _, l := range p.Lanes {
		if l.Name == lane {
			for _, m := range l.Marks {
				all = append(all, strings.TrimSpace(fmt.Sprintf("%s %v+%v %s", m.Shape, m.X, math.Round(10*m.W)/10, m.Label)))
			}
		}
	}
	return all
}

// What a literal history becomes: for each thing a mark in its lane, from its time on.
func TestAHistoryIsDrawnAsItWas(t *testing.T) {
	p := draw(story())
	for lane, want := range map[string][]string{
		"ann":      {"belief 2+31.3 token #1", "fault 11.667+15 pause", "bolt 11.667+0"},
		"bob":      {"wait 15+1.7", "belief 16.667+83.3 token #2"},
		"node-0":   {"key 2.333+6.2 ann"},
		"accepted": {"wrote 25+0 bob, token #2"},
		"refused":  {"refused 28.333+0 ann, token #1"},
	} {
		if got := marks(p, lane); !slices.Equal(got, want) {
			t.Errorf("%s: got %q; want %q", lane, got, want)
		}
	}
	if len(p.Bands) != 1 || p.Bands[0].X != 16.667 || p.Bands[0].Label != "two holders for 100 ms" || p.Bands[0].H != p.Foot-axisHeight {
		t.Errorf("got the bands %+v; want one over all lanes, of the time with two holders", p.Bands)
	}
	if got := len(p.Lanes); got != 5 {
		t.Errorf("got %d lanes; want two clients', a node's, and of the writes those that were accepted and refused", got)
	}
}

// Two that are in a lane at one time have a row each; one that comes when the first has ended
// has its row.
func TestWhatIsThereAtOneTimeHasRowsOfItsOwn(t *testing.T) {
	in := newRows()
	for i, span := range [][2]time.Duration{{0, 10}, {5, 20}, {10, 30}, {15, 16}} {
		in.place(i, "lane", span[0], span[1])
	}
	if got := []int{in.row[0], in.row[1], in.row[2], in.row[3]}; !slices.Equal(got, []int{0, 1, 0, 2}) || in.of("lane") != 3 || in.of("another") != 1 {
		t.Errorf("got the rows %v of %d; want 0, 1, 0, 2 of 3", got, in.of("lane"))
	}
}

// A label that would meet that of a fault moves; that of a write that would meet another's goes.
func TestLabelsDoNotMeet(t *testing.T) {
	d := &drawing{picture: picture{Lanes: []track{{Marks: []figure{
		{Shape: "belief", X: 10, W: 50, Label: "token #1"},
		{Shape: "bolt", X: 10, Label: "cut"},
		{Shape: "belief", X: 70, W: 1, Label: "token #2"},
		{Shape: "wrote", X: 80, Label: "ann"},
		{Shape: "wrote", X: 81, Label: "bob"},
		{Shape: "wrote", X: 95, Label: "cid"},
	}}}}}
	d.spread()
	m := d.Lanes[0].Marks
	if m[0].Shift != labelWidth("cut")+10 || m[2].Label != "" {
		t.Errorf("got %+v and %+v; want the first beside the fault's label, and none where there is no room", m[0], m[2])
	}
	if m[3].Label != "ann" || m[4].Label != "" || m[5].Label != "cid" {
		t.Errorf("got the labels %q, %q, %q of writes; want the second left out", m[3].Label, m[4].Label, m[5].Label)
	}
}

func TestTimesAreForPeople(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0", 700: "700ns", 1500 * time.Microsecond: "1.5 ms", 188 * ms: "188 ms", 2345 * ms: "2.345 s", 90*time.Second + 40*ms: "1m30s",
	} {
		if got := Clock(d); got != want {
			t.Errorf("%d: got %q; want %q", d, got, want)
		}
	}
	for least, want := range map[time.Duration]time.Duration{1: 1, 3: 5, 11: 20, 75 * ms: 100 * ms} {
		if got := niceStep(least); got != want {
			t.Errorf("a step of at least %v: got %v; want %v", least, got, want)
		}
	}
}

func written(t *testing.T, html bool, runs ...Run) string {
	t.Helper()
	var b strings.Builder
	p := Page{Title: "a story", Runs: runs}
	write := p.WriteSVG
	if html {
		write = p.WriteHTML
	}
	if err := write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// A page is opened from a disk, years later, and mailed around.
func TestAPageNeedsNoNetwork(t *testing.T) {
	for _, html := range []bool{true, false} {
		text := strings.ReplaceAll(written(t, html, story()), "http://www.w3.org/2000/svg", "") // a name, not an address
		for _, bad := range []string{"http:", "https:", "src=", "@import", "url(//", "<link rel=\"stylesheet\""} {
			if strings.Contains(text, bad) {
				t.Errorf("as HTML: %v: got a page with %q", html, bad)
			}
		}
	}
}

// Two writes of one instant lay upon each other, and their labels too: bob's was not to be seen.
func TestWritesOfOneInstantAreOneMarkThatNamesAll(t *testing.T) {
	run := story()
	run.Timeline.Writes = []Write{{At: 2 * ms, Client: "cid", Resource: "report", Token: 5}, {At: 2 * ms, Client: "dan", Resource: "report", Token: 6}}
	p := draw(run)
	if got, want := marks(p, "accepted"), []string{"wrote 0.333+0 2 writes: cid, dan"}; !slices.Equal(got, want) {
		t.Fatalf("got %q; want %q", got, want)
	}
	for _, client := range []string{"cid", "dan"} {
		if tip := p.Lanes[3].Marks[0].Tip; !strings.Contains(tip, client+" writes to") {
			t.Errorf("got the tip %q; want the write of %s in it", tip, client)
		}
	}
}

// Of tokens the order counts, and digits do not show it: 1378113, then 1402251.
func TestAPictureShowsTheRankOfTokens(t *testing.T) {
	run := story()
	line := &run.Timeline
	for i, token := range []uint64{1402251, 1378113} {
		line.Beliefs[i].Token, line.Writes[i].Token, line.Writes[i].Refused = token, token, false
	}
	p := draw(run)
	if ann, bob := marks(p, "ann")[0], marks(p, "bob")[1]; !strings.HasSuffix(ann, "token #2") || !strings.HasSuffix(bob, "token #1") {
		t.Errorf("got the bars %q and %q; want ann's token the second", ann, bob)
	}
	if want := "token 1378113, #1 of 2"; strings.Count(written(t, true, run), want) < 2 {
		t.Errorf("got a page that does not say %q of the hold and of the write", want)
	}
}

// A second is as wide in each picture of a page, and at the same place.
func TestThePicturesOfAPageHaveOneScaleOfTime(t *testing.T) {
	long := story()
	long.Timeline.Last, long.Timeline.End = 4200*ms, 4200*ms
	runs := toScale([]Run{story(), long, story()})
	a, b := draw(runs[0]), draw(runs[1])
	if !slices.Equal(a.Ticks, b.Ticks) || len(a.Ticks) < 3 {
		t.Errorf("got the ticks %+v and %+v; want the same, and some", a.Ticks, b.Ticks)
	}
	if !a.Ends() || b.Ends() || !strings.Contains(written(t, true, story(), long), "the play ends here") {
		t.Error("got a shorter run that does not say where it ends")
	}
}

// Twenty-four clients are told apart: no two have one colour and one pattern.
func TestEachOfManyClientsHasALookOfItsOwn(t *testing.T) {
	const clients = 24
	run := Run{Timeline: Timeline{Last: time.Second, End: time.Second}}
	for i := range clients {
		name := fmt.Sprintf("client-%d", i)
		run.Timeline.Clients = append(run.Timeline.Clients, name)
		run.Timeline.Beliefs = append(run.Timeline.Beliefs, Belief{Client: name, Resource: "report", From: time.Duration(10*i) * ms, Until: time.Duration(10*i+9) * ms})
	}
	html := written(t, true, run)
	pattern := map[string]string{} // how the pattern of a number is drawn
	for _, m := range regexp.MustCompile(`<pattern id="(p\d+)"([^>]*)>?(.*)`).FindAllStringSubmatch(html, -1) {
		pattern[m[1]] = m[3]
	}
	looks := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?s)<g class="mark belief c(\d+)".*?fill="url\(#(p\d+)\)"`).FindAllStringSubmatch(html, -1) {
		if _, there := pattern[m[2]]; !there {
			t.Errorf("got the pattern %s, which the page does not have", m[2])
		}
		looks[m[1]+pattern[m[2]]] = true
	}
	if len(looks) != clients {
		t.Errorf("got %d looks of %d clients; want as many", len(looks), clients)
	}
}
