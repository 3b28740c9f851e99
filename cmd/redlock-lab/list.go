package main

// list shows the catalogue, render judges a trace that was written before. Both print what play
// and explore print too: scenarios, runs, and the files that --html, --svg and --trace name.
//
// render ends with 0 if all was as claimed, or nothing is claimed; 1 if not; 66 if the file is not
// there, 65 if it is no trace. A typing error in a name is thus no verdict.

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/quorumkit/redlock/chaos"
	"github.com/quorumkit/redlock/internal/cli"
	"github.com/quorumkit/redlock/internal/lab/page"
	"github.com/quorumkit/redlock/internal/lab/trace"
)

func listCommand(a *app) cli.Command {
	return cli.Command{
		Name: "list", Synopsis: "[flags]", Summary: "list the scenarios, with what each one shows",
		About: `Lists the scenarios: what each claims and what to take away, which contenders keep all
rules in it, and which rules the others break. With --json, it says as well on which
backends each can be played here.`,
		Define: func(*flag.FlagSet) cli.Action {
			return func(_ context.Context, args []string) error {
				if err := cli.Exactly(0, args, "no arguments"); err != nil {
					return err
				}
				return a.list() //nolint:contextcheck // looking for a compiler is bounded by itself
			}
		},
	}
}

// scenarioShows is a scenario, as --json shows it.
type scenarioShows struct {
	Name       string           `json:"name"`
	Claim      string           `json:"claim"`
	Lesson     string           `json:"lesson"`
	Contenders []string         `json:"contenders"`
	Shows      []contenderShows `json:"shows"`
	Backends   []string         `json:"backends"` // that are here
}

// contenderShows is one contender of a scenario, as --json shows it.
type contenderShows struct {
	Contender string       `json:"contender"`
	Guarded   bool         `json:"guarded"`
	Breaks    []chaos.Rule `json:"breaks"`
	May       []chaos.Rule `json:"may_break"`
}

// list prints the catalogue.
func (a *app) list() error {
	p := a.NewPage()
	for _, s := range chaos.Scenarios() {
		if a.JSON {
			p.WriteString(cli.JSONLine(shownScenario(s)))
			continue
		}
		const indent = "    "
		p.Printf("%s\n", p.In(cli.Green, s.Name))
		for _, text := range told(s) {
			p.Printf("%s%s\n", indent, strings.Join(cli.Wrap(text, cli.PageWidth-len(indent)), "\n"+indent))
		}
	}
	if !a.JSON {
		p.Printf("\nPlay one: redlock-lab play NAME. See: redlock-lab help play\n")
	}
	return a.Flush(p)
}

// told is what a scenario shows, in paragraphs. Contenders that keep all rules come first: a
// reader looks for a lock to use.
func told(s chaos.Scenario) []string {
	var keep, violate []string
	for _, c := range s.Showings {
		var rules []string
		for _, r := range c.Breaks {
			rules = append(rules, string(r))
		}
		for _, r := range c.May {
			rules = append(rules, "at times "+string(r))
		}
		if len(rules) == 0 {
			keep = append(keep, c.String())
		} else {
			violate = append(violate, c.String()+": "+strings.Join(rules, ", "))
		}
	}
	texts := []string{s.Claim, "Take away: " + s.Lesson}
	if len(keep) > 0 {
		texts = append(texts, "Keep all rules: "+strings.Join(keep, "; "))
	}
	if len(violate) > 0 {
		texts = append(texts, "Break: "+strings.Join(violate, "; "))
	}
	return texts
}

func shownScenario(s chaos.Scenario) scenarioShows {
	shows := scenarioShows{Name: s.Name, Claim: s.Claim, Lesson: s.Lesson, Contenders: []string{}, Shows: []contenderShows{}, Backends: []string{}}
	for _, c := range s.Showings {
		shows.Shows = append(shows.Shows, contenderShows{c.Contender, c.Guarded, append([]chaos.Rule{}, c.Breaks...), append([]chaos.Rule{}, c.May...)})
		if word := contenderWord(c.Contender); !slices.Contains(shows.Contenders, word) {
			shows.Contenders = append(shows.Contenders, word)
		}
	}
	for _, b := range []chaos.Backend{chaos.Virtual, chaos.Embedded, chaos.Real} {
		if s.Fit(b) == nil {
			shows.Backends = append(shows.Backends, string(b))
		}
	}
	return shows
}

func renderCommand(a *app) cli.Command {
	return cli.Command{
		Name: "render", Synopsis: "[flags] TRACE", Summary: "judge a trace again, and draw it",
		About: `Reads TRACE, JSON lines as play --trace writes them or as a program of yours does (package
chaos, Record), judges it, and draws it with --html or --svg. "-" reads stdin.

Exit status: 0 if all was as claimed, or nothing is claimed of it; 1 if not; 65 if TRACE is
no trace, 66 if it is not there.`,
		Define: func(fs *flag.FlagSet) cli.Action {
			o := &outputs{}
			o.define(fs)
			return func(_ context.Context, args []string) error {
				if err := cli.Exactly(1, args, "one TRACE"); err != nil {
					return err
				}
				return a.render(args[0], o)
			}
		},
	}
}

// render judges a trace that was written before, and draws it. It does not believe a verdict
// in the file: the judge may have learned a rule since, and a program of the user's has none.
func (a *app) render(name string, o *outputs) error {
	in := io.ReadCloser(a.In)
	// "-" is stdin by convention; a file of that name is ./-
	if name != "-" {
		f, err := os.Open(name) //nolint:gosec // G304: the file that the user asks for
		if err != nil {
			return &cli.StatusError{Code: exitNoInput, Cause: err}
		}
		in = f
	}
	defer in.Close()
	runs, err := trace.ReadRuns(in)
	if err != nil {
		return &cli.StatusError{Code: exitBadData, Cause: fmt.Errorf("%s is no trace, as play --trace writes it: %w", name, err)}
	}
	return errors.Join(a.save(o, runs), a.report(runs, o))
}

// outputs are the files to write.
type outputs struct{ html, svg, trace string }

func (o *outputs) define(fs *flag.FlagSet) {
	fs.StringVar(&o.html, "html", "", "write one page with all pictures to this `FILE` (- is stdout)")
	fs.StringVar(&o.svg, "svg", "", "write the pictures to this `FILE`, for a document")
	fs.StringVar(&o.trace, "trace", "", "write the events as JSON lines to this `FILE`, for render")
}

// toStdout tells whether a file is stdout.
func (o *outputs) toStdout() bool { return o.html == "-" || o.svg == "-" || o.trace == "-" }

// placed tells whether the files have a directory, before something is played in vain.
func (o *outputs) placed() error {
	for _, file := range []string{o.html, o.svg, o.trace} {
		if _, err := os.Stat(filepath.Dir(file)); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	return nil
}

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

// saveAs writes one file, or to stdout if its name is "-". Close's error counts: a full disk may
// be told by it alone.
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
	AsClaimed   *bool    `json:"as_claimed"` // null if nothing is claimed
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

// report prints the runs side by side, and says by the exit status whether all was as
// claimed. A contender that breaks what the scenario says it breaks is as claimed, and 0.
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
	if o.toStdout() { // a table would spoil the page or the trace there
		p.Reset()
	}
	return errors.Join(a.Flush(p), cli.Quietly(code))
}

// showRuns prints a table, the violations that were not claimed, and the lesson.
func showRuns(p *cli.Page, runs []chaos.Run) {
	about := runs[0].About
	if about.Scenario != "" {
		p.WriteString(cli.Note(about.Scenario + ": " + about.Claim))
		p.Printf("%s backend, seed %d\n\n", about.Backend, about.Seed)
	}
	rows := [][]cli.Cell{cli.Row("CONTENDER", "GUARD", "TWO HOLDERS", "WRITES", "REFUSED", "LOCKS", "MAX WAIT", "VERDICT")}
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
	tokens := func(rec chaos.Record) bool { return rec.Kind == trace.Held && rec.Token > 0 }
	switch {
	case name == "":
		name, guard = "the trace", "-"
	case len(r.Records) > 0 && v.Won > 0 && !slices.ContainsFunc(r.Records, tokens): // nothing to check
		guard = "-"
	case r.About.Guarded:
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

// showViolations lists the rules that a run broke.
func showViolations(p *cli.Page, r chaos.Run) {
	for i, v := range r.Verdict.Violations {
		if i == 0 {
			p.Printf("\n%s:\n", runRow(r)[0].Text)
		}
		p.WriteString(cli.Note(fmt.Sprintf("- %v", v)))
	}
}
