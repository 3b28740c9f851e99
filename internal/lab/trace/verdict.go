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
