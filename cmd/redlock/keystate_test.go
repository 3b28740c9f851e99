package main_test

import (
	"slices"
	"strings"
	"testing"

	main "github.com/quorumkit/redlock/cmd/redlock"
	"github.com/quorumkit/redlock/internal/node"
)

// settledAs is what a quorum says when every node has spoken: "held", "shared", "free",
// or nothing. An answer is empty, who holds it, or a plus and those who share it.
func settledAs(answers []string, quorum int) string {
	on := func(so func(answer string) bool) bool {
		return len(answers)-len(slices.DeleteFunc(slices.Clone(answers), so)) >= quorum
	}
	for _, owner := range []string{"a", "b"} {
		if on(func(answer string) bool { return answer == owner }) {
			return "held"
		}
		if on(func(answer string) bool { return strings.HasPrefix(answer, "+") && strings.Contains(answer, owner) }) {
			return "shared"
		}
	}
	if on(func(answer string) bool { return answer == "" }) {
		return "free"
	}
	return ""
}

// possible tells whether the silent nodes could make it held, shared, or free.
func possible(answers []string, silent, quorum int) bool {
	if silent == 0 {
		return settledAs(answers, quorum) != ""
	}
	for _, answer := range []string{"", "a", "b", "+ab"} {
		if possible(append(answers[:len(answers):len(answers)], answer), silent-1, quorum) {
			return true
		}
	}
	return false
}

// Every combination of five nodes, and of four, against every way in which those
// that said nothing could have answered.
func TestTheVerdictIsWhatNoAnswerCouldChange(t *testing.T) {
	t.Parallel()
	says := []string{"", "a", "b", "+a", "+ab", "+b", "?", "?a", "?+a"} // with a question mark it does not count
	seen := map[string]int{}
	for _, nodes := range []int{1, 3, 4, 5} {
		quorum, all := nodes/2+1, 1
		for range nodes {
			all *= len(says)
		}
		for code := range all {
			views, answers, silent := make([]main.NodeView, nodes), []string{}, 0
			for i, rest := 0, code; i < nodes; i, rest = i+1, rest/len(says) {
				answer, ignored := strings.CutPrefix(says[rest%len(says)], "?")
				owners, shared := strings.CutPrefix(answer, "+")
				views[i] = main.NodeView{Counts: !ignored, Shared: shared, Owners: strings.Split(owners, "")}
				if ignored {
					silent++
				} else {
					answers = append(answers, answer)
				}
			}
			want := settledAs(answers, quorum)
			if want == "" && possible(answers, silent, quorum) {
				want = "unknown"
			} else if want == "" {
				want = "split"
			}
			got, owner, most := main.Judge(views, quorum)
			if got != want || got == "held" && owner == "" || got == "shared" && owner != "" || (got == "held" || got == "shared") && most < quorum {
				t.Fatalf("%v, quorum %d: got %s by %q on %d; want %s", views, quorum, got, owner, most, want)
			}
			seen[got]++
		}
	}
	if len(seen) != 5 {
		t.Errorf("got verdicts %v; want all five", seen)
	}
}

func TestRedactLeavesNoPasswordInAMessage(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"dial redis://u:hunter2@a:1: refused":         "dial redis://***@a:1: refused",
		"redis://:hunter2@a:1,rediss://hunter2@b:2/0": "redis://***@a:1,rediss://***@b:2/0",
		"redis://u:hunter/2@a:1":                      "redis://***@a:1",
		"redis://u:p@hunter2@a:1":                     "redis://***@a:1",
		"unix://u:hunter2@/run/redis.sock":            "unix://***@/run/redis.sock",
		"redis://a:1, mail@example.com":               "redis://a:1, mail@example.com",
		"give " + node.URLForms:                       "give " + node.URLForms, // no password, and so nothing to hide
		"":                                            "",
	} {
		if got := main.Redact(in); got != want {
			t.Errorf("%q: got %q; want %q", in, got, want)
		}
	}
}

func TestArgumentsAreTakenBeforePasswordsAreBlottedOut(t *testing.T) {
	t.Parallel()
	original := []string{strings.Clone("redlock"), strings.Clone("--nodes=redis://u:hun,er2@a:1,redis://b:2")}
	taken := main.TakeArguments(original)
	if want := "--nodes=redis://u:hun,er2@a:1,redis://b:2"; taken[1] != want {
		t.Errorf("got %q; want %q", taken[1], want)
	}
	if want := "--nodes=redis://*********@a:1,redis://b:2"; original[1] != want {
		t.Errorf("got %q left to see; want %q", original[1], want)
	}
}
