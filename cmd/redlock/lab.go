package main

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"

	"github.com/quorumkit/redlock/chaos"
	"github.com/quorumkit/redlock/internal/cli"
)

func labCommand(a *app) cli.Command {
	return cli.Command{
		Name: "lab", Synopsis: "[flags] [SCENARIO]", Summary: "break a cluster on purpose, and see which lock survives",
		About: `Without arguments: lists the scenarios, with what each one shows. With a scenario: plays it
on nodes of its own with one contender after the other, redlock beside plainer locks, and
prints what a judge made of each and what to take away.

  redlock lab gc-pause --html gc-pause.html      a page that needs no network
  redlock lab failover --backend real            on redis-server processes
  redlock lab failover --backend real --server valkey-server
  redlock lab amnesia-majority --protections off

Contenders are redlock (with the protections that --protections names), redlock-renewing,
textbook-redlock and single-master. By default all play that the scenario claims something
about, with a guard that checks tokens before the resource, or without one, as it says.

Backends: virtual (in memory, virtual time, the same from the same seed), embedded (in
memory, real time), real (processes; clocks that step need a C compiler). None of them
touches your nodes: --nodes and its like mean nothing here. In virtual time all contenders
of a scenario take a second or two; embedded and real take ten to thirty seconds for each.

Exit status: 0 if all was as claimed, or nothing is claimed of it; 1 if not; 69 if the
backend is not available here.`,
		Define: func(fs *flag.FlagSet) cli.Action {
			e := &experiment{}
			e.define(fs)
			return func(ctx context.Context, args []string) error {
				if len(args) == 0 {
					return a.listScenarios() //nolint:contextcheck // looking for a compiler is bounded by itself
				}
				if err := cli.Exactly(1, args, "one SCENARIO"); err != nil {
					return err
				}
				return a.lab(ctx, args[0], e)
			}
		},
	}
}

func renderCommand(a *app) cli.Command {
	return cli.Command{
		Name: "lab render", Synopsis: "[flags] TRACE", Summary: "judge a trace again, and draw it",
		About: `Reads TRACE, JSON lines as lab --trace writes them or as a program of yours does (package
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

// experiment is the flags of lab.
type experiment struct {
	outputs

	backend     string
	server      string
	seed        uint64
	protections string
	contenders  string
	guard       *bool // nil: as the scenario says
}

func (e *experiment) define(fs *flag.FlagSet) {
	e.outputs.define(fs)
	fs.StringVar(&e.backend, "backend", string(chaos.Virtual), "play on this `BACKEND`: virtual, embedded or real")
	fs.StringVar(&e.server, "server", "", "the server `PROGRAM` of --backend real; default: the redis-server in PATH")
	fs.Uint64Var(&e.seed, "seed", 1, "the `NUMBER` that decides the latencies")
	fs.StringVar(&e.protections, "protections", "", "redlock's: on, off, or a `LIST` of membership, clock-watch")
	fs.StringVar(&e.contenders, "contender", "", "only the contenders of this `LIST`, separated by commas")
	fs.BoolFunc("guard", "have the resource check tokens; --guard=false: have it not", func(s string) error {
		on := s == "true"
		if !on && s != "false" {
			return fmt.Errorf("%q: give true or false", s)
		}
		e.guard = &on
		return nil
	})
}

// outputs are the files to write.
type outputs struct{ html, svg, trace string }

func (o *outputs) define(fs *flag.FlagSet) {
	fs.StringVar(&o.html, "html", "", "write one page with all pictures to this `FILE` (- is stdout)")
	fs.StringVar(&o.svg, "svg", "", "write the pictures to this `FILE`, for a document")
	fs.StringVar(&o.trace, "trace", "", "write the events as JSON lines to this `FILE`, for lab render")
}

// toStdout tells whether a file is stdout.
func (o *outputs) toStdout() bool { return o.html == "-" || o.svg == "-" || o.trace == "-" }

// cast is who plays: by default all that the scenario claims something about.
func (e *experiment) cast(s chaos.Scenario) ([]chaos.Showing, error) {
	if e.contenders == "" && e.protections == "" && e.guard == nil {
		return s.Showings, nil
	}
	names, err := e.names(s)
	if err != nil {
		return nil, err
	}
	guarded := e.guard == nil || *e.guard
	cast := make([]chaos.Showing, len(names))
	for i, name := range names {
		cast[i] = chaos.Showing{Contender: name, Guarded: guarded}
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
			return nil, cli.Usagef("lab: there is no contender %q; there are %s", word, strings.Join(contenderWords(), ", "))
		}
		if name == chaos.NameRedlock {
			name = ours
		}
		names = append(names, name)
	}
	if e.protections != "" && !slices.Contains(names, ours) {
		return nil, cli.Usagef("lab: --protections are redlock's; add redlock to --contender")
	}
	return names, nil
}

// contenderNamed finds a contender by a word of the command line.
func contenderNamed(word string) (string, bool) {
	for _, name := range chaos.ScenarioKits() {
		if w := contenderWord(name); w == word || name == word || w == word+"-redlock" || w == word+"-master" {
			return name, true
		}
	}
	return "", false
}

// contenderWord is a contender's name as one word.
func contenderWord(name string) string {
	return strings.ToLower(strings.NewReplacer(", ", "-", " ", "-").Replace(name))
}

func contenderWords() []string {
	var words []string
	for _, name := range chaos.ScenarioKits() {
		words = append(words, contenderWord(name))
	}
	return words
}

// protected is the contender with these protections.
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
				return "", cli.Usagef("lab: --protections %s: give on, off, or a list of membership, clock-watch", list)
			}
		}
	}
	switch {
	case membership && clocks:
		return chaos.NameRedlock, nil
	case membership:
		return chaos.NameWithoutClockWatch, nil
	case clocks:
		return chaos.NameWithoutMembership, nil
	}
	return chaos.NameWithoutProtections, nil
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

// contenderShows is what a scenario shows of a contender, as --json shows it.
type contenderShows struct {
	Contender string       `json:"contender"`
	Guarded   bool         `json:"guarded"`
	Breaks    []chaos.Rule `json:"breaks"`
	May       []chaos.Rule `json:"may_break"`
}

// listScenarios prints the catalogue.
func (a *app) listScenarios() error {
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
		p.Printf("\nPlay one: redlock lab NAME. See: redlock help lab\n")
	}
	return a.Flush(p)
}

// told is what a scenario shows, in paragraphs.
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
	for _, b := range chaos.Backends() {
		if s.Fit(b) == nil {
			shows.Backends = append(shows.Backends, string(b))
		}
	}
	return shows
}
