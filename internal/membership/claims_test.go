package membership_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/fault"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/membership"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/internal/testkit/locktest"
	"github.com/quorumkit/redlock/redlocktest"
)

// Nobody founds beside a cluster that is there: what is claimed, replaced, founded and seized.

// claimText is a claim as a notice has it.
func claimText(c membership.Claim) string {
	mark := func(set bool) string {
		if set {
			return "1"
		}
		return ""
	}
	return fmt.Sprintf("%s\n%d\n%d\n%s\n%s\n%d\n%s\n%s",
		c.Cluster, c.Gen, c.Lease.Milliseconds(), mark(c.Seized), c.From, c.MaxTTL.Milliseconds(), mark(c.Strict), strings.Join(c.Names, "\n"))
}

// claimBy is the claim of who knows that cluster, at a generation, with a list.
func claimBy(cluster string, gen int, names ...string) membership.Claim {
	return membership.Claim{Cluster: cluster, Gen: gen, Configuration: membership.Configuration{Names: names, MaxTTL: maxTTL}, Lease: maxTTL}
}

// leasing is the claim for leases of so long.
func leasing(c membership.Claim, lease time.Duration) membership.Claim {
	c.Lease = lease
	return c
}

// from is the claim by a cluster whose founder saw that.
func from(c membership.Claim, saw string) membership.Claim {
	c.From = saw
	return c
}

// claimed is a blank node with a claim, which stands since then.
func (v *view) claimed(i int, text string, stood clock.Instant) {
	v.blank(i, v.nodes[i].Sent)
	v.nodes[i].Notice.Claim = text
	v.waits[i] = membership.Wait{Notice: v.nodes[i].Notice, Since: start, Stood: stood}
}

// by is what a client sees that has seen this configuration before.
func (v *view) by(known membership.Claim) membership.View {
	s := v.seen()
	s.Known = known
	return s
}

// knowing is the next step for node i of a client that has seen this configuration before.
func (v *view) knowing(known membership.Claim, i int, now clock.Instant) membership.Plan {
	return v.by(known).Next(i, now, proposalOf("new", 5000, false))
}

// allBlank is so many blank nodes of one list, read now.
func allBlank(n int, now clock.Instant) *view {
	v := newView(n, now)
	for i := range n {
		v.blank(i, now)
	}
	return v
}

func TestAClaimComesBackAsItWasWritten(t *testing.T) {
	known := membership.Claim{
		Cluster: "c1", Gen: 3, Configuration: membership.Configuration{Names: nodeNames[:3], MaxTTL: maxTTL * 3 / 2, Strict: true},
		Lease: 2 * maxTTL, From: "c0 2 c9 1",
	}
	const text = "c1\n3\n60000\n\nc0 2 c9 1\n45000\n1\na\nb\nc"
	for text, want := range map[string]membership.Claim{text: known, "c1\n3\n60000\n1\n\n45000\n\na": {
		Cluster: "c1", Gen: 3, Configuration: membership.Configuration{Names: nodeNames[:1], MaxTTL: maxTTL * 3 / 2}, Lease: 2 * maxTTL, Seized: true,
	}, "": {}} {
		if got := membership.ClaimOf(text); !reflect.DeepEqual(got, want) || got.Arg() != text {
			t.Errorf("got %+v of %q; want %+v", got, text, want)
		}
	}
	v := allBlank(3, start+clock.Instant(2*maxTTL))
	v.nodes[0].Notice, v.waits[0] = membership.Notice{}, membership.Wait{}
	p := v.knowing(known, 0, start)
	wantPlan(t, p, membership.DoNotice, "lost its memory")
	if p.Claim != text || p.Notice != (membership.Notice{}) {
		t.Errorf("got the claim %q in the place of %+v; want %q", p.Claim, p.Notice, text)
	}
	for i := range 3 {
		v.claimed(i, text, start)
	}
	p = v.admit(0, start) // by a client that has seen nothing
	wantPlan(t, p, membership.DoInstall, "")
	want := membership.Record{
		Format: membership.RecordFormat, Cluster: "new", Base: 5000, Configuration: known.Configuration,
		Before: known.Names, BeforeMaxTTL: known.Lease, From: "c1 3",
	}
	if !reflect.DeepEqual(p.Record, want) {
		t.Errorf("got %+v; want %+v", p.Record, want)
	}
	if p.Notice.Claim != text {
		t.Errorf("got an install over the claim %q; want %q", p.Notice.Claim, text)
	}
}

// A claim may be of a client to come, or damaged.
func TestAClaimThatCantBeReadIsSomebodysAllTheSame(t *testing.T) {
	for what, text := range map[string]string{
		"a word":              "x",
		"no cluster":          "\n3\n30000\n\n\n30000\n\na",
		"no generation":       "c1\nx\n30000\n\n\n30000\n\na",
		"no lease":            "c1\n3\nx\n\n\n30000\n\na",
		"no MaxTTL":           "c1\n3\n30000\n\n\nx\n\na",
		"a MaxTTL of no size": "c1\n3\n30000\n\n\n99999999999999999999\n\na",
		"no list":             "c1\n3\n30000\n\n\n30000\n",
		"an empty list":       "c1\n3\n30000\n\n\n30000\n\n",
		"a name twice":        "c1\n3\n30000\n\n\n30000\n\na\na",
		"a name of two words": "c1\n3\n30000\n\n\n30000\n\na\tb",
	} {
		v := allBlank(1, start)
		v.claimed(0, text, start)
		for _, known := range []membership.Claim{{}, leasing(claimBy("c1", 9, "a"), clock.MaxMaxTTL)} {
			p := v.knowing(known, 0, start.Add(2*clock.MaxMaxTTL))
			wantPlan(t, p, membership.DoNothing, "a claim that can't be read")
			if !p.Misfit {
				t.Errorf("%s: got %q; want it for an operator", what, p.Cause)
			}
		}
		if p := v.admit(0, start); p.Action != membership.DoInstall || p.Notice.Claim != text {
			t.Errorf("%s: got action %d over %q; want an operator's word to found over it", what, p.Action, p.Notice.Claim)
		}
	}
}

func TestTheNamesOfAClaimComeInAnyOrder(t *testing.T) {
	v := allBlank(2, start+clock.Instant(maxTTL))
	v.claimed(0, "c1\n3\n30000\n\n\n30000\n\nb\na", start)
	wantPlan(t, v.next(0, start+clock.Instant(maxTTL)), membership.DoInstall, "")
}

func TestALeaseInAClaimIsWithinWhatAnyClusterAllows(t *testing.T) {
	for lease, want := range map[string]time.Duration{
		"60000": time.Minute, "0": maxTTL, "-60000": maxTTL, "9000000000000": clock.MaxMaxTTL,
	} {
		v := allBlank(1, start)
		v.claimed(0, "c1\n3\n"+lease+"\n\n\n30000\n\na", start)
		p := v.next(0, start)
		wantPlan(t, p, membership.DoWait, "")
		if p.Until != start.Add(want) {
			t.Errorf("a lease of %s ms: got a wait of %v; want %v", lease, p.Until.Sub(start), want)
		}
	}
	for most, want := range map[string]time.Duration{
		"20000": 20 * time.Second, "0": time.Millisecond, "-7": time.Millisecond, "9000000000000": clock.MaxMaxTTL,
	} {
		v := allBlank(1, start)
		v.claimed(0, "c1\n3\n30000\n\n\n"+most+"\n\na", start)
		if got := v.admit(0, start).Record.MaxTTL; got != want {
			t.Errorf("a MaxTTL of %s ms: got %v; want %v", most, got, want)
		}
	}
}

func TestAClaimReplacesWhatIsBeforeIt(t *testing.T) {
	list, other := nodeNames[:3], []string{"a", "x"}
	c1 := func(gen int, names ...string) membership.Claim { return claimBy("c1", gen, names...) }
	for what, c := range map[string]struct {
		mine, old membership.Claim
		want      bool
	}{
		"a plain notice":                      {c1(0, list...), membership.Claim{}, true},
		"nothing is known":                    {membership.Claim{}, c1(0, list...), false},
		"nothing is known, a plain notice":    {membership.Claim{}, membership.Claim{}, false},
		"a lower generation":                  {c1(2, list...), c1(1, other...), true},
		"a lower generation, a longer lease":  {c1(2, list...), leasing(c1(1, list...), time.Hour), true},
		"the same":                            {c1(2, list...), c1(2, list...), false},
		"the same for a shorter lease":        {leasing(c1(2, list...), time.Hour), c1(2, list...), true},
		"the same for a longer lease":         {c1(2, list...), leasing(c1(2, list...), time.Hour), false},
		"a higher generation":                 {leasing(c1(2, list...), time.Hour), c1(3, other...), false},
		"a higher generation of the list":     {leasing(c1(2, list...), time.Hour), c1(3, list...), false},
		"founded from it":                     {from(c1(0, list...), "c0 4"), leasing(claimBy("c0", 4, other...), time.Hour), true},
		"founded from its next":               {from(c1(0, list...), "c0 4"), claimBy("c0", 3, other...), true},
		"founded from the one before":         {from(c1(0, list...), "c0 4"), claimBy("c0", 5, other...), false},
		"founded from that and another":       {from(c1(0, list...), "c9 0 c0 4"), claimBy("c0", 4, other...), true},
		"founded from that and another later": {from(c1(0, list...), "c9 9 c0 4"), claimBy("c0", 5, other...), false},
		"founded from another":                {from(c1(0, list...), "c9 4"), claimBy("c0", 0, other...), false},
		"founded from what can't be read":     {from(c1(0, list...), "c0 x"), claimBy("c0", 0, other...), false},
		"founded from a number":               {from(c1(0, list...), "c9 4 5 0"), claimBy("4", 5, other...), false},
		"founded from half a word":            {from(c1(0, list...), "c9 9 c0"), claimBy("c0", 0, other...), false},
		"the same list, a shorter lease":      {leasing(c1(0, list...), maxTTL+1e6), claimBy("c0", 7, list...), true},
		"the same list, an equal lease":       {c1(9, list...), claimBy("c0", 7, list...), false},
		"the same list, a longer lease":       {c1(9, list...), leasing(claimBy("c0", 7, list...), maxTTL+1e6), false},
		"another list, a shorter lease":       {leasing(c1(9, list...), time.Hour), claimBy("c0", 7, other...), false},
	} {
		v := allBlank(3, start)
		text := ""
		if c.old.Cluster != "" {
			text = claimText(c.old)
		}
		v.claimed(0, text, start)
		p := v.knowing(c.mine, 0, start)
		if got := p.Action == membership.DoNotice; got != c.want {
			t.Errorf("%s: got action %d (%s); want it replaced: %t", what, p.Action, p.Cause, c.want)
		}
		if until := start.Add(max(maxTTL, c.mine.Lease, c.old.Lease)); c.want && (p.Claim != claimText(c.mine) || !strings.Contains(p.Cause, "lost its memory") || p.Notice != v.nodes[0].Notice || p.Until != until) {
			t.Errorf("%s: got %q over %+v, until %v; want %q over what stands, until %v", what, p.Claim, p.Notice, p.Until, claimText(c.mine), until)
		}
	}
}

func TestANodeIsClaimedForAListThatHasItOnly(t *testing.T) {
	v := allBlank(3, start)
	v.nodes[0].Notice, v.waits[0] = membership.Notice{}, membership.Wait{}
	known := claimBy("c1", 1, "b", "c")
	if p := v.knowing(known, 0, start); p.Action != membership.DoNotice || p.Claim != "" {
		t.Errorf("got action %d, claim %q; want a plain notice", p.Action, p.Claim)
	}
	v.blank(0, start)
	if p := v.knowing(known, 0, start); p.Action == membership.DoNotice {
		t.Errorf("got the claim %q; want none", p.Claim)
	}
	if p := v.knowing(known, 1, start); p.Action != membership.DoNotice || p.Claim != claimText(known) {
		t.Errorf("got action %d, claim %q; want its claim on a node of the list", p.Action, p.Claim)
	}
}

// A notice is claimed once: with the second claim the founders' wait begins again, and the
// joiners' goes on.
func TestAFounderWaitsSinceTheClaimAndAJoinerSinceTheNotice(t *testing.T) {
	at := func(n membership.Notice, seconds int) membership.Observation {
		return observed(start.Add(time.Duration(seconds)*time.Second), "r2", nil, 0, n)
	}
	n := noticeOf("n", "r2")
	w := membership.Wait{}.After(at(n, 0))
	first, next := n, n
	first.Claim, next.Claim = claimText(leasing(claimBy("c1", 0, nodeNames[:3]...), 2*maxTTL)), claimText(leasing(claimBy("c1", 1, nodeNames[:3]...), 2*maxTTL))
	for i, c := range []struct {
		n     membership.Notice
		at    int
		since int
		stood int
	}{{n, 1, 0, 0}, {first, 2, 0, 2}, {first, 3, 0, 2}, {next, 4, 0, 4}, {noticeOf("m", "r2"), 5, 5, 5}} {
		w = w.After(at(c.n, c.at))
		want := membership.Wait{Notice: c.n, Since: start.Add(time.Duration(c.since) * time.Second), Stood: start.Add(time.Duration(c.stood) * time.Second)}
		if w != want {
			t.Errorf("look %d: got %+v; want %+v", i, w, want)
		}
	}
	const stood = start + 20*second
	due := start + clock.Instant(2*maxTTL)
	v := newView(3, due)
	v.claimed(0, next.Claim, stood)
	wantPlan(t, v.next(0, due-1), membership.DoWait, "")
	wantPlan(t, v.next(0, due), membership.DoInstall, "")
	due = stood + clock.Instant(2*maxTTL)
	v = allBlank(3, due)
	v.claimed(0, next.Claim, stood)
	wantPlan(t, v.next(0, due-1), membership.DoWait, "")
	p := v.next(0, due)
	wantPlan(t, p, membership.DoInstall, "")
	if p.Founding == nil {
		t.Error("got an install by the table; want a founding")
	}
	for i := range 3 { // another node's claim is waited for, too
		v.claimed(i, "", start)
	}
	v.claimed(2, next.Claim, stood)
	if p := v.next(0, due-1); p.Action == membership.DoInstall {
		t.Error("got an install before the wait of another node is over")
	}
	wantPlan(t, v.next(0, due), membership.DoInstall, "")
	v.nodes[1].Sent = due - 1 // read before it was over
	wantPlan(t, v.next(0, due), membership.DoRead, "")
}

func TestNobodyFoundsOverTheClaimOfAnotherList(t *testing.T) {
	long := start.Add(time.Hour)
	claim := claimText(claimBy("c1", 2, nodeNames[:3]...))
	words := []string{"claimed by cluster c1, generation 2 (a, b, c)", "this client's list (a) is old", "Cluster.Admit (redlock nodes admit)"}
	refused := func(what string, p membership.Plan, more ...string) {
		t.Helper()
		locktest.WantText(t, what, p.Cause, append(more, words...)...)
		if p.Action != membership.DoNothing || !p.Misfit {
			t.Errorf("%s: got action %d, misfit %t (%s); want nothing done", what, p.Action, p.Misfit, p.Cause)
		}
	}
	v := allBlank(1, long)
	v.claimed(0, claim, start)
	refused("at once", v.next(0, start), "lost its memory")
	refused("an hour later", v.next(0, long), "lost its memory")
	refused("of a later generation than this client's", v.knowing(claimBy("c1", 1, "a"), 0, long))
	refused("of another cluster than this client's", v.knowing(claimBy("c0", 9, "a"), 0, long))
	if cause, misfit := v.seen().Obstacle(0); !misfit || !strings.Contains(cause, words[0]) {
		t.Errorf("got the obstacle %q, misfit %t; want the claim", cause, misfit)
	}
	p := v.admit(0, start)
	wantPlan(t, p, membership.DoInstall, "")
	if p.Record.From != "c1 2" || p.Record.MaxTTL != maxTTL || p.Notice.Claim != claim {
		t.Errorf("got %+v under %+v; want it founded at once, from the cluster that is claimed", p.Record, p.Notice)
	}

	v = allBlank(2, long) // the other node has the claim
	v.claimed(1, claim, start)
	words[1] = "this client's list (a, b) is old"
	refused("the other node", v.next(0, long), "only 0 of the other nodes are members", "b: it is claimed")
	wantPlan(t, v.admit(0, long), membership.DoInstall, "")
	for i := range 2 { // and of two the second
		v.claimed(i, claimText(claimBy("c1", 2, "a", "b")), start)
	}
	wantPlan(t, v.next(0, long), membership.DoInstall, "")
	v.claimed(1, claim, start)
	refused("the second claim", v.next(0, long), "b: it is claimed")
}

func TestWhoAbstainsByAClaimIsMisconfigured(t *testing.T) {
	p := membership.NewTracker(membership.NewConfig([]string{"a"}, maxTTL, false), "new", clock.New())
	for text, want := range map[string]error{claimText(claimBy("c1", 2, nodeNames[:3]...)): fault.ErrMisconfigured, claimText(claimBy("c1", 2, "a")): nil} {
		p.Publish(0, observed(1, "r2", nil, 0, membership.Notice{Nonce: "n", Run: "r2", Claim: text}))
		if why := p.WhyNot(0); want == nil == errors.Is(why, fault.ErrMisconfigured) || why == nil {
			t.Errorf("%q: got %v; want %v", text, why, want)
		}
	}
}

// A claim of this client's list, or of one that it comes after, is no obstacle.
func TestAClaimThatIsNotLaterKeepsNobodyOut(t *testing.T) {
	grown := func() *view { // from a, b, c to a, b, c, d, seen by the list before
		v := newView(3, start+clock.Instant(maxTTL))
		for i := range 3 {
			rec := listed(1, nodeNames[:4], nodeNames[:3])
			v.nodes[i] = observed(v.nodes[i].Sent, "r", &rec, 7, membership.Notice{})
		}
		return v
	}
	known := from(claimBy("c1", 1, nodeNames[:4]...), "c0 4")
	for _, c := range []struct {
		what  string
		claim membership.Claim
		keeps bool
	}{
		{"the list after", known, false},
		{"a list before, that lacks the node", claimBy("c1", 0, nodeNames[:2]...), false},
		{"a list two behind it", claimBy("c1", 2, nodeNames[:5]...), true},
		{"another cluster's", claimBy("c2", 0, "c", "x"), true},
		{"one from which the cluster was founded", claimBy("c0", 4, nodeNames[:2]...), false},
		{"one later than that", claimBy("c0", 5, "c", "x"), true},
	} {
		v := grown()
		v.claimed(2, claimText(c.claim), start)
		seen := v.by(known)
		cause, misfit := seen.Obstacle(2)
		if keeps := cause != ""; keeps != c.keeps || misfit != c.keeps {
			t.Errorf("the claim of %s: got the obstacle %q; want one: %t", c.what, cause, c.keeps)
		}
		if p := v.knowing(known, 2, start+clock.Instant(maxTTL)); (p.Action == membership.DoNothing) != c.keeps {
			t.Errorf("the claim of %s: got action %d (%s); want none: %t", c.what, p.Action, p.Cause, c.keeps)
		}
	}
	v := grown()
	known.Names = []string{"a", "b", "d"} // it lacks the node
	v.claimed(2, claimText(claimBy("c1", 1, nodeNames[:4]...)), start)
	if cause, _ := v.by(known).Obstacle(2); strings.Contains(cause, "claimed") {
		t.Errorf("got the obstacle %q; want no word of a claim that is not later", cause)
	}
}

func TestWhoSawALaterListFoundsNothing(t *testing.T) {
	over := start + clock.Instant(maxTTL)
	later := claimBy("c9", 4, nodeNames[:4]...)
	const old = "this client has seen cluster c9 at generation 4, whose list is a, b, c, d: its own (a, b, c) is old"
	for what, c := range map[string]struct {
		blank []int // the others are members, each of a cluster of its own
		node  int
		want  string
	}{
		"all nodes are blank":              {[]int{0, 1, 2}, 0, old},
		"all are members without a quorum": {nil, 0, "this client's list is old"},
		"another node is blank":            {[]int{1}, 0, old},
		"the node is, and another is not":  {[]int{1}, 1, old},
	} {
		made := func(claim string) *view {
			v := newView(3, over)
			for i, id := range []string{"c1", "c2", "c3"} {
				if v.member(i, id, 7, over); slices.Contains(c.blank, i) {
					v.claimed(i, claim, start)
				}
			}
			return v
		}
		v := made(claimText(later))
		p := v.knowing(later, c.node, over)
		if wantPlan(t, p, membership.DoNothing, c.want); !p.Misfit {
			t.Errorf("%s: got %q; want it for an operator", what, p.Cause)
		}
		if p := v.by(later).Next(0, over, proposalOf("new", 5000, true)); p.Action != membership.DoInstall {
			t.Errorf("%s: got action %d by an operator's word (%s); want an install", what, p.Action, p.Cause)
		}
		v = made("")
		if p := v.knowing(membership.Claim{}, 0, over); p.Action != membership.DoInstall {
			t.Errorf("%s, nothing was seen: got action %d (%s); want an install", what, p.Action, p.Cause)
		}
		later := claimBy("c9", 4, nodeNames[:3]...)
		if p := made(claimText(later)).knowing(later, 0, over); p.Action != membership.DoInstall {
			t.Errorf("%s, its own list was seen: got action %d (%s); want an install", what, p.Action, p.Cause)
		}
	}
	later.Names = []string{"a", "c", "d"} // it lacks the node
	v := allBlank(3, over)
	wantPlan(t, v.knowing(later, 1, over), membership.DoNothing, "its own (a, b, c) is old")
	v = newView(3, over) // by the table it joins all the same
	v.blank(1, over)
	wantPlan(t, v.knowing(later, 1, over), membership.DoInstall, "")
}

func TestAFounderGoesByTheLatestConfigurationOfItsListThatIsKnown(t *testing.T) {
	long := start.Add(time.Hour)
	with := func(c membership.Claim, maxTTL time.Duration, strict bool) membership.Claim {
		c.MaxTTL, c.Strict, c.Lease = maxTTL, strict, maxTTL
		return c
	}
	list := nodeNames[:3]
	for what, c := range map[string]struct {
		claims  []membership.Claim // on the nodes
		known   membership.Claim
		record  *membership.Record // of the last node
		maxTTL  time.Duration
		strict  bool
		longest time.Duration // that is waited for until a close; 0: MaxTTL
		from    string
	}{
		"nothing":                     {nil, membership.Claim{}, nil, maxTTL, false, 0, ""},
		"a claim":                     {[]membership.Claim{with(claimBy("c1", 1, list...), 20*time.Second, true)}, membership.Claim{}, nil, 20 * time.Second, true, 0, "c1 1"},
		"the first generation":        {[]membership.Claim{with(claimBy("c1", 0, list...), 20*time.Second, true)}, membership.Claim{}, nil, 20 * time.Second, true, 0, "c1 0"},
		"two claims, the later last":  {[]membership.Claim{with(claimBy("c1", 1, list...), 50*time.Second, true), with(claimBy("c1", 2, list...), 40*time.Second, false)}, membership.Claim{}, nil, 40 * time.Second, false, 50 * time.Second, "c1 1 c1 2"},
		"two claims, the later first": {[]membership.Claim{with(claimBy("c1", 2, list...), 40*time.Second, false), with(claimBy("c1", 1, list...), 50*time.Second, true)}, membership.Claim{}, nil, 40 * time.Second, false, 50 * time.Second, "c1 1 c1 2"},
		"of other lists":              {[]membership.Claim{with(claimBy("c7", 8, "a"), 50*time.Second, true), with(claimBy("c1", 2, list...), 40*time.Second, false), with(claimBy("c7", 8, "a"), 50*time.Second, true)}, membership.Claim{}, nil, 40 * time.Second, false, 50 * time.Second, "c1 2 c7 8"},
		"seen before":                 {nil, with(claimBy("c1", 1, list...), 20*time.Second, true), nil, 20 * time.Second, true, 0, "c1 1"},
		"seen before, a longer lease": {nil, leasing(with(claimBy("c1", 1, list...), 20*time.Second, true), time.Minute), nil, 20 * time.Second, true, time.Minute, "c1 1"},
		"seen before, another list":   {nil, with(claimBy("c1", 1, "a"), 20*time.Second, true), nil, maxTTL, false, 0, "c1 1"},
		"a record": {[]membership.Claim{with(claimBy("c1", 2, list...), 20*time.Second, true)}, with(claimBy("c1", 1, list...), time.Minute, true), func() *membership.Record {
			r := recordOf("e", "c1", "r", list, 50*time.Second, 0)
			r.Gen = 3
			return &r
		}(), 50 * time.Second, false, time.Minute, "c1 1 c1 2 c1 3"},
	} {
		v := allBlank(3, long)
		for i, claim := range c.claims {
			v.claimed(i, claimText(claim), start)
		}
		if c.record != nil {
			v.nodes[2] = observed(long, "r2", c.record, 9000, v.nodes[2].Notice)
		}
		p := proposalOf("new", 5000, true)
		got := v.by(c.known).Next(0, long, p)
		if got.Action == membership.DoNotice { // it is claimed first
			v.claimed(0, got.Claim, start)
			got = v.by(c.known).Next(0, long, p)
		}
		rec := membership.Record{Format: membership.RecordFormat, Cluster: "new", Base: 5000, Configuration: membership.Configuration{Names: list, MaxTTL: c.maxTTL, Strict: c.strict}, From: c.from}
		if c.longest != 0 {
			rec.Before, rec.BeforeMaxTTL = list, c.longest
		}
		if c.record != nil {
			rec.Base = 9000
		}
		if got.Action != membership.DoInstall || !reflect.DeepEqual(got.Record, rec) {
			t.Errorf("%s: got action %d (%s), %+v; want %+v", what, got.Action, got.Cause, got.Record, rec)
		}
	}
}

func TestAStrictClaimLeavesFoundingToAnOperator(t *testing.T) {
	long := start.Add(time.Hour)
	strict := func(names ...string) membership.Claim {
		c := claimBy("c1", 1, names...)
		c.Strict = true
		return c
	}
	v := allBlank(3, long)
	v.claimed(2, claimText(strict(nodeNames[:3]...)), start)
	wantPlan(t, v.next(0, long), membership.DoNothing, "the claim on c (strict recovery) asks for an operator")
	if cause, misfit := v.seen().Obstacle(0); misfit || !strings.Contains(cause, "the claim on c (strict recovery)") {
		t.Errorf("got the obstacle %q; want who asks for an operator", cause)
	}
	wantPlan(t, v.admit(0, long), membership.DoInstall, "")
	v.claimed(2, claimText(claimBy("c1", 1, nodeNames[:3]...)), start)
	wantPlan(t, v.next(0, long), membership.DoInstall, "")
	v.claimed(2, "", start)
	known := strict(nodeNames[:3]...)
	for i := range 3 {
		v.claimed(i, claimText(claimBy("c2", 0, nodeNames[:3]...)), start) // for an equal lease
	}
	wantPlan(t, v.knowing(known, 0, long), membership.DoNothing, "what this client has seen of the cluster (strict recovery) asks for an operator")
	known.Strict = false
	wantPlan(t, v.knowing(known, 0, long), membership.DoInstall, "")
	// What another list says counts for that.
	v = allBlank(3, long)
	known = from(claimBy("c2", 0, nodeNames[:3]...), "c1 1")
	for i := range 2 {
		v.claimed(i, claimText(known), start)
	}
	v.claimed(2, claimText(strict("c", "x")), start)
	wantPlan(t, v.knowing(known, 0, long), membership.DoInstall, "")
	v = newView(3, long)
	for i, id := range []string{"c1", "c2", "c3"} {
		v.member(i, id, 7, long)
	}
	wantPlan(t, v.knowing(strict("a", "b", "c", "d"), 0, long), membership.DoNothing, "this client's list is old")
}

func TestAFoundingIsOverWhereAClaimHasChanged(t *testing.T) {
	over := start + clock.Instant(maxTTL)
	v := allBlank(2, over)
	for i := range 2 {
		v.claimed(i, claimText(claimBy("c1", 0, "a", "b")), start)
	}
	begun := v.next(0, over).Founding
	if begun == nil || !begun.Stands(v.seen()) {
		t.Fatal("got no founding that goes on")
	}
	v.claimed(1, claimText(claimBy("c1", 1, "a", "b")), start)
	if begun.Stands(v.seen()) {
		t.Error("a node has another claim: got a founding that goes on; want none")
	}
}

func TestAJoinerCopiesWhatTheClusterWasFoundedFrom(t *testing.T) {
	over := start + clock.Instant(maxTTL)
	v := newView(3, over)
	for i := 1; i < 3; i++ {
		v.nodes[i].Record.From = "c0 4"
	}
	v.blank(0, over)
	if p := v.next(0, over); p.Action != membership.DoInstall || p.Record.From != "c0 4" {
		t.Errorf("got action %d, from %q; want an install from c0", p.Action, p.Record.From)
	}
}

// beside is three nodes of "c1" at generation 2, of which the first has what another client founded.
func beside(o membership.Observation) *view {
	v := newView(3, start)
	for i := range 3 {
		rec := listed(2, nodeNames[:3], nodeNames[:2])
		v.nodes[i] = observed(start, "r", &rec, 7, membership.Notice{})
	}
	v.nodes[0] = o
	if n, stands := o.StandingNotice(); stands {
		v.waits[0] = membership.Wait{Notice: n, Since: start, Stood: start}
	}
	return v
}

// recorded is a node with the record of another cluster, of this list.
func recorded(cluster string, gen int, maxTTL time.Duration, names ...string) membership.Observation {
	rec := recordOf("e2", cluster, "r2", names, maxTTL, 0)
	rec.Gen = gen
	return observed(start, "r2", &rec, 9000, membership.Notice{})
}

// blankBy is a blank node with this claim.
func blankBy(c membership.Claim) membership.Observation {
	return observed(start, "r2", nil, 0, membership.Notice{Nonce: "n", Run: "r2", Claim: claimText(c)})
}

func TestWhatWasFoundedBesideTheClusterIsSeized(t *testing.T) {
	known := claimBy("c1", 2, nodeNames[:3]...)
	restarted, refused := blankBy(claimBy("c2", 5, "a")), blankBy(claimBy("c2", 5, "a"))
	restarted.Recorded, restarted.Record = true, listed(2, nodeNames[:3], nodeNames[:2])
	refused.Refused, refused.Cause = true, "its record is damaged"
	for what, c := range map[string]struct {
		o     membership.Observation
		known membership.Claim
		lease time.Duration // of the claim; 0: it is not seized
	}{
		"a record of a list within":               {recorded("c2", 0, maxTTL, "a"), known, maxTTL},
		"of a longer lease":                       {recorded("c2", 0, time.Minute, "a", "b"), known, time.Minute},
		"of a shorter lease":                      {recorded("c2", 0, time.Second, "a"), leasing(known, time.Minute), time.Minute},
		"a claim of a list within":                {blankBy(leasing(claimBy("c2", 5, "a"), time.Minute)), known, time.Minute},
		"a claim of a shorter lease":              {blankBy(leasing(claimBy("c2", 5, "a", "c"), time.Second)), known, maxTTL},
		"a record of another list":                {recorded("c2", 0, maxTTL, "a", "x"), known, 0},
		"a record of a longer list":               {recorded("c2", 0, maxTTL, nodeNames[:4]...), known, 0},
		"a claim of another list":                 {blankBy(claimBy("c2", 5, "a", "x")), known, 0},
		"a record that it was founded from":       {recorded("c2", 4, maxTTL, "a", "x"), from(known, "c2 4"), maxTTL},
		"a record later than it was founded":      {recorded("c2", 5, maxTTL, "a", "x"), from(known, "c2 4"), 0},
		"a record of the cluster":                 {recorded("c1", 9, maxTTL, "a"), known, 0},
		"a claim of the cluster":                  {blankBy(claimBy("c1", 9, "a")), known, 0},
		"a claim that is to be replaced":          {blankBy(claimBy("c2", 4, "a")), from(known, "c2 4"), 0},
		"a claim later than it was founded":       {blankBy(claimBy("c2", 5, "a", "x")), from(known, "c2 4"), 0},
		"a claim that can't be read":              {observed(start, "r2", nil, 0, membership.Notice{Nonce: "n", Run: "r2", Claim: "x"}), known, 0},
		"a claim beside a record of the cluster":  {restarted, known, 0},
		"a claim beside a record that is refused": {refused, known, 0},
		"a record of the list itself":             {recorded("c2", 0, maxTTL, nodeNames[:3]...), known, 0},
		"a plain notice":                          {observed(start, "r2", nil, 0, noticeOf("n", "r2")), known, 0},
		"a claim of an identity before":           {observed(start, "r3", nil, 0, membership.Notice{Nonce: "n", Run: "r2", Claim: claimText(claimBy("c2", 5, "a"))}), known, 0},
		"a record, to who knows another list":     {recorded("c2", 0, maxTTL, "a"), claimBy("c1", 2, nodeNames[:4]...), 0},
		"a record, to who knows nothing":          {recorded("c2", 0, maxTTL, "a"), membership.Claim{}, 0},
		"a record, to who knows a later":          {recorded("c2", 0, maxTTL, "a"), claimBy("c1", 3, nodeNames[:3]...), 0},
		"a record, to who knows an earlier":       {recorded("c2", 0, maxTTL, "a"), claimBy("c1", 1, nodeNames[:3]...), 0},
		"a record, to who knows another cluster":  {recorded("c2", 0, maxTTL, "a"), claimBy("c3", 2, nodeNames[:3]...), 0},
	} {
		v := beside(c.o)
		p := v.knowing(c.known, 0, start)
		if got := p.Action == membership.DoSeize; got != (c.lease != 0) {
			t.Errorf("%s: got action %d (%s); want it seized: %t", what, p.Action, p.Cause, c.lease != 0)
			continue
		}
		if c.lease == 0 {
			continue
		}
		want := leasing(c.known, c.lease)
		want.Seized = true
		if p.Claim != claimText(want) {
			t.Errorf("%s: got the claim %q; want %q", what, p.Claim, claimText(want))
		}
		if p.Notice.Run != "r2" || p.Notice.Claim != c.o.Notice.Claim || p.Epoch != c.o.Record.Epoch || p.Cause == "" {
			t.Errorf("%s: got %+v, epoch %q, cause %q; want what was read", what, p.Notice, p.Epoch, p.Cause)
		}
	}
}

func TestWhatWasFoundedIsSeizedWithAQuorumOnlyOrByAdmit(t *testing.T) {
	known := claimBy("c1", 2, nodeNames[:3]...)
	restarted := func(v *view) { v.nodes[2].Run = "r3" }
	for what, c := range map[string]struct {
		change func(v *view)
		want   bool
		apart  bool
	}{
		"two of three":        {func(*view) {}, true, false},
		"one does not answer": {func(v *view) { v.down(2, start) }, false, false},
		"one restarted":       {restarted, false, false},
		"one is behind":       {func(v *view) { v.nodes[2].Record.Gen = 1 }, false, false},
		"one is blank":        {func(v *view) { v.blank(2, start) }, false, false},
		"one is of a third":   {func(v *view) { v.member(2, "c3", 7, start) }, false, true},
	} {
		for _, o := range []membership.Observation{recorded("c2", 0, maxTTL, "a"), blankBy(claimBy("c2", 0, "a"))} {
			v := beside(o)
			c.change(v)
			if p := v.knowing(known, 0, start); (p.Action == membership.DoSeize) != c.want {
				t.Errorf("%s: got action %d (%s); want it seized: %t", what, p.Action, p.Cause, c.want)
			}
			for _, known := range []membership.Claim{known, {}} {
				if known.Cluster == "" && c.apart {
					continue // else a node's word is enough for an operator
				}
				if p := v.by(known).Next(0, start, proposalOf("new", 5000, true)); p.Action != membership.DoSeize {
					t.Errorf("%s, an operator: got action %d (%s); want it seized", what, p.Action, p.Cause)
				}
			}
			if p := v.by(membership.Claim{}).Next(0, start, proposalOf("new", 5000, false)); p.Action == membership.DoSeize {
				t.Errorf("%s, seen by nobody: got it seized", what)
			}
		}
	}
	v := newView(1, start) // the list of what was founded goes on with it
	v.nodes[0] = recorded("c2", 0, maxTTL, "a")
	v.nodes[0].Run, v.nodes[0].Record.Run = "r", "r"
	wantPlan(t, v.admit(0, start), membership.DoNothing, "")
}

// A node that is being added is not the list's yet: its record may be in use.
func TestANodeThatIsBeingAddedIsNotSeized(t *testing.T) {
	o := byRecord("c1", 2, nodeNames[:3]...)
	o.Record.From = "c2 4"
	p := idleParty(o, o, o, observed(0, "r2", nil, 0, membership.Notice{}))
	c, err := p.Plans(t.Context(), membership.Wanted{Add: []string{"d"}})
	testkit.Must(t, err)
	p.nodes[3].show(recorded("c2", 4, maxTTL, "d", "x")) // somebody was quicker
	_, _ = p.Change(t.Context(), &c, func() string { return "fresh" })
	v := p.View()
	if !reflect.DeepEqual(v.Known, from(claimBy("c1", 2, nodeNames[:3]...), "c2 4")) {
		t.Fatalf("got %+v known; want the list without it", v.Known)
	}
	wantPlan(t, v.Next(3, p.clock.Now(), p.Proposal()), membership.DoNothing, "belongs to another cluster (c2)")
}

// What stood there before the server restarted, with its data, stands no more.
func TestAClaimOfAnIdentityBeforeIsNone(t *testing.T) {
	known := claimBy("c1", 2, nodeNames[:3]...)
	gone := membership.Notice{Nonce: "n", Run: "r1", Claim: claimText(claimBy("c2", 0, "a"))}
	o := recorded("c2", 0, maxTTL, "a")
	o.Notice = gone
	if p := beside(o).knowing(known, 0, start); p.Action != membership.DoSeize || p.Notice.Claim != "" {
		t.Errorf("got action %d over the claim %q; want it seized over none", p.Action, p.Notice.Claim)
	}
	gone.Claim = claimText(claimBy("c1", 9, "a"))
	v := beside(observed(start, "r3", nil, 0, gone))
	if p := v.knowing(known, 0, start); p.Action != membership.DoNotice || p.Notice != (membership.Notice{}) || p.Claim != claimText(known) {
		t.Errorf("got action %d, claim %q over %+v; want its own claim over none", p.Action, p.Claim, p.Notice)
	}
}

// Somebody may put a notice on a node that is a member to all others.
func TestTheNoticeOfAMemberCountsOnlyWhereItsClusterHasNoQuorum(t *testing.T) {
	hour := membership.Notice{Nonce: "n", Run: "r", Claim: claimText(leasing(claimBy("c1", 0, nodeNames[:3]...), time.Hour))}
	v := newView(3, start)
	v.blank(0, start)
	v.nodes[1].Notice = hour
	if p := v.next(0, start); p.Until != start.Add(maxTTL) {
		t.Errorf("a quorum: got a wait of %v; want %v", p.Until.Sub(start), maxTTL)
	}
	v.blank(2, start)
	if p := v.next(0, start); p.Until != start.Add(time.Hour) {
		t.Errorf("no quorum: got a wait of %v; want an hour", p.Until.Sub(start))
	}
	v = newView(5, start)
	v.blank(0, start)
	v.stale(1, 7, start) // it is of the cluster, and no member
	v.nodes[1].Notice.Claim = hour.Claim
	if p := v.next(0, start); p.Until != start.Add(time.Hour) {
		t.Errorf("one that restarted: got a wait of %v; want an hour", p.Until.Sub(start))
	}
}

func TestTheMarkOfASeizingStaysWhenTheClaimIsReplaced(t *testing.T) {
	seized := claimBy("c1", 2, nodeNames[:3]...)
	seized.Seized, seized.Lease = true, time.Minute
	for _, c := range []struct{ mine, want time.Duration }{{maxTTL, time.Minute}, {time.Hour, time.Hour}} {
		v := beside(blankBy(seized))
		known := leasing(claimBy("c1", 3, nodeNames[:3]...), c.mine)
		want := leasing(known, c.want)
		want.Seized = true
		p := v.knowing(known, 0, start)
		wantPlan(t, p, membership.DoNotice, "")
		if p.Claim != claimText(want) {
			t.Errorf("got the claim %q; want %q", p.Claim, claimText(want))
		}
		v = beside(blankBy(want))
		if p := v.knowing(known, 0, start); p.Action == membership.DoNotice {
			t.Errorf("got the claim %q a second time", p.Claim)
		}
	}
}

// shows makes a Tracker see an observation of node i, later than all before.
func shows(p *membership.Tracker, i int, at clock.Instant, o membership.Observation) {
	o.Sent, o.Seen = at, at
	p.Publish(i, o)
}

// byRecord is a member of that cluster, at a generation, with a list.
func byRecord(cluster string, gen int, names ...string) membership.Observation {
	rec := recordOf("e", cluster, "r", names, maxTTL, 0)
	rec.Gen = gen
	return observed(0, "r", &rec, 7, membership.Notice{})
}

// wantKnown fails the test unless this is what the client knows of its cluster.
func wantKnown(t *testing.T, when string, p *membership.Tracker, want membership.Claim) {
	t.Helper()
	if got := p.View().Known; !reflect.DeepEqual(got, want) {
		t.Errorf("%s: got %+v of %s; want %+v of %s", when, got, got.Cluster, want, want.Cluster)
	}
}

func trackerOf(names ...string) *membership.Tracker {
	return membership.NewTracker(membership.NewConfig(names, maxTTL, false), "new", clock.New())
}

func TestAClientKnowsWhatAQuorumHasInForce(t *testing.T) {
	blank := observed(0, "r2", nil, 0, membership.Notice{})
	p := trackerOf(nodeNames[:3]...)
	o := byRecord("c1", 2, nodeNames[:3]...)
	o.Record.Before, o.Record.BeforeMaxTTL, o.Record.From, o.Record.Strict = nodeNames[:2], time.Minute, "c0 4", true
	shows(p, 0, 1, o)
	wantKnown(t, "a node's word", p, membership.Claim{})
	shows(p, 1, 2, o)
	known := leasing(from(claimBy("c1", 2, nodeNames[:3]...), "c0 4"), time.Minute)
	known.Strict = true
	wantKnown(t, "a quorum's", p, known)
	o.Record.Proposed = membership.Proposed{Ballot: 1, Configuration: membership.Configuration{Names: nodeNames[:3], MaxTTL: time.Hour}}
	shows(p, 2, 3, o)
	wantKnown(t, "what a node proposes is for longer", p, leasing(known, time.Hour))
	o.Record.Proposed, o.Record.Gen, o.Record.Strict = membership.Proposed{}, 3, false
	shows(p, 2, 4, o)
	known.Gen, known.Strict = 3, false
	wantKnown(t, "a later one of the list", p, known)
	shows(p, 0, 5, blank)
	shows(p, 1, 6, blank)
	wantKnown(t, "two nodes forgot", p, known)
	shows(p, 2, 7, blank)
	wantKnown(t, "all did", p, known)
	shows(p, 0, 8, byRecord("c2", 0, nodeNames[:3]...))
	wantKnown(t, "a node of another cluster", p, known)
	shows(p, 1, 9, byRecord("c2", 0, nodeNames[:3]...))
	wantKnown(t, "a quorum of it", p, claimBy("c2", 0, nodeNames[:3]...))
}

func TestAClientGoesBackToNothingThatIsEarlier(t *testing.T) {
	for _, gen := range []int{0, 5} {
		p := trackerOf(nodeNames[:3]...)
		for i := range 3 {
			shows(p, i, clock.Instant(1+i), byRecord("c1", gen, nodeNames[:3]...))
		}
		known := claimBy("c1", gen, nodeNames[:3]...)
		wantKnown(t, "at first", p, known)
		for i := range 2 {
			p.Missed(i, clock.Instant(10+i), errors.New("no reply"))
		}
		if gen > 0 {
			shows(p, 2, 20, byRecord("c1", gen-1, nodeNames[:3]...))
			wantKnown(t, "one that is behind answers", p, known)
		}
		p.Missed(2, 30, errors.New("no reply"))
		wantKnown(t, "nobody answers", p, known)
	}
	p := trackerOf(nodeNames[:3]...) // one node was before the others, and forgot
	for i, gen := range []int{4, 4, 5} {
		shows(p, i, clock.Instant(1+i), byRecord("c1", gen, nodeNames[:3]...))
	}
	shows(p, 2, 5, observed(0, "r2", nil, 0, membership.Notice{}))
	wantKnown(t, "the latest forgot", p, claimBy("c1", 5, nodeNames[:3]...))
	p = trackerOf(nodeNames[:3]...) // a founding that was given up
	for i := range 2 {
		shows(p, i, clock.Instant(1+i), byRecord("c1", 2, nodeNames[:3]...))
	}
	o := byRecord("c2", 5, nodeNames[:3]...)
	o.Record.From = "c1 2"
	shows(p, 2, 5, o)
	wantKnown(t, "a quorum's word, and a node's", p, claimBy("c1", 2, nodeNames[:3]...))
	for i := range 2 {
		shows(p, i, clock.Instant(6+i), blankBy(claimBy("c1", 2, nodeNames[:3]...)))
	}
	wantKnown(t, "a node's word", p, claimBy("c1", 2, nodeNames[:3]...))
	if pl := p.Claim(1, p.View().Nodes[1]); pl.Action != membership.DoNothing { // the founder counts on what stands
		t.Errorf("got the claim %q while another founds", pl.Claim)
	}
}

// A client with a list of one node is not told of the lists to come, but by that node.
func TestAClientKnowsALaterListByANodesWord(t *testing.T) {
	p := trackerOf("a")
	shows(p, 0, 1, byRecord("c1", 1, nodeNames[:2]...))
	wantKnown(t, "a later list, and none was known", p, membership.Claim{})
	shows(p, 0, 2, byRecord("c1", 0, "a"))
	wantKnown(t, "its own", p, claimBy("c1", 0, "a"))
	shows(p, 0, 3, byRecord("c1", 2, nodeNames[:3]...))
	known := claimBy("c1", 2, nodeNames[:3]...)
	wantKnown(t, "a later list", p, known)
	shows(p, 0, 4, byRecord("c1", 1, nodeNames[:2]...))
	wantKnown(t, "an earlier one then", p, known)
	shows(p, 0, 5, byRecord("c1", 0, "a"))
	wantKnown(t, "its own then", p, known)
	shows(p, 0, 6, byRecord("c2", 9, nodeNames[:4]...))
	wantKnown(t, "another cluster's", p, known)
	shows(p, 0, 7, byRecord("c2", 9, "a"))
	wantKnown(t, "another cluster's of its list", p, known)
	o := byRecord("c2", 0, "a")
	o.Record.From = "c1 1"
	shows(p, 0, 8, o)
	wantKnown(t, "of one that was founded from an earlier", p, known)
	o.Record.From = "c7 1 c1 2"
	shows(p, 0, 9, o)
	known = from(claimBy("c2", 0, "a"), "c7 1 c1 2")
	wantKnown(t, "of one that was founded from it", p, known)
	shows(p, 0, 10, byRecord("c2", 1, nodeNames[:2]...))
	shows(p, 0, 11, byRecord("c2", 2, "a"))
	wantKnown(t, "the list is its own again", p, claimBy("c2", 2, "a"))
	shows(p, 0, 12, observed(0, "r2", nil, 0, membership.Notice{}))
	wantKnown(t, "it forgot", p, claimBy("c2", 2, "a"))
}

// idleParty is a Tracker over nodes that show this, without its loop.
func idleParty(shows ...membership.Observation) *party {
	p := &party{clock: clock.New()}
	p.Tracker = membership.NewTracker(membership.NewConfig(nodeNames[:len(shows)], maxTTL, false), "new", p.clock)
	for i, o := range shows {
		p.nodes = append(p.nodes, &partyNode{party: p, index: i, shows: o})
		p.Attach(p.nodes[i])
	}
	return p
}

// newWatch is a Tracker over three members of "c1" whose looks take a second; it is at work, and
// has looked at all of them just now.
func newWatch(t *testing.T, maxTTL time.Duration) *party {
	t.Helper()
	names := nodeNames[:3]
	p := &party{clock: clock.New()}
	p.Tracker = membership.NewTracker(membership.NewConfig(names, 10*maxTTL, false), "new", p.clock)
	for i := range names {
		rec := recordOf("e", "c1", "r", names, maxTTL, 0)
		rec.From = "c0 4"
		p.nodes = append(p.nodes, &partyNode{party: p, index: i, shows: observed(0, "r", &rec, 7, membership.Notice{})})
		p.Attach(slowNode{p.nodes[i]})
	}
	go p.Run()
	t.Cleanup(p.Close)
	p.LookAtAll(t.Context(), false)
	return p
}

type slowNode struct{ *partyNode }

func (n slowNode) Look(ctx context.Context, counted bool) {
	time.Sleep(time.Second)
	n.partyNode.Look(ctx, counted)
}

// failsWith is what the node's actions fail with from now on.
func (n *partyNode) failsWith(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.fails = err
}

func TestAnAcquisitionLooksWhereTheLastLookIsTooOld(t *testing.T) {
	for most, limit := range map[time.Duration]time.Duration{
		20 * time.Second: 10 * time.Second, time.Hour: 15 * time.Second, // half of MaxTTL of the records, 15 s at most
	} {
		synctest.Test(t, func(t *testing.T) {
			p := newWatch(t, most)
			counted := func(when string, after time.Duration, looks int, waits bool) {
				t.Helper()
				time.Sleep(after)
				before := p.nodes[1].looked()
				began := time.Now()
				testkit.Must(t, p.Claimed(t.Context(), time.Second))
				if took := time.Since(began); waits && took != time.Second || !waits && took != 0 {
					t.Errorf("MaxTTL %v, %s: it took %v; want it to wait for a look: %t", most, when, took, waits)
				}
				time.Sleep(2 * time.Second)
				if got := p.nodes[1].looked() - before; got != looks {
					t.Errorf("MaxTTL %v, %s: got %d looks; want %d", most, when, got, looks)
				}
			}
			counted("at once", 0, 0, false)
			counted("soon after", 0, 0, false)
			counted("before half of it", limit/2-4*time.Second-time.Millisecond, 0, false)
			time.Sleep(limit/2 - 2*time.Second) // another one, and the first of these looks
			counted("behind half of it", 0, 1, false)
			counted("before the limit", limit-time.Second-time.Millisecond, 1, false)
			counted("behind the limit", limit-time.Second+time.Millisecond, 1, true)
			p.nodes[0].show(membership.Unread(p.nodes[0].shown(), 0, 0, "no reply"))
			counted("a node that does not answer", limit, 1, true)
			counted("and is as good as looked at", 0, 0, false)
			for i := range 2 { // one node's look is too old
				time.Sleep(limit - 2*time.Second)
				shows(p.Tracker, 1-i, p.clock.Now(), p.nodes[1-i].shown())
				shows(p.Tracker, 2, p.clock.Now(), p.nodes[2].shown())
				counted("one of three nodes", 2*time.Second, 1, true)
			}
		})
	}
}

// Who looks is busy elsewhere: an operator changes nodes, or one look hangs.
func TestWithoutALookInTimeNoVoteCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newWatch(t, maxTTL)
		done, err := p.Alone(t.Context())
		testkit.Must(t, err)
		time.Sleep(time.Minute)
		if err := p.Claimed(t.Context(), time.Second); err == nil || !strings.Contains(err.Error(), "no node was looked at for 1m") {
			t.Errorf("got %v; want no vote to count", err)
		}
		done()
		testkit.Must(t, p.Claimed(t.Context(), time.Second))
	})
}

// A look that has begun is enough, where a node hangs.
func TestAnAcquisitionWaitsForTwoNodeTimeoutsOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newWatch(t, maxTTL)
		time.Sleep(time.Minute)
		began := time.Now()
		testkit.Must(t, p.Claimed(t.Context(), 100*time.Millisecond))
		if took := time.Since(began); took < 200*time.Millisecond || took > 400*time.Millisecond {
			t.Errorf("it took %v; want two node timeouts, and little more", took)
		}
	})
}

// The writers look at the nodes first, and claim them.
func TestAnAcquisitionWaitsForTheFirstLookAtEachNode(t *testing.T) {
	member, blank := byRecord("c1", 0, nodeNames[:3]...), observed(0, "r2", nil, 0, membership.Notice{})
	for what, c := range map[string]struct {
		seen []membership.Observation // one each 300 ms
		took time.Duration
		want string
	}{
		"all are members":          {[]membership.Observation{member, member, member}, 900 * time.Millisecond, ""},
		"the last is not claimed":  {[]membership.Observation{member, member, blank}, 900 * time.Millisecond, "c forgot"},
		"the first is not claimed": {[]membership.Observation{blank, member, member}, 900 * time.Millisecond, "a forgot"},
		"the last does not answer": {[]membership.Observation{member, member, {}}, 900 * time.Millisecond, ""},
		"the last takes too long":  {[]membership.Observation{member, member}, time.Second, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := idleParty(member, member, member)
			time.Sleep(time.Minute)
			go func() {
				for i, o := range c.seen {
					time.Sleep(300 * time.Millisecond)
					shows(p.Tracker, i, p.clock.Now(), o)
				}
			}()
			began := time.Now()
			err := p.Claimed(t.Context(), time.Second)
			if took := time.Since(began); took != c.took || (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: got %v after %v; want %q after %v", what, err, took, c.want, c.took)
			}
		})
	}
}

func TestAnAcquisitionThatIsOverWaitsForNoLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		watched := newWatch(t, maxTTL)
		time.Sleep(time.Minute)
		for what, p := range map[string]*party{"the last look is old": watched, "there was none": idleParty(membership.Observation{})} {
			began := time.Now()
			err := p.Claimed(ctx, time.Second)
			if took := time.Since(began); took != 0 || !errors.Is(err, context.Canceled) {
				t.Errorf("%s: got %v after %v; want it to end with its ctx", what, err, took)
			}
		}
	})
}

func TestNoVoteCountsBesideABlankNodeThatLacksTheClaim(t *testing.T) {
	const lacks = "c forgot, and lacks this client's claim"
	known := from(claimBy("c1", 0, nodeNames[:3]...), "c0 4")
	after := known
	after.Gen = 4
	replica := observed(0, "r2", nil, 0, membership.Notice{})
	replica.Replica = true
	restarted := recordOf("e", "c1", "r", nodeNames[:3], maxTTL, 0)
	for what, c := range map[string]struct {
		o    membership.Observation
		want string
	}{
		"it has none":                      {observed(0, "r2", nil, 0, membership.Notice{}), lacks},
		"it has a plain notice":            {observed(0, "r2", nil, 0, noticeOf("n", "r2")), lacks},
		"it restarted with its data":       {observed(0, "r2", &restarted, 0, noticeOf("n", "r2")), lacks},
		"it has the claim":                 {blankBy(known), ""},
		"it has a later one":               {blankBy(after), ""},
		"it has the claim for less":        {blankBy(leasing(known, time.Second)), lacks},
		"of an identity before":            {observed(0, "r3", nil, 0, membership.Notice{Nonce: "n", Run: "r2", Claim: claimText(known)}), lacks},
		"it has another's of a list in it": {blankBy(claimBy("c2", 0, "c")), "c has another cluster's record or claim"},
		"it has another's of another list": {blankBy(claimBy("c2", 0, "c", "x")), ""},
		"it is another's of a list in it":  {recorded("c2", 0, maxTTL, "c"), "c has another cluster's record or claim"},
		"it is another's of another list":  {recorded("c2", 0, maxTTL, "c", "x"), ""},
		"it is a replica":                  {replica, ""},
		"it has that of which it is from":  {blankBy(claimBy("c0", 4, "c")), lacks},
		"it does not answer, another's":    {membership.Unread(recorded("c2", 0, maxTTL, "c"), 0, 0, "no reply"), ""},
		"it does not answer":               {membership.Unread(membership.Observation{}, 0, 0, "no reply"), ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := newWatch(t, maxTTL)
			done, err := p.Alone(t.Context()) // the loop claims nothing
			testkit.Must(t, err)
			defer done()
			p.nodes[2].show(c.o)
			p.LookAtAll(t.Context(), false)
			err = p.Claimed(t.Context(), time.Second)
			if (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: got %v; want %q", what, err, c.want)
			}
		})
	}
}

func TestARefusedAcquisitionHasTheNodeClaimedAndOneThatTakesNoWritesHindersNobody(t *testing.T) {
	for _, full := range []error{nil, errors.New("OOM command not allowed")} {
		synctest.Test(t, func(t *testing.T) {
			p := newWatch(t, maxTTL)
			testkit.Must(t, p.Claimed(t.Context(), time.Second))
			time.Sleep(time.Second) // the loop sleeps
			p.nodes[2].failsWith(full)
			p.nodes[2].show(observed(0, "r2", nil, 0, membership.Notice{}))
			shows(p.Tracker, 2, p.clock.Now(), p.nodes[2].shown())
			if err := p.Claimed(t.Context(), time.Second); err == nil {
				t.Error("got no error beside a blank node without the claim")
			}
			if time.Sleep(1500 * time.Millisecond); full == nil { // a look, and what comes of it
				time.Sleep(time.Second) // and another look
			}
			if got := p.nodes[2].did(); len(got) == 0 || got[0] != membership.DoNotice {
				t.Errorf("got actions %v of the loop; want a notice", got)
			}
			testkit.Must(t, p.Claimed(t.Context(), time.Second))
			if got := p.nodes[2].shown().Notice.Claim; full == nil && got != claimText(from(claimBy("c1", 0, nodeNames[:3]...), "c0 4")) {
				t.Errorf("got the claim %q", got)
			}
			if full != nil { // it takes writes again, and there is none yet
				p.nodes[2].failsWith(nil)
				shows(p.Tracker, 2, p.clock.Now(), observed(0, "r3", nil, 0, membership.Notice{}))
				time.Sleep(5 * time.Second)
				if got := p.nodes[2].shown().Notice.Claim; got == "" {
					t.Error("the node takes writes again, and is not claimed")
				}
			}
		})
	}
}

func TestNoVoteCountsWhileWhatWasSeizedMayHaveLocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newWatch(t, maxTTL)
		testkit.Must(t, p.Claimed(t.Context(), time.Second))
		done, err := p.Alone(t.Context()) // the loop looks at nothing
		testkit.Must(t, err)
		defer done()
		look := func() {
			for i, n := range p.nodes {
				shows(p.Tracker, i, p.clock.Now(), n.shown())
			}
		}
		claim := func(gen int, lease time.Duration, seized bool) {
			t.Helper()
			c := leasing(claimBy("c1", gen, nodeNames[:3]...), lease)
			c.Seized = seized
			p.nodes[2].show(blankBy(c))
			look()
		}
		wants := func(when string, left time.Duration) {
			t.Helper()
			look() // again
			err := p.Claimed(t.Context(), time.Second)
			if (err != nil) != (left > 0) || err != nil && !strings.Contains(err.Error(), fmt.Sprintf("may have locks for another %v", left)) {
				t.Errorf("%s: got %v; want an error for %v", when, err, left)
			}
		}
		claim(0, 40*time.Second, false)
		wants("a claim that is not marked", 0)
		claim(1, 10*time.Second, true)
		wants("at once", 10*time.Second)
		time.Sleep(5 * time.Second)
		wants("five seconds later", 5*time.Second)
		claim(2, 40*time.Second, true)
		wants("a second one, for more", 40*time.Second)
		time.Sleep(10 * time.Second)
		wants("ten seconds later", 30*time.Second)
		claim(3, 20*time.Second, true)
		wants("a third one, for less", 30*time.Second)
		p.nodes[2].show(observed(0, "r2", nil, 0, noticeOf("n", "r2")))
		look()
		if err := p.Claimed(t.Context(), time.Second); err == nil || !strings.Contains(err.Error(), "c forgot") {
			t.Errorf("it lacks the claim: got %v; want that told first", err)
		}
		p.nodes[2].show(blankBy(claimBy("c1", 4, nodeNames[:3]...)))
		wants("the mark is gone", 30*time.Second)
		rec := recordOf("e", "c1", "r", nodeNames[:3], maxTTL, 0)
		p.nodes[2].show(observed(0, "r", &rec, 7, membership.Notice{}))
		wants("the node is a member", 30*time.Second)
		time.Sleep(30*time.Second - time.Millisecond)
		if look(); p.Claimed(t.Context(), time.Second) == nil {
			t.Error("a millisecond before the lease is over: got no error")
		}
		time.Sleep(time.Millisecond)
		wants("the lease is over", 0)
		claim(5, 40*time.Second, true)
		wants("a second time", 40*time.Second)
	})
}

// What was founded beside is seen, and is out of reach then: its locks are held all the same.
func TestNoVoteCountsWhileWhatWasSeenBesideMayHaveLocks(t *testing.T) {
	for what, o := range map[string]membership.Observation{
		"a record": recorded("c2", 0, 40*time.Second, "c"), "a claim": blankBy(leasing(claimBy("c2", 0, "c"), 40*time.Second)),
	} {
		synctest.Test(t, func(t *testing.T) {
			p := newWatch(t, maxTTL)
			done, err := p.Alone(t.Context())
			testkit.Must(t, err)
			defer done()
			see := func(i int, o membership.Observation) { shows(p.Tracker, i, p.clock.Now(), o) }
			wants := func(when, want string) {
				t.Helper()
				see(0, p.nodes[0].shown())
				see(1, p.nodes[1].shown())
				if err := p.Claimed(t.Context(), time.Second); (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
					t.Errorf("%s, %s: got %v; want %q", what, when, err, want)
				}
			}
			wants("before", "")
			see(2, o)
			wants("at once", "c has another cluster's record or claim")
			time.Sleep(5 * time.Second)
			see(2, o)
			p.Missed(2, p.clock.Now(), errors.New("no reply"))
			wants("it does not answer any more", "may have locks for another 40s")
			time.Sleep(10 * time.Second)
			p.Missed(2, p.clock.Now(), errors.New("no reply"))
			wants("ten seconds later", "may have locks for another 30s")
			see(2, recorded("c3", 0, time.Second, "c"))
			p.Missed(2, p.clock.Now(), errors.New("no reply"))
			wants("it had another with shorter leases", "may have locks for another 30s")
			time.Sleep(30 * time.Second)
			p.Missed(2, p.clock.Now(), errors.New("no reply"))
			wants("its leases are over", "")
		})
	}
}

func TestABlankNodeIsClaimedBeforeItIsPublished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fresh := idleParty(membership.Observation{}, membership.Observation{}, membership.Observation{})
		p := newWatch(t, maxTTL)
		none := func(what string, i int, o membership.Observation) {
			t.Helper()
			if pl := p.Tracker.Claim(i, o); pl.Action != membership.DoNothing {
				t.Errorf("%s: got action %d, claim %q; want none", what, pl.Action, pl.Claim)
			}
		}
		blank := observed(0, "r2", nil, 0, noticeOf("n", "r2"))
		if pl := fresh.Tracker.Claim(2, blank); pl.Action != membership.DoNothing {
			t.Errorf("nothing is known: got action %d, claim %q; want none", pl.Action, pl.Claim)
		}
		known := from(claimBy("c1", 0, nodeNames[:3]...), "c0 4")
		for what, o := range map[string]membership.Observation{"blank": blank, "without a notice": observed(0, "r2", nil, 0, membership.Notice{})} {
			if pl := p.Tracker.Claim(2, o); pl.Action != membership.DoNotice || pl.Claim != claimText(known) || pl.Notice != o.Notice {
				t.Errorf("%s: got action %d, claim %q over %+v; want the claim over what was read", what, pl.Action, pl.Claim, pl.Notice)
			}
		}
		none("it has the claim", 2, blankBy(known))
		again := observed(0, "r3", nil, 0, membership.Notice{Nonce: "n", Run: "r2", Claim: claimText(known)})
		if pl := p.Tracker.Claim(2, again); pl.Action != membership.DoNotice || pl.Notice != (membership.Notice{}) {
			t.Errorf("it restarted with its data, the claim among them: got action %d over %+v; want a claim over none", pl.Action, pl.Notice)
		}
		none("a member", 2, p.nodes[2].shown())
		none("another's", 2, recorded("c2", 0, maxTTL, "c"))
		replica := blank
		replica.Replica = true
		none("a replica", 2, replica)
		if o := p.View().Nodes[2]; o.Run != "r" {
			t.Errorf("got %+v published; want what was asked about not", o)
		}
		p.Forgot(2, "e") // its epoch has ended: it is blank
		if pl := p.Tracker.Claim(2, p.nodes[2].shown()); pl.Action != membership.DoNotice {
			t.Errorf("an epoch that has ended: got action %d; want a claim", pl.Action)
		}
	})
}

// What the node shows now counts for what the others make of it.
func TestANodeIsClaimedByWhatItShowsNow(t *testing.T) {
	member, blank := byRecord("c1", 0, nodeNames[:3]...), blankBy(claimBy("c1", 0, nodeNames[:3]...))
	p := idleParty(member, blank, member)
	p.LookAtAll(t.Context(), false)
	other := byRecord("c2", 0, nodeNames[:3]...)
	if pl := p.Tracker.Claim(2, other); pl.Action != membership.DoNothing { // no cluster has a quorum then
		t.Errorf("a member of another cluster: got action %d, claim %q; want none", pl.Action, pl.Claim)
	}
	shows(p.Tracker, 1, p.clock.Now(), member)
	if pl := p.Tracker.Claim(2, other); pl.Action != membership.DoNotice {
		t.Errorf("of one beside a quorum: got action %d; want a claim", pl.Action)
	}
}

// A founder's own look claims nothing while it founds: that would end the founding.
func TestAFounderDoesNotClaimWhatItFounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newParty(t)
		for i := range p.nodes {
			_, _ = p.verify(t, i)
		}
		for i, n := range p.nodes {
			n.show(observed(0, "r2", nil, 0, membership.Notice{}))
			_, _ = p.verify(t, i)
		}
		time.Sleep(maxTTL - time.Second)
		for i, n := range p.nodes {
			if got, want := n.shown().Notice.Claim, claimText(claimBy("c1", 0, nodeNames[:3]...)); got != want {
				t.Fatalf("node %d: got the claim %q; want %q", i, got, want)
			}
		}
		full := errors.New("OOM command not allowed")
		p.nodes[2].failsWith(full)
		time.Sleep(3 * time.Second)
		if rec := p.nodes[1].shown().Record; rec.Cluster != "new" || rec.From != "c1 0" || p.View().Known.Cluster != "new" {
			t.Fatalf("got %+v; want two nodes founded, and known", rec)
		}
		if pl := p.Tracker.Claim(2, p.nodes[2].shown()); pl.Action != membership.DoNothing {
			t.Errorf("got action %d, claim %q; want none while the founding goes on", pl.Action, pl.Claim)
		}
		p.nodes[2].failsWith(nil)
		time.Sleep(3 * time.Second)
		for i, n := range p.nodes {
			if rec := n.shown().Record; rec.Cluster != "new" {
				t.Errorf("node %d: got %+v; want the founding to have gone on", i, rec)
			}
		}
	})
}

// The founder's own loop gives a founding up while a writer looks at its node: for the race detector.
func TestAFoundingIsGivenUpWhileAWriterLooks(t *testing.T) {
	for k := range 200 {
		blank := observed(0, "r2", nil, 7, noticeOf("n", "r2"))
		p := idleParty(blank, blank)
		p.nodes[1].failsWith(errors.New("OOM command not allowed"))
		proposal := p.Proposal()
		proposal.Admit = true
		p.Settle(t.Context(), proposal)
		if !p.nodes[0].shown().Recorded {
			t.Fatal("got no node founded")
		}
		p.nodes[1].show(observed(0, "r2", nil, 7, noticeOf(fmt.Sprint(k), "r2")))
		ctx, stop := context.WithCancel(t.Context())
		var writer sync.WaitGroup
		writer.Go(func() {
			for ctx.Err() == nil {
				p.Tracker.Claim(1, p.nodes[1].shown())
			}
		})
		p.Settle(t.Context(), proposal)
		stop()
		writer.Wait()
	}
}

// The scripts, one by one.

// eval runs a script as a client does.
func (s *scripted) eval(script *lua.Script, args ...any) any {
	s.t.Helper()
	got, err := s.c.Eval(s.t.Context(), script.Body, []string{nodeKey}, args...).Result()
	if err != nil {
		s.t.Fatalf("%s %q: %v", script.Name, args, err)
	}
	return got
}

func TestANoticeGetsAClaimOnlyWhereWhatStandsIsAsRead(t *testing.T) {
	onBothKinds(t, func(t *testing.T, s *scripted) {
		t.Helper()
		put := func(what, nonce, claim, read string, want ...string) {
			t.Helper()
			got := s.eval(lua.NoticeScript, nonce, claim, read)
			n, stands := s.read().StandingNotice()
			if !stands || n.Nonce != want[0] || n.Claim != want[1] || !reflect.DeepEqual(got, []any{n.Nonce, n.Run}) {
				t.Errorf("%s: got %v, and %+v stands (%t); want nonce %q, claim %q", what, got, n, stands, want[0], want[1])
			}
		}
		put("the first is plain", "n1", "", "", "n1", "")
		put("another plain one", "n2", "", "", "n1", "")
		put("a claim, with another read", "n3", "X", "Y", "n1", "")
		s.c.HDel(t.Context(), nodeKey, "claim") // as notices were
		put("a claim over one that has no such field", "n4", "X", "", "n1", "X")
		s.c.HSet(t.Context(), nodeKey, "claim", "")
		put("a claim over a plain one", "n4", "X", "", "n1", "X")
		put("a plain one over it", "n5", "", "X", "n1", "X")
		put("a claim by who read a plain one", "n6", "Y", "", "n1", "X")
		put("a claim by who read another", "n6", "Y", "Z", "n1", "X")
		put("a claim by who read it", "n7", "Y", "X", "n1", "Y")
		s.restart(true)
		if _, stands := s.read().StandingNotice(); stands {
			t.Error("a notice stands over a restart")
		}
		put("a plain one, after a restart", "n8", "", "", "n8", "")
		put("a claim", "n9", "X", "", "n8", "X")
		s.restart(true)
		put("a claim, after a restart", "n10", "Z", "Y", "n10", "Z")
		s.restart(false)
		put("a claim on an empty node", "n11", "X", "Y", "n11", "X")
		if o := s.read(); o.Recorded || o.Refused {
			t.Errorf("got %+v; want a notice, and no record", o)
		}
	})
}

func TestAnInstallIsRefusedWhereTheClaimIsAnother(t *testing.T) {
	onBothKinds(t, func(t *testing.T, s *scripted) {
		t.Helper()
		for _, claim := range []string{"X", ""} {
			s.c.Del(t.Context(), nodeKey)
			s.eval(lua.NoticeScript, "n", claim, "")
			n := s.read().Notice
			rec := recordOf("e1", "c1", "", []string{"a"}, time.Second, 7)
			rec.From = "c0 4 c9 1"
			for _, read := range []string{"", "X", "Y"} {
				if read == claim {
					continue
				}
				n.Claim = read
				if got := s.eval(lua.InstallScript, rec.InstallArgs(n, "")...); got != int64(0) || s.read().Recorded {
					t.Errorf("over the claim %q by who read %q: got %v; want it refused", claim, read, got)
				}
			}
			if n.Claim = claim; claim == "" {
				s.c.HDel(t.Context(), nodeKey, "claim") // as notices were
			}
			if got := s.eval(lua.InstallScript, rec.InstallArgs(n, "")...); got != int64(1) {
				t.Errorf("over the claim %q: got %v; want it installed", claim, got)
			}
			if o := s.read(); o.Record.From != rec.From || o.Notice != (membership.Notice{}) {
				t.Errorf("got %+v, %+v; want %q, and no notice", o.Record, o.Notice, rec.From)
			}
		}
		s.eval(lua.NoticeScript, "n", "X", "") // a survivor goes by its epoch
		rec := recordOf("e2", "c2", "", []string{"a"}, time.Second, 7)
		if got := s.eval(lua.InstallScript, rec.InstallArgs(membership.Notice{Run: s.read().Run}, "e1")...); got != int64(1) {
			t.Errorf("over a survivor: got %v; want it installed", got)
		}
		if o := s.read(); o.Record.From != "" || o.Record.Cluster != "c2" || o.Notice.Claim != "" {
			t.Errorf("got %+v, %+v; want nothing left of what was there", o.Record, o.Notice)
		}
	})
}

func TestASeizingEndsWhatWasReadAndNothingElse(t *testing.T) {
	onBothKinds(t, func(t *testing.T, s *scripted) {
		t.Helper()
		ctx := t.Context()
		seize := func(what string, want int64, run, epoch, claim string) {
			t.Helper()
			before := s.c.HGetAll(ctx, nodeKey).Val()
			if got := s.eval(lua.SeizeScript, run, epoch, claim, "n9", "Z"); got != want {
				t.Errorf("%s: got %v; want %d", what, got, want)
			}
			after := s.c.HGetAll(ctx, nodeKey).Val()
			switch {
			case want == 0 && !reflect.DeepEqual(after, before):
				t.Errorf("%s: got %v; want it as it was: %v", what, after, before)
			case want == 1:
				left := map[string]string{"4095": "9", "nonce": "n9", "nonce_run": s.read().Run, "claim": "Z"}
				if !reflect.DeepEqual(after, left) {
					t.Errorf("%s: got %v; want the stripes and the notice: %v", what, after, left)
				}
			}
			if got := s.c.Get(ctx, "orders/42").Val(); got != "owner" {
				t.Errorf("%s: got %q under a key; want it kept", what, got)
			}
		}
		member := func() (run string) {
			t.Helper()
			testkit.Must(t, s.c.Del(ctx, nodeKey).Err(), s.c.Set(ctx, "orders/42", "owner", 0).Err(), s.c.HSet(ctx, nodeKey, "4095", 9).Err())
			rec := asStrict(listed(3, []string{"a", "b"}, []string{"a"}))
			rec.Settled, rec.Ballot, rec.From, rec.Epoch = true, 7, "c0 4", "e"
			rec.Proposed = membership.Proposed{Ballot: 7, Configuration: rec.Configuration}
			s.install(rec)
			s.c.HSet(ctx, nodeKey, "since", "1000000")
			return s.read().Run
		}
		run := member()
		seize("another identity", 0, "other.run", "e", "")
		seize("another epoch", 0, run, "e2", "")
		seize("no epoch", 0, run, "", "")
		seize("another claim", 0, run, "e", "X")
		seize("as it was read", 1, run, "e", "")
		seize("the record, a second time", 0, run, "e", "")
		seize("a record, by who read it blank", 0, member(), "", "Z")

		s.c.HDel(ctx, nodeKey, "format", "epoch", "cluster", "names", "maxttl", "run", "base", "strict", "gen", "before", "before_maxttl", "settled", "ballot", "proposed", "since", "from")
		s.eval(lua.NoticeScript, "n", "X", "")
		seize("a claim, by who read a plain notice", 0, run, "", "")
		seize("a claim, by who read another", 0, run, "", "Y")
		seize("a claim, by who read a record", 0, run, "e", "X")
		seize("the claim", 1, run, "", "X")

		s.restart(true) // what stood there does not any more
		if s.c.Get(ctx, "orders/42").Val() == "" {
			s.c.Set(ctx, "orders/42", "owner", 0)
		}
		now := s.read().Run
		seize("after a restart", 0, run, "", "Z")
		seize("the claim of an identity before", 0, now, "", "Z")
		seize("a claim that does not stand", 1, now, "", "")
	})
}

func TestAReplicaIsNotSeized(t *testing.T) {
	onBothKinds(t, func(t *testing.T, s *scripted) {
		t.Helper()
		ctx := t.Context()
		s.install(recordOf("e", "c1", "", []string{"a"}, time.Second, 7))
		if s.c.ConfigSet(ctx, "replica-read-only", "no").Err() != nil || s.c.SlaveOf(ctx, "127.0.0.1", "1").Err() != nil {
			t.Skip("it can't become a replica")
		}
		if got := s.eval(lua.SeizeScript, s.read().Run, "e", "", "n", "Z"); got != int64(0) {
			t.Errorf("got %v; want it refused", got)
		}
		testkit.Must(t, s.c.SlaveOf(ctx, "NO", "ONE").Err())
	})
}

// The nodes, in virtual time.

// foundedBeside makes the node forget, and a client with a list of it alone found a cluster there,
// or claim it.
func foundedBeside(t *testing.T, n *redlocktest.Node, founded bool) {
	t.Helper()
	if n.Restart(); !founded {
		n.Miniredis().HSet(lua.NodeKey, "nonce", "n", "nonce_run", locktest.Identity(n), "claim", claimText(leasing(claimBy("beside", 4, n.Name()), 40*time.Second)))
		return
	}
	n.Miniredis().HSet(lua.NodeKey, "format", fmt.Sprint(membership.RecordFormat), "epoch", "old", "cluster", "beside",
		"names", n.Name(), "maxttl", "40000", "run", locktest.Identity(n), "base", "7")
}

// refusing answers so to the calls of a script.
func refusing(script *lua.Script, v redlocktest.Verdict) redlocktest.Interceptor {
	return func(args []string) redlocktest.Verdict {
		if len(args) > 1 && args[0] == "EVALSHA" && args[1] == script.Hash {
			return v
		}
		return redlocktest.Pass()
	}
}

func TestNoLockIsHadBesideWhatAnOldListFoundedUntilItsLeasesAreOver(t *testing.T) {
	for _, founded := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			l, nodes := locktest.NewLocker(t, 3)
			id := locktest.Status(t, l).ID
			testkit.Must(t, l.Close())
			foundedBeside(t, nodes.Node(0), founded)
			nodes.Node(0).Intercept(refusing(lua.SeizeScript, redlocktest.ReplyError("ERR not now")))
			l = locktest.LockerOver(t, nodes)
			for range 10 {
				_, err := l.TryAcquire(t.Context(), "orders/42")
				locktest.WantError(t, "before it is seized", err, redlock.ErrNoQuorum)
				locktest.WantText(t, "before it is seized", locktest.ErrorText(err), "node-0 has another cluster's record or claim")
				time.Sleep(7 * time.Second)
			}
			locktest.WantNoLocks(t, nodes, "no lock was had")
			nodes.Node(0).Intercept(nil)
			began := time.Now()
			for range 3 {
				time.Sleep(11 * time.Second) // such nodes are looked at every ten seconds
				_, err := l.TryAcquire(t.Context(), "orders/42")
				locktest.WantError(t, "before its leases are over", err, redlock.ErrNoQuorum)
				locktest.WantText(t, "before its leases are over", locktest.ErrorText(err), "may have locks for another")
				if got := nodes.Node(0).Miniredis().HGet(lua.NodeKey, "claim"); !strings.HasPrefix(got, id+"\n0\n40000\n1\n") {
					t.Errorf("got the claim %q; want the mark of what was seized", got)
				}
			}
			lock := locktest.MustAcquire(t, l, "orders/42")
			if took := time.Since(began); took < 40*time.Second || took > 60*time.Second {
				t.Errorf("the next lock was had after %v; want it after the leases of 40 s of what was founded", took)
			}
			time.Sleep(5 * time.Second)
			locktest.WantVotes(t, "then", l, 3)
			if got := locktest.Status(t, l).ID; got != id {
				t.Errorf("got cluster %q; want %q", got, id)
			}
			locktest.MustRelease(t, lock)
		})
	}
}

func TestWithoutMembershipNothingIsClaimed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := locktest.NewLocker(t, 3, redlock.WithoutMembership())
		for _, n := range nodes.Nodes() {
			n.Intercept(func(args []string) redlocktest.Verdict {
				if len(args) > 1 && args[1] == lua.ReadScript.Hash {
					t.Errorf("%s was looked at; its user may not have the rights for that", n.Name())
				}
				return redlocktest.Pass()
			})
		}
		for range 2 {
			time.Sleep(time.Minute)
			began := time.Now()
			locktest.MustRelease(t, locktest.MustAcquire(t, l, "orders/42"))
			if took := time.Since(began); took != 0 {
				t.Errorf("it took %v; want no wait for a look", took)
			}
		}
	})
}

// A look at a node that forgot claims it first: who locks meanwhile is not refused for that.
func TestWhoLocksIsNotRefusedForANodeThatForgotJustNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, nodes := locktest.NewLocker(t, 3)
		locktest.Warm(t, l)
		known := locktest.Status(t, l).ID
		for _, claim := range []string{"", "", claimText(leasing(claimBy("c0", 4, nodes.Names()...), time.Second))} {
			nodes.Node(0).Intercept(func(args []string) redlocktest.Verdict {
				if len(args) == 7 && args[1] == lua.NoticeScript.Hash {
					time.Sleep(20 * time.Millisecond)
				}
				return redlocktest.Pass()
			})
			if nodes.Node(0).Restart(); claim != "" {
				nodes.Node(0).Miniredis().HSet(lua.NodeKey, "nonce", "n", "nonce_run", locktest.Identity(nodes.Node(0)), "claim", claim)
			}
			for range 300 { // such a node is looked at once a second
				lock, err := l.TryAcquire(t.Context(), "orders/42")
				testkit.Must(t, err)
				locktest.MustRelease(t, lock)
				time.Sleep(10 * time.Millisecond)
			}
			if got := nodes.Node(0).Miniredis().HGet(lua.NodeKey, "claim"); !strings.HasPrefix(got, known+"\n0\n30000\n\n\n30000\n\nnode-0\nnode-1\nnode-2") {
				t.Errorf("got the claim %q; want one of %s", got, known)
			}
		}
	})
}

// Clients of the list before are served until the next change, and so they count no vote either.
func TestClientsOfTheListBeforeCountNoVoteBesideWhatAnOldListFounded(t *testing.T) {
	p := membership.NewTracker(membership.NewConfig(nodeNames[:3], maxTTL, false), "new", clock.New())
	shows(p, 0, 1, recorded("c2", 0, maxTTL, "a"))
	for i := 1; i < 3; i++ {
		rec := listed(2, nodeNames[:4], nodeNames[:3])
		shows(p, i, clock.Instant(1+i), observed(0, "r", &rec, 7, membership.Notice{}))
	}
	if _, why := p.View().Voter(1); why != "" {
		t.Fatalf("got %q; want it served", why)
	}
	if err := p.Claimed(t.Context(), time.Second); err == nil || !strings.Contains(err.Error(), "a has another cluster's record") {
		t.Errorf("got %v; want no vote to count", err)
	}
	if pl := p.View().Next(0, start, proposalOf("new", 5000, false)); pl.Action != membership.DoSeize {
		t.Errorf("got action %d; want it seized by the quorum that serves this client", pl.Action)
	}
}
