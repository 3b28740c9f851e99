package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/quorumkit/redlock/chaos"
	"github.com/quorumkit/redlock/internal/cli"
	"github.com/quorumkit/redlock/internal/lab/page"
	"github.com/quorumkit/redlock/internal/lab/trace"
)

// outputs are the files to write.
type outputs struct{ html, svg, trace string }

func (o *outputs) define(fs *flag.FlagSet) {
	fs.StringVar(&o.html, "html", "", "write one page with all pictures to this `FILE` (- is stdout)")
	fs.StringVar(&o.svg, "svg", "", "write the pictures to this `FILE`, for a document")
	fs.StringVar(&o.trace, "trace", "", "write the events as JSON lines to this `FILE`, for render")
}

// toStdout tells whether a file is stdout.
func (o *outputs) toStdout() bool { return o.html == "-" || o.svg == "-" || o.trace == "-" }

// save writes the files that were asked for.
func (a *app) save(o *outputs, runs []chaos.Run) error {
	var errs []error
	for _, out := range []struct {
		file  string
		write func(io.Writer, ...chaos.Run) error
	}{{o.html, page.Write}, {o.svg, page.WritePicture}, {o.trace, trace.WriteRuns}} {
		if out.file != "" {
			errs = append(errs, a.saveAs(out.file, func(w io.Writer) error { return out.write(w, runs...) }))
		}
	}
	return errors.Join(errs...)
}

// saveAs writes one file, or to stdout where it is called "-".
func (a *app) saveAs(name string, write func(io.Writer) error) error {
	if name == "-" {
		return write(a.Out)
	}
	f, err := os.Create(name) //nolint:gosec // G304: the file that the user asks for
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}

// runShows is a run, as --json shows it.
type runShows struct {
	Scenario    string   `json:"scenario,omitempty"`
	Contender   string   `json:"contender,omitempty"`
	Guarded     bool     `json:"guarded"`
	Backend     string   `json:"backend,omitempty"`
	Seed        uint64   `json:"seed"`
	AsClaimed   *bool    `json:"as_claimed"` // null: nothing is claimed
	Broken      []string `json:"broken"`
	Violations  []string `json:"violations"`
	TwoHolders  int64    `json:"two_holders_ms"`
	Rounds      int      `json:"rounds"`
	Won         int      `json:"won"`
	Writes      int      `json:"writes"`
	Refused     int      `json:"refused"`
	LongestWait int64    `json:"longest_wait_ms"`
}

func shownRun(r chaos.Run) runShows {
	v := r.Verdict
	shows := runShows{
		Scenario: r.About.Scenario, Contender: r.About.Contender, Guarded: r.About.Guarded, Backend: r.About.Backend, Seed: r.About.Seed,
		Broken: []string{}, Violations: []string{}, TwoHolders: v.Overlap.Milliseconds(), Rounds: v.Rounds, Won: v.Won,
		Writes: v.Writes, Refused: v.Refused, LongestWait: v.LongestWait.Milliseconds(),
	}
	if as, known := r.AsClaimed(); known {
		shows.AsClaimed = &as
	}
	for _, rule := range v.Broken() {
		shows.Broken = append(shows.Broken, string(rule))
	}
	for _, violation := range v.Violations {
		shows.Violations = append(shows.Violations, violation.String())
	}
	return shows
}

// report prints the runs side by side, and says by the exit status whether all
// was as claimed.
func (a *app) report(runs []chaos.Run, o *outputs) error {
	p, code := a.NewPage(), cli.ExitOK
	for _, r := range runs {
		if as, known := r.AsClaimed(); known && !as {
			code = cli.ExitFailure
		}
		if a.JSON {
			p.WriteString(cli.JSONLine(shownRun(r)))
		}
	}
	if !a.JSON {
		showRuns(p, runs)
	}
	if o.toStdout() { // which is the file's then
		p.Reset()
	}
	return errors.Join(a.Flush(p), cli.Quietly(code))
}

// showRuns prints a table, what was found where it was not claimed, and the lesson.
func showRuns(p *cli.Page, runs []chaos.Run) {
	about := runs[0].About
	if about.Scenario != "" {
		p.WriteString(cli.Note(about.Scenario + ": " + about.Claim))
		p.Printf("%s backend, seed %d\n\n", about.Backend, about.Seed)
	}
	rows := [][]cli.Cell{cli.Row("CONTENDER", "GUARD", "TWO HOLDERS", "WRITES", "REFUSED", "LOCKS", "LONGEST WAIT", "VERDICT")}
	for _, r := range runs {
		rows = append(rows, runRow(r))
	}
	p.Table(rows)
	for _, r := range runs {
		if as, known := r.AsClaimed(); !known || !as {
			showViolations(p, r)
		}
	}
	if about.Lesson != "" {
		p.WriteString("\n" + cli.Note("Take away: "+about.Lesson+"."))
	}
}

func runRow(r chaos.Run) []cli.Cell {
	v, name := r.Verdict, r.About.Contender
	guard, said := "off", cli.Cell{Text: "keeps every rule", In: cli.Green}
	if name == "" {
		name, guard = "the trace", "-"
	} else if r.About.Guarded {
		guard = "on"
	}
	if broken := shownRun(r).Broken; len(broken) > 0 {
		said = cli.Cell{Text: strings.Join(broken, ", "), In: cli.Red}
	}
	switch as, known := r.AsClaimed(); {
	case known && as:
		said.Text += ", as claimed"
	case known:
		said = cli.Cell{Text: said.Text + ", NOT as claimed", In: cli.Red}
	}
	cells := cli.Row(name, guard, cli.Short(v.Overlap), strconv.Itoa(v.Writes), strconv.Itoa(v.Refused), fmt.Sprintf("%d of %d", v.Won, v.Rounds), cli.Short(v.LongestWait))
	return append(cells, said)
}

// showViolations lists what a run broke.
func showViolations(p *cli.Page, r chaos.Run) {
	for i, v := range r.Verdict.Violations {
		if i == 0 {
			p.Printf("\n%s:\n", runRow(r)[0].Text)
		}
		p.WriteString(cli.Note(fmt.Sprintf("- %v", v)))
	}
}
