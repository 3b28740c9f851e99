package chaos

import (
	"cmp"
	"slices"
	"time"

	"github.com/quorumkit/redlock/internal/lab/report"
)

// faultSpan is a fault, and whether it was mended.
type faultSpan struct {
	Fault

	from, until time.Duration
	mended      bool
}

// keyOf is a key on a node, or one of those who share it.
type keyOf struct {
	node, resource string
	shared         int64 // its attempt; 0: it is not shared
	slots          bool
	slot           int
}

// stateMeans says what a node is that does not vote.
var stateMeans = map[string]string{
	Blank:  "it answers, but has forgotten: redlock does not let it vote",
	Silent: "it does not answer",
}

// telling is a timeline while it is read off a trace.
type telling struct {
	report.Timeline

	faults []faultSpan

	asked  map[int64]Record         // attempts
	open   map[int64]*report.Belief // beliefs, not ended
	wanted map[waiting]*report.Wait // not over
	stored map[keyOf]Record         // what a node shows
	told   map[waiting]Record       // what an observer is told
	valued map[string]string        // who asked with which value
	turned map[string]Record        // by node
}

// tell reads the timeline off a trace. nodes are the nodes' names in order, where
// they are known.
func tell(records []Record, nodes []string) report.Timeline {
	if !slices.IsSortedFunc(records, byTime) {
		records = slices.Clone(records)
		slices.SortStableFunc(records, byTime)
	}
	t := &telling{
		Timeline: report.Timeline{Nodes: slices.Clone(nodes)}, asked: map[int64]Record{}, open: map[int64]*report.Belief{},
		wanted: map[waiting]*report.Wait{}, stored: map[keyOf]Record{}, turned: map[string]Record{},
		told: map[waiting]Record{}, valued: map[string]string{},
	}
	t.Begin = forever
	for _, r := range records {
		t.Last = max(t.Last, r.At)
		if r.Kind == Asked || r.Kind == Broke {
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

func (t *telling) take(r Record) {
	switch r.Kind {
	case Asked:
		t.asks(r)
	case Failed:
		if w := t.wanted[t.whose(r.Hold)]; w != nil {
			w.Failed++
		}
	case Quit:
		t.stops(waiting{r.Client, r.Resource}, r.At, false)
	case Held:
		who := t.whose(r.Hold)
		t.stops(who, r.At, true)
		t.open[r.Hold] = &report.Belief{Client: who.client, Resource: who.resource, Hold: r.Hold, Token: uint64(r.Token), From: r.At, Until: endOf(r.Until), Shared: r.Shared, Limit: r.Limit, Slot: r.Slot}
	case Extended:
		t.extends(r)
	case Released, Lost:
		t.ends(r.Hold, r.At, string(r.Kind))
	case Wrote, Refused:
		who := t.whose(r.Hold)
		t.Writes = append(t.Writes, report.Write{At: r.At, Client: who.client, Resource: cmp.Or(r.Resource, who.resource), Token: uint64(r.Token), Refused: r.Kind == Refused})
	case Broke, Mended:
		if r.Fault != nil {
			t.fault(r)
		}
	case Stored, Turned, Shown, Cleaned:
		t.ofNode(r)
	case Granted:
		t.grants(r)
	case Saw:
		t.sees(r)
	case Sick, Well, Began, Queued, Unqueued, Noted, Told:
	}
}

// whose is who made an attempt, and at what.
func (t *telling) whose(hold int64) waiting {
	a := t.asked[hold]
	return waiting{a.Client, a.Resource}
}

func (t *telling) asks(r Record) {
	t.asked[r.Hold] = r
	if r.Value != "" {
		t.valued[r.Value] = r.Client
	}
	if !slices.Contains(t.Clients, r.Client) {
		t.Clients = append(t.Clients, r.Client)
	}
	who := waiting{r.Client, r.Resource}
	if t.wanted[who] == nil {
		t.wanted[who] = &report.Wait{Client: r.Client, Resource: r.Resource, From: r.At}
	}
}

func (t *telling) stops(who waiting, now time.Duration, held bool) {
	if w := t.wanted[who]; w != nil {
		w.Until, w.Held = now, held
		t.Waits = append(t.Waits, *w)
		delete(t.wanted, who)
	}
}

func (t *telling) extends(r Record) {
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
	b.Extended, b.Until = append(b.Extended, r.At), endOf(r.Until)
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

func (t *telling) fault(r Record) {
	if r.Kind == Broke {
		t.faults = append(t.faults, faultSpan{Fault: *r.Fault, from: r.At, until: r.At})
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
func (t *telling) ofNode(r Record) {
	if r.Node != "" && !slices.Contains(t.Nodes, r.Node) {
		t.Nodes = append(t.Nodes, r.Node)
		slices.Sort(t.Nodes)
	}
	at := keyOf{node: r.Node, resource: r.Resource, slots: r.Limit > 0, slot: r.Slot}
	if r.Shared {
		at.shared = r.Hold
	}
	if r.Kind == Stored {
		t.closeKey(at, r.At)
		t.stored[at] = r
	}
	if r.Kind == Turned {
		t.closeState(r.Node, r.At)
		t.turned[r.Node] = r
	}
}

func (t *telling) closeKey(at keyOf, now time.Duration) {
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
	if was, known := t.turned[node]; known && now > was.At && was.Text != Member {
		t.States = append(t.States, report.State{Node: node, Is: was.Text, Means: stateMeans[was.Text], From: was.At, Until: now})
	}
}

// finish closes what is open at the end of the trace. Beliefs go on to their
// ends: the judge counts them so, and it is to be seen.
func (t *telling) finish() {
	t.End = max(t.Last, t.Begin+time.Millisecond)
	for _, b := range t.open {
		if b.Until < forever {
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
		if f := &t.faults[i]; !f.mended && f.Kind.lasts() {
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
var precedes = map[Break]string{Failover: "its replica lags", Old: "its file is old"}

// shown is the fault with the lanes that it is about, when all are known.
func (t *telling) shown(f faultSpan) report.Fault {
	s := report.Fault{
		Words: f.String(), Kind: string(f.Kind), Client: f.Client, Key: f.Key, By: f.Delay,
		Steps: f.Kind == Step, Drifts: f.Kind == Drift, Mended: f.mended, Late: precedes[f.Kind], From: f.from, Until: f.until,
	}
	switch {
	case f.Kind.ofClient() && f.Client == "":
		s.AtClients = t.Clients
	case f.Kind.ofClient(), f.Client != "" && f.Node == Everything:
		s.AtClients = []string{f.Client}
	case f.Node == Everything:
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
	longest := map[string]*kinds[report.Belief]{}
	for _, b := range t.Beliefs {
		if longest[b.Place()] == nil {
			longest[b.Place()] = &kinds[report.Belief]{}
		}
		l := longest[b.Place()]
		t.meets(l.exclusive, b)
		if !b.Shared {
			t.meets(l.shared, b)
		}
		if of := l.of(b.Shared); b.Until > of.Until {
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
func (t *telling) sees(r Record) {
	if !slices.Contains(t.Observers, r.Client) {
		t.Observers = append(t.Observers, r.Client)
	}
	who := waiting{r.Client, r.Resource}
	t.closeSight(who, r.At)
	t.told[who] = r
}

func (t *telling) closeSight(who waiting, now time.Duration) {
	if was, told := t.told[who]; told {
		t.Sights = append(t.Sights, report.Sight{
			Observer: who.client, Resource: who.resource, Value: was.Value, Leader: t.valued[was.Value], Token: uint64(was.Token), From: was.At, Until: now,
		})
	}
}
