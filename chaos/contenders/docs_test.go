package contenders

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

const comparison = "../../docs/COMPARISON.md"

func TestTheComparisonHasEveryContenderAndScenario(t *testing.T) {
	text := comparisonPage(t)
	for _, s := range field {
		if strings.Count(text, "| "+s.name+" |") < 2 {
			t.Errorf("got no two rows of %s in %s; want what it is and what it showed", s.name, comparison)
		}
	}
	for _, s := range scenarios {
		if !strings.Contains(text, "| "+s.name+" |") || !strings.Contains(text, "**"+s.name+"**: "+s.what) {
			t.Errorf("got no column and no words of %s in %s", s.name, comparison)
		}
	}
}

// A sentence that is longer is read twice.
func TestNoSentenceOfTheComparisonHasMoreThanFortyWords(t *testing.T) {
	seen := 0
	for line := range strings.Lines(comparisonPage(t)) {
		if strings.HasPrefix(line, "|") {
			continue
		}
		for _, sentence := range regexp.MustCompile(`[.!?]\s`).Split(line, -1) {
			seen++
			if n := len(strings.Fields(sentence)); n > 40 {
				t.Errorf("got %d words; want 40 at most:\n%s", n, sentence)
			}
		}
	}
	if seen < 20 {
		t.Errorf("got %d sentences; the search for them is broken", seen)
	}
}

func comparisonPage(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(comparison)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
