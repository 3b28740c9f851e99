// Package page draws runs of the lab: one HTML page, or one SVG picture.
package page

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/quorumkit/redlock/internal/lab/report"
	"github.com/quorumkit/redlock/internal/lab/trace"
)

// pageEvents is how many records of a run the page lists as text.
const pageEvents = 2000

// Write writes one self-contained HTML page about the runs, as chaos.WritePage says. It
// returns w's error.
func Write(w io.Writer, runs ...trace.Run) error { return written(pageOf(runs).WriteHTML(w)) }

// WritePicture writes the same pictures, one below the other, as an SVG file,
// for a document. It returns w's error.
func WritePicture(w io.Writer, runs ...trace.Run) error { return written(pageOf(runs).WriteSVG(w)) }

func written(err error) error {
	if err != nil {
		return fmt.Errorf("chaos: write page: %w", err)
	}
	return nil
}

// pageOf is what there is to show of the runs.
func pageOf(runs []trace.Run) report.Page {
	p := report.Page{Title: "a trace"}
	for _, r := range runs {
		p.Runs = append(p.Runs, shown(r))
	}
	if len(runs) > 0 {
		about := runs[0].About
		p.Claim, p.Lesson = about.Claim, about.Lesson
		if about.Scenario != "" {
			p.Title = about.Scenario
		}
	}
	return p
}

// shown is what there is to show of the run.
func shown(r trace.Run) report.Run {
	v := r.Verdict
	summary, _, _ := strings.Cut(v.String(), "\n")
	s := report.Run{
		Name: "the trace", Judgement: judgement(v), Broken: len(v.Violations) > 0, Summary: summary,
		Overlap: v.Overlap, LongestWait: v.LongestWait, Rounds: v.Rounds, Won: v.Won, Writes: v.Writes, Refused: v.Refused,
		Timeline: tell(r.Records, r.About.Nodes), Flags: flagsOf(v), Events: eventsOf(r.Records),
	}
	if f, ok := focusOf(s.Timeline, v); ok {
		s.Timeline, s.Flags = f.of(s.Timeline), f.flags(s.Flags)
		s.About = fmt.Sprintf("%q from %s to %s, where it broke", f.resource, report.Clock(f.from), report.Clock(f.until))
	}
	if about := r.About; about.Contender != "" {
		s.Name = trace.Showing{Contender: about.Contender, Guarded: about.Guarded}.String()
		s.How = fmt.Sprintf("%s backend · seed %d", about.Backend, about.Seed)
	}
	switch as, known := r.AsClaimed(); {
	case known && as:
		s.Claimed = "as claimed"
	case known:
		s.Claimed = "not as claimed"
	}
	return s
}

// judgement is the verdict in a few words.
func judgement(v trace.Verdict) string {
	if len(v.Violations) == 0 {
		return "keeps every rule"
	}
	words := make([]string, 0, len(v.Broken()))
	for _, r := range v.Broken() {
		words = append(words, string(r))
	}
	return strings.Join(words, ", ")
}

// flagsOf are the violations that a picture has to say: two holders it shows.
func flagsOf(v trace.Verdict) (flags []report.Flag) {
	for _, b := range v.Violations {
		if b.Rule != trace.TwoHolders {
			flags = append(flags, report.Flag{Rule: string(b.Rule), Resource: b.Resource, Text: b.Text, Stale: b.Rule == trace.StaleWrite, At: b.At})
		}
	}
	return flags
}

// eventsOf are the records as text, for those who do not see the picture.
func eventsOf(records []trace.Record) (events []report.Event) {
	for _, r := range records {
		if len(events) == pageEvents {
			return append(events, report.Event{What: fmt.Sprintf("and %d more", len(records)-pageEvents)})
		}
		events = append(events, eventOf(r))
	}
	return events
}

func eventOf(r trace.Record) report.Event {
	e := report.Event{At: report.Clock(r.At), Who: r.Client, What: string(r.Kind)}
	if r.Node != "" {
		e.Who = r.Node
	}
	if r.Resource != "" {
		e.What += " " + r.Resource
	}
	switch {
	case r.Kind == trace.Stored && r.Shared && r.Until == 0:
		e.What = fmt.Sprintf("has the key of %s no longer for %s", r.Resource, r.Client)
	case r.Kind == trace.Stored && r.Client != "":
		e.What = fmt.Sprintf("has the key of %s for %s", r.Resource, r.Client)
	case r.Kind == trace.Stored:
		e.What = fmt.Sprintf("has no key of %s", r.Resource)
	case r.Kind == trace.Saw && r.Value == "":
		e.What = fmt.Sprintf("is told that nobody has %s", r.Resource)
	case r.Kind == trace.Saw:
		e.What = fmt.Sprintf("is told that %s has %s", r.Value, r.Resource)
	}
	if r.Kind == trace.Granted {
		e.What = fmt.Sprintf("tells %s that it was granted %s", r.Client, r.Resource)
	}
	for _, more := range []struct {
		is   bool
		text string
	}{
		{r.Text != "", r.Text},
		{r.Hold != 0, fmt.Sprintf("attempt %d", r.Hold)},
		{r.Shared, "shared"},
		{r.Set != 0, fmt.Sprintf("set %d", r.Set)},
		{r.Limit != 0 && r.Kind == trace.Held, fmt.Sprintf("slot %d of %d", r.Slot, r.Limit)},
		{r.Token != 0, fmt.Sprintf("token %d", r.Token)},
		{r.Until > 0 && r.Until < time.Duration(1<<62), "until " + report.Clock(r.Until)},
	} {
		if more.is {
			e.What += ", " + more.text
		}
	}
	return e
}

// PagesVariable names the environment variable with the directory where failed
// tests leave their page. Without it they leave it among the artifacts of go
// test -artifacts.
const PagesVariable = "REDLOCK_CHAOS_PAGES"

// notInNames is what file names should not have.
var notInNames = regexp.MustCompile(`[^\w.-]+`)

// Leave writes the page of a run that failed a test, and the trace, where the
// test's author can find them, and says where: in the directory that
// [PagesVariable] names, or among the artifacts of go test -artifacts. Without
// either it writes nothing, and says how to have it.
func Leave(t *testing.T, run trace.Run) string {
	t.Helper()
	dir := os.Getenv(PagesVariable)
	if f := flag.Lookup("test.artifacts"); dir == "" && f != nil && f.Value.String() == "true" {
		dir = t.ArtifactDir()
	}
	if dir == "" {
		return fmt.Sprintf("for a page to look at: %s=DIR, or go test -artifacts", PagesVariable)
	}
	base := filepath.Join(dir, notInNames.ReplaceAllString(t.Name(), "-"))
	var errs []error
	for _, out := range []struct {
		name  string
		write func(io.Writer, ...trace.Run) error
	}{{base + ".html", Write}, {base + ".jsonl", trace.WriteRuns}} {
		f, err := os.Create(out.name)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		errs = append(errs, out.write(f, run), f.Close())
	}
	return cmp.Or(words(errors.Join(errs...)), "look at it: "+base+".html")
}

// words is an error in words; nil if none.
func words(err error) string {
	if err == nil {
		return ""
	}
	return "the page could not be written: " + err.Error()
}
