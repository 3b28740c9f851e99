package trace

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Rule is something that a trace must keep.
type Rule string

// The rules; what each is stands in package chaos.
const (
	TwoHolders    Rule = "two holders"
	TooMany       Rule = "too many"
	TokenRepeated Rule = "token repeated"
	TokenOrder    Rule = "token out of order" //nolint:gosec // the name of a rule, no credential
	StaleWrite    Rule = "stale write"
	Litter        Rule = "litter"
	KeyEnd        Rule = "key end"
	AllOrNothing  Rule = "all or nothing"
	NoProgress    Rule = "no progress"
	Starved       Rule = "starved"
	Overtaken     Rule = "overtaken"
	Stale         Rule = "stale"
	Orphan        Rule = "orphan"
	LateNotice    Rule = "late notice"
	NeedlessLoss  Rule = "needless loss"
	SlowAttempt   Rule = "slow attempt"
	WrongList     Rule = "wrong list"
	LongLease     Rule = "long lease"
	Malformed     Rule = "malformed trace"
)

// Violation is one rule broken once.
type Violation struct {
	Rule     Rule
	At       time.Duration // when it showed
	Resource string
	Text     string
}

// String returns the violation in one line.
func (v Violation) String() string {
	return fmt.Sprintf("%v %s %q: %s", v.At, v.Rule, v.Resource, v.Text)
}

// Verdict is what a [Judge] found.
type Verdict struct {
	Violations  []Violation   // in the order of time, at most Judge.Limit of a rule
	Rounds      int           // attempts that ended
	Won         int           // attempts that brought a lock
	Writes      int           // accepted writes
	Refused     int           // refused writes
	Overlap     time.Duration // how long there were two holders, all resources together
	LongestWait time.Duration // the longest that one client asked a healthy quorum before it held or quit
}

// Count is how many violations of a rule the verdict lists.
func (v Verdict) Count(r Rule) int {
	n := 0
	for _, violation := range v.Violations {
		if violation.Rule == r {
			n++
		}
	}
	return n
}

// Broken are the rules that were broken, sorted, each once.
func (v Verdict) Broken() []Rule {
	var rules []Rule
	for _, violation := range v.Violations {
		rules = append(rules, violation.Rule)
	}
	slices.Sort(rules)
	return slices.Compact(rules)
}

// String returns the figures in one line, and a line for each violation.
func (v Verdict) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d rounds: %d won, %d lost; %d writes, %d refused; two holders for %v; longest wait %v",
		v.Rounds, v.Won, v.Rounds-v.Won, v.Writes, v.Refused, v.Overlap, v.LongestWait)
	for _, violation := range v.Violations {
		fmt.Fprintf(&b, "\n  %v", violation)
	}
	return b.String()
}

// The names of the contenders that scenarios make claims about; chaos.ScenarioKit
// makes them.
const (
	NameRedlock            = "redlock"
	NameWithoutMembership  = "redlock without membership"
	NameWithoutClockWatch  = "redlock without clock watch"
	NameWithoutProtections = "redlock without protections"
	NameRenewing           = "redlock, renewing"
	NameTextbook           = "textbook Redlock"
	NameSingle             = "single master"
)

// Contenders are all of them.
func Contenders() []string {
	return []string{NameRedlock, NameWithoutMembership, NameWithoutClockWatch, NameWithoutProtections, NameRenewing, NameTextbook, NameSingle}
}

// Showing is what a scenario claims of one contender.
type Showing struct {
	Contender string // the name of a kit, as chaos.ScenarioKit knows it
	Guarded   bool   // whether the resource checks tokens
	Breaks    []Rule // the rules that it breaks, sorted; none: it holds
	May       []Rule // rules that it breaks at times, beside these
	Refused   int    // how many writes the guard refuses
}

// String names the contender, and says if it has no guard.
func (s Showing) String() string {
	if s.Guarded {
		return s.Contender
	}
	return s.Contender + ", unguarded"
}

// may tells whether the contender breaks a rule at times. The plain locks promise
// no tidiness: what they leave behind is claimed of them where it always shows, and
// held against them nowhere.
func (s Showing) may(r Rule) bool {
	plain := s.Contender == NameTextbook || s.Contender == NameSingle
	return slices.Contains(s.May, r) || plain && r == Litter
}

// Fits tells whether a run showed just what was claimed.
func (s Showing) Fits(v Verdict) bool {
	broken := v.Broken()
	for _, r := range s.Breaks {
		if !slices.Contains(broken, r) {
			return false
		}
	}
	for _, r := range broken {
		if !slices.Contains(s.Breaks, r) && !s.may(r) {
			return false
		}
	}
	return s.Refused == v.Refused
}
