package contenders

import (
	_ "embed"
	"html/template"
	"io"
	"strings"
	"time"
)

//go:embed page.html
var pageText string

// The window of every picture, around the fault: one scale for the whole page.
const (
	windowBefore = time.Second
	windowAfter  = 11 * time.Second
	pageWidth    = 960 // of a picture, in CSS pixels
	laneHeight   = 9
)

// picture is one contender in one scenario.
type picture struct {
	Name, Words string
	Broken      bool
	Height      int
	Lanes       []lane
	Marks       []mark
}

// lane is what one holder believed.
type lane struct {
	Who string
	Y   int
	// Bars are the times without a gap in which it believed; Still those in which its
	// process stood still with the lock in its hand.
	Bars, Still []bar
}

type bar struct {
	X, W float64
	Tip  string
}

// mark is a moment.
type mark struct {
	X    float64
	Kind string // fault, told
	Y, H int
	Tip  string
}

// chapter is the pictures of one scenario.
type chapter struct {
	Name, What string
	Pictures   []picture
}

type page struct {
	Table    string
	Width    int
	Ticks    []mark
	Chapters []chapter
	Lease    string
}

// writePage writes the pictures of a run, scenario by scenario, all on one time scale.
func writePage(w io.Writer, results []*result, scenarios []scenario) error {
	p := page{Width: pageWidth, Lease: short(lease)}
	for s := -windowBefore; s <= windowAfter; s += time.Second {
		p.Ticks = append(p.Ticks, mark{X: across(0, int64(s)), Tip: s.String()})
	}
	for i, s := range scenarios {
		c := chapter{Name: s.name, What: s.what}
		for _, r := range results {
			if i < len(r.Outcomes) {
				c.Pictures = append(c.Pictures, draw(r.Outcomes[i]))
			}
		}
		p.Chapters = append(p.Chapters, c)
	}
	t, err := template.New("page").Parse(pageText)
	if err != nil {
		return err
	}
	return t.Execute(w, p)
}

// across is where a moment is from left to right.
func across(zero, at int64) float64 {
	x := float64(between(zero, at)+windowBefore) / float64(windowBefore+windowAfter)
	return pageWidth * max(0, min(1, x))
}

func draw(o *outcome) picture {
	pic := picture{Name: o.Contender, Words: strings.ReplaceAll(o.String(), "**", ""), Broken: o.Two > 0}
	if o.zero == 0 {
		return pic
	}
	for _, who := range []string{first, second, third} {
		l := lane{Who: who, Y: pic.Height}
		for _, s := range spans(o.records) {
			if s.who == who && len(s.claims) > 0 {
				l.Bars = append(l.Bars, bars(o.zero, s)...)
			}
		}
		l.Still = standstill(o, who)
		if len(l.Bars) == 0 {
			continue
		}
		pic.Lanes = append(pic.Lanes, l)
		pic.Height += laneHeight + 2
	}
	for _, r := range o.records {
		if kind := markOf(r); kind != "" {
			pic.Marks = append(pic.Marks, mark{X: across(o.zero, r.At), Kind: kind, H: pic.Height, Tip: strings.TrimSpace(r.Who + " " + r.What + " " + r.Text)})
		}
	}
	return pic
}

// gap is how far apart two looks are at least between which nothing is drawn.
const gap = 20 * lookEvery

// bars are the times in which a holder believed.
func bars(zero int64, s span) []bar {
	var all []bar
	from, last := s.claims[0], s.claims[0]
	for _, at := range append(s.claims[1:], s.last()+int64(2*gap)) {
		if between(last, at) > gap {
			x := across(zero, from)
			all = append(all, bar{X: x, W: max(across(zero, last)-x, 1.5), Tip: s.who + " believes for " + short(between(from, last))})
			from = at
		}
		last = at
	}
	return all
}

// standstill is when a holder's process stood still.
func standstill(o *outcome, who string) []bar {
	var all []bar
	var from int64
	for _, r := range o.records {
		switch {
		case r.Who != who:
		case r.What == stopped:
			from = r.At
		case r.What == continued && from != 0:
			x := across(o.zero, from)
			all = append(all, bar{X: x, W: across(o.zero, r.At) - x, Tip: who + " stands still"})
		}
	}
	return all
}

func markOf(r record) string {
	switch r.What {
	case stopped, continued, killed, cut, healed, down, up, stepped:
		return "fault"
	case told, ended:
		return "told"
	default:
		return ""
	}
}
