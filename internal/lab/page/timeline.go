package page

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quorumkit/redlock/internal/lab/report"
	"github.com/quorumkit/redlock/internal/lab/trace"
)

// faultSpan is a fault, and whether it was mended.
type faultSpan struct {
	trace.Fault

	list        string // as it began, if it is a change of the list
	from, until time.Duration
	mended      bool
}

// stateMeans says what a node is that does not vote.
var stateMeans = map[string]string{
	trace.Blank:  "it answers, but has forgotten: redlock does not let it vote",
	trace.Silent: "it does not answer",
}

// telling is a timeline while it is read off a trace.
type telling struct {
	report.Timeline

	faults []faultSpan

	asked  map[int64]trace.Record         // attempts
	open   map[int64]*report.Belief       // beliefs, not ended
	wanted map[trace.Waiting]*report.Wait // not over
	stored map[trace.KeyOf]trace.Record   // what a node shows
	told   map[trace.Waiting]trace.Record // what an observer is told
	valued map[string]string              // who asked with which value
	turned map[string]trace.Record        // by node
}

// tell reads the timeline off a trace. nodes are the nodes' names in order, where
// they are known.
func tell(records []trace.Record, nodes []string) report.Timeline {
	if !slices.IsSortedFunc(records, trace.ByTime) {
		records = slices.Clone(records)
		slices.SortStableFunc(records, trace.ByTime)
	}
	t := &telling{
		Timeline: report.Timeline{Nodes: slices.Clone(nodes)}, asked: map[int64]trace.Record{}, open: map[int64]*report.Belief{},
		wanted: map[trace.Waiting]*report.Wait{}, stored: map[trace.KeyOf]trace.Record{}, turned: map[string]trace.Record{},
		told: map[trace.Waiting]trace.Record{}, valued: map[string]string{},
	}
	t.Begin = trace.Forever
	for _, r := range records {
		t.Last = max(t.Last, r.At)
		if r.Kind == trace.Asked || r.Kind == trace.Broke {
			t.Begin = min(t.Begin, r.At)
		}
		t.take(r)
	}
	if t.Begin > t.Last {
		t.Begin = 0
	}
	t.finish()
	return t.Timeline
}

func (t *telling) take(r trace.Record) {
	switch r.Kind {
	case trace.Asked:
		t.asks(r)
	case trace.Failed:
		if w := t.wanted[t.whose(r.Hold)]; w != nil {
			w.Failed++
		}
	case trace.Quit:
		t.stops(trace.Waiting{Client: r.Client, Resource: r.Resource}, r.At, false)
	case trace.Held:
		who := t.whose(r.Hold)
		t.stops(who, r.At, true)
		t.open[r.Hold] = &report.Belief{Client: who.Client, Resource: who.Resource, Hold: r.Hold, Token: uint64(r.Token), From: r.At, Until: trace.EndOf(r.Until), Shared: r.Shared, Limit: r.Limit, Slot: r.Slot}
	case trace.Extended:
		t.extends(r)
	case trace.Released, trace.Lost:
		t.ends(r.Hold, r.At, string(r.Kind))
	case trace.Wrote, trace.Refused:
		who := t.whose(r.Hold)
		t.Writes = append(t.Writes, report.Write{At: r.At, Client: who.Client, Resource: cmp.Or(r.Resource, who.Resource), Token: uint64(r.Token), Refused: r.Kind == trace.Refused})
	case trace.Broke, trace.Mended:
		if r.Fault != nil {
			t.fault(r)
		}
	case trace.Stored, trace.Turned, trace.Shown, trace.Cleaned:
		t.ofNode(r)
	case trace.Granted:
		t.grants(r)
	case trace.Saw:
		t.sees(r)
	case trace.Sick, trace.Well, trace.Began, trace.Queued, trace.Unqueued, trace.Listed, trace.Noted, trace.Told:
	}
}

// whose is who made an attempt, and at what.
func (t *telling) whose(hold int64) trace.Waiting {
	a := t.asked[hold]
	return trace.Waiting{Client: a.Client, Resource: a.Resource}
}

func (t *telling) asks(r trace.Record) {
	t.asked[r.Hold] = r
	if r.Value != "" {
		t.valued[r.Value] = r.Client
	}
	if !slices.Contains(t.Clients, r.Client) {
		t.Clients = append(t.Clients, r.Client)
	}
	who := trace.Waiting{Client: r.Client, Resource: r.Resource}
	if t.wanted[who] == nil {
		t.wanted[who] = &report.Wait{Client: r.Client, Resource: r.Resource, From: r.At}
	}
}

func (t *telling) stops(who trace.Waiting, now time.Duration, held bool) {
	if w := t.wanted[who]; w != nil {
		w.Until, w.Held = now, held
		t.Waits = append(t.Waits, *w)
		delete(t.wanted, who)
	}
}

func (t *telling) extends(r trace.Record) {
	b := t.open[r.Hold]
	if b == nil {
		return
	}
	if r.At > b.Until { // in between the client did not believe
		lapsed := *b
		lapsed.How = "lapsed"
		t.Beliefs = append(t.Beliefs, lapsed)
		b.From, b.Extended = r.At, nil
	}
	b.Extended, b.Until = append(b.Extended, r.At), trace.EndOf(r.Until)
}

func (t *telling) ends(hold int64, now time.Duration, how string) {
	b := t.open[hold]
	if b == nil {
		return
	}
	delete(t.open, hold)
	if b.How = how; b.Until <= now {
		b.How = "lapsed"
	}
	b.Until = min(b.Until, now)
	t.Beliefs = append(t.Beliefs, *b)
}

func (t *telling) fault(r trace.Record) {
	if r.Fault.Kind == trace.ListChange {
		t.Lists = append(t.Lists, report.List{Nodes: r.Value, From: r.At})
	}
	if r.Kind == trace.Broke {
		t.faults = append(t.faults, faultSpan{Fault: *r.Fault, list: r.Value, from: r.At, until: r.At})
		return
	}
	for i := range t.faults {
		if f := &t.faults[i]; f.Fault == *r.Fault && !f.mended {
			f.until, f.mended = r.At, true
			return
		}
	}
}

// ofNode takes what a node stores, or is.
func (t *telling) ofNode(r trace.Record) {
	if r.Node != "" && !slices.Contains(t.Nodes, r.Node) {
		t.Nodes = append(t.Nodes, r.Node)
		slices.Sort(t.Nodes)
	}
	at := trace.KeyOf{Node: r.Node, Resource: r.Resource, Slots: r.Limit > 0, Slot: r.Slot}
	if r.Shared {
		at.Shared = r.Hold
	}
	if r.Kind == trace.Stored {
		t.closeKey(at, r.At)
		t.stored[at] = r
	}
	if r.Kind == trace.Turned {
		t.closeState(r.Node, r.At)
		t.turned[r.Node] = r
	}
}

func (t *telling) closeKey(at trace.KeyOf, now time.Duration) {
	was, shown := t.stored[at]
	if !shown || was.Client == "" || was.Shared && was.Until == 0 {
		return
	}
	if was.Until > 0 {
		now = min(now, was.Until)
	}
	if now > was.At {
		t.Keys = append(t.Keys, report.Key{Node: was.Node, Client: was.Client, Resource: was.Resource, Hold: was.Hold, From: was.At, Until: now, Shared: was.Shared})
	}
}

func (t *telling) closeState(node string, now time.Duration) {
	if was, known := t.turned[node]; known && now > was.At && was.Text != trace.Member {
		t.States = append(t.States, report.State{Node: node, Is: was.Text, Means: stateMeans[was.Text], From: was.At, Until: now})
	}
}

// finish closes what is open at the end of the trace. Beliefs go on to their
// ends: the judge counts them so, and it is to be seen.
func (t *telling) finish() {
	t.End = max(t.Last, t.Begin+time.Millisecond)
	for _, b := range t.open {
		if b.Until < trace.Forever {
			t.End = max(t.End, b.Until)
		}
	}
	for _, b := range t.open {
		b.How = "lasts beyond the end of the trace"
		if b.Until <= t.Last {
			b.How = "lapsed"
		}
		b.Until = min(b.Until, t.End)
		t.Beliefs = append(t.Beliefs, *b)
	}
	for who := range t.wanted {
		t.stops(who, t.Last, false)
	}
	for at := range t.stored {
		t.closeKey(at, t.End)
	}
	for who := range t.told {
		t.closeSight(who, t.End)
	}
	for node := range t.turned {
		t.closeState(node, t.End)
	}
	for i := range t.faults {
		if f := &t.faults[i]; !f.mended && f.Kind.Lasts() {
			f.until = t.End
		}
	}
	margin := (t.End - t.Begin) / 100
	t.Begin, t.End = t.Begin-margin, t.End+margin
	t.sort()
	t.overlaps()
	for _, f := range t.faults {
		t.Faults = append(t.Faults, t.shown(f))
	}
}

// precedes is what comes before those faults that come about when they are mended.
var precedes = map[trace.Break]string{trace.Failover: "its replica lags", trace.Old: "its file is old"}

// shown is the fault with the lanes that it is about, when all are known.
func (t *telling) shown(f faultSpan) report.Fault {
	s := report.Fault{
		Words: f.String(), Kind: string(f.Kind), Client: f.Client, Key: f.Key, By: f.Delay,
		Steps: f.Kind == trace.Step, Drifts: f.Kind == trace.Drift, Mended: f.mended, Late: precedes[f.Kind], From: f.from, Until: f.until,
	}
	if f.Kind == trace.ListChange {
		s.Kind = "joins"
		if slices.Contains(strings.Fields(f.list), strconv.Itoa(f.Node)) {
			s.Kind = "leaves"
		}
		s.Kind = f.Changed(s.Kind)
		if f.Where != "" {
			s.Kind += "; operator dies at " + string(f.Where)
		}
	}
	switch {
	case f.Kind.OfClient() && f.Client == "":
		s.AtClients = t.Clients
	case f.Kind.OfClient(), f.Client != "" && f.Node == trace.Everything:
		s.AtClients = []string{f.Client}
	case f.Node == trace.Everything:
		s.AtNodes = t.Nodes
	case f.Node >= 0 && f.Node < len(t.Nodes):
		s.AtNodes = []string{t.Nodes[f.Node]}
	}
	return s
}

// sort undoes the order of the maps.
func (t *telling) sort() {
	slices.SortFunc(t.Beliefs, func(a, b report.Belief) int { return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.Hold, b.Hold)) })
	slices.SortFunc(t.Waits, func(a, b report.Wait) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.Client, b.Client), cmp.Compare(a.Resource, b.Resource))
	})
	slices.SortFunc(t.Keys, func(a, b report.Key) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.Node, b.Node), cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Hold, b.Hold))
	})
	slices.SortFunc(t.Sights, func(a, b report.Sight) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.Observer, b.Observer))
	})
	slices.SortFunc(t.States, func(a, b report.State) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.Node, b.Node))
	})
}

// overlaps finds the beliefs that met, as the judge does.
func (t *telling) overlaps() {
	longest := map[string]*trace.Kinds[report.Belief]{}
	for _, b := range t.Beliefs {
		if longest[b.Place()] == nil {
			longest[b.Place()] = &trace.Kinds[report.Belief]{}
		}
		l := longest[b.Place()]
		t.meets(l.Exclusive, b)
		if !b.Shared {
			t.meets(l.Shared, b)
		}
		if of := l.Of(b.Shared); b.Until > of.Until {
			*of = b
		}
	}
}

// meets takes in that a belief begins within another, of those that exclude each other.
func (t *telling) meets(l, b report.Belief) {
	if b.From < l.Until && b.Hold != l.Hold {
		t.Overlaps = append(t.Overlaps, report.Overlap{Resource: b.Resource, First: l.Client, Then: b.Client, From: b.From, Until: min(b.Until, l.Until)})
	}
}

// sees takes what an observer is told.
func (t *telling) sees(r trace.Record) {
	if !slices.Contains(t.Observers, r.Client) {
		t.Observers = append(t.Observers, r.Client)
	}
	who := trace.Waiting{Client: r.Client, Resource: r.Resource}
	t.closeSight(who, r.At)
	t.told[who] = r
}

func (t *telling) closeSight(who trace.Waiting, now time.Duration) {
	if was, told := t.told[who]; told {
		t.Sights = append(t.Sights, report.Sight{
			Observer: who.Client, Resource: who.Resource, Value: was.Value, Leader: t.valued[was.Value], Token: uint64(was.Token), From: was.At, Until: now,
		})
	}
}

const (
	// A picture shows all of a run that is not longer, and is about no more resources;
	// of others it shows what was broken first.
	wholeFor       = 25 * time.Second
	wholeResources = 3
	// So much before it and behind it: some leases, in which it came about.
	focusBefore = 6 * time.Second
	focusBehind = 3 * time.Second
)

// focus is the part of a run that its picture is about.
type focus struct {
	resource    string
	from, until time.Duration
}

// focusOf is the part in which the first rule was broken; false: the picture shows all.
func focusOf(line report.Timeline, v trace.Verdict) (focus, bool) {
	i := slices.IndexFunc(v.Violations, func(v trace.Violation) bool { return v.Resource != "" })
	resources := map[string]bool{}
	for _, w := range line.Waits {
		resources[w.Resource] = true
	}
	if i < 0 || line.End-line.Begin <= wholeFor && len(resources) <= wholeResources {
		return focus{}, false
	}
	first := v.Violations[i]
	return focus{first.Resource, max(first.At-focusBefore, line.Begin), min(first.At+focusBehind, line.End)}, true
}

// of is what of a timeline is in focus: what befalls the resource, who wants it, and what
// befalls the nodes and those clients then.
func (f focus) of(line report.Timeline) report.Timeline {
	in := func(resource string, from, until time.Duration) bool {
		return resource == f.resource && f.sees(from, until)
	}
	line.Beliefs = filter(line.Beliefs, func(b report.Belief) bool { return in(b.Resource, b.From, b.Until) })
	for i := range line.Beliefs {
		b := &line.Beliefs[i]
		b.Extended = filter(b.Extended, func(at time.Duration) bool { return f.sees(at, at) })
	}
	line.Waits = filter(line.Waits, func(w report.Wait) bool { return in(w.Resource, w.From, w.Until) })
	line.Keys = filter(line.Keys, func(k report.Key) bool { return in(k.Resource, k.From, k.Until) })
	line.Sights = filter(line.Sights, func(s report.Sight) bool { return in(s.Resource, s.From, s.Until) })
	line.Grants = filter(line.Grants, func(g report.Grant) bool { return in(g.Resource, g.Released, g.Until) })
	line.Writes = filter(line.Writes, func(w report.Write) bool { return in(w.Resource, w.At, w.At) })
	line.Overlaps = filter(line.Overlaps, func(o report.Overlap) bool { return in(o.Resource, o.From, o.Until) })
	line.States = filter(line.States, func(s report.State) bool { return f.sees(s.From, s.Until) })
	line.Faults = filter(line.Faults, func(s report.Fault) bool { return f.sees(s.From, s.Until) })
	line.Clients = filter(line.Clients, func(client string) bool {
		return slices.ContainsFunc(line.Beliefs, func(b report.Belief) bool { return b.Client == client }) ||
			slices.ContainsFunc(line.Waits, func(w report.Wait) bool { return w.Client == client })
	})
	line.Observers = filter(line.Observers, func(observer string) bool {
		return slices.ContainsFunc(line.Sights, func(s report.Sight) bool { return s.Observer == observer })
	})
	line.Begin, line.End, line.Last = f.from, f.until, min(line.Last, f.until)
	return line
}

// sees tells whether some of that time is in focus.
func (f focus) sees(from, until time.Duration) bool { return from <= f.until && until >= f.from }

// flags are those of the resource in that time.
func (f focus) flags(all []report.Flag) []report.Flag {
	return filter(all, func(v report.Flag) bool { return v.Resource == f.resource && f.sees(v.At, v.At) })
}

// filter returns those that are to stay.
func filter[T any](all []T, stays func(T) bool) []T {
	return slices.DeleteFunc(slices.Clone(all), func(one T) bool { return !stays(one) })
}

// oneGrant is how far apart the messages of nodes may be that are drawn as one.
const oneGrant = 50 * time.Millisecond

// grants takes in that a node told a client what a release granted it.
func (t *telling) grants(r trace.Record) {
	by := t.holdBefore(r)
	g := report.Grant{Client: r.Client, Resource: r.Resource, By: by.Client, Hold: by.Hold, Released: by.Until, From: r.At}
	i := slices.IndexFunc(t.Grants, func(o report.Grant) bool {
		return o.Client == g.Client && o.Resource == g.Resource && o.Hold == g.Hold && r.At-o.Until <= oneGrant
	})
	if i < 0 {
		i = len(t.Grants)
		t.Grants = append(t.Grants, g)
	}
	t.Grants[i].Until = r.At
	t.Grants[i].Nodes = append(t.Grants[i].Nodes, r.Node)
}

// holdBefore is the hold whose release granted: that with the largest token that is
// smaller. A message may come much later than the next release.
func (t *telling) holdBefore(r trace.Record) (before report.Belief) {
	for _, b := range t.Beliefs {
		if b.Resource == r.Resource && b.How == string(trace.Released) && before.Token <= b.Token && b.Token < uint64(r.Token) {
			before = b
		}
	}
	return before
}
