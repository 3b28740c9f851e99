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

// So has a row of docs/BEYOND.md, but for what redlock does not have.
func TestEveryComparisonNamesItsTest(t *testing.T) {
	tables, rows := 0, 0
	for _, line := range strings.Split(read(t, "docs/BEYOND.md"), "\n") {
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		switch {
		case !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "|-"):
			continue
		case cells[0] == "what happens":
			tables++
		default:
			rows++
			if len(cells) != 6 || (cells[1] == "none") != (cells[5] == "-") || cells[1] != "none" && !strings.Contains(cells[5], "`Test") {
				t.Errorf("got the row %q; want six cells, of which the last names a test", line)
			}
			continue
		}
		if cells[len(cells)-1] != "shown by" {
			t.Errorf("got the heading %q; want its last cell for tests", line)
		}
	}
	if tables < 5 || rows < 15 {
		t.Errorf("got %d tables with %d rows; the search for them is broken", tables, rows)
	}
}
