package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strings"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/chaos"
)

// exploration is the flags of lab explore.
type exploration struct {
	outputs

	seed        uint64
	length      time.Duration
	protections string
	plan        string
}

func exploreCommand() command {
	return command{
		name: "lab explore", synopsis: "[flags]", summary: "break a cluster at random, by a seed",
		about: `Draws faults and load from --seed, plays them in virtual time with twenty clients over five
nodes, and has the trace judged. A run that breaks a rule is shrunk to fewer faults and
clients, and printed as the command that repeats it.

The same seed gives the same run.

Exit status: 0 if every rule was kept, 1 if one was broken.`,
		define: func(fs *flag.FlagSet) action {
			e := &exploration{}
			e.define(fs)
			fs.Uint64Var(&e.seed, "seed", 1, "the `NUMBER` that decides the run")
			fs.DurationVar(&e.length, "for", time.Minute, "its length in virtual time, a `DURATION`")
			fs.StringVar(&e.protections, "protections", "", "redlock's: on, off, or a `LIST` of membership, clock-watch")
			fs.StringVar(&e.plan, "plan", "", "play this `PLAN`, as an exploration printed it, and no other")
			return func(_ context.Context, a *app, args []string) error {
				if err := exactly(0, args, "no arguments"); err != nil {
					return err
				}
				return a.explore(e) //nolint:contextcheck // what plays is in a bubble: see play
			}
		},
	}
}

// explore plays one plan, and shrinks it if it fails.
func (a *app) explore(e *exploration) error {
	if e.length <= 0 {
		return usage("lab explore: --for %v: give a positive duration", e.length)
	}
	name, err := protected(e.protections)
	if err != nil {
		return err
	}
	plan := chaos.NewPlan(e.seed, e.length, chaos.Mix{})
	if e.plan != "" {
		if plan, err = chaos.ParsePlan(e.plan); err != nil {
			return usage("lab explore: --plan: %w", err)
		}
	}
	a.progress("seed %d: %v of virtual time, %d faults", plan.Seed, plan.For, len(plan.Faults))
	run, err := playPlan(plan, name)
	if err != nil {
		return err
	}
	if broken := run.Verdict.Broken(); len(broken) > 0 && e.plan == "" {
		plan, run = a.shrink(plan, run, name)
	}
	a.progress("")
	if err := errors.Join(a.save(&e.outputs, []chaos.Run{run}), a.report([]chaos.Run{run}, &e.outputs)); err != nil {
		return err
	}
	if len(run.Verdict.Violations) == 0 {
		return nil
	}
	again := []string{"redlock lab explore"}
	if e.protections != "" {
		again = append(again, "--protections "+e.protections)
	}
	a.complain(fmt.Sprintf("%d faults are enough; repeat it:\n%s --plan '%v'", len(plan.Faults), strings.Join(again, " "), plan))
	return quietly(exitFailure)
}

// shrink looks for a smaller plan that breaks the same rule.
func (a *app) shrink(plan chaos.Plan, run chaos.Run, name string) (chaos.Plan, chaos.Run) {
	rule, tries := run.Verdict.Violations[0].Rule, 0
	small := chaos.Shrink(plan, func(p chaos.Plan) bool {
		tries++
		a.progress("%s: shrinking, try %d: %d faults, %d clients, %v", rule, tries, len(p.Faults), p.Clients, p.For)
		r, err := playPlan(p, name)
		return err == nil && r.Verdict.Count(rule) > 0
	})
	again, err := playPlan(small, name)
	if err != nil || len(again.Verdict.Violations) == 0 {
		return plan, run
	}
	return small, again
}

// playPlan plays a plan in virtual time and has it judged.
func playPlan(p chaos.Plan, name string) (chaos.Run, error) {
	kit := p.Redlock(name, without(name)...)
	run := chaos.Run{About: chaos.About{
		Scenario: fmt.Sprintf("exploration of seed %d", p.Seed), Claim: fmt.Sprintf("%d faults, %d clients, %v", len(p.Faults), p.Clients, p.For),
		Contender: name, Guarded: true, Backend: string(chaos.Virtual), Seed: p.Seed, Judge: p.Judge(),
	}}
	err := chaos.InBubble(func() error {
		stage, err := chaos.NewVirtual(p.Seed, p.Nodes)
		if err != nil {
			return err
		}
		run.About.Nodes = stage.Names()
		run.Records, err = p.Play(stage, kit)
		return errors.Join(err, stage.Close())
	})
	run.Verdict = run.About.Judge.Judge(run.Records)
	return run, err
}

// without are the options of a contender that lacks protections.
func without(name string) []redlock.Option {
	switch name {
	case chaos.NameWithoutMembership:
		return []redlock.Option{redlock.WithoutMembership()}
	case chaos.NameWithoutClockWatch:
		return []redlock.Option{redlock.WithoutClockWatch()}
	case chaos.NameWithoutProtections:
		return []redlock.Option{redlock.WithoutMembership(), redlock.WithoutClockWatch()}
	}
	return nil
}
