package page_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorumkit/redlock/internal/lab/page"
	"github.com/quorumkit/redlock/internal/lab/trace"
)

// exploration is a minute of five clients that have a resource each, of which one meets
// another client's at forty seconds, while a node is down.
func exploration(broken bool) trace.Run {
	var records []trace.Record
	id := int64(0)
	holds := func(ms int, client, resource string, lasts int) {
		id++
		records = append(records,
			at(ms, trace.Record{Kind: trace.Asked, Client: client, Resource: resource, Hold: id}),
			at(ms+1, trace.Record{Kind: trace.Held, Client: client, Hold: id, Until: time.Duration(ms+lasts) * time.Millisecond}))
	}
	for second := range 60 {
		for i := range 5 {
			holds(1000*second, fmt.Sprintf("client-%d", i), fmt.Sprintf("name-%d", i), 500)
		}
	}
	if broken {
		holds(40_200, "client-9", "name-3", 400)
	}
	for _, s := range []int{5, 39} {
		f := trace.Fault{Kind: trace.Crash, Node: s % 3, At: time.Duration(s) * time.Second}
		records = append(records, at(1000*s, trace.Record{Kind: trace.Broke, Fault: &f}), at(1000*s+1500, trace.Record{Kind: trace.Mended, Fault: &f}))
	}
	run := trace.Run{About: trace.About{Contender: "kit", Nodes: []string{"node-0", "node-1", "node-2"}}, Records: records}
	run.Verdict = trace.Judge{}.Judge(records)
	return run
}

// The picture of a long run with many resources is about the one that broke, some seconds
// before and behind, with the fault of then; of a run that broke nothing it is about all.
func TestThePictureOfAnExplorationIsAboutWhatBroke(t *testing.T) {
	html := written(t, page.Write, exploration(true))
	clients := found(html, `<g role="group" aria-label="(client-\d)">`)
	if want := []string{"client-3", "client-9"}; !slices.Equal(clients, want) {
		t.Errorf("got the lanes %q; want %q", clients, want)
	}
	if got := slices.Compact(found(html, `<title>(crash of node \d)`)); !slices.Equal(got, []string{"crash of node 0"}) {
		t.Errorf("got the faults %q; want that of 39 s", got)
	}
	for _, want := range []string{"&#34;name-3&#34; from 34", "two holders for 299 ms", `aria-label="node-1"`} {
		if !strings.Contains(html, want) {
			t.Errorf("got a page without %q", want)
		}
	}
	if strings.Contains(html, "believes it holds &#34;name-2&#34;") {
		t.Error("got a picture of a resource that did not break")
	}
	if whole := written(t, page.Write, exploration(false)); len(found(whole, `<g role="group" aria-label="(client-\d)">`)) != 5 {
		t.Error("got a run that broke nothing not drawn whole")
	}
}
