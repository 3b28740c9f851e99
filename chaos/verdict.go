package chaos

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Rule is something that a trace must keep.
type Rule string

// The rules.
const (
	// TwoHolders: two clients believed at one moment that they hold a resource,
	// each by its own validity, and not both share it.
	TwoHolders Rule = "two holders"
	// TooMany: more clients than the largest of their limits believed at one moment that
	// they hold a slot of a resource. Two of one slot are TwoHolders; tokens and writes are
	// judged by slot.
	TooMany Rule = "too many"
	// TokenRepeated: two locks of one resource have the same token, and not both share it.
	TokenRepeated Rule = "token repeated"
	// TokenOrder: a lock whose attempt began after another lock was there has the
	// smaller token.
	TokenOrder Rule = "token out of order" //nolint:gosec // the name of a rule, no credential
	// StaleWrite: the resource accepted a write of a holder after one of a later
	// holder that excludes it: by their tokens or, where there are none, by when they
	// got the lock.
	StaleWrite Rule = "stale write"
	// Litter: a node shows an owner after it executed that owner's release, or
	// keeps a key for longer than a lease.
	Litter Rule = "litter"
	// KeyEnd: a key that several share does not end on a node with the last of their
	// leases: it would keep others out for longer, or let one in beside those who are left.
	KeyEnd Rule = "key end"
	// AllOrNothing: a set of resources is held, or used, of which one is not held.
	AllOrNothing Rule = "all or nothing"
	// NoProgress: a healthy quorum, clients that ask, nobody who keeps them out, for
	// longer than Judge.Progress: no holder or, of those who ask to share, none that is
	// exclusive, nor one who waits to be; of those who ask for a slot, one is free.
	NoProgress Rule = "no progress"
	// Starved: one client asked a healthy quorum for longer than Judge.Patience.
	Starved Rule = "starved"
	// Overtaken: a process was served before another one that had stood in line
	// since before it first asked; or more than Judge.Turns times in a row before one
	// that stood in line meanwhile. Who shares does not overtake who waits to share.
	Overtaken Rule = "overtaken"
	// Stale: an observer is told who holds, and nobody asked or held with that value in the
	// last Judge.Seen; or another one, or nobody, though one held and a quorum was healthy all
	// that time; or a token that no hold of that value had.
	Stale Rule = "stale"
	// Orphan: a node that answers its client has a key for an attempt that ended more than
	// Judge.Orphan ago.
	Orphan Rule = "orphan"
	// LateNotice: a lock ended that its client had not given up, and its library told it so
	// more than Judge.Notice later, or never.
	LateNotice Rule = "late notice"
	// NeedlessLoss: a lock that the library renews was lost, though a quorum was healthy, and
	// nothing was wrong with its client or a node, for Judge.Renewed up to then.
	NeedlessLoss Rule = "needless loss"
	// SlowAttempt: an attempt that waits for nobody took longer than Judge.Attempt, though a
	// quorum was healthy, and nothing was wrong with its client, all that time.
	SlowAttempt Rule = "slow attempt"
	// Malformed: the trace contradicts itself, and can't be judged.
	Malformed Rule = "malformed trace"
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
