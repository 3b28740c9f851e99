package report

import (
	"bufio"
	"embed"
	"html/template"
	"io"
	"slices"
	"strings"
)

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
