package main

import (
	"context"
	"flag"
	"slices"
	"strings"

	"github.com/quorumkit/redlock/chaos"
	"github.com/quorumkit/redlock/internal/cli"
)

func listCommand(a *app) cli.Command {
	return cli.Command{
		Name: "list", Synopsis: "[flags]", Summary: "list the scenarios, with what each one shows",
		About: `Lists the scenarios: what each claims and what to take away, which contenders keep all
rules in it, and which rules the others break. With --json, it says as well on which
backends each can be played here.`,
		Define: func(*flag.FlagSet) cli.Action {
			return func(_ context.Context, args []string) error {
				if err := cli.Exactly(0, args, "no arguments"); err != nil {
					return err
				}
				return a.list() //nolint:contextcheck // looking for a compiler is bounded by itself
			}
		},
	}
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

// list prints the catalogue.
func (a *app) list() error {
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
		p.Printf("\nPlay one: redlock-lab play NAME. See: redlock-lab help play\n")
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
	for _, b := range []chaos.Backend{chaos.Virtual, chaos.Embedded, chaos.Real} {
		if s.Fit(b) == nil {
			shows.Backends = append(shows.Backends, string(b))
		}
	}
	return shows
}
