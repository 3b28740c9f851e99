package chaos

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/quorumkit/redlock/internal/lab/page"
)

// planVariable names the environment variable with a plan, as [Plan.String] writes it,
// that [Test] and [Explore] play in the place of the test's own: what a test that failed
// prints with the command that repeats it.
const planVariable = "REDLOCK_CHAOS_PLAN"

// shrinkFor bounds how long a plan is shrunk, in real time.
const shrinkFor = 30 * time.Second

// planned is the plan that is asked for, or p.
func planned(t *testing.T, p Plan) Plan {
	t.Helper()
	text := os.Getenv(planVariable)
	if text == "" {
		return p
	}
	again, err := ParsePlan(text)
	if err != nil {
		t.Fatalf("%s: %v", planVariable, err)
	}
	return again
}

// convicted is what there is to say of a run that broke a rule: the verdict, a plan that
// was shrunk for as long as play shows the same, the end of its trace, its page with what the
// nodes stored, and the command that repeats it in the test's own package.
func convicted(t *testing.T, p Plan, seen Run, play func(p Plan, watched bool) (Run, error)) string {
	t.Helper()
	rule := seen.Verdict.Violations[0].Rule
	again := func(p Plan, watched bool) (Run, bool) {
		r, err := play(p, watched)
		return r, err == nil && r.Verdict.Count(rule) > 0
	}
	small, how := shrunk(p, func(p Plan) bool {
		_, fails := again(p, false)
		return fails
	})
	shown, fails := again(small, true)
	if !fails {
		small, shown = p, seen
		how = "played again, it did not: does something last from one play to the next? (see WithSetup)"
	}
	return fmt.Sprintf("%s: %v\n%s, where %v\n%s\nthe plan: %v\nrepeat it: %s\n%s",
		seen.About.Contender, seen.Verdict, how, shown.Verdict, tail(shown.Records, shown.Verdict), small, repeatIn(t.Name(), small), page.Leave(t, shown))
}

// shrunk is a smaller plan that fails too, for as long as there is time, and how it came
// about. One that was asked for stays as it is.
func shrunk(p Plan, fails func(Plan) bool) (small Plan, how string) {
	if os.Getenv(planVariable) != "" {
		return p, "the plan of " + planVariable
	}
	if !fails(p) {
		return p, "not shrunk"
	}
	until := time.Now().Add(shrinkFor)
	small = Shrink(p, func(p Plan) bool { return time.Now().Before(until) && fails(p) })
	return small, fmt.Sprintf("shrunk to %d faults of %d", len(small.Faults), len(p.Faults))
}

// repeatIn is the command that plays a plan again, in the directory of the test's package.
func repeatIn(test string, p Plan) string {
	parts := strings.Split(test, "/")
	for i, part := range parts {
		parts[i] = "^" + regexp.QuoteMeta(part) + "$"
	}
	return fmt.Sprintf("%s=%s go test -run %s -v .", planVariable, quoted(p.String()), quoted(strings.Join(parts, "/")))
}

// quoted is a word for a shell.
func quoted(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }
