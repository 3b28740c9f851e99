package page_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lab/page"
	"github.com/quorumkit/redlock/internal/lab/trace"
)

// found are the first groups of all matches.
func found(text, expression string) (all []string) {
	for _, m := range regexp.MustCompile(expression).FindAllStringSubmatch(text, -1) {
		all = append(all, strings.ReplaceAll(m[1], "\n", " "))
	}
	return all
}

// Of tokens the order counts, and digits do not show it: 1378113, then 1402251.
func TestAPictureShowsTheRankOfTokens(t *testing.T) {
	var records []trace.Record
	for i, token := range []redlock.Token{1402251, 1378113} {
		id := int64(i + 1)
		records = append(records,
			at(100*i, trace.Record{Kind: trace.Asked, Client: "ann", Resource: "report", Hold: id}),
			at(100*i+1, trace.Record{Kind: trace.Held, Client: "ann", Hold: id, Token: token}),
			at(100*i+50, trace.Record{Kind: trace.Wrote, Resource: "report", Hold: id, Token: token}),
			at(100*i+90, trace.Record{Kind: trace.Released, Hold: id}))
	}
	html := written(t, page.Write, trace.Run{Records: records})
	if got, want := found(html, `>(token #\d)<`), []string{"token #2", "token #1"}; !slices.Equal(got, want) {
		t.Errorf("got the bars %q; want %q", got, want)
	}
	if want := "token 1378113, #1 of 2"; strings.Count(html, want) < 2 {
		t.Errorf("got a page that does not say %q of the hold and of the write", want)
	}
}

// A second is as wide in each picture of a page, and at the same place.
func TestThePicturesOfAPageHaveOneScaleOfTime(t *testing.T) {
	short, long := story(), story()
	for i := range long.Records {
		long.Records[i].At *= 7
	}
	html := written(t, page.Write, short, long)
	grids := found(strings.ReplaceAll(html, "\n", ""), `<g class="grid" aria-hidden="true">(.*?)</g>`)
	if len(grids) != 2 {
		t.Fatalf("got %d pictures; want two", len(grids))
	}
	axis := func(grid string) []string { return found(grid, `<text (x="[^"]*" dx="3" y="14">[^<]*)<`) }
	if a, b := axis(grids[0]), axis(grids[1]); !slices.Equal(a, b) || len(a) < 3 {
		t.Errorf("got the ticks %q and %q; want the same, and some", a, b)
	}
	if !strings.Contains(grids[0], "the play ends here") {
		t.Error("got a shorter run that does not say where it ends")
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

// Twenty-four clients are told apart: no two have one colour and one pattern.
func TestEachOfManyClientsHasALookOfItsOwn(t *testing.T) {
	const clients = 24
	var records []trace.Record
	for i := range clients {
		id := int64(i + 1)
		records = append(records,
			at(10*i, trace.Record{Kind: trace.Asked, Client: fmt.Sprintf("client-%d", i), Resource: "report", Hold: id}),
			at(10*i+1, trace.Record{Kind: trace.Held, Client: fmt.Sprintf("client-%d", i), Hold: id, Until: time.Duration(10*i+9) * time.Millisecond}))
	}
	html := written(t, page.Write, trace.Run{Records: records})
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
