package chaos

import (
	"bufio"
	"embed"
	"fmt"
	"html/template"
	"io"
	"strings"
	"time"
)

//go:embed page
var pageFiles embed.FS

// pageTemplates are all that is drawn. html/template escapes what a trace says.
var pageTemplates = template.Must(template.New("").Funcs(template.FuncMap{
	"clock": clock,
	"css":   func() template.CSS { return template.CSS(pageFile("page.css")) }, //nolint:gosec // G203: embedded
	"js":    func() template.JS { return template.JS(pageFile("page.js")) },    //nolint:gosec // G203: embedded
	"first": func(s string) string { line, _, _ := strings.Cut(s, "\n"); return line },
	"lines": func(s string) string { return strings.ReplaceAll(s, "\n", "; ") },
}).ParseFS(pageFiles, "page/*.html", "page/*.svg"))

func pageFile(name string) string {
	text, err := pageFiles.ReadFile("page/" + name)
	if err != nil {
		panic("chaos: " + err.Error()) // embedded: it is there
	}
	return string(text)
}

// pageEvents is how many records of a run the page lists as text.
const pageEvents = 2000

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

// Tall is how high they are together.
func (s layout) Tall() int {
	tall := 0
	for _, p := range s.Placed() {
		tall += p.Tall
	}
	return tall
}

// WritePage writes one self-contained HTML page about the runs, which should be
// of one scenario: for each a picture with the clients' beliefs, the nodes' keys
// and states, the writes, and what was broken. It needs no network, and shows
// what the runs say as text, never as markup. It returns w's error.
func WritePage(w io.Writer, runs ...Run) error { return writeLayout(w, "page.html", runs) }

// WritePicture writes the same pictures, one below the other, as an SVG file,
// for a document. It returns w's error.
func WritePicture(w io.Writer, runs ...Run) error { return writeLayout(w, "picture.svg", runs) }

func writeLayout(w io.Writer, name string, runs []Run) error {
	s := layout{Title: "a trace"}
	for _, r := range runs {
		s.Pictures = append(s.Pictures, draw(r))
	}
	if len(runs) > 0 {
		about := runs[0].About
		s.Claim, s.Lesson = about.Claim, about.Lesson
		if about.Scenario != "" {
			s.Title = about.Scenario
		}
	}
	buffered := bufio.NewWriter(w)
	if err := pageTemplates.ExecuteTemplate(buffered, name, s); err != nil {
		return fmt.Errorf("chaos: write page: %w", err)
	}
	if err := buffered.Flush(); err != nil {
		return fmt.Errorf("chaos: write page: %w", err)
	}
	return nil
}

// Name is the contender, or that there is none.
func (p picture) Name() string {
	about := p.Run.About
	if about.Contender == "" {
		return "the trace"
	}
	return Showing{Contender: about.Contender, Guarded: about.Guarded}.String()
}

// Judgement is the verdict in a few words.
func (p picture) Judgement() string {
	v := p.Run.Verdict
	if len(v.Violations) == 0 {
		return "keeps every rule"
	}
	words := make([]string, 0, len(v.Broken()))
	for _, r := range v.Broken() {
		words = append(words, string(r))
	}
	return strings.Join(words, ", ")
}

// Broken tells whether a rule was.
func (p picture) Broken() bool { return len(p.Run.Verdict.Violations) > 0 }

// Claimed is whether it was so claimed, in words.
func (p picture) Claimed() string {
	switch as, known := p.Run.AsClaimed(); {
	case !known:
		return ""
	case as:
		return "as claimed"
	}
	return "not as claimed"
}

// event is a record as text.
type event struct{ At, Who, What string }

// Events are the records as text, for those who do not see the picture.
func (p picture) Events() []event {
	var events []event
	for _, r := range p.Run.Records {
		if len(events) == pageEvents {
			return append(events, event{What: fmt.Sprintf("and %d more", len(p.Run.Records)-pageEvents)})
		}
		events = append(events, eventOf(r))
	}
	return events
}

func eventOf(r Record) event {
	e := event{At: clock(r.At), Who: r.Client, What: string(r.Kind)}
	if r.Node != "" {
		e.Who = r.Node
	}
	if r.Resource != "" {
		e.What += " " + r.Resource
	}
	if r.Kind == Stored {
		e.What = fmt.Sprintf("has no key of %s", r.Resource)
		if r.Client != "" {
			e.What = fmt.Sprintf("has the key of %s for %s", r.Resource, r.Client)
		}
	}
	for _, more := range []struct {
		is   bool
		text string
	}{
		{r.Text != "", r.Text},
		{r.Hold != 0, fmt.Sprintf("attempt %d", r.Hold)},
		{r.Token != 0, fmt.Sprintf("token %d", r.Token)},
		{r.Until > 0 && r.Until < time.Duration(1<<62), "until " + clock(r.Until)},
	} {
		if more.is {
			e.What += ", " + more.text
		}
	}
	return e
}
