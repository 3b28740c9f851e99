package report

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

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
