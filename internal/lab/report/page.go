// Package report draws runs, on one page or as one picture: what each client believed,
// what each node stored and was, the writes, and what was broken. It knows no trace and
// no judge: package page tells it what there is to see.
package report

import (
	"bufio"
	"embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
	"time"
)

// Page is runs that are shown together, which should be of one scenario.
type Page struct {
	Title, Claim, Lesson string
	Runs                 []Run
}

// Run is one play of something: words and figures, and what a picture shows.
type Run struct {
	Name      string // of the contender
	How       string // it was played
	Judgement string // the verdict in a few words
	Broken    bool   // a rule was
	Claimed   string // whether it was so claimed
	Summary   string // all figures in a line
	About     string // which part of it the picture shows; empty: all

	Overlap, LongestWait         time.Duration
	Rounds, Won, Writes, Refused int

	Timeline Timeline
	Flags    []Flag
	Events   []Event
}

// Timeline is who did what from when to when.
type Timeline struct {
	Begin     time.Duration // of what is drawn: just before the first that anybody did
	Last      time.Duration // the last record
	End       time.Duration // of what is known then, and drawn
	Clients   []string      // as they came
	Observers []string
	Nodes     []string
	Beliefs   []Belief
	Sights    []Sight
	Waits     []Wait
	Grants    []Grant
	Keys      []Key
	Lists     []List
	States    []State
	Faults    []Fault
	Writes    []Write
	Overlaps  []Overlap
}

// Belief is what a client believed without a break: that it holds a resource.
type Belief struct {
	Client, Resource string
	Hold             int64 // the number of the attempt that it came of
	Token            uint64
	From, Until      time.Duration
	Extended         []time.Duration
	How              string // it ended
	Shared           bool   // beside others who share it
	Limit, Slot      int    // it is one slot of so many; 0: it has none
}

// Place is what one believes to have who excludes others: a resource, or a slot of it.
func (b Belief) Place() string {
	if b.Limit == 0 {
		return b.Resource
	}
	return fmt.Sprintf("%s, slot %d", b.Resource, b.Slot)
}

// Sight is what an observer was told of who holds a resource.
type Sight struct {
	Observer, Resource string
	Value              string // empty: nobody does
	Leader             string // the client that gave the value, if it is known
	Token              uint64
	From, Until        time.Duration
}

// List is the numbers of the nodes in the cluster's list, up to the next one.
type List struct {
	Nodes string
	From  time.Duration
}

// Wait is how a client asked for a resource, up to its lock or to giving up.
type Wait struct {
	Client, Resource string
	From, Until      time.Duration
	Failed           int // attempts
	Held             bool
}

// Grant is that nodes told a client that a release granted it the lock.
type Grant struct {
	Client, Resource string
	Nodes            []string
	From, Until      time.Duration // when they told it
	By               string        // who released; empty: it is not known
	Hold             int64         // that was released
	Released         time.Duration
}

// Key is what a node stored for a client.
type Key struct {
	Node, Client, Resource string
	Hold                   int64
	From, Until            time.Duration
	Shared                 bool // beside others who share it
}

// State is what a node was that did not vote.
type State struct {
	Node, Is    string // Is: as the template draws it
	Means       string
	From, Until time.Duration
}

// Fault is something that was done to clients or nodes.
type Fault struct {
	Words              string // all there is to say of it
	Kind               string
	Client, Key        string // that it is about, if any
	By                 time.Duration
	Steps, Drifts      bool // it moves a clock by that: at once, or a second
	Mended             bool
	Late               string // what precedes it from From on; it comes about at Until. Empty: it begins at From
	From, Until        time.Duration
	AtClients, AtNodes []string // in whose lanes it is drawn
}

// Write is an attempt to write to a resource.
type Write struct {
	At               time.Duration
	Client, Resource string
	Token            uint64
	Refused          bool
}

// Overlap is two clients that believed at once.
type Overlap struct {
	Resource    string
	First, Then string // the clients
	From, Until time.Duration
}

// Flag is a rule that was broken, but for the one of two holders, which is seen.
type Flag struct {
	Rule, Resource, Text string
	Stale                bool // the rule is that of stale writes: Text begins with the client
	At                   time.Duration
}

// Event is a record as text.
type Event struct{ At, Who, What string }

//go:embed page
var pageFiles embed.FS

// pageTemplates are all that is drawn. html/template escapes what a trace says.
var pageTemplates = template.Must(template.New("").Funcs(template.FuncMap{
	"clock": Clock,
	"css":   func() template.CSS { return template.CSS(pageFile("page.css")) }, //nolint:gosec // G203: embedded
	"js":    func() template.JS { return template.JS(pageFile("page.js")) },    //nolint:gosec // G203: embedded
	"lines": func(s string) string { return strings.ReplaceAll(s, "\n", "; ") },
}).ParseFS(pageFiles, "page/*.html", "page/*.svg"))

func pageFile(name string) string {
	text, err := pageFiles.ReadFile("page/" + name)
	if err != nil {
		panic("report: " + err.Error()) // embedded: it is there
	}
	return string(text)
}

// pictureHead is the height of the words over a picture in a file of several.
const pictureHead = 36

// layout is what the page's template sees.
type layout struct {
	Title, Claim, Lesson string
	Pictures             []picture
}

// placed is a picture in a file of several.
type placed struct {
	Picture   picture
	Top, Tall int
}

// Placed are the pictures, one below the other.
func (s layout) Placed() []placed {
	var all []placed
	top := 0
	for _, p := range s.Pictures {
		all = append(all, placed{p, top, p.Height + pictureHead})
		top += p.Height + pictureHead
	}
	return all
}

// swatch is a colour with a pattern.
type swatch struct{ N, Hue, Shape int }

// Swatches are all of them: in the second round a colour has another pattern.
func (s layout) Swatches() []swatch {
	all := make([]swatch, clientColors)
	for n := range all {
		all[n] = swatch{n, n % hues, (n + n/hues) % patterns}
	}
	return all
}

// Shares tells whether somebody shares something in one of the pictures.
func (s layout) Shares() bool {
	return slices.ContainsFunc(s.Pictures, func(p picture) bool {
		return slices.ContainsFunc(p.Run.Timeline.Beliefs, func(b Belief) bool { return b.Shared })
	})
}

// Observes tells whether there are observers in one of them.
func (s layout) Observes() bool {
	return slices.ContainsFunc(s.Pictures, func(p picture) bool { return len(p.Run.Timeline.Observers) > 0 })
}

// Tall is how high they are together.
func (s layout) Tall() int {
	tall := 0
	for _, p := range s.Placed() {
		tall += p.Tall
	}
	return tall
}

// WriteHTML writes one self-contained HTML page: for each run a picture, and its
// records as text. It needs no network, and shows what the runs say as text, never as
// markup. It returns w's error.
func (p Page) WriteHTML(w io.Writer) error { return p.write(w, "page.html") }

// WriteSVG writes the same pictures, one below the other. It returns w's error.
func (p Page) WriteSVG(w io.Writer) error { return p.write(w, "picture.svg") }

// toScale gives all runs one scale of time: a second is as wide in each picture, and the
// same second is at the same place.
func toScale(runs []Run) []Run {
	runs = slices.Clone(runs)
	if len(runs) == 0 {
		return runs
	}
	begin, end := runs[0].Timeline.Begin, runs[0].Timeline.End
	for _, r := range runs {
		begin, end = min(begin, r.Timeline.Begin), max(end, r.Timeline.End)
	}
	for i := range runs {
		runs[i].Timeline.Begin, runs[i].Timeline.End = begin, end
	}
	return runs
}

func (p Page) write(w io.Writer, name string) error {
	s := layout{Title: p.Title, Claim: p.Claim, Lesson: p.Lesson}
	for _, r := range toScale(p.Runs) {
		s.Pictures = append(s.Pictures, draw(r))
	}
	buffered := bufio.NewWriter(w)
	if err := pageTemplates.ExecuteTemplate(buffered, name, s); err != nil {
		return err
	}
	return buffered.Flush()
}

// rows has those that are in one lane at one time each in a row of its own, the first that
// is free. It takes them in the order of their beginnings.
type rows struct {
	row  map[int]int // of each
	many map[string]int
	ends map[string][]time.Duration
}

func newRows() *rows {
	return &rows{row: map[int]int{}, many: map[string]int{}, ends: map[string][]time.Duration{}}
}

// place gives number i of a lane its row.
func (r *rows) place(i int, lane string, from, until time.Duration) {
	ends := r.ends[lane]
	row := slices.IndexFunc(ends, func(end time.Duration) bool { return end <= from })
	if row < 0 {
		row = len(ends)
		ends = append(ends, 0)
	}
	ends[row] = until
	r.row[i], r.ends[lane], r.many[lane] = row, ends, max(r.many[lane], row+1)
}

// of is how many rows a lane has.
func (r *rows) of(lane string) int { return max(r.many[lane], 1) }

// more is how much higher a lane is that has them.
func (r *rows) more(lane string) int { return (r.of(lane) - 1) * rowHeight }
