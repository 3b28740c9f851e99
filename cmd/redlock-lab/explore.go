package main

// explore looks for a plan of faults that breaks a rule; compare runs the comparison with other
// systems, which is a program of its own.
//
// explore ends with 0 if every rule was kept, which says something only beside a run with
// --protections off that finds a violation; with 1 if one was broken. It then prints the command that
// repeats it: a finding that nobody can repeat is worth little.

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/chaos"
	"github.com/quorumkit/redlock/internal/cli"
	"github.com/quorumkit/redlock/internal/lab/bubble"
	"github.com/quorumkit/redlock/internal/lab/trace"
)

// exploration is the flags of explore.
type exploration struct {
	outputs

	seed        uint64
	length      time.Duration
	protections string
	plan        string
}

func exploreCommand(a *app) cli.Command {
	return cli.Command{
		Name: "explore", Synopsis: "[flags]", Summary: "break a cluster at random, by a seed",
		About: `Draws plans of half a minute each from --seed and the numbers after it: nodes, clients,
names, load and faults. Plays them in virtual time, one after another up to --for, and has
each trace judged. The first one that breaks a rule is shrunk to fewer faults and clients,
and printed as the command that repeats it. It plays redlock; a lock of your own takes a
test in Go: https://github.com/quorumkit/redlock/blob/main/docs/CHAOS.md#another-lock

The same seed gives the same runs. What finds nothing means something since the same
exploration finds what a protection is for:

  redlock-lab explore --for 10m
  redlock-lab explore --for 10m --protections off
  redlock-lab explore --for 20m --seed 100 --protections membership

Exit status: 0 if every rule was kept, 1 if one was broken.`,
		Define: func(fs *flag.FlagSet) cli.Action {
			e := &exploration{}
			e.define(fs)
			fs.Uint64Var(&e.seed, "seed", 1, "the `NUMBER` that decides the first plan")
			cli.DurationFlag(fs, &e.length, "for", time.Minute, "how much virtual time to play, a `DURATION`")
			fs.StringVar(&e.protections, "protections", "", "redlock's that stay: on (all), off (none), or a `LIST` of membership, clock-watch")
			fs.StringVar(&e.plan, "plan", "", "play this `PLAN`, as an exploration printed it, and no other")
			return func(_ context.Context, args []string) error {
				if err := cli.Exactly(0, args, "no arguments"); err != nil {
					return err
				}
				return a.explore(e) //nolint:contextcheck // plays run in a bubble: see play
			}
		},
	}
}

// explorePlan is how long a plan of an exploration is. It has several leases, so that the
// effect of a fault shows within it, and is short enough to be played again and again (shrink).
const explorePlan = 30 * time.Second

// explore plays plans, and shrinks the first one that fails. Plan n has the seed that was
// given plus n, so that a longer search repeats the shorter one and goes on. It stops at
// the first: the next ones would most often be the same fault again.
func (a *app) explore(e *exploration) error {
	if err := cli.Positive("--for", e.length); err != nil {
		return err
	}
	name, err := protected(e.protections)
	if err = errors.Join(err, e.placed()); err != nil {
		return err
	}
	if e.plan != "" {
		return a.repeat(e, name)
	}
	var all []chaos.Run // those that go to a file
	sum := chaos.Run{About: trace.About{Scenario: fmt.Sprintf("exploration of seed %d", e.seed), Contender: name, Guarded: true, Backend: string(chaos.Virtual), Seed: e.seed}}
	faults, plans := 0, 0
	for left := e.length; left > 0; left -= explorePlan {
		plan := chaos.Swarm(e.seed+uint64(plans), min(left, explorePlan))
		run, err := a.playPlan(plan, name, e.draws())
		if err != nil {
			return err
		}
		if len(run.Verdict.Violations) > 0 {
			plan, run = a.shrink(plan, run, name)
			return a.explored(e, plan, run, []chaos.Run{run})
		}
		if e.draws() {
			all = append(all, run)
		}
		plans, faults = plans+1, faults+len(plan.Faults)
		sum.Verdict = added(sum.Verdict, run.Verdict)
	}
	sum.About.Claim = fmt.Sprintf("%d plans, %d faults, %v", plans, faults, e.length)
	return a.explored(e, chaos.Plan{}, sum, all)
}

// draws tells whether the runs are written to a file: only then are they kept, and watched
// by a client that reads what nodes store, since both cost memory and time.
func (e *exploration) draws() bool { return e.html != "" || e.svg != "" || e.trace != "" }

// repeat plays the plan that an exploration printed.
func (a *app) repeat(e *exploration, name string) error {
	plan, err := chaos.ParsePlan(e.plan)
	if err != nil {
		return cli.Usagef("explore: --plan: give the JSON that an exploration which found something prints: %w", err)
	}
	run, err := a.playPlan(plan, name, true)
	if err != nil {
		return err
	}
	return a.explored(e, plan, run, []chaos.Run{run})
}

// added is the sum of two runs' figures. Neither has a violation: explore stops at the first.
func added(a, b chaos.Verdict) chaos.Verdict {
	return chaos.Verdict{
		Rounds: a.Rounds + b.Rounds, Won: a.Won + b.Won, Writes: a.Writes + b.Writes, Refused: a.Refused + b.Refused,
		LongestWait: max(a.LongestWait, b.LongestWait),
	}
}

// explored writes the files and the table, and, if a run broke a rule, the
// command that repeats it. The plan is printed whole, not its seed: a shrunk plan has none.
func (a *app) explored(e *exploration, plan chaos.Plan, run chaos.Run, all []chaos.Run) error {
	a.progress("")
	if err := errors.Join(a.save(&e.outputs, all), a.report([]chaos.Run{run}, &e.outputs)); err != nil {
		return err
	}
	if len(run.Verdict.Violations) == 0 {
		return nil
	}
	again := []string{"redlock-lab explore"}
	if e.protections != "" {
		again = append(again, "--protections "+e.protections)
	}
	a.complain(fmt.Sprintf("%d faults are enough; repeat it:\n%s --plan '%v'", len(plan.Faults), strings.Join(again, " "), plan))
	return cli.Quietly(cli.ExitFailure)
}

// shrink looks for a smaller plan that breaks the same rule. Another rule would be another
// fault: it would lead away from what was found. Tries are not watched, for speed. The
// last play is, for the page; if it does not show the fault, the plan that was found stays.
func (a *app) shrink(plan chaos.Plan, run chaos.Run, name string) (chaos.Plan, chaos.Run) {
	rule, tries := run.Verdict.Violations[0].Rule, 0
	small := chaos.Shrink(plan, func(p chaos.Plan) bool {
		tries++
		a.progress("%s: shrinking, try %d: %d faults, %d clients, %v", rule, tries, len(p.Faults), p.Clients, p.For)
		r, err := inVirtualTime(p, name, false)
		return err == nil && r.Verdict.Count(rule) > 0
	})
	again, err := inVirtualTime(small, name, true)
	if err != nil || len(again.Verdict.Violations) == 0 {
		return plan, run
	}
	return small, again
}

// playPlan is inVirtualTime, with progress.
func (a *app) playPlan(p chaos.Plan, name string, watched bool) (chaos.Run, error) {
	a.progress("seed %d: %v of virtual time, %d nodes, %d clients, %d faults", p.Seed, p.For, p.Nodes, p.Clients, len(p.Faults))
	return inVirtualTime(p, name, watched)
}

// inVirtualTime plays a plan in virtual time, and judges its records. The judge sees the
// records only, so a trace from a file is judged in the same way (render).
func inVirtualTime(p chaos.Plan, name string, watched bool) (chaos.Run, error) {
	play := chaos.Plan.Play
	if watched { // a page shows the nodes' keys
		play = chaos.Plan.PlayWatched
	}
	kit := p.Redlock(name, without(name)...)
	run := chaos.Run{About: trace.About{
		Scenario: fmt.Sprintf("exploration of seed %d", p.Seed), Claim: fmt.Sprintf("%d faults, %d clients, %v", len(p.Faults), p.Clients, p.For),
		Contender: name, Guarded: true, Backend: string(chaos.Virtual), Seed: p.Seed, Judge: p.Judge(),
	}}
	err := bubble.Run(func() error {
		stage, err := chaos.NewVirtual(p.Seed, p.Nodes)
		if err != nil {
			return err
		}
		run.About.Nodes = stage.Names()
		run.Records, err = play(p, stage, kit)
		return errors.Join(err, stage.Close())
	})
	run.Verdict = run.About.Judge.Judge(run.Records)
	return run, err
}

// without are the options of a contender that lacks protections.
func without(name string) []redlock.Option {
	switch name {
	case trace.NameWithoutMembership:
		return []redlock.Option{redlock.WithoutMembership()}
	case trace.NameWithoutClockWatch:
		return []redlock.Option{redlock.WithoutClockWatch()}
	case trace.NameWithoutProtections:
		return []redlock.Option{redlock.WithoutMembership(), redlock.WithoutClockWatch()}
	}
	return nil
}

// comparer is the program that compare runs. It has a module of its own, so that this one
// does not require the clients of other systems. It is looked for in PATH, like git's
// commands, and its status is passed on.
const comparer = "redlock-compare"

// comparerFrom is how to get it.
const comparerFrom = "cd redlock/chaos/contenders && go install ./redlock-compare"

// comparerEnds is how long it has after a signal to end the servers that it has started. A
// kill at once would leave etcd, databases and their directories behind.
const comparerEnds = 15 * time.Second

func compareCommand(a *app) cli.Command {
	return cli.Command{
		Name: "compare", Synopsis: "[flags] [--] [ARG...]", Summary: "play the same failures to the locks of other systems",
		About: `Plays failures to redlock and to the locks of etcd, ZooKeeper, PostgreSQL, MariaDB, memcached
and other clients of Redis, on servers that it starts and kills itself, and writes one table
and a page of pictures for each failure. What is not installed here is not played, and the
table says so. A run takes ten to twenty minutes.

It runs the program redlock-compare of PATH, with ARGs: redlock-lab compare -- -h shows which
there are. The program has a module of its own, which is not for go install ...@VERSION:

  git clone https://github.com/quorumkit/redlock
  ` + comparerFrom + `
  redlock-lab compare -- -contenders redlock,etcd -scenarios pause

Exit status: that of redlock-compare, 1 if redlock broke what it promises; 127 if it is not
in PATH.`,
		Define: func(fs *flag.FlagSet) cli.Action {
			out := fs.String("out", "comparison", "the `DIR` for table.md, a page for each failure, and traces.jsonl")
			return func(ctx context.Context, args []string) error {
				return a.compare(ctx, *out, args)
			}
		},
	}
}

// compare runs the program with this one's standard streams. Its exit statuses are those of
// exec in cmd/redlock: the program's own, 127 if it was not found, 126 if it does not start.
func (a *app) compare(ctx context.Context, out string, args []string) error {
	path, err := exec.LookPath(comparer)
	if err != nil {
		return &cli.StatusError{Code: cli.ExitNotFound, Cause: fmt.Errorf("compare: no %s in PATH: git clone https://github.com/quorumkit/redlock && %s", comparer, comparerFrom)}
	}
	ctx, stop := cli.UntilSignal(ctx)
	defer stop()
	cmd := exec.CommandContext(ctx, path, append([]string{"-out", out}, args...)...) //nolint:gosec // the user's own, by its name
	cmd.Stdin, cmd.Stdout, cmd.Stderr = a.In, a.Out, a.Err
	// INT and not the KILL that exec.CommandContext sends: the program cleans up after it.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = comparerEnds
	err = cmd.Run()
	var ended *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &ended) && ended.Exited():
		return cli.Quietly(ended.ExitCode()) // it has told why on stderr
	case ended != nil:
		status, _ := ended.Sys().(syscall.WaitStatus)
		return &cli.StatusError{Code: cli.ExitSignal + int(status.Signal()), Cause: fmt.Errorf("compare: %s: %w", path, err)}
	case err != nil:
		return &cli.StatusError{Code: cli.ExitCannotRun, Cause: fmt.Errorf("compare: %s: %w", path, err)}
	}
	return nil
}
