package report

import (
	"fmt"
	"math"
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
