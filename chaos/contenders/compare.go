package contenders

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Main is the command redlock-compare, or a holder that it has started as a process of
// its own. It returns the exit status.
func Main() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if text := os.Getenv(holderEnv); text != "" {
		if err := playHolder(ctx, text, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "redlock-compare: a holder:", err)
			return 1
		}
		return 0
	}
	if err := compare(ctx, os.Args[1:], os.Stderr); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "redlock-compare:", err)
		return 1
	}
	return 0
}

// options are the command's flags.
type options struct {
	contenders, scenarios string
	parallel, count       int
	out                   string
}

// compare plays what the arguments say, and writes the table, the page and the
// traces.
func compare(ctx context.Context, args []string, log io.Writer) error {
	var o options
	flags := flag.NewFlagSet("redlock-compare", flag.ContinueOnError)
	flags.SetOutput(log)
	flags.StringVar(&o.contenders, "contenders", "", "play only these, by name, with commas between (default: all)")
	flags.StringVar(&o.scenarios, "scenarios", "", "play only these (default: all)")
	flags.IntVar(&o.parallel, "parallel", 2, "so many contenders at a time")
	flags.IntVar(&o.count, "count", 1, "so many runs; the table and the page are of the last")
	flags.StringVar(&o.out, "out", "comparison", "the folder for table.md, page.html and traces")
	if err := flags.Parse(args); err != nil {
		return err
	}
	r, err := o.run(log)
	if err != nil {
		return err
	}
	var errs []error
	for i := range o.count {
		if o.count > 1 {
			r.say("run %d of %d", i+1, o.count)
		}
		results := r.all(ctx)
		if err := write(o.out, results, r.scenarios); err != nil {
			return err
		}
		errs = append(errs, convicted(results))
	}
	return errors.Join(append(errs, ctx.Err())...)
}

// run is what the flags ask for.
func (o options) run(log io.Writer) (*run, error) {
	r := &run{parallel: o.parallel, log: log, contenders: field, scenarios: scenarios}
	if o.count < 1 || o.parallel < 1 {
		return nil, errors.New("-count and -parallel must be 1 or more")
	}
	if o.contenders != "" {
		r.contenders = nil
		for name := range strings.SplitSeq(o.contenders, ",") {
			s, err := find(strings.TrimSpace(name))
			if err != nil {
				return nil, err
			}
			r.contenders = append(r.contenders, s)
		}
	}
	if o.scenarios != "" {
		r.scenarios = nil
		for name := range strings.SplitSeq(o.scenarios, ",") {
			s, err := findScenario(strings.TrimSpace(name))
			if err != nil {
				return nil, err
			}
			r.scenarios = append(r.scenarios, s)
		}
	}
	return r, nil
}

func findScenario(name string) (scenario, error) {
	i := slices.IndexFunc(scenarios, func(s scenario) bool { return s.name == name })
	if i >= 0 {
		return scenarios[i], nil
	}
	var names []string
	for _, s := range scenarios {
		names = append(names, s.name)
	}
	return scenario{}, fmt.Errorf("no scenario %q: there are %s", name, strings.Join(names, ", "))
}

// convicted is the error of a run in which redlock broke what it promises, or has no
// result: the others may, and the table says so.
func convicted(results []*result) error {
	var errs []error
	for _, r := range results {
		for _, o := range r.Outcomes {
			if r.Spec.name == redlockSpec.name && (o.Two > 0 || o.Failed != "" || len(o.Fences) > 1 && !o.Rising) {
				errs = append(errs, fmt.Errorf("redlock, %s: %s; tokens %v", o.Scenario, o, o.Fences))
			}
		}
	}
	return errors.Join(errs...)
}

// write writes a run into a folder.
func write(dir string, results []*result, scenarios []scenario) error {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	text := table(results, scenarios, time.Now())
	if err := os.WriteFile(filepath.Join(dir, "table.md"), []byte(text), 0o600); err != nil {
		return err
	}
	f, err := os.Create(filepath.Join(dir, "page.html")) //nolint:gosec // the user's own folder
	if err != nil {
		return err
	}
	if err := errors.Join(writePage(f, results, scenarios), f.Close()); err != nil {
		return err
	}
	return writeTraces(filepath.Join(dir, "traces.jsonl"), results)
}

// writeTraces writes all records, each with its contender and scenario.
func writeTraces(path string, results []*result) error {
	f, err := os.Create(path) //nolint:gosec // the user's own folder
	if err != nil {
		return err
	}
	out := json.NewEncoder(f)
	for _, r := range results {
		for _, o := range r.Outcomes {
			for _, rec := range inOrder(o.records) {
				err = errors.Join(err, out.Encode(struct {
					Contender string `json:"contender"`
					Scenario  string `json:"scenario"`
					record
				}{o.Contender, o.Scenario, rec}))
			}
		}
	}
	return errors.Join(err, f.Close())
}
