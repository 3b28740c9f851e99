package main

// play shows one scenario, with redlock beside plainer locks: what a reader of the pages is told
// can be seen, and repeated, on the reader's own machine.
//
// It ends with 0 if all was as claimed, or nothing is claimed of what was played; 1 if not; 69 if
// the backend is not available here (no redis-server, no C compiler for clocks that step);
// 128+n after a signal, on the backends in real time.

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/quorumkit/redlock/chaos"
	"github.com/quorumkit/redlock/internal/cli"
	"github.com/quorumkit/redlock/internal/lab/bubble"
	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/lab/trace"
)

func playCommand(a *app) cli.Command {
	return cli.Command{
		Name: "play", Synopsis: "[flags] SCENARIO", Summary: "break a cluster on purpose, and see which lock survives",
		About: `Plays a scenario (see: redlock-lab list) on nodes of its own with one contender after the
other, redlock beside plainer locks, and prints what a judge made of each and what to take
away.

  redlock-lab play gc-pause --html gc-pause.html  a page that needs no network
  redlock-lab play failover --backend real        on redis-server processes
  redlock-lab play failover --backend real --server valkey-server
  redlock-lab play amnesia-majority --protections off

Contenders are redlock (with the protections that --protections names), redlock-renewing,
textbook (the Redis page's) and single (one master). By default all play that the scenario
claims something about, with a guard that checks tokens before the resource, or without one,
as it says. GUARD - means locks without tokens; LOCKS 2 of 54, that two of 54 attempts
brought a lock.

Backends: virtual (in memory, virtual time, the same from the same seed), embedded (in
memory, real time), real (processes; clocks that step need a C compiler). None of them
touches your nodes. In virtual time all contenders
of a scenario take a second or two; embedded and real take ten to thirty seconds for each.

Exit status: 0 if all was as claimed, or nothing is claimed of it; 1 if not; 69 if the
backend is not available here.`,
		Define: func(fs *flag.FlagSet) cli.Action {
			e := &experiment{}
			e.define(fs)
			return func(ctx context.Context, args []string) error {
				if err := cli.Exactly(1, args, "one SCENARIO of redlock-lab list"); err != nil {
					return err
				}
				return a.play(ctx, args[0], e)
			}
		},
	}
}

// experiment is the flags of play.
type experiment struct {
	outputs

	backend     string
	server      string
	seed        uint64
	protections string
	contenders  string
	guard       *bool // nil if the scenario decides
}

func (e *experiment) define(fs *flag.FlagSet) {
	e.outputs.define(fs)
	fs.StringVar(&e.backend, "backend", string(chaos.Virtual), "play on this `BACKEND`: virtual, embedded or real")
	fs.StringVar(&e.server, "server", "", "the server `PROGRAM` of --backend real; default: the redis-server in PATH")
	fs.Uint64Var(&e.seed, "seed", 1, "the `NUMBER` that decides the latencies")
	fs.StringVar(&e.protections, "protections", "", "redlock's that stay: on (all), off (none), or a `LIST` of membership, clock-watch")
	fs.StringVar(&e.contenders, "contender", "", "only the contenders of this `LIST`, such as textbook,redlock")
	fs.BoolFunc("guard", "have the resource check tokens; --guard=false: have it not", func(s string) error {
		on := s == "true"
		if !on && s != "false" {
			return fmt.Errorf("%q: give true or false", s)
		}
		e.guard = &on
		return nil
	})
}

// play plays a scenario with one contender after the other, never two at a time: they would
// take the processor from each other, and the figures would be of the machine. Whether the
// backend can play it is asked first, so that no contender is played in vain.
func (a *app) play(ctx context.Context, name string, e *experiment) error {
	s, ok := chaos.FindScenario(name)
	if !ok {
		return cli.Usagef("play: there is no scenario %q%s; see: redlock-lab list", name, guess(name))
	}
	backend, err := backendNamed(e.backend)
	if err = errors.Join(err, e.placed()); err != nil {
		return err
	}
	// The other backends would ignore it, and the user believe it was that server's result.
	if e.server != "" && backend != chaos.Real {
		return cli.Usagef("play: --server %s is for --backend real", e.server)
	}
	if err := e.fit(s, backend); err != nil { //nolint:contextcheck // it plays nothing yet
		return &cli.StatusError{Code: exitUnavailable, Cause: fmt.Errorf("play: %s can't be played on the %s backend: %w", name, backend, err)}
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

// backendNamed is the backend of that name, or the error that lists them.
func backendNamed(word string) (chaos.Backend, error) {
	var words []string
	for _, b := range []chaos.Backend{chaos.Virtual, chaos.Embedded, chaos.Real} {
		if string(b) == word {
			return b, nil
		}
		words = append(words, string(b))
	}
	return "", cli.Usagef("play: there is no backend %q; there are %s", word, strings.Join(words, ", "))
}

// unplayed is the error of a scenario that could not be played: a signal, a
// backend that is not there, or something else.
func unplayed(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, redisserver.ErrNoServer), errors.Is(err, errors.ErrUnsupported):
		return &cli.StatusError{Code: exitUnavailable, Cause: err}
	}
	return err
}

// play plays a scenario with one contender, in a bubble where the backend wants
// one, and has it judged.
func (e *experiment) play(ctx context.Context, s chaos.Scenario, c trace.Showing, backend chaos.Backend) (chaos.Run, error) {
	run := chaos.Run{About: trace.About{
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
	// Virtual time needs a bubble round all goroutines of the play (testing/synctest's rule).
	if backend == chaos.Virtual {
		// Not with ctx: a goroutine that waits for something outside the bubble stops its time.
		// A signal ends the program, which has nothing to clean up.
		err = bubble.Run(func() error { return onStage(context.Background()) }) //nolint:contextcheck // see above
	} else {
		err = onStage(ctx)
	}
	run.Verdict = run.About.Judge.Judge(run.Records)
	return run, err
}

// fit says why the scenario can't be played here; nil if it can.
func (e *experiment) fit(s chaos.Scenario, backend chaos.Backend) error {
	err := s.Fit(backend)
	if e.server != "" && errors.Is(err, redisserver.ErrNoServer) {
		return nil // the one in PATH is not needed
	}
	return err
}

// stage opens the nodes of the play.
func (e *experiment) stage(ctx context.Context, backend chaos.Backend, nodes int) (chaos.Stage, error) {
	if e.server != "" {
		return chaos.NewReal(e.server, nodes) //nolint:contextcheck // a stage outlives the call that opens it
	}
	return chaos.OpenStage(ctx, backend, e.seed, nodes)
}

// claimOf is what the scenario claims of a contender; nil if nothing. A claim is of a contender
// with a guard or without: with --guard the other way there is none, and the run can't fail.
func claimOf(s chaos.Scenario, c trace.Showing) *trace.Showing {
	for _, claim := range s.Showings {
		if claim.Contender == c.Contender && claim.Guarded == c.Guarded {
			return &claim
		}
	}
	return nil
}

// cast is the contenders to play: by default all that the scenario claims something about.
// As soon as a flag names one, the guard is on unless --guard says otherwise.
func (e *experiment) cast(s chaos.Scenario) ([]trace.Showing, error) {
	if e.contenders == "" && e.protections == "" && e.guard == nil {
		return s.Showings, nil
	}
	names, err := e.names(s)
	if err != nil {
		return nil, err
	}
	guarded := e.guard == nil || *e.guard
	cast := make([]trace.Showing, len(names))
	for i, name := range names {
		cast[i] = trace.Showing{Contender: name, Guarded: guarded}
	}
	return cast, nil
}

// names are the contenders, in words that chaos knows.
func (e *experiment) names(s chaos.Scenario) ([]string, error) {
	ours, err := protected(e.protections)
	if err != nil {
		return nil, err
	}
	if e.contenders == "" && e.protections != "" {
		return []string{ours}, nil
	}
	var names []string
	if e.contenders == "" {
		for _, c := range s.Showings {
			names = append(names, c.Contender)
		}
		return slices.Compact(names), nil
	}
	for word := range strings.SplitSeq(e.contenders, ",") {
		name, ok := contenderNamed(strings.TrimSpace(word))
		if !ok {
			return nil, cli.Usagef("play: there is no contender %q; there are %s", word, strings.Join(contenderWords(), ", "))
		}
		if name == trace.NameRedlock {
			name = ours
		}
		names = append(names, name)
	}
	if e.protections != "" && !slices.Contains(names, ours) {
		return nil, cli.Usagef("play: --protections are redlock's; add redlock to --contender")
	}
	return names, nil
}

// contenderNamed finds a contender by a word of the command line.
func contenderNamed(word string) (string, bool) {
	for _, name := range trace.Contenders() {
		if name == word || contenderWord(name) == word {
			return name, true
		}
	}
	return "", false
}

// contenderWord is a contender's name as one word: of a plain lock, its first.
func contenderWord(name string) string {
	return strings.NewReplacer(" Redlock", "", " master", "", ", ", "-", " ", "-").Replace(name)
}

// contenderWords are the names that --contender takes.
func contenderWords() []string {
	var words []string
	for _, name := range trace.Contenders() {
		words = append(words, contenderWord(name))
	}
	return words
}

// protected is the contender with these protections. A lock without one has a name of its own
// on the pages, so that no picture of it can be taken for redlock's.
func protected(list string) (string, error) {
	membership, clocks := false, false
	switch list {
	case "", "on":
		membership, clocks = true, true
	case "off":
	default:
		for word := range strings.SplitSeq(list, ",") {
			switch strings.TrimSpace(word) {
			case "membership":
				membership = true
			case "clock-watch":
				clocks = true
			default:
				return "", cli.Usagef("--protections %s: give on, off, or a list of membership, clock-watch", list)
			}
		}
	}
	switch {
	case membership && clocks:
		return trace.NameRedlock, nil
	case membership:
		return trace.NameWithoutClockWatch, nil
	case clocks:
		return trace.NameWithoutMembership, nil
	}
	return trace.NameWithoutProtections, nil
}
