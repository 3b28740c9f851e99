package contenders

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"slices"
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
	pageMargin   = 20  // on both sides, for the lanes' names and the ends of the scale
	laneHeight   = 10
)

// picture is one contender in one scenario.
type picture struct {
	Name, Words string
	Broken      bool
	Played      bool
	Height      int
	Lanes       []lane
	Marks       []mark
}

// lane is what one holder believed.
type lane struct {
	Who   string
	Y     int
	TextY int
	// Bars are the times without a gap in which it believed; Still those in which its
	// process stood still with the lock in its hand; Waits and Gives those in which a call
	// to acquire or to release was under way.
	Bars, Still, Waits, Gives []bar
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
	Played   []contenderRow
	Width    int
	Ticks    []mark
	Chapters []chapter
	Lease    string
}

// contenderRow is what a contender is.
type contenderRow struct{ Name, Servers, Versions, Fence, Notice, Memory, Took string }

// writePage writes the pictures of a run, scenario by scenario, all on one time scale.
func writePage(w io.Writer, results []*result, scenarios []scenario) error {
	p := page{Width: pageWidth, Lease: short(lease)}
	for s := -windowBefore; s <= windowAfter; s += time.Second {
		p.Ticks = append(p.Ticks, mark{X: across(0, int64(s)), Tip: fmt.Sprintf("%d s", int(s.Seconds()))})
	}
	for _, r := range results {
		is := r.row()
		is.Notice = strings.ReplaceAll(is.Notice, "`", "") // Markdown's
		p.Played = append(p.Played, is)
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
	return pageMargin + (pageWidth-2*pageMargin)*max(0, min(1, x))
}

func draw(o *outcome) picture {
	pic := picture{Name: o.Contender, Words: strings.ReplaceAll(o.String(), "**", ""), Broken: o.breach(), Played: o.zero != 0}
	if o.zero == 0 {
		return pic
	}
	for _, who := range []string{first, second, third} {
		if !slices.ContainsFunc(o.records, func(r record) bool { return r.Who == who }) {
			continue
		}
		l := lane{Who: who, Y: pic.Height, TextY: pic.Height + laneHeight - 1, Still: during(o, who, "stands still", stopped, continued)}
		l.Waits = during(o, who, "waits", asking, acquired, gaveUp)
		l.Gives = during(o, who, "releases", releasing, released)
		for _, s := range spans(o.records) {
			if s.who == who && len(s.claims) > 0 {
				l.Bars = append(l.Bars, bars(o.zero, s, breaks(o.records, who))...)
			}
		}
		pic.Lanes = append(pic.Lanes, l)
		pic.Height += laneHeight + 3
	}
	for _, r := range o.records {
		if kind := markOf(r); kind != "" {
			pic.Marks = append(pic.Marks, mark{X: across(o.zero, r.At), Kind: kind, H: pic.Height, Tip: strings.TrimSpace(r.Who + " " + r.What + " " + r.Text)})
		}
	}
	return pic
}

// breaks are the moments at which a holder stood still, or stopped believing. A gap
// between two looks without one is a busy machine's.
func breaks(records []record, who string) []int64 {
	var all []int64
	for _, r := range records {
		if r.Who == who && (r.What == stopped || r.What == told || r.What == ended) {
			all = append(all, r.At)
		}
	}
	return all
}

// bars are the times in which a holder believed.
func bars(zero int64, s span, breaks []int64) []bar {
	var all []bar
	from, last := s.first(), s.first()
	for i, at := range append(slices.Clone(s.claims[1:]), s.last()) {
		broken := slices.ContainsFunc(breaks, func(b int64) bool { return last <= b && b < at })
		if broken || i == len(s.claims)-1 {
			x := across(zero, from)
			all = append(all, bar{X: x, W: max(across(zero, last)-x, 1.5), Tip: s.who + " believes for " + short(between(from, last))})
			from = at
		}
		last = at
	}
	return all
}

// during is the times of a holder from a record of one kind to the next of others; to the
// end of the picture, if there is none.
func during(o *outcome, who, what, begin string, ends ...string) []bar {
	var all []bar
	var from int64
	until := func(at int64) {
		if x, w := across(o.zero, from), across(o.zero, at)-across(o.zero, from); from != 0 && w > 0 {
			all = append(all, bar{X: x, W: w, Tip: who + " " + what + " for " + short(between(from, at))})
		}
		from = 0
	}
	records := inOrder(o.records)
	for _, r := range records {
		switch {
		case r.Who != who:
		case r.What == begin:
			from = r.At
		case slices.Contains(ends, r.What):
			until(r.At)
		}
	}
	if len(records) > 0 {
		until(records[len(records)-1].At)
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
