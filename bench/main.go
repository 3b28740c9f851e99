// Command bench measures redlock beside redsync, rueidislock, bsm/redislock and a
// floor written by hand, on five real redis-servers that it starts itself, and
// holds the figures against what the project promises.
//
//	cd bench && go run . [-quick] [-rounds n] [workload ...]
//
// Contenders take turns (A B C B C A ...); what is told is the median over the
// rounds, and ratios within one run. It ends with status 1 if a gate fails.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9/logging"

	"github.com/quorumkit/redlock"
)

// minRounds is the fewest rounds that a median is told of.
const minRounds = 5

type run struct {
	servers cluster
	rounds  int
	quick   bool
	report  report
	serial  int // used up: each crowd has a name of its own
}

type workload struct {
	name  string
	start func(*run, context.Context) error
}

var workloads = []workload{
	{"uncontended", (*run).uncontended},
	{"load64", func(r *run, ctx context.Context) error { return r.many(ctx, 64) }},
	{"load512", func(r *run, ctx context.Context) error { return r.many(ctx, 512) }},
	{"onemaster", (*run).oneMaster},
	{"faults", (*run).faultRuns},
	{"tokens", (*run).tokens},
	{"primitives", (*run).primitives},
	{"wake", (*run).wake},
	{"handover", (*run).handover},
	{"growth", (*run).growth},
	{"grown", (*run).onceGrown},
	{"idle", (*run).idle},
	{"held", (*run).heldIdle},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	logging.Disable() // go-redis tells every refused connection on standard error
	var err error
	if args := os.Args[1:]; len(args) == 1 && children[args[0]] != nil {
		err = playPart(ctx, args[0])
	} else {
		err = start(ctx, args)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func start(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	r := &run{}
	flags.BoolVar(&r.quick, "quick", false, "short slices and small numbers: for a first look")
	flags.IntVar(&r.rounds, "rounds", minRounds, "rounds of each workload")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if r.rounds < minRounds {
		return fmt.Errorf("-rounds %d: a median needs at least %d", r.rounds, minRounds)
	}
	chosen, err := choose(flags.Args())
	if err != nil {
		return err
	}
	for _, w := range chosen {
		fmt.Fprintln(os.Stderr, "bench:", w.name)
		if err := r.one(ctx, w); err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
	}
	r.report.writeMarkdown(os.Stdout)
	if !r.report.passed() {
		return errors.New("a gate failed")
	}
	return nil
}

func choose(args []string) (chosen []workload, err error) {
	var names []string
	for _, w := range workloads {
		if names = append(names, w.name); len(args) == 0 || slices.Contains(args, w.name) {
			chosen = append(chosen, w)
		}
	}
	for _, a := range args {
		if !slices.Contains(names, a) {
			return nil, fmt.Errorf("no workload %q; there are %s", a, strings.Join(names, ", "))
		}
	}
	return chosen, nil
}

// one runs one workload on masters of its own, so that none finds the keys of
// another.
func (r *run) one(ctx context.Context, w workload) (err error) {
	if r.servers, err = startCluster(ctx, nodes); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.servers.stop()) }()
	if r.report.Machine == "" {
		u, err := r.servers.usage(ctx)
		if err != nil {
			return err
		}
		r.report.Machine = fmt.Sprintf("%d cores, %s/%s, %s, %s, five masters without persistence.",
			runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version(), u.version)
	}
	return w.start(r, ctx)
}

func (r *run) env() *env { return r.envAt(r.servers.addrs()) }

func (r *run) envAt(addrs []string) *env {
	return &env{servers: r.servers, addrs: addrs, options: []redlock.Option{redlock.WithNodeNames(r.servers.addrs()...)}}
}

func (r *run) add(s section, gates ...gate) {
	r.report.Sections = append(r.report.Sections, s)
	r.report.Gates = append(r.report.Gates, gates...)
}

func (r *run) scale(full, quick int) int {
	if r.quick {
		return quick
	}
	return full
}

type report struct {
	Machine  string
	Sections []section
	Gates    []gate
}

type section struct {
	Workload string
	Title    string
	Header   []string
	Rows     [][]string
	Load     load
	Notes    []string
}

type relation string

const (
	atMost  relation = "<="
	atLeast relation = ">="
)

type gate struct {
	Workload string
	What     string
	Measured float64
	Relation relation
	Required float64
	Unit     string
	Pass     bool
	Stated   bool // told, and fails no run
}

func demand(workload, what string, measured float64, r relation, required float64, unit string) gate {
	pass := r == atMost && measured <= required || r == atLeast && measured >= required
	return gate{Workload: workload, What: what, Measured: measured, Relation: r, Required: required, Unit: unit, Pass: pass}
}

// stated is a demand that is told and fails no run.
func stated(g gate) gate {
	g.Stated = true
	return g
}

func (g gate) verdict() string {
	switch {
	case g.Pass:
		return "pass"
	case g.Stated:
		return "no (stated, not required)"
	default:
		return "FAIL"
	}
}

func (r *report) passed() bool {
	return !slices.ContainsFunc(r.Gates, func(g gate) bool { return !g.Pass && !g.Stated })
}

func (r *report) writeMarkdown(w io.Writer) {
	fmt.Fprintf(w, "%s\n", r.Machine)
	for _, s := range r.Sections {
		fmt.Fprintf(w, "\n## %s: %s\n\n", s.Workload, s.Title)
		writeTable(w, s.Header, s.Rows)
		if s.Load.Cores > 0 { // of masters that a workload starts one after another nothing is known
			fmt.Fprintf(w, "\nMeanwhile, %s.\n", s.Load)
		}
		for _, n := range s.Notes {
			fmt.Fprintf(w, "%s\n", n)
		}
	}
	fmt.Fprint(w, "\n## Gates\n\n")
	var rows [][]string
	for _, g := range r.Gates {
		rows = append(rows, []string{
			g.Workload, g.What, number3(g.Measured) + g.Unit,
			string(g.Relation) + " " + number3(g.Required) + g.Unit, g.verdict(),
		})
	}
	writeTable(w, []string{"workload", "what", "measured", "required", ""}, rows)
}

func writeTable(w io.Writer, header []string, rows [][]string) {
	line := func(cells []string) { fmt.Fprintf(w, "| %s |\n", strings.Join(cells, " | ")) }
	line(header)
	line(slices.Repeat([]string{"---"}, len(header)))
	for _, r := range rows {
		line(r)
	}
}

func number3(f float64) string {
	switch {
	case f == 0:
		return "0"
	case f >= 100 || f <= -100:
		return fmt.Sprintf("%.0f", f)
	case f >= 10 || f <= -10:
		return fmt.Sprintf("%.1f", f)
	case f >= 0.1 || f <= -0.1:
		return fmt.Sprintf("%.2f", f)
	default:
		return fmt.Sprintf("%.2g", f)
	}
}

// percentile returns the value below which a share p of the samples lie. It
// sorts them.
func percentile[T cmp.Ordered](samples []T, p float64) (value T) {
	slices.Sort(samples)
	if len(samples) > 0 {
		value = samples[min(int(p*float64(len(samples))), len(samples)-1)]
	}
	return value
}

func median[T cmp.Ordered](values []T) T { return percentile(slices.Clone(values), 0.5) }

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// over is a ratio of two latencies. Without a sample there is none, and no gate
// may take that for a good one.
func over(a, b float64) float64 {
	if a <= 0 || b <= 0 {
		return math.Inf(1)
	}
	return a / b
}
