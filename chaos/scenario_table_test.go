package chaos_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/quorumkit/redlock/chaos"
)

// The table of docs/CHAOS.md is made from the catalogue.
func TestTheDocumentedScenariosAreTheCatalogue(t *testing.T) {
	text, err := os.ReadFile("../docs/CHAOS.md")
	mustDo(t, err)
	if want := scenarioTable(); !strings.Contains(string(text), want) {
		t.Errorf("docs/CHAOS.md does not have the table of the catalogue, which is\n%s", want)
	}
}

func scenarioTable() string {
	var b strings.Builder
	b.WriteString("| scenario | what happens | what to take away | keeps all rules | breaks |\n|---|---|---|---|---|\n")
	for _, s := range chaos.Scenarios() {
		var keeps, breaks []string
		for _, w := range s.Showings {
			name := w.Contender
			if !w.Guarded {
				name += ", without a guard"
			}
			if len(w.Breaks) == 0 {
				keeps = append(keeps, name)
				continue
			}
			var rules []string
			for _, r := range w.Breaks {
				rules = append(rules, string(r))
			}
			for _, r := range w.May {
				rules = append(rules, "at times "+string(r))
			}
			breaks = append(breaks, fmt.Sprintf("%s: %s", name, strings.Join(rules, ", ")))
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", s.Name, s.Claim, s.Lesson, strings.Join(keeps, "; "), strings.Join(breaks, "; "))
	}
	return b.String()
}
