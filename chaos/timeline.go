package chaos

import (
	"cmp"
	"slices"
	"time"
)

// timeline is a trace by who did what from when to when: what a picture draws.
type timeline struct {
	begin   time.Duration // the first that anybody did
	last    time.Duration // the last record
	end     time.Duration // of what is known then
	clients []string      // as they came
	nodes   []string
	beliefs []belief
	waits   []wait
	keys    []nodeSpan // what a node stored, by client; "" is nothing
	states  []nodeSpan // what a node was
	faults  []faultSpan
	writes  []write
	overlap []clash
}

// belief is what a client believed without a break.
type belief struct {
	client, resource string
	hold             int64
	token            uint64
	from, until      time.Duration
	extended         []time.Duration
	how              string // it ended
}

// wait is how a client asked for a resource, up to its lock or to giving up.
type wait struct {
	client, resource string
	from, until      time.Duration
	failed           []time.Duration
	held             bool
}

// nodeSpan is something that was so on a node.
type nodeSpan struct {
	node, what, resource string
	hold                 int64
	from, until          time.Duration
}

// faultSpan is a fault, and whether it was mended.
type faultSpan struct {
	Fault

	from, until time.Duration
	mended      bool
}

// write is an attempt to write to a resource.
type write struct {
	at               time.Duration
	client, resource string
	hold             int64
	token            uint64
	refused          bool
}

// clash is two clients that believed at once.
type clash struct {
	resource    string
	first, then belief
	from, until time.Duration
}

// telling is a timeline while it is read off a trace.
type telling struct {
	timeline

	asked  map[int64]Record   // attempts
	open   map[int64]*belief  // beliefs, not ended
	wanted map[waiting]*wait  // not over
	stored map[waiting]Record // by node and resource: what it shows
	turned map[string]Record  // by node
}

// tell reads the timeline off a trace. nodes are the nodes' names in order, where
// they are known.
func tell(records []Record, nodes []string) timeline {
	if !slices.IsSortedFunc(records, byTime) {
		records = slices.Clone(records)
		slices.SortStableFunc(records, byTime)
	}
	t := &telling{
		timeline: timeline{nodes: slices.Clone(nodes)}, asked: map[int64]Record{}, open: map[int64]*belief{},
		wanted: map[waiting]*wait{}, stored: map[waiting]Record{}, turned: map[string]Record{},
	}
	t.begin = forever
	for _, r := range records {
		t.last = max(t.last, r.At)
		if r.Kind == Asked || r.Kind == Broke {
			t.begin = min(t.begin, r.At)
		}
		t.take(r)
	}
	if t.begin > t.last {
		t.begin = 0
	}
	t.finish()
	return t.timeline
}

func (t *telling) take(r Record) {
	switch r.Kind {
	case Asked:
		t.asks(r)
	case Failed:
		if w := t.wanted[t.whose(r.Hold)]; w != nil {
			w.failed = append(w.failed, r.At)
		}
	case Quit:
		t.stops(waiting{r.Client, r.Resource}, r.At, false)
	case Held:
		who := t.whose(r.Hold)
		t.stops(who, r.At, true)
		t.open[r.Hold] = &belief{client: who.client, resource: who.resource, hold: r.Hold, token: uint64(r.Token), from: r.At, until: endOf(r.Until)}
	case Extended:
		t.extends(r)
	case Released, Lost:
		t.ends(r.Hold, r.At, string(r.Kind))
	case Wrote, Refused:
		who := t.whose(r.Hold)
		t.writes = append(t.writes, write{r.At, who.client, cmp.Or(r.Resource, who.resource), r.Hold, uint64(r.Token), r.Kind == Refused})
	case Broke, Mended:
		if r.Fault != nil {
			t.fault(r)
		}
	case Stored, Turned, Shown, Cleaned:
		t.ofNode(r)
	case Sick, Well, Began, Queued, Unqueued, Noted:
	}
}

// whose is who made an attempt, and at what.
func (t *telling) whose(hold int64) waiting {
	a := t.asked[hold]
	return waiting{a.Client, a.Resource}
}

func (t *telling) asks(r Record) {
	t.asked[r.Hold] = r
	if !slices.Contains(t.clients, r.Client) {
		t.clients = append(t.clients, r.Client)
	}
	who := waiting{r.Client, r.Resource}
	if t.wanted[who] == nil {
		t.wanted[who] = &wait{client: r.Client, resource: r.Resource, from: r.At}
	}
}

func (t *telling) stops(who waiting, now time.Duration, held bool) {
	if w := t.wanted[who]; w != nil {
		w.until, w.held = now, held
		t.waits = append(t.waits, *w)
		delete(t.wanted, who)
	}
}

func (t *telling) extends(r Record) {
	b := t.open[r.Hold]
	if b == nil {
		return
	}
	if r.At > b.until { // in between the client did not believe
		lapsed := *b
		lapsed.how = "lapsed"
		t.beliefs = append(t.beliefs, lapsed)
		b.from, b.extended = r.At, nil
	}
	b.extended, b.until = append(b.extended, r.At), endOf(r.Until)
}

func (t *telling) ends(hold int64, now time.Duration, how string) {
	b := t.open[hold]
	if b == nil {
		return
	}
	delete(t.open, hold)
	if b.how = how; b.until <= now {
		b.how = "lapsed"
	}
	b.until = min(b.until, now)
	t.beliefs = append(t.beliefs, *b)
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
	if r.Node != "" && !slices.Contains(t.nodes, r.Node) {
		t.nodes = append(t.nodes, r.Node)
		slices.Sort(t.nodes)
	}
	at := waiting{r.Node, r.Resource}
	if r.Kind == Stored {
		t.closeKey(at, r.At)
		t.stored[at] = r
	}
	if r.Kind == Turned {
		t.closeState(r.Node, r.At)
		t.turned[r.Node] = r
	}
}

func (t *telling) closeKey(at waiting, now time.Duration) {
	was, shown := t.stored[at]
	if !shown || was.Client == "" {
		return
	}
	if was.Until > 0 {
		now = min(now, was.Until)
	}
	if now > was.At {
		t.keys = append(t.keys, nodeSpan{was.Node, was.Client, was.Resource, was.Hold, was.At, now})
	}
}

func (t *telling) closeState(node string, now time.Duration) {
	if was, known := t.turned[node]; known && now > was.At {
		t.states = append(t.states, nodeSpan{node: node, what: was.Text, from: was.At, until: now})
	}
}

// finish closes what is open at the end of the trace. Beliefs go on to their
// ends: the judge counts them so, and it is to be seen.
func (t *telling) finish() {
	t.end = max(t.last, t.begin+time.Millisecond)
	for _, b := range t.open {
		if b.until < forever {
			t.end = max(t.end, b.until)
		}
	}
	for _, b := range t.open {
		b.how = "lasts beyond the end of the trace"
		if b.until <= t.last {
			b.how = "lapsed"
		}
		b.until = min(b.until, t.end)
		t.beliefs = append(t.beliefs, *b)
	}
	for who := range t.wanted {
		t.stops(who, t.last, false)
	}
	for at := range t.stored {
		t.closeKey(at, t.end)
	}
	for node := range t.turned {
		t.closeState(node, t.end)
	}
	for i := range t.faults {
		if f := &t.faults[i]; !f.mended && f.Kind.lasts() {
			f.until = t.end
		}
	}
	margin := (t.end - t.begin) / 100
	t.begin, t.end = t.begin-margin, t.end+margin
	t.sort()
	t.overlaps()
}

// sort undoes the order of the maps.
func (t *telling) sort() {
	slices.SortFunc(t.beliefs, func(a, b belief) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.hold, b.hold)) })
	slices.SortFunc(t.waits, func(a, b wait) int {
		return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.client, b.client), cmp.Compare(a.resource, b.resource))
	})
	for _, spans := range [][]nodeSpan{t.keys, t.states} {
		slices.SortFunc(spans, func(a, b nodeSpan) int {
			return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.node, b.node), cmp.Compare(a.resource, b.resource))
		})
	}
}

// overlaps finds the beliefs that met, as the judge does.
func (t *telling) overlaps() {
	longest := map[string]belief{}
	for _, b := range t.beliefs {
		l, some := longest[b.resource]
		if some && b.from < l.until && b.hold != l.hold {
			t.overlap = append(t.overlap, clash{b.resource, l, b, b.from, min(b.until, l.until)})
		}
		if !some || b.until > l.until {
			longest[b.resource] = b
		}
	}
}
