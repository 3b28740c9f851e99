package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"unicode"

	"github.com/quorumkit/redlock/chaos"
	"github.com/quorumkit/redlock/internal/cli"
)

// lab plays a scenario with one contender after the other.
func (a *app) lab(ctx context.Context, name string, e *experiment) error {
	s, ok := chaos.FindScenario(name)
	if !ok {
		return cli.Usagef("lab: there is no scenario %q%s; see: redlock lab", name, guess(name))
	}
	backend, err := backendNamed(e.backend)
	if err != nil {
		return err
	}
	if e.server != "" && backend != chaos.Real {
		return cli.Usagef("lab: --server %s is for --backend real", e.server)
	}
	if err := e.fit(s, backend); err != nil { //nolint:contextcheck // it plays nothing yet
		return &cli.StatusError{Code: exitNoQuorum, Cause: fmt.Errorf("lab: %s can't be played on the %s backend: %w", name, backend, err)}
	}
	cast, err := e.cast(s)
	if err != nil {
		return err
	}
	ctx, stop := cli.UntilSignal(ctx)
	defer stop()
	runs := make([]chaos.Run, 0, len(cast))
	for i, c := range cast {
		a.progress("%s, %d of %d: %s", name, i+1, len(cast), c)
		run, err := e.play(ctx, s, c, backend)
		if err != nil {
			return unplayed(ctx, err)
		}
		runs = append(runs, run)
	}
	a.progress("")
	return errors.Join(a.save(&e.outputs, runs), a.report(runs, &e.outputs))
}

// guess returns the scenario that may be meant, by its letters alone; empty if none.
func guess(name string) string {
	letters := func(s string) string {
		return strings.Map(func(r rune) rune {
			if r == '-' || r == '_' || r == ' ' {
				return -1
			}
			return unicode.ToLower(r)
		}, s)
	}
	if wanted := letters(name); wanted != "" {
		for _, s := range chaos.Scenarios() {
			if strings.HasPrefix(letters(s.Name), wanted) || strings.HasPrefix(wanted, letters(s.Name)) {
				return fmt.Sprintf(" (%s?)", s.Name)
			}
		}
	}
	return ""
}

func backendNamed(word string) (chaos.Backend, error) {
	var words []string
	for _, b := range chaos.Backends() {
		if string(b) == word {
			return b, nil
		}
		words = append(words, string(b))
	}
	return "", cli.Usagef("lab: there is no backend %q; there are %s", word, strings.Join(words, ", "))
}

// unplayed is the error of a scenario that could not be played: a signal, a
// backend that is not there, or something else.
func unplayed(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, chaos.ErrNoServer), errors.Is(err, errors.ErrUnsupported):
		return &cli.StatusError{Code: exitNoQuorum, Cause: err}
	}
	return err
}

// play plays a scenario with one contender, in a bubble where the backend wants
// one, and has it judged.
func (e *experiment) play(ctx context.Context, s chaos.Scenario, c chaos.Showing, backend chaos.Backend) (chaos.Run, error) {
	run := chaos.Run{About: chaos.About{
		Scenario: s.Name, Claim: s.Claim, Lesson: s.Lesson, Contender: c.Contender, Guarded: c.Guarded,
		Backend: string(backend), Seed: e.seed, Judge: s.Judge(), Claimed: claimOf(s, c),
	}}
	kit, err := chaos.ScenarioKit(c.Contender) //nolint:contextcheck // Lockers live until they are closed
	if err != nil {
		return run, err
	}
	onStage := func(ctx context.Context) error {
		stage, err := e.stage(ctx, backend, s.Nodes)
		if err != nil {
			return err
		}
		run.About.Nodes = stage.Names()
		run.Records, err = s.Play(ctx, stage, kit, c.Guarded)
		return errors.Join(err, stage.Close())
	}
	if backend == chaos.Virtual {
		// Not with ctx: who waits for something outside the bubble stops its time.
		// A signal ends the program, which has nothing to clean up.
		err = chaos.InBubble(func() error { return onStage(context.Background()) }) //nolint:contextcheck // see above
	} else {
		err = onStage(ctx)
	}
	run.Verdict = run.About.Judge.Judge(run.Records)
	return run, err
}

// fit says why the scenario can't be played here; nil: it can.
func (e *experiment) fit(s chaos.Scenario, backend chaos.Backend) error {
	err := s.Fit(backend)
	if e.server != "" && errors.Is(err, chaos.ErrNoServer) {
		return nil // the one in PATH is not needed
	}
	return err
}

// stage opens what is played on.
func (e *experiment) stage(ctx context.Context, backend chaos.Backend, nodes int) (chaos.Stage, error) {
	if e.server != "" {
		return chaos.NewRealOf(e.server, nodes) //nolint:contextcheck // a stage outlives the call that opens it
	}
	return chaos.OpenStage(ctx, backend, e.seed, nodes)
}

// claimOf is what the scenario claims of a contender; nil: nothing.
func claimOf(s chaos.Scenario, c chaos.Showing) *chaos.Showing {
	for _, claim := range s.Showings {
		if claim.Contender == c.Contender && claim.Guarded == c.Guarded {
			return &claim
		}
	}
	return nil
}

// progress shows on a terminal what is being done, on one line that changes;
// without a format it takes the line away.
func (a *app) progress(format string, args ...any) {
	if !cli.IsTerminal(a.Err) || a.JSON || a.Getenv("TERM") == "dumb" {
		return
	}
	_, _ = fmt.Fprintf(a.Err, "\r\x1b[K"+format, args...)
}

// render judges a trace that was written before, and draws it.
func (a *app) render(name string, o *outputs) error {
	trace := io.ReadCloser(a.In)
	if name != "-" {
		f, err := os.Open(name) //nolint:gosec // G304: the file that the user asks for
		if err != nil {
			return &cli.StatusError{Code: exitNoInput, Cause: err}
		}
		trace = f
	}
	defer trace.Close()
	runs, err := chaos.ReadRuns(trace)
	if err != nil {
		return &cli.StatusError{Code: exitBadData, Cause: fmt.Errorf("%s: %w", name, err)}
	}
	return errors.Join(a.save(o, runs), a.report(runs, o))
}

// save writes the files that were asked for.
func (a *app) save(o *outputs, runs []chaos.Run) error {
	var errs []error
	for _, out := range []struct {
		file  string
		write func(io.Writer, ...chaos.Run) error
	}{{o.html, chaos.WritePage}, {o.svg, chaos.WritePicture}, {o.trace, chaos.WriteRuns}} {
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
