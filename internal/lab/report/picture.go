package report

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// The measures of a picture, in CSS pixels; across, it is percentages.
const (
	axisHeight   = 26
	bandHeight   = 20 // the words over a red band
	groupHeight  = 24 // the words over a group of lanes
	clientHeight = 34
	nodeHeight   = 26
	rowHeight    = 20 // of each more that is there at one time in a lane
	writeHeight  = 26
	laneGap      = 4
	// hues is how many colours there are, and patterns how many patterns: a client has one
	// of each, and the next one other ones, up to clientColors. One more than that has the
	// first again, and its name.
	hues         = 12
	patterns     = 6
	clientColors = 2 * hues
	pictureTicks = 8
)

// picture is a run, laid out.
type picture struct {
	Run    Run
	Height int
	Ticks  []figure
	Groups []group
	Lanes  []track
	Bands  []figure
	Foot   int     // where the lanes end
	Last   float64 // where the trace ends, in percent: what follows is known, not recorded
}

// Ends tells whether there is something to see behind the trace's end.
func (p picture) Ends() bool { return p.Last < 97 }

// group is the words over some lanes.
type group struct {
	Name string
	Y    int
}

// track is one lane of the picture: a client, a node, a resource.
type track struct {
	Name  string
	Y, H  int
	Marks []figure
}

// Mid is where the lane's name stands.
func (l track) Mid() int { return l.Y + l.H/2 }

// figure is one thing in a lane.
type figure struct {
	Shape string  // how it is drawn: the template's word
	At, X float64 // seconds, for the order of the keyboard; percent
	W     float64 // percent; 0: a point
	Y, H  int
	Color int
	Label string // short, in the picture
	Shift int    // by how much the label moves right, so as not to meet another
	Tip   string // all there is to say
}

// Mid is the middle of the mark's height.
func (m figure) Mid() int { return m.Y + m.H/2 }

// Hue is the mark's colour; its pattern is by Color.
func (m figure) Hue() int { return m.Color % hues }

// End is where a span ends.
func (m figure) End() float64 { return m.X + m.W }

// Foot is where it ends from top to bottom, or the other way round.
func (m figure) Foot() int { return m.Y + m.H }

// drawing is a picture while it is laid out.
type drawing struct {
	picture

	line   Timeline
	tokens tokens
	y      int
	color  map[string]int
	lanes  map[string]int // by "client x", "observer x", "node x": where the lane is
}

// draw lays out a run.
func draw(run Run) picture {
	d := &drawing{
		picture: picture{Run: run}, line: run.Timeline, tokens: tokensOf(run.Timeline),
		color: map[string]int{}, lanes: map[string]int{},
	}
	for i, c := range d.line.Clients {
		d.color[c] = i % clientColors
	}
	d.y = axisHeight
	if len(d.line.Overlaps) > 0 {
		d.y += bandHeight
	}
	d.clients()
	d.observers()
	d.nodes()
	d.resources()
	d.faults()
	d.grants()
	d.Foot = d.y
	d.Height = d.y + laneGap
	if d.Last = d.at(d.line.Last); d.Ends() {
		d.Height += 14
	}
	d.bands()
	d.ticks()
	d.spread()
	return d.picture
}

// at is a point in time in percent.
func (d *drawing) at(t time.Duration) float64 {
	part := float64(t-d.line.Begin) / float64(d.line.End-d.line.Begin)
	return math.Round(1e5*min(max(part, 0), 1)) / 1e3
}

// span is a mark from one time to another.
func (d *drawing) span(shape string, from, until time.Duration, label, format string, args ...any) figure {
	return figure{Shape: shape, At: from.Seconds(), X: d.at(from), W: max(d.at(until)-d.at(from), 0.01), Label: label, Tip: fmt.Sprintf(format, args...)}
}

// point is a mark at one time.
func (d *drawing) point(shape string, at time.Duration, label, format string, args ...any) figure {
	return figure{Shape: shape, At: at.Seconds(), X: d.at(at), Label: label, Tip: fmt.Sprintf(format, args...)}
}

func (d *drawing) group(name string) {
	d.Groups = append(d.Groups, group{name, d.y + groupHeight - 7})
	d.y += groupHeight
}

// lane opens a lane; marks are put in with put.
func (d *drawing) lane(key, name string, height int) {
	d.lanes[key] = len(d.Lanes)
	d.Lanes = append(d.Lanes, track{Name: name, Y: d.y, H: height})
	d.y += height + laneGap
}

// putInRow adds a mark to one of a lane's rows. The lane is inset above and below.
func (d *drawing) putInRow(key string, inset, row, rows int, m figure) {
	i, ok := d.lanes[key]
	if !ok {
		return
	}
	l := &d.Lanes[i]
	tall := (l.H - 2*inset) / rows
	m.Y, m.H = l.Y+inset+row*tall, tall
	if rows > 1 {
		m.H -= 2
	}
	l.Marks = append(l.Marks, m)
}

// put adds a mark to a lane, inset by so much above and below.
func (d *drawing) put(key string, inset int, m figure) {
	i, ok := d.lanes[key]
	if !ok {
		return
	}
	l := &d.Lanes[i]
	m.Y, m.H = l.Y+inset, l.H-2*inset
	l.Marks = append(l.Marks, m)
}

func (d *drawing) clients() {
	if len(d.line.Clients) == 0 {
		return
	}
	d.group("what each client believes")
	in := newRows()
	for i, b := range d.line.Beliefs {
		in.place(i, b.Client, b.From, b.Until)
	}
	for _, c := range d.line.Clients {
		d.lane("client "+c, c, clientHeight+in.more(c))
	}
	several := d.severalResources()
	for _, w := range d.line.Waits {
		m := d.span("wait", w.From, w.Until, "", "%s asks for %q\nfrom %s to %s\n%s", w.Client, w.Resource, Clock(w.From), Clock(w.Until), w.outcome())
		m.Color = d.color[w.Client]
		d.put("client "+w.Client, 8, m)
	}
	for i, b := range d.line.Beliefs {
		shape, label := b.drawn(d.tokens)
		if several {
			label = b.Resource + " " + label
		}
		m := d.span(shape, b.From, b.Until, label, "%s believes it %s %q%s\nfrom %s to %s, for %s\n%s", b.Client, b.has(), b.Resource, b.slot(), Clock(b.From), Clock(b.Until), Clock(b.Until-b.From), b.end(d.tokens))
		m.Color = d.color[b.Client]
		d.putInRow("client "+b.Client, 3, in.row[i], in.of(b.Client), m)
		for _, at := range b.Extended {
			m := d.point("extended", at, "", "%s extends %q at %s", b.Client, b.Resource, Clock(at))
			m.Color = d.color[b.Client]
			d.putInRow("client "+b.Client, 3, in.row[i], in.of(b.Client), m)
		}
	}
}

// drawn is the belief's shape, and what is written into it.
func (b Belief) drawn(of tokens) (shape, label string) {
	token := of.label(b.Place(), b.Token)
	switch {
	case b.Shared:
		return "belief shared", "shares · " + token
	case b.Limit > 0:
		return "belief", fmt.Sprintf("slot %d · %s", b.Slot, token)
	}
	return "belief", token
}

// has is the verb.
func (b Belief) has() string {
	if b.Shared {
		return "shares"
	}
	return "holds"
}

func (b Belief) slot() string {
	if b.Limit == 0 {
		return ""
	}
	return fmt.Sprintf(", slot %d of %d", b.Slot, b.Limit)
}

// observers are told who holds what.
func (d *drawing) observers() {
	if len(d.line.Observers) == 0 {
		return
	}
	d.group("what each observer is told")
	for _, o := range d.line.Observers {
		d.lane("observer "+o, o, nodeHeight)
	}
	for _, s := range d.line.Sights {
		shape, label, what := "sight", s.Leader, fmt.Sprintf("%s has %q", s.Value, s.Resource)
		if s.Value == "" {
			shape, label, what = "sight nobody", "nobody", fmt.Sprintf("nobody has %q", s.Resource)
		}
		if s.Token > 0 {
			what += fmt.Sprintf(", by token %d", s.Token)
		}
		m := d.span(shape, s.From, s.Until, label, "%s is told that %s\nfrom %s to %s", s.Observer, what, Clock(s.From), Clock(s.Until))
		m.Color = d.color[s.Leader]
		d.put("observer "+s.Observer, 4, m)
	}
}

func (w Wait) outcome() string {
	tried := fmt.Sprintf("%d attempts in vain", w.Failed)
	if w.Failed == 1 {
		tried = "1 attempt in vain"
	}
	if w.Held {
		return tried + ", then it has the lock"
	}
	return tried + ", then it gives up"
}

func (b Belief) end(of tokens) string { return of.words(b.Place(), b.Token) + "; " + b.How }

func (d *drawing) severalResources() bool {
	return len(slices.Compact(slices.Sorted(slices.Values(d.resourceNames())))) > 1
}

// resourceNames are those of the beliefs, waits and writes, sorted.
func (d *drawing) resourceNames() []string {
	var names []string
	for _, w := range d.line.Waits {
		names = append(names, w.Resource)
	}
	for _, w := range d.line.Writes {
		names = append(names, w.Resource)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func (d *drawing) nodes() {
	if len(d.line.Nodes) == 0 {
		return
	}
	d.lists()
	d.group("what each node stores, and how it is")
	in := newRows()
	for i, k := range d.line.Keys {
		in.place(i, k.Node, k.From, k.Until)
	}
	for _, n := range d.line.Nodes {
		d.lane("node "+n, n, nodeHeight+in.more(n))
	}
	several := d.severalResources()
	for i, k := range d.line.Keys {
		shape, label := "key", k.Client
		if k.Shared {
			shape = "key shared"
		}
		if several {
			label += ": " + k.Resource
		}
		m := d.span(shape, k.From, k.Until, label, "%s has the key of %q\nfor %s (attempt %d)\nfrom %s to %s", k.Node, k.Resource, k.Client, k.Hold, Clock(k.From), Clock(k.Until))
		m.Color = d.color[k.Client]
		d.putInRow("node "+k.Node, 4, in.row[i], in.of(k.Node), m)
	}
	for _, s := range d.line.States {
		label := s.Is
		if slices.ContainsFunc(d.line.Faults, func(f Fault) bool {
			return slices.Contains(f.AtNodes, s.Node) && f.From <= s.Until && f.Until >= s.From
		}) {
			label = "" // the fault has one
		}
		d.put("node "+s.Node, 1, d.span(s.Is, s.From, s.Until, label, "%s is %s\nfrom %s to %s\n%s", s.Node, s.Is, Clock(s.From), Clock(s.Until), s.Means))
	}
}

// lists are the cluster's list of nodes, where it changes.
func (d *drawing) lists() {
	lists := slices.CompactFunc(slices.Clone(d.line.Lists), func(a, b List) bool { return a.Nodes == b.Nodes })
	if len(lists) == 0 {
		return
	}
	d.group("the cluster's list of nodes")
	d.lane("list", "in force", nodeHeight)
	lists[0].From = d.line.Begin
	for i, l := range lists {
		until := d.line.End
		if i+1 < len(lists) {
			until = lists[i+1].From
		}
		d.put("list", 4, d.span("sight nobody", l.From, until, l.Nodes, "nodes in the list: %s\nfrom %s to %s", l.Nodes, Clock(l.From), Clock(until)))
	}
}

// resources are the writes, and what the judge says.
func (d *drawing) resources() {
	flags := d.Run.Flags
	for _, name := range d.resourceNames() {
		d.group(fmt.Sprintf("writes to the resource %q", name))
		d.lane("accepted "+name, "accepted", writeHeight)
		if slices.ContainsFunc(flags, func(v Flag) bool { return v.Stale && v.Resource == name }) {
			d.lane("stale "+name, "… but stale", writeHeight)
		}
		if slices.ContainsFunc(d.line.Writes, func(w Write) bool { return w.Refused && w.Resource == name }) {
			d.lane("refused "+name, "refused", writeHeight)
		}
	}
	d.writes(flags)
	if len(flags) == 0 {
		return
	}
	d.group("what the judge says")
	d.lane("judge", "rule broken", writeHeight)
	for _, v := range flags {
		d.put("judge", 3, d.point("flag", v.At, v.Rule, "%s at %s\n%s", v.Rule, Clock(v.At), v.Text))
	}
}

// bundle is writes of one lane that are nearer than a label: each would lie upon the one
// before, and hide who wrote.
type bundle struct {
	lane    string
	mark    figure
	clients []string
}

// writes puts the writes into their lanes, those of a bundle as one mark.
func (d *drawing) writes(flags []Flag) {
	var all []*bundle
	last := map[string]*bundle{}
	for _, w := range d.line.Writes {
		lane, m := d.writeMark(w, flags)
		if b := last[lane]; b != nil && (m.X-b.mark.X)/100*usualWidth < float64(labelWidth(b.mark.Label+", refused")) {
			b.clients = append(b.clients, w.Client)
			b.mark.Tip += "\n\n" + m.Tip
			continue
		}
		last[lane] = &bundle{lane, m, []string{w.Client}}
		all = append(all, last[lane])
	}
	for _, b := range all {
		if n := len(b.clients); n > 1 {
			b.mark.Label = fmt.Sprintf("%d writes: %s", n, strings.Join(b.clients[:min(n, mostNames)], ", "))
			if n > mostNames {
				b.mark.Label += ", …"
			}
		}
		d.put(b.lane, 3, b.mark)
	}
}

// mostNames is how many of a bundle are named: its tip has all.
const mostNames = 3

// writeMark is a write, its lane before it.
func (d *drawing) writeMark(w Write, flags []Flag) (string, figure) {
	stale := slices.ContainsFunc(flags, func(v Flag) bool {
		return v.Stale && v.At == w.At && v.Resource == w.Resource && strings.HasPrefix(v.Text, w.Client+" ")
	})
	lane, shape, how := "accepted ", "wrote", "is accepted"
	switch {
	case w.Refused:
		lane, shape, how = "refused ", "refused", "is refused: the guard has seen a greater token"
	case stale:
		lane, shape, how = "stale ", "stale", "is accepted, and stale: a later holder had written"
	}
	label := w.Client
	if w.Token > 0 {
		label += ", " + d.tokens.label(w.Resource, w.Token)
	}
	m := d.point(shape, w.At, label, "%s writes to %q at %s\n%s\n%s", w.Client, w.Resource, Clock(w.At), d.tokens.words(w.Resource, w.Token), how)
	m.Color = d.color[w.Client]
	return lane + w.Resource, m
}
