package membership_test

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorumkit/redlock/internal/clock"
	"github.com/quorumkit/redlock/internal/fault"
	"github.com/quorumkit/redlock/internal/membership"
	"github.com/quorumkit/redlock/internal/testkit/locktest"
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

// claimed is a blank node with a claim, on a notice that stands since the start.
func (v *view) claimed(i int, text string) {
	v.blank(i, v.nodes[i].Sent)
	v.nodes[i].Notice.Claim = text
	v.waits[i] = membership.Wait{Notice: v.nodes[i].Notice, Since: start}
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
		v.claimed(i, text)
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
		v.claimed(0, text)
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
	v.claimed(0, "c1\n3\n30000\n\n\n30000\n\nb\na")
	wantPlan(t, v.next(0, start+clock.Instant(maxTTL)), membership.DoInstall, "")
}

func TestALeaseInAClaimIsWithinWhatAnyClusterAllows(t *testing.T) {
	for lease, want := range map[string]time.Duration{
		"60000": time.Minute, "0": maxTTL, "-60000": maxTTL, "9000000000000": clock.MaxMaxTTL,
	} {
		v := allBlank(1, start)
		v.claimed(0, "c1\n3\n"+lease+"\n\n\n30000\n\na")
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
		v.claimed(0, "c1\n3\n30000\n\n\n"+most+"\n\na")
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
		"the same list, founded from it":      {leasing(c1(4, list...), time.Hour), from(claimBy("c2", 0, list...), "c1 4"), false},
		"the same, from one before it":        {leasing(c1(4, list...), time.Hour), from(claimBy("c2", 0, list...), "c1 3"), true},
		"another list, a shorter lease":       {leasing(c1(9, list...), time.Hour), claimBy("c0", 7, other...), false},
	} {
		v := allBlank(3, start)
		text := ""
		if c.old.Cluster != "" {
			text = claimText(c.old)
		}
		v.claimed(0, text)
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

// A wait counts from the notice, also where its claim changes, and for the claim's lease.
func TestAClaimKeepsTheNoticesWait(t *testing.T) {
	claimed := func(n membership.Notice, gen int) membership.Notice {
		n.Claim = claimText(leasing(claimBy("c1", gen, nodeNames[:3]...), 2*maxTTL))
		return n
	}
	n, m := noticeOf("n", "r2"), noticeOf("m", "r2")
	var w membership.Wait
	for i, c := range []struct {
		n     membership.Notice
		since clock.Instant
	}{{n, 0}, {claimed(n, 0), 0}, {claimed(n, 1), 0}, {n, 0}, {m, 4}, {claimed(m, 1), 4}} {
		w = w.After(observed(start+clock.Instant(i)*second, "r2", nil, 0, c.n))
		if want := waitOf(c.n, start+c.since*second); w != want {
			t.Errorf("look %d: got %+v; want %+v", i, w, want)
		}
	}
	due, text := start+clock.Instant(2*maxTTL), claimed(n, 1).Claim
	v := newView(3, due)
	v.claimed(0, text)
	wantPlan(t, v.next(0, due-1), membership.DoWait, "")
	wantPlan(t, v.next(0, due), membership.DoInstall, "")
	v = allBlank(3, due)
	for i, claim := range []string{"", "", text} { // the second and third of a founder's are waited for, too
		v.claimed(i, claim)
	}
	wantPlan(t, v.next(0, due-1), membership.DoWait, "")
	p := v.next(0, due)
	wantPlan(t, p, membership.DoInstall, "")
	if p.Founding == nil {
		t.Error("got an install by the table; want a founding")
	}
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
	v.claimed(0, claim)
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
	v.claimed(1, claim)
	words[1] = "this client's list (a, b) is old"
	refused("the other node", v.next(0, long), "only 0 of the other nodes are members", "b: it is claimed")
	wantPlan(t, v.admit(0, long), membership.DoInstall, "")
	for i := range 2 { // and of two the second
		v.claimed(i, claimText(claimBy("c1", 2, "a", "b")))
	}
	wantPlan(t, v.next(0, long), membership.DoInstall, "")
	v.claimed(1, claim)
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
		v.claimed(2, claimText(c.claim))
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
	v.claimed(2, claimText(claimBy("c1", 1, nodeNames[:4]...)))
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
					v.claimed(i, claim)
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
		"nothing":                              {nil, membership.Claim{}, nil, maxTTL, false, 0, ""},
		"a claim":                              {[]membership.Claim{with(claimBy("c1", 1, list...), 20*time.Second, true)}, membership.Claim{}, nil, 20 * time.Second, true, 0, "c1 1"},
		"the first generation":                 {[]membership.Claim{with(claimBy("c1", 0, list...), 20*time.Second, true)}, membership.Claim{}, nil, 20 * time.Second, true, 0, "c1 0"},
		"two claims, the later last":           {[]membership.Claim{with(claimBy("c1", 1, list...), 50*time.Second, true), with(claimBy("c1", 2, list...), 40*time.Second, false)}, membership.Claim{}, nil, 40 * time.Second, false, 50 * time.Second, "c1 1 c1 2"},
		"two claims, the later first":          {[]membership.Claim{with(claimBy("c1", 2, list...), 40*time.Second, false), with(claimBy("c1", 1, list...), 50*time.Second, true)}, membership.Claim{}, nil, 40 * time.Second, false, 50 * time.Second, "c1 1 c1 2"},
		"of other lists":                       {[]membership.Claim{with(claimBy("c7", 8, "a"), 50*time.Second, true), with(claimBy("c1", 2, list...), 40*time.Second, false), with(claimBy("c7", 8, "a"), 50*time.Second, true)}, membership.Claim{}, nil, 40 * time.Second, false, 50 * time.Second, "c1 2 c7 8"},
		"another cluster, of more generations": {[]membership.Claim{with(claimBy("c1", 5, list...), 50*time.Second, true), with(from(claimBy("c2", 1, list...), "c1 5"), 40*time.Second, false)}, membership.Claim{}, nil, 40 * time.Second, false, 50 * time.Second, "c1 5 c2 1"},
		"the same the other way round":         {[]membership.Claim{with(from(claimBy("c2", 1, list...), "c1 5"), 40*time.Second, false), with(claimBy("c1", 5, list...), 50*time.Second, true)}, membership.Claim{}, nil, 40 * time.Second, false, 50 * time.Second, "c1 5 c2 1"},
		"seen before":                          {nil, with(claimBy("c1", 1, list...), 20*time.Second, true), nil, 20 * time.Second, true, 0, "c1 1"},
		"seen before, a longer lease":          {nil, leasing(with(claimBy("c1", 1, list...), 20*time.Second, true), time.Minute), nil, 20 * time.Second, true, time.Minute, "c1 1"},
		"seen before, another list":            {nil, with(claimBy("c1", 1, "a"), 20*time.Second, true), nil, maxTTL, false, 0, "c1 1"},
		"a record": {[]membership.Claim{with(claimBy("c1", 2, list...), 20*time.Second, true)}, with(claimBy("c1", 1, list...), time.Minute, true), func() *membership.Record {
			r := recordOf("e", "c1", "r", list, 50*time.Second, 0)
			r.Gen = 3
			return &r
		}(), 50 * time.Second, false, time.Minute, "c1 1 c1 2 c1 3"},
	} {
		v := allBlank(3, long)
		for i, claim := range c.claims {
			v.claimed(i, claimText(claim))
		}
		if c.record != nil {
			v.nodes[2] = observed(long, "r2", c.record, 9000, v.nodes[2].Notice)
		}
		p := proposalOf("new", 5000, true)
		got := v.by(c.known).Next(0, long, p)
		if got.Action == membership.DoNotice { // it is claimed first
			v.claimed(0, got.Claim)
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
	v.claimed(2, claimText(strict(nodeNames[:3]...)))
	wantPlan(t, v.next(0, long), membership.DoNothing, "the claim on c (strict recovery) asks for an operator")
	if cause, misfit := v.seen().Obstacle(0); misfit || !strings.Contains(cause, "the claim on c (strict recovery)") {
		t.Errorf("got the obstacle %q; want who asks for an operator", cause)
	}
	wantPlan(t, v.admit(0, long), membership.DoInstall, "")
	v.claimed(2, claimText(claimBy("c1", 1, nodeNames[:3]...)))
	wantPlan(t, v.next(0, long), membership.DoInstall, "")
	v.claimed(2, "")
	known := strict(nodeNames[:3]...)
	for i := range 3 {
		v.claimed(i, claimText(claimBy("c2", 0, nodeNames[:3]...))) // for an equal lease
	}
	wantPlan(t, v.knowing(known, 0, long), membership.DoNothing, "what this client has seen of the cluster (strict recovery) asks for an operator")
	known.Strict = false
	wantPlan(t, v.knowing(known, 0, long), membership.DoInstall, "")
	// What another list says counts for that.
	v = allBlank(3, long)
	known = from(claimBy("c2", 0, nodeNames[:3]...), "c1 1")
	for i := range 2 {
		v.claimed(i, claimText(known))
	}
	v.claimed(2, claimText(strict("c", "x")))
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
		v.claimed(i, claimText(claimBy("c1", 0, "a", "b")))
	}
	begun := v.next(0, over).Founding
	if begun == nil || !begun.Stands(v.seen()) {
		t.Fatal("got no founding that goes on")
	}
	v.claimed(1, claimText(claimBy("c1", 1, "a", "b")))
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
