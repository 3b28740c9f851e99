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
	scripts *scripts
	rounds  int
	program string // of the servers; "": the one that is found
	quick   bool
	verbose bool
	report  report
	serial  int // used up: each crowd has a name of its own
}

// workloads in the order in which they run.
var workloads = []struct {
	name  string
	start func(*run, context.Context) error
}{
	{"uncontended", (*run).uncontended},
	{"load64", func(r *run, ctx context.Context) error { return r.many(ctx, 64) }},
	{"load512", func(r *run, ctx context.Context) error { return r.many(ctx, 512) }},
	{"onemaster", (*run).oneMaster},
	{"faults", (*run).faultRuns},
	{"tokens", (*run).tokens},
	{"wake", (*run).wake},
	{"handover", (*run).handover},
	{"idle", (*run).idle},
	{"held", (*run).heldIdle},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	code := 0
	redis.SetLogger(silent{})
	begin := start
	args := os.Args[1:]
	if len(args) > 0 && children[args[0]] != nil {
		begin, args = children[args[0]], args[1:]
	}
	if err := begin(ctx, args); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		code = 1
	}
	stop()
	os.Exit(code)
}

// silent keeps go-redis from telling every refused connection on standard error.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

var errGates = errors.New("a gate failed")

func start(ctx context.Context, args []string) (err error) {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	r := &run{}
	flags.BoolVar(&r.quick, "quick", false, "short slices and small numbers: for a first look")
	flags.IntVar(&r.rounds, "rounds", minRounds, "rounds of each workload")
	flags.BoolVar(&r.verbose, "v", false, "tell each slice on standard error")
	asJSON := flags.Bool("json", false, "print JSON instead of Markdown")
	flags.StringVar(&r.program, "server", "", "the server program (default: $REDLOCK_TEST_SERVER, or the redis-server in PATH)")
	lua := flags.String("lua", "", "directory of the floor's scripts (default: the module's internal/lua/)")
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
	if r.scripts, err = readScripts(*lua); err != nil {
		return err
	}
	for _, name := range chosen {
		fmt.Fprintln(os.Stderr, "bench:", name)
		if err := r.one(ctx, name); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	if *asJSON {
		err = r.report.writeJSON(os.Stdout)
	} else {
		r.report.writeMarkdown(os.Stdout)
	}
	if err == nil && !r.report.passed() {
		err = errGates
	}
	return err
}

// choose returns the workloads that the arguments name; all without arguments.
func choose(args []string) ([]string, error) {
	var all []string
	for _, w := range workloads {
		all = append(all, w.name)
	}
	for _, a := range args {
		if !slices.Contains(all, a) {
			return nil, fmt.Errorf("no workload %q; there are %s", a, strings.Join(all, ", "))
		}
	}
	if len(args) == 0 {
		return all, nil
	}
	return args, nil
}

// one runs one workload on masters of its own, so that none finds what another
// left behind.
func (r *run) one(ctx context.Context, name string) (err error) {
	if r.servers, err = startCluster(r.program, nodes); err != nil { //nolint:contextcheck // a start is bounded by chaos itself
		return err
	}
	defer func() { err = errors.Join(err, r.servers.stop()) }()
	if r.report.Machine == "" {
		fields, err := r.servers[0].info(ctx, "server")
		if err != nil {
			return err
		}
		r.report.Machine = fmt.Sprintf("%d cores, %s/%s, %s, %s, five masters without persistence.",
			runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version(), serverVersion(fields))
	}
	for _, w := range workloads {
		if w.name == name {
			return w.start(r, ctx)
		}
	}
	return fmt.Errorf("no workload %q", name)
}

// serverVersion is the server's name and version, from INFO. Valkey calls itself
// Redis 7.2 in the old field.
func serverVersion(fields map[string]string) string {
	if v := fields["valkey_version"]; v != "" {
		return "valkey-server " + v
	}
	return "redis-server " + fields["redis_version"]
}

func (r *run) env() *env { return r.envAt(r.servers.addrs()) }

// envAt is env with other addresses of the same servers.
func (r *run) envAt(addrs []string) *env {
	return &env{servers: r.servers, addrs: addrs, scripts: r.scripts}
}

// progress tells what is going on, where that is wanted.
func (r *run) progress(format string, args ...any) {
	if r.verbose {
		fmt.Fprintf(os.Stderr, "bench: "+format+"\n", args...)
	}
}

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
