package report

import (
	"fmt"
	"strings"
	"time"
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
