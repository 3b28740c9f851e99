package redlock_test

import (
	"strings"
	"testing"
)

// A row of the table of faults without a test is a claim without its proof.
// (That the test exists is TestTheTestsThatDocumentsNameExist's.)
func TestEveryFaultOfTheTableNamesItsTest(t *testing.T) {
	_, rest, found := strings.Cut(read(t, "docs/SAFETY.md"), "| fault | redlock |")
	if !found {
		t.Fatal("docs/SAFETY.md has no table of faults")
	}
	rest, _, _ = strings.Cut(rest, "\n\n")
	rows := strings.Split(rest, "\n")[2:]
	if len(rows) < 12 {
		t.Errorf("got %d rows; the search for them is broken", len(rows))
	}
	for _, row := range rows {
		cells := strings.Split(strings.Trim(row, "| "), " | ")
		if len(cells) != 5 || !strings.Contains(cells[4], "`Test") {
			t.Errorf("got the row %q; want five cells, of which the last names a test", row)
		}
	}
}
