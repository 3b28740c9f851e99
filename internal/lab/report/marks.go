package report

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// faults are drawn over the lanes that they are about.
func (d *drawing) faults() {
	for _, f := range d.line.Faults {
		if f.Steps || f.Drifts {
			d.steps(f)
			continue
		}
		tip := fmt.Sprintf("%s\nat %s", f.Words, Clock(f.From))
		if f.Until > f.From {
			tip = fmt.Sprintf("%s\nfrom %s to %s", f.Words, Clock(f.From), Clock(f.Until))
		}
		if f.Late != "" {
			d.late(f)
			continue
		}
		for _, key := range lanesOf(f) {
			label := f.label(strings.HasPrefix(key, "node"))
			if (d.at(f.Until)-d.at(f.From))/100*usualWidth > 3*float64(labelWidth(label)) { // it has room
				d.put(key, 0, d.span("fault", f.From, f.Until, label, "%s", tip))
				label = ""
			} else if f.Until > f.From {
				d.put(key, 0, d.span("fault", f.From, f.Until, "", "%s", tip))
			}
			d.put(key, 0, d.point("bolt", f.From, label, "%s", tip))
		}
	}
}

// late draws a fault that comes about in the end: what comes before is only its cause.
func (d *drawing) late(f Fault) {
	for _, key := range lanesOf(f) {
		label := f.Late
		if (d.at(f.Until)-d.at(f.From))/100*usualWidth < float64(labelWidth(label)) {
			label = "" // no room
		}
		d.put(key, 0, d.span("fault", f.From, f.Until, label, "%s\n%s from %s to %s", f.Words, f.Late, Clock(f.From), Clock(f.Until)))
		if f.Mended {
			d.put(key, 0, d.point("bolt", f.Until, f.label(strings.HasPrefix(key, "node")), "%s\nat %s", f.Words, Clock(f.Until)))
		}
	}
}

// label is the fault in short, in the lane of a node or client.
func (f Fault) label(atNode bool) string {
	switch {
	case atNode && f.Client != "":
		return fmt.Sprintf("%s (%s)", f.Kind, f.Client)
	case f.By != 0:
		return fmt.Sprintf("%s %s", f.Kind, signed(f.By))
	case f.Key != "":
		return fmt.Sprintf("%s %s", f.Kind, f.Key)
	}
	return f.Kind
}

// steps draws a clock that jumps, and back, as arrows.
func (d *drawing) steps(f Fault) {
	per := ""
	if f.Drifts {
		per = " a second"
	}
	for _, key := range lanesOf(f) {
		d.put(key, 0, d.point(arrow(f.By), f.From, signed(f.By)+per, "%s\nat %s", f.Words, Clock(f.From)))
		if f.Mended && f.Steps && f.Until > f.From {
			d.put(key, 0, d.point(arrow(-f.By), f.Until, "set right", "the clock is right again\nat %s", Clock(f.Until)))
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
func lanesOf(f Fault) []string {
	return append(prefixed("client ", f.AtClients), prefixed("node ", f.AtNodes)...)
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
	for _, c := range d.line.Overlaps {
		m := d.span("band", c.From, c.Until, "two holders for "+Clock(c.Until-c.From), "two holders of %q: %s and %s\nfrom %s to %s, for %s",
			c.Resource, c.First, c.Then, Clock(c.From), Clock(c.Until), Clock(c.Until-c.From))
		m.Y, m.H = axisHeight, d.Foot-axisHeight
		d.Bands = append(d.Bands, m)
	}
}

// grants are arrows from the one who released to the one who was granted the lock by that: from the
// time of the release to when the first node told of it.
func (d *drawing) grants() {
	for _, g := range d.line.Grants {
		from, known := d.lanes["client "+g.By]
		to, also := d.lanes["client "+g.Client]
		if !known || !also {
			continue
		}
		m := d.span("grant", g.Released, g.From, "", "%s", g.tip(len(d.line.Nodes)))
		m.At = g.From.Seconds()
		m.Y = d.Lanes[from].Mid()
		m.H = d.Lanes[to].Mid() - m.Y
		d.Lanes[to].Marks = append(d.Lanes[to].Marks, m)
	}
}

func (g Grant) tip(nodes int) string {
	said := fmt.Sprintf("%d of %d nodes tell it", len(g.Nodes), nodes)
	if g.Until == g.From {
		return fmt.Sprintf("%s releases %q at %s, which grants it to %s\n%s at %s", g.By, g.Resource, Clock(g.Released), g.Client, said, Clock(g.From))
	}
	return fmt.Sprintf("%s releases %q at %s, which grants it to %s\n%s from %s to %s", g.By, g.Resource, Clock(g.Released), g.Client, said, Clock(g.From), Clock(g.Until))
}

// ticks are the times along the axis: steps of 1, 2 or 5 times a power of ten.
func (d *drawing) ticks() {
	step := niceStep((d.line.End - d.line.Begin) / pictureTicks)
	for t := max(d.line.Begin, 0).Truncate(step); t <= d.line.End; t += step {
		if x := d.at(t); x > 0 && x < 97 {
			d.Ticks = append(d.Ticks, figure{X: x, Label: Clock(t)})
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
			if m := &marks[j]; m.Labelled() && m.W/100*usualWidth < float64(labelWidth(m.Label)) {
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

// Labelled tells whether the mark is a bar that has its label in it.
func (m figure) Labelled() bool {
	kind, _, _ := strings.Cut(m.Shape, " ")
	return kind == "belief" || kind == "key" || kind == "sight"
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
	case m.Labelled():
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

// Clock is a time for people.
func Clock(t time.Duration) string {
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
		return "−" + Clock(-d)
	}
	return "+" + Clock(d)
}

// tokens are those of a picture, by what they are of: a resource, or a slot of it. Their
// order is what counts, and it is not seen in their digits.
type tokens map[string][]uint64

// tokensOf are those that clients held or wrote with, sorted, each once.
func tokensOf(line Timeline) tokens {
	all := tokens{}
	for _, b := range line.Beliefs {
		all[b.Place()] = append(all[b.Place()], b.Token)
	}
	for _, w := range line.Writes {
		if _, there := all[w.Resource]; there { // else it is of a slot, whose holder has it
			all[w.Resource] = append(all[w.Resource], w.Token)
		}
	}
	for place, of := range all {
		slices.Sort(of)
		all[place] = slices.DeleteFunc(slices.Compact(of), func(token uint64) bool { return token == 0 })
	}
	return all
}

// rank is which token it is of so many; 0: it is none of them.
func (t tokens) rank(place string, token uint64) (rank, of int) {
	i, found := slices.BinarySearch(t[place], token)
	if !found {
		return 0, len(t[place])
	}
	return i + 1, len(t[place])
}

// label is a token in short.
func (t tokens) label(place string, token uint64) string {
	rank, _ := t.rank(place, token)
	switch {
	case token == 0:
		return "no token"
	case rank == 0:
		return fmt.Sprintf("token %d", token)
	}
	return fmt.Sprintf("token #%d", rank)
}

// words is all that there is to say of a token.
func (t tokens) words(place string, token uint64) string {
	rank, of := t.rank(place, token)
	switch {
	case token == 0:
		return "no token"
	case rank == 0:
		return fmt.Sprintf("token %d", token)
	}
	return fmt.Sprintf("token %d, #%d of %d", token, rank, of)
}
