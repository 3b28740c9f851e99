package chaos

import (
	"fmt"
	"strings"
	"time"
)

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
