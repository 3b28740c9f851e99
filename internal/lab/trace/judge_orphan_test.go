package trace_test

import (
	"slices"
	"testing"
	"time"

	"github.com/quorumkit/redlock/internal/lab/trace"
)

const msec = time.Millisecond

// fails is an attempt of ann's at r, from 0 to 10 msec, whose owner value a node has from
// 5 msec on.
func fails(more ...trace.Record) []trace.Record {
	return append([]trace.Record{
		{At: 0, Kind: trace.Asked, Client: "ann", Resource: "r", Hold: 1},
		{At: 5 * msec, Kind: trace.Stored, Client: "ann", Resource: "r", Node: "node-0", Since: msec, Until: 3000 * msec},
		{At: 10 * msec, Kind: trace.Failed, Client: "ann", Resource: "r", Hold: 1},
	}, more...)
}

// gone is that the node has the key no longer.
func gone(at time.Duration) trace.Record {
	return trace.Record{At: at, Kind: trace.Stored, Resource: "r", Node: "node-0"}
}

func cut(at time.Duration, k trace.Kind, client string) trace.Record {
	return trace.Record{At: at, Kind: k, Node: "node-0", Fault: &trace.Fault{Kind: trace.Cut, Client: client, For: time.Second}}
}

// crashed is another fault of the node.
func crashed(at time.Duration, k trace.Kind, node string) trace.Record {
	return trace.Record{At: at, Kind: k, Node: node, Fault: &trace.Fault{Kind: trace.Old, For: time.Second}}
}

// slow is that messages between the client and the node are late by 3 seconds.
func slow(at time.Duration, k trace.Kind, client, node string) trace.Record {
	return trace.Record{At: at, Kind: k, Node: node, Fault: &trace.Fault{Kind: trace.Slow, Client: client, Delay: 3 * time.Second, For: time.Second}}
}

// reordered is that messages between the client and the node are late by 300 msec.
func reordered(at time.Duration, k trace.Kind, client, node string) trace.Record {
	return trace.Record{At: at, Kind: k, Node: node, Fault: &trace.Fault{Kind: trace.Reorder, Client: client, Delay: 300 * msec, For: time.Second}}
}

func TestTheJudgeFindsOrphans(t *testing.T) {
	for _, c := range []struct {
		name string
		of   []trace.Record
		want int
	}{
		{"it goes in time", fails(gone(500 * msec)), 0},
		{"it stays", fails(gone(800 * msec)), 1},
		{"it stays to the end of the trace", fails(trace.Record{At: 800 * msec, Kind: trace.Noted}), 1},
		{"it expires in time", fails(trace.Record{At: 20 * msec, Kind: trace.Stored, Client: "ann", Resource: "r", Node: "node-0", Since: msec, Until: 600 * msec}, gone(900*msec)), 0},
		{"its client is cut off", fails(cut(20*msec, trace.Broke, "ann"), gone(2900*msec)), 0},
		{"all clients are cut off", fails(cut(20*msec, trace.Broke, ""), gone(2900*msec)), 0},
		{"another client is cut off", fails(cut(20*msec, trace.Broke, "bob"), gone(2900*msec)), 1},
		{"it was there long before its client was cut off", fails(cut(700*msec, trace.Broke, "ann"), gone(2900*msec)), 1},
		{"it goes in time after the cut", fails(cut(20*msec, trace.Broke, "ann"), cut(500*msec, trace.Mended, "ann"), gone(2000*msec)), 0},
		{"it stays after the cut", fails(cut(20*msec, trace.Broke, "ann"), cut(500*msec, trace.Mended, "ann"), gone(2400*msec)), 1},
		{"the node came back with old data", fails(crashed(20*msec, trace.Broke, "node-0"), crashed(500*msec, trace.Mended, "node-0"), gone(2900*msec)), 0},
		{"another node came back with old data", fails(crashed(20*msec, trace.Broke, "node-1"), crashed(500*msec, trace.Mended, "node-1"), gone(2900*msec)), 1},
		{"it goes in time after messages were late", fails(reordered(20*msec, trace.Broke, "ann", "node-0"), reordered(500*msec, trace.Mended, "ann", "node-0"), gone(2300*msec)), 0},
		{"it stays after messages were late", fails(reordered(20*msec, trace.Broke, "ann", "node-0"), reordered(500*msec, trace.Mended, "ann", "node-0"), gone(2500*msec)), 1},
		{"delays of one link add up", fails(
			reordered(20*msec, trace.Broke, "ann", ""), reordered(30*msec, trace.Broke, "", "node-0"),
			reordered(490*msec, trace.Mended, "", "node-0"), reordered(500*msec, trace.Mended, "ann", ""), gone(2600*msec)), 0},
		{"and no further", fails(
			reordered(20*msec, trace.Broke, "ann", ""), reordered(30*msec, trace.Broke, "", "node-0"),
			reordered(490*msec, trace.Mended, "", "node-0"), reordered(500*msec, trace.Mended, "ann", ""), gone(2800*msec)), 1},
		{"delays of other links do not", fails(
			reordered(20*msec, trace.Broke, "ann", "node-0"), reordered(30*msec, trace.Broke, "ann", "node-1"), reordered(40*msec, trace.Broke, "bob", "node-0"),
			reordered(480*msec, trace.Mended, "bob", "node-0"), reordered(490*msec, trace.Mended, "ann", "node-1"), reordered(500*msec, trace.Mended, "ann", "node-0"),
			gone(2500*msec)), 1},
		{"a delay of one link is not that of all, beside one of all", fails(
			reordered(20*msec, trace.Broke, "", ""), slow(30*msec, trace.Broke, "ann", "node-1"),
			slow(490*msec, trace.Mended, "ann", "node-1"), reordered(500*msec, trace.Mended, "", ""), gone(2500*msec)), 1},
		{"delays of other times do not", fails(
			reordered(20*msec, trace.Broke, "ann", ""), reordered(250*msec, trace.Mended, "ann", ""),
			reordered(260*msec, trace.Broke, "", "node-0"), reordered(500*msec, trace.Mended, "", "node-0"), gone(2500*msec)), 1},
		{"another attempt of the process may have it", fails(
			trace.Record{At: msec / 2, Kind: trace.Asked, Client: "ann#1", Resource: "r", Hold: 2}, gone(2900*msec)), 0},
		{"a later attempt of the process may have it: a claim that stands may pass to it", fails(
			trace.Record{At: 20 * msec, Kind: trace.Asked, Client: "ann#1", Resource: "r", Hold: 2}, gone(2900*msec)), 0},
		{"a later attempt of the process that has ended too does not", fails(
			trace.Record{At: 20 * msec, Kind: trace.Asked, Client: "ann#1", Resource: "r", Hold: 2},
			trace.Record{At: 40 * msec, Kind: trace.Failed, Client: "ann#1", Resource: "r", Hold: 2}, gone(2900*msec)), 1},
		{"an attempt at another name does not", fails(
			trace.Record{At: 0, Kind: trace.Asked, Client: "ann#1", Resource: "s", Hold: 2}, gone(2900*msec)), 1},
		{"nobody knows whose it is", []trace.Record{
			{At: 5 * msec, Kind: trace.Stored, Client: "another", Resource: "r", Node: "node-0", Until: 3000 * msec}, gone(2900 * msec),
		}, 0},
		{"a witness knows the attempt", []trace.Record{
			{At: 0, Kind: trace.Asked, Client: "ann", Resource: "r", Hold: 1},
			{At: 1, Kind: trace.Held, Client: "ann", Resource: "r", Hold: 1, Until: 100 * msec},
			{At: 5 * msec, Kind: trace.Stored, Client: "ann", Resource: "r", Node: "node-0", Hold: 1, Until: 3000 * msec},
			{At: 10 * msec, Kind: trace.Released, Resource: "r", Hold: 1},
			gone(800 * msec),
		}, 1},
		{"a witness takes another goroutine's for it", []trace.Record{
			{At: 0, Kind: trace.Asked, Client: "ann", Resource: "r", Hold: 1},
			{At: 0, Kind: trace.Asked, Client: "ann#1", Resource: "r", Hold: 2},
			{At: 1, Kind: trace.Failed, Client: "ann", Resource: "r", Hold: 1},
			{At: 2, Kind: trace.Held, Client: "ann#1", Resource: "r", Hold: 2, Until: 2900 * msec},
			{At: 5 * msec, Kind: trace.Stored, Client: "ann", Resource: "r", Node: "node-0", Hold: 1, Until: 3000 * msec},
			gone(2800 * msec),
		}, 0},
		{"it is held", []trace.Record{
			{At: 0, Kind: trace.Asked, Client: "ann", Resource: "r", Hold: 1},
			{At: 1, Kind: trace.Held, Client: "ann", Resource: "r", Hold: 1, Until: 2000 * msec},
			{At: 5 * msec, Kind: trace.Stored, Client: "ann", Resource: "r", Node: "node-0", Since: 1, Until: 3000 * msec},
			{At: 1990 * msec, Kind: trace.Released, Resource: "r", Hold: 1},
			gone(2500 * msec),
		}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			slices.SortStableFunc(c.of, func(a, b trace.Record) int { return int(a.At - b.At) })
			v := trace.Judge{Orphan: 600 * msec, Lease: 3 * time.Second}.Judge(c.of)
			if v.Count(trace.Orphan) != c.want || len(v.Violations) != c.want {
				t.Errorf("got %v; want %d orphans and nothing else", v, c.want)
			}
			if v := (trace.Judge{}).Judge(c.of); len(v.Violations) > 0 {
				t.Errorf("unasked: got %v", v)
			}
		})
	}
}

// Who can't reach a quorum is told nothing; only what nodes forget excuses what he is told.
func TestAnObserverOfASickQuorumIsNotToldOfAnother(t *testing.T) {
	sick := parsed(t, `
		1 asked 1 ann v=ann
		2 held 1 ann t=5 u=90
		10 sick
		50 saw obs`)
	for kind, want := range map[trace.Break]int{trace.Cut: 1, trace.Stall: 1, trace.Forget: 0, trace.Crash: 0, trace.OtherList: 0} {
		f := &trace.Fault{Kind: kind, Node: trace.Everything, For: time.Second}
		v := trace.Judge{Seen: 20 * msec}.Judge(append(slices.Clone(sick), trace.Record{At: 10 * msec, Kind: trace.Broke, Fault: f}))
		if v.Count(trace.Stale) != want {
			t.Errorf("%s: got %v; want %d", kind, v, want)
		}
	}
	if v := (trace.Judge{Seen: 20 * msec}).Judge(sick); v.Count(trace.Stale) != 0 {
		t.Errorf("of a trace that names no fault: got %v", v)
	}
}
