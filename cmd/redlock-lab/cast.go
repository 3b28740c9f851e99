package main

import (
	"slices"
	"strings"

	"github.com/quorumkit/redlock/chaos"
	"github.com/quorumkit/redlock/internal/cli"
	"github.com/quorumkit/redlock/internal/lab/trace"
)

// cast is who plays: by default all that the scenario claims something about.
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
	for _, name := range trace.Contenders() {
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
