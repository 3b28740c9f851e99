package main_test

import (
	"slices"
	"strings"
	"testing"

	main "github.com/quorumkit/redlock/cmd/redlock"
	"github.com/quorumkit/redlock/internal/nodeurl"
)

// settledAs is what a quorum says when every node has spoken: an owner, "free",
// or nothing.
func settledAs(owners []string, quorum int) string {
	for _, o := range owners {
		if n := len(owners) - len(slices.DeleteFunc(slices.Clone(owners), func(p string) bool { return p == o })); n >= quorum {
			if o == "" {
				return "free"
			}
			return "held"
		}
	}
	return ""
}

// possible tells whether the silent nodes could make it held, or free.
func possible(owners []string, silent, quorum int) bool {
	if silent == 0 {
		return settledAs(owners, quorum) != ""
	}
	for _, o := range []string{"", "a", "b", "c"} {
		if possible(append(owners[:len(owners):len(owners)], o), silent-1, quorum) {
			return true
		}
	}
	return false
}

// Every combination of five nodes, and of four, against every way in which those
// that said nothing could have answered.
func TestTheVerdictIsWhatNoAnswerCouldChange(t *testing.T) {
	t.Parallel()
	says := []main.NodeView{{}, {Counts: true}, {Counts: true, Owner: "a"}, {Counts: true, Owner: "b"}, {Counts: true, Owner: "c"}, {Owner: "a"}}
	seen := map[string]int{}
	for _, nodes := range []int{1, 3, 4, 5} {
		quorum, all := nodes/2+1, 1
		for range nodes {
			all *= len(says)
		}
		for code := range all {
			views, owners, silent := make([]main.NodeView, nodes), []string{}, 0
			for i, rest := 0, code; i < nodes; i, rest = i+1, rest/len(says) {
				if views[i] = says[rest%len(says)]; views[i].Counts {
					owners = append(owners, views[i].Owner)
				} else {
					silent++
				}
			}
			want := settledAs(owners, quorum)
			if want == "" && possible(owners, silent, quorum) {
				want = "unknown"
			} else if want == "" {
				want = "split"
			}
			got, owner, most := main.Judge(views, quorum)
			if got != want || got == "held" && (owner == "" || most < quorum) {
				t.Fatalf("%v, quorum %d: got %s by %q on %d; want %s", views, quorum, got, owner, most, want)
			}
			seen[got]++
		}
	}
	if len(seen) != 4 {
		t.Errorf("got verdicts %v; want all four", seen)
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
		"give " + nodeurl.Forms:                       "give " + nodeurl.Forms, // no password, and so nothing to hide
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
