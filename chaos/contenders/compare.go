// Package contenders plays the same failures to redlock and to the locks of other
// systems, on servers that it starts and kills itself. These are etcd, ZooKeeper,
// PostgreSQL, MariaDB, memcached, and other clients of Redis; one is a row with a
// version, which locks nobody out. It writes one table, and a page of pictures for each
// failure.
//
// Holders are processes of their own: the program runs itself again. They write what
// they believe as JSON lines, by the clock that all processes of a machine share, so
// that SIGSTOP stops a holder with its timers, its library and its connections. Command
// redlock-compare is the program.
package contenders

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"

	"github.com/redis/go-redis/v9/logging"

	"github.com/quorumkit/redlock/internal/lab/tcpproxy"
)

// Main is the command redlock-compare, or a holder that it has started as a process of
// its own. It returns the exit status.
func Main() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	logging.Disable() // go-redis writes each refused connection to standard error
	var err error
	if text := os.Getenv(holderEnv); text != "" {
		err = playHolder(ctx, text, os.Stdin, os.Stdout)
	} else {
		err = compare(ctx, os.Args[1:], os.Stderr)
	}
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "redlock-compare:", err)
		return 1
	}
	return 0
}

// compare plays what the arguments say, and writes the table, the pages and the traces.
func compare(ctx context.Context, args []string, out io.Writer) error {
	r := &run{log: log.New(out, "", 0)}
	flags := flag.NewFlagSet("redlock-compare", flag.ContinueOnError)
	flags.SetOutput(out)
	contenders := flags.String("contenders", "", "play only these, by name, with commas between (default: all)")
	scenarios := flags.String("scenarios", "", "play only these (default: all)")
	flags.IntVar(&r.parallel, "parallel", 2, "so many contenders at a time")
	dir := flags.String("out", "comparison", "the folder for the table, the pages and the traces")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if r.parallel < 1 {
		return errors.New("-parallel must be 1 or more")
	}
	if err := r.choose(*contenders, *scenarios); err != nil {
		return err
	}
	results := r.all(ctx)
	return errors.Join(write(*dir, results, r.scenarios), convicted(results), ctx.Err())
}

// convicted is the error of a run in which redlock broke what it promises, or has no
// result: the others may, and the table says so.
func convicted(results []*result) error {
	var errs []error
	for _, r := range results {
		for _, o := range r.outcomes {
			if r.spec.name == ours && (o.Two > 0 || o.Failed != "" || len(o.Fences) > 1 && !o.Rising) {
				errs = append(errs, fmt.Errorf("redlock, %s: %s; tokens %v", o.Scenario, o, o.Fences))
			}
		}
	}
	return errors.Join(errs...)
}

// run is what is played.
type run struct {
	contenders []spec
	scenarios  []scenario
	parallel   int // contenders at a time
	log        *log.Logger
}

// choose finds the names in two lists; an empty list is all that there are.
func (r *run) choose(contenders, names string) (err error) {
	if r.contenders, err = chosen("contender", field, contenders, func(s spec) string { return s.name }); err != nil {
		return err
	}
	r.scenarios, err = chosen("scenario", scenarios, names, func(s scenario) string { return s.name })
	return err
}

// chosen finds each name of a list, or what stands before its comma.
func chosen[T any](what string, all []T, list string, name func(T) string) ([]T, error) {
	if list == "" {
		return all, nil
	}
	var found []T
	for want := range strings.SplitSeq(list, ",") {
		want, before := strings.TrimSpace(want), len(found)
		var words []string
		for _, one := range all {
			word, _, _ := strings.Cut(name(one), ",")
			if words = append(words, word); word == want {
				found = append(found, one)
			}
		}
		if len(found) == before {
			return nil, fmt.Errorf("no %s %q: there are %s", what, want, strings.Join(words, ", "))
		}
	}
	return found, nil
}

// result is what a run has of one contender.
type result struct {
	spec     spec
	servers  system // what they were
	missing  error  // why it was not played
	outcomes []*outcome
}

// all plays everything, and returns the results in the order of the contenders.
func (r *run) all(ctx context.Context) []*result {
	results := make([]*result, len(r.contenders))
	slots := make(chan struct{}, r.parallel)
	var wait sync.WaitGroup
	for i, s := range r.contenders {
		slots <- struct{}{}
		wait.Go(func() {
			defer func() { <-slots }()
			results[i] = r.one(ctx, s)
		})
	}
	wait.Wait()
	return results
}

// one plays all scenarios with one contender, over one start of its servers.
func (r *run) one(ctx context.Context, s spec) *result {
	system, err := s.servers.start(ctx)
	if err == nil {
		defer system.close()
		if s.prepare != nil {
			err = s.prepare(ctx, system)
		}
	}
	if err != nil {
		r.log.Printf("%s: %v", s.name, err)
		return &result{spec: s, missing: err}
	}
	res := &result{spec: s, servers: *system}
	for i, sc := range r.scenarios {
		o := playOne(ctx, s, system, sc, fmt.Sprint("resource-", i))
		res.outcomes = append(res.outcomes, o)
		r.log.Printf("%s, %s: %s", s.name, sc.name, o)
		if ctx.Err() != nil {
			break
		}
	}
	return res
}

// playOne plays one scenario, and lets the servers come to rest after it. A play that
// failed shows nothing.
func playOne(ctx context.Context, s spec, system *system, sc scenario, name string) *outcome {
	was := outcome{Contender: s.name, Scenario: sc.name, Optimistic: s.optimistic}
	o := was
	p := &play{ctx: ctx, spec: s, system: system, name: name, o: &o, before: map[*node][]*tcpproxy.Proxy{}, heard: make(chan struct{})}
	if err := p.run(sc.play); errors.Is(err, errors.ErrUnsupported) {
		was.Skipped = strings.TrimSuffix(oneLine(err), ": "+errors.ErrUnsupported.Error())
		return &was
	} else if err != nil {
		was.zero, was.Failed = o.zero, oneLine(err)
		o = was
	}
	o.Records = p.trace()
	_ = wait(ctx, settleFor) // the caller looks whether ctx is done
	return &o
}
