package chaos

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// The measures of a picture, in CSS pixels; across, it is percentages.
const (
	axisHeight   = 26
	bandHeight   = 20 // the words over a red band
	groupHeight  = 24 // the words over a group of lanes
	clientHeight = 34
	nodeHeight   = 26
	writeHeight  = 26
	laneGap      = 4
	// clientColors is how many colours, each with a pattern of its own, there are:
	// the next client has the first again, and its name.
	clientColors = 6
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

// End is where a span ends.
func (m figure) End() float64 { return m.X + m.W }

// drawing is a picture while it is laid out.
type drawing struct {
	picture

	line  timeline
	y     int
	color map[string]int
	lanes map[string]int // by "client x", "node x": where the lane is
}

// draw lays out a run.
func draw(run Run) picture {
	d := &drawing{
		picture: picture{Run: run}, line: tell(run.Records, run.About.Nodes),
		color: map[string]int{}, lanes: map[string]int{},
	}
	for i, c := range d.line.clients {
		d.color[c] = i % clientColors
	}
	d.y = axisHeight
	if len(d.line.overlap) > 0 {
		d.y += bandHeight
	}
	d.clients()
	d.nodes()
	d.resources()
	d.faults()
	d.Foot = d.y
	d.Height = d.y + laneGap
	if d.Last = d.at(d.line.last); d.Ends() {
		d.Height += 14
	}
	d.bands()
	d.ticks()
	d.spread()
	return d.picture
}

// at is a point in time in percent.
func (d *drawing) at(t time.Duration) float64 {
	part := float64(t-d.line.begin) / float64(d.line.end-d.line.begin)
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
	if len(d.line.clients) == 0 {
		return
	}
	d.group("what each client believes")
	for _, c := range d.line.clients {
		d.lane("client "+c, c, clientHeight)
	}
	several := d.severalResources()
	for _, w := range d.line.waits {
		m := d.span("wait", w.from, w.until, "", "%s asks for %q\nfrom %s to %s\n%s", w.client, w.resource, clock(w.from), clock(w.until), w.outcome())
		m.Color = d.color[w.client]
		d.put("client "+w.client, 8, m)
	}
	for _, b := range d.line.beliefs {
		label := tokenLabel(b.token)
		if several {
			label = b.resource + " " + label
		}
		m := d.span("belief", b.from, b.until, label, "%s believes it holds %q\nfrom %s to %s, for %s\n%s", b.client, b.resource, clock(b.from), clock(b.until), clock(b.until-b.from), b.end())
		m.Color = d.color[b.client]
		d.put("client "+b.client, 3, m)
		for _, at := range b.extended {
			d.put("client "+b.client, 3, d.point("extended", at, "", "%s extends %q at %s", b.client, b.resource, clock(at)))
		}
	}
}

func (w wait) outcome() string {
	tried := fmt.Sprintf("%d attempts in vain", len(w.failed))
	if len(w.failed) == 1 {
		tried = "1 attempt in vain"
	}
	if w.held {
		return tried + ", then it has the lock"
	}
	return tried + ", then it gives up"
}

func (b belief) end() string {
	if b.token == 0 {
		return "no token; " + b.how
	}
	return fmt.Sprintf("token %d; %s", b.token, b.how)
}

func (d *drawing) severalResources() bool {
	return len(slices.Compact(slices.Sorted(slices.Values(d.resourceNames())))) > 1
}

// resourceNames are those of the beliefs, waits and writes, sorted.
func (d *drawing) resourceNames() []string {
	var names []string
	for _, w := range d.line.waits {
		names = append(names, w.resource)
	}
	for _, w := range d.line.writes {
		names = append(names, w.resource)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func (d *drawing) nodes() {
	if len(d.line.nodes) == 0 {
		return
	}
	d.group("what each node stores, and how it is")
	for i, n := range d.line.nodes {
		d.lane("node "+n, n, nodeHeight)
		d.lanes[fmt.Sprintf("node #%d", i)] = d.lanes["node "+n]
	}
	several := d.severalResources()
	for _, k := range d.line.keys {
		label := k.what
		if several {
			label += ": " + k.resource
		}
		m := d.span("key", k.from, k.until, label, "%s has the key of %q\nfor %s (attempt %d)\nfrom %s to %s", k.node, k.resource, k.what, k.hold, clock(k.from), clock(k.until))
		m.Color = d.color[k.what]
		d.put("node "+k.node, 4, m)
	}
	for _, s := range d.line.states {
		if s.what != Member {
			d.put("node "+s.node, 1, d.span(s.what, s.from, s.until, s.what, "%s is %s\nfrom %s to %s\n%s", s.node, s.what, clock(s.from), clock(s.until), stateMeans[s.what]))
		}
	}
}

var stateMeans = map[string]string{
	Blank:  "it answers, but has forgotten: redlock does not let it vote",
	Silent: "it does not answer",
}

// resources are the writes, and what the judge says.
func (d *drawing) resources() {
	flags := slices.DeleteFunc(slices.Clone(d.Run.Verdict.Violations), func(v Violation) bool { return v.Rule == TwoHolders })
	for _, name := range d.resourceNames() {
		d.group(fmt.Sprintf("writes to the resource %q", name))
		d.lane("accepted "+name, "accepted", writeHeight)
		if slices.ContainsFunc(flags, func(v Violation) bool { return v.Rule == StaleWrite && v.Resource == name }) {
			d.lane("stale "+name, "… but stale", writeHeight)
		}
		if slices.ContainsFunc(d.line.writes, func(w write) bool { return w.refused && w.resource == name }) {
			d.lane("refused "+name, "refused", writeHeight)
		}
	}
	for _, w := range d.line.writes {
		d.put(d.writeMark(w, flags))
	}
	if len(flags) == 0 {
		return
	}
	d.group("what the judge says")
	d.lane("judge", "rule broken", writeHeight)
	for _, v := range flags {
		d.put("judge", 3, d.point("flag", v.At, string(v.Rule), "%s at %s\n%s", v.Rule, clock(v.At), v.Text))
	}
}

// writeMark is a write, its lane and inset before it.
func (d *drawing) writeMark(w write, flags []Violation) (string, int, figure) {
	stale := slices.ContainsFunc(flags, func(v Violation) bool {
		return v.Rule == StaleWrite && v.At == w.at && v.Resource == w.resource && strings.HasPrefix(v.Text, w.client+" ")
	})
	lane, shape, how := "accepted ", "wrote", "is accepted"
	switch {
	case w.refused:
		lane, shape, how = "refused ", "refused", "is refused: the guard has seen a greater token"
	case stale:
		lane, shape, how = "stale ", "stale", "is accepted, and stale: a later holder had written"
	}
	token := "no token"
	if w.token > 0 {
		token = fmt.Sprintf("token %d", w.token)
	}
	m := d.point(shape, w.at, w.client, "%s writes to %q at %s\n%s\n%s", w.client, w.resource, clock(w.at), token, how)
	m.Color = d.color[w.client]
	return lane + w.resource, 3, m
}

// faults are drawn over the lanes that they are about.
func (d *drawing) faults() {
	for _, f := range d.line.faults {
		if f.Kind == Step || f.Kind == Drift {
			d.steps(f)
			continue
		}
		tip := fmt.Sprintf("%s\nat %s", f.String(), clock(f.from))
		if f.until > f.from {
			tip = fmt.Sprintf("%s\nfrom %s to %s", f.String(), clock(f.from), clock(f.until))
		}
		for _, key := range d.lanesOf(f.Fault) {
			label := f.label(strings.HasPrefix(key, "node"))
			if (d.at(f.until)-d.at(f.from))/100*usualWidth > 3*float64(labelWidth(label)) { // it has room
				d.put(key, 0, d.span("fault", f.from, f.until, label, "%s", tip))
				label = ""
			} else if f.until > f.from {
				d.put(key, 0, d.span("fault", f.from, f.until, "", "%s", tip))
			}
			d.put(key, 0, d.point("bolt", f.from, label, "%s", tip))
		}
	}
}

// label is the fault in short, in the lane of a node or client.
func (f faultSpan) label(atNode bool) string {
	switch {
	case atNode && f.Client != "":
		return fmt.Sprintf("%s (%s)", f.Kind, f.Client)
	case f.Delay != 0:
		return fmt.Sprintf("%s %s", f.Kind, signed(f.Delay))
	case f.Key != "":
		return fmt.Sprintf("%s %s", f.Kind, f.Key)
	}
	return string(f.Kind)
}

// steps draws a clock that jumps, and back, as arrows.
func (d *drawing) steps(f faultSpan) {
	per := ""
	if f.Kind == Drift {
		per = " a second"
	}
	for _, key := range d.lanesOf(f.Fault) {
		d.put(key, 0, d.point(arrow(f.Delay), f.from, signed(f.Delay)+per, "%s\nat %s", f.String(), clock(f.from)))
		if f.mended && f.Kind == Step && f.until > f.from {
			d.put(key, 0, d.point(arrow(-f.Delay), f.until, "set right", "the clock is right again\nat %s", clock(f.until)))
		}
	}
}

func arrow(by time.Duration) string {
	if by < 0 {
		return "back"
	}
	return "forward"
}

// lanesOf are the lanes that a fault is about.
func (d *drawing) lanesOf(f Fault) []string {
	switch {
	case f.Kind.ofClient() && f.Client == "":
		return prefixed("client ", d.line.clients)
	case f.Kind.ofClient(), f.Client != "" && f.Node == Everything:
		return []string{"client " + f.Client}
	case f.Node == Everything:
		return prefixed("node ", d.line.nodes)
	}
	return []string{fmt.Sprintf("node #%d", f.Node)}
}

func prefixed(prefix string, names []string) []string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = prefix + n
	}
	return out
}

// bands are the times when two clients believed, over all lanes.
func (d *drawing) bands() {
	for _, c := range d.line.overlap {
		m := d.span("band", c.from, c.until, "two holders for "+clock(c.until-c.from), "two holders of %q: %s and %s\nfrom %s to %s, for %s",
			c.resource, c.first.client, c.then.client, clock(c.from), clock(c.until), clock(c.until-c.from))
		m.Y, m.H = axisHeight, d.Foot-axisHeight
		d.Bands = append(d.Bands, m)
	}
}

// ticks are the times along the axis: steps of 1, 2 or 5 times a power of ten.
func (d *drawing) ticks() {
	step := niceStep((d.line.end - d.line.begin) / pictureTicks)
	for t := max(d.line.begin, 0).Truncate(step); t <= d.line.end; t += step {
		if x := d.at(t); x > 0 && x < 97 {
			d.Ticks = append(d.Ticks, figure{X: x, Label: clock(t)})
		}
	}
}

// spread moves labels that would meet the label of a fault of the same lane, and
// drops those of writes that would meet: a picture that is narrower than usual
// shows less, and the tip has it all.
func (d *drawing) spread() {
	for i := range d.Lanes {
		marks := d.Lanes[i].Marks
		for j := range marks {
			if m := &marks[j]; (m.Shape == "belief" || m.Shape == "key") && m.W/100*usualWidth < float64(labelWidth(m.Label)) {
				m.Label = "" // no room: the tip has it
			}
			for k := range marks {
				if j != k {
					marks[j].avoid(marks[k], k < j)
				}
			}
		}
	}
}

// usualWidth is the width in pixels that labels are laid out for.
const usualWidth = 840

// avoid moves the label, or drops it, if it meets the other's.
func (m *figure) avoid(other figure, earlier bool) {
	if m.Label == "" || other.Label == "" {
		return
	}
	gap := int((m.X - other.X) / 100 * usualWidth)
	meets := gap > -labelWidth(m.Label)-10 && gap < labelWidth(other.Label)+10
	switch {
	case !meets:
	case m.Shape == "belief" || m.Shape == "key":
		switch other.Shape {
		case "bolt":
			m.Shift = max(m.Shift, labelWidth(other.Label)+10-gap)
		case "forward", "back":
			m.Shift = max(m.Shift, labelWidth(other.Label)+30-gap)
		}
	case m.Shape == other.Shape && earlier:
		m.Label = ""
	}
}

// labelWidth is about how many pixels a label takes.
func labelWidth(s string) int { return 7*utf8.RuneCountInString(s) + 6 }

// Left tells whether the label of a point stands on its left: it would not be
// seen on the right.
func (m figure) Left() bool {
	return m.X/100*usualWidth+float64(labelWidth(m.Label))+30 > usualWidth
}

// LabelWidth is the width of the label.
func (m figure) LabelWidth() int { return labelWidth(m.Label) + 8 }

// niceStep is the smallest of 1, 2 or 5 times a power of ten that is not below
// least.
func niceStep(least time.Duration) time.Duration {
	for power := time.Duration(1); ; power *= 10 {
		for _, step := range []time.Duration{power, 2 * power, 5 * power} {
			if step >= least {
				return step
			}
		}
	}
}

// clock is a time for people.
func clock(t time.Duration) string {
	switch {
	case t == 0:
		return "0"
	case t.Abs() >= time.Minute:
		return t.Round(100 * time.Millisecond).String()
	case t.Abs() >= time.Second:
		return fmt.Sprintf("%.4g s", t.Round(time.Millisecond).Seconds())
	case t.Abs() >= time.Microsecond:
		return fmt.Sprintf("%.3g ms", float64(t)/1e6)
	}
	return t.String()
}

// signed is a time with its sign.
func signed(d time.Duration) string {
	if d < 0 {
		return "−" + clock(-d)
	}
	return "+" + clock(d)
}

// tokenLabel is a token's end: what is before it is the same for all.
func tokenLabel(t uint64) string {
	s := fmt.Sprint(t)
	switch {
	case t == 0:
		return "no token"
	case len(s) > 6:
		return "token …" + s[len(s)-6:]
	}
	return "token " + s
}
