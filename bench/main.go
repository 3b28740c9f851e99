// Command bench measures redlock beside redsync, rueidislock, bsm/redislock and a
// floor written by hand, on five real redis-servers that it starts itself, and
// holds the figures against what the project promises.
//
//	cd bench && go run . [-quick] [-rounds n] [-json] [workload ...]
//
// Contenders take turns (A B C A B C ...); what is told is the median over the
// rounds, and ratios within one run. It ends with status 1 if a gate fails.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// minRounds is the fewest rounds that a median is told of.
const minRounds = 5

// run is one run of the command.
type run struct {
	servers cluster
	rounds  int
	program string // of the servers; "": the one that is found
	quick   bool
	report  report
	serial  int // used up: each crowd has a name of its own
}

// workload is one of those that can be asked for.
type workload struct {
	name  string
	start func(*run, context.Context) error
}

// workloads in the order in which they run.
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
	{"idle", (*run).idle},
	{"held", (*run).heldIdle},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	redis.SetLogger(silent{})
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

// silent keeps go-redis from telling every refused connection on standard error.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

func start(ctx context.Context, args []string) (err error) {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	r := &run{}
	flags.BoolVar(&r.quick, "quick", false, "short slices and small numbers: for a first look")
	flags.IntVar(&r.rounds, "rounds", minRounds, "rounds of each workload")
	asJSON := flags.Bool("json", false, "print JSON instead of Markdown")
	flags.StringVar(&r.program, "server", "", "the server program (default: $REDLOCK_TEST_SERVER, or the redis-server in PATH)")
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
	if *asJSON {
		out := json.NewEncoder(os.Stdout)
		out.SetIndent("", "  ")
		err = out.Encode(&r.report)
	} else {
		r.report.writeMarkdown(os.Stdout)
	}
	if err == nil && !r.report.passed() {
		err = errors.New("a gate failed")
	}
	return err
}

// choose returns the workloads that the arguments name; all without arguments.
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

// one runs one workload on masters of its own, so that none finds what another
// left behind.
func (r *run) one(ctx context.Context, w workload) (err error) {
	if r.servers, err = startCluster(ctx, r.program, nodes); err != nil {
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

// envAt is env with other addresses of the same servers.
func (r *run) envAt(addrs []string) *env { return &env{servers: r.servers, addrs: addrs} }

// add takes in what a workload found.
func (r *run) add(s section, gates ...gate) {
	r.report.Sections = append(r.report.Sections, s)
	r.report.Gates = append(r.report.Gates, gates...)
}

// scale picks a size.
func (r *run) scale(full, quick int) int {
	if r.quick {
		return quick
	}
	return full
}
