package redlock_test

import (
	"regexp"
	"slices"
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

// The same holds for each table of docs/BESIDE.md that says what redlock does: of the same
// faults with other libraries, and of the known attacks.
func TestEveryComparisonNamesItsTest(t *testing.T) {
	page := read(t, "docs/BESIDE.md")
	for heading, want := range map[string]struct{ cells, rows int }{
		"| what happens | redlock | Redisson | Curator | redlock4j | shown by |": {cells: 6, rows: 15},
		"| attack or answer | here | test |":                                     {cells: 3, rows: 9},
	} {
		_, rest, found := strings.Cut(page, heading+"\n")
		rest, _, _ = strings.Cut(rest, "\n\n")
		rows := strings.Split(strings.TrimSpace(rest), "\n")[1:]
		if !found || len(rows) < want.rows {
			t.Errorf("docs/BESIDE.md: got %d rows under %q; the search for them is broken", len(rows), heading)
		}
		for _, row := range rows {
			cells := strings.Split(strings.Trim(row, "| "), " | ")
			if len(cells) != want.cells || !strings.Contains(cells[len(cells)-1], "`Test") {
				t.Errorf("got the row %q; want %d cells, of which the last names a test", row, want.cells)
			}
		}
	}
}

// The page of promises is read by people in a hurry: what is promised, what that
// leans on and where it ends come first, and the whole is short.
func TestTheSafetyPageBeginsWithWhatItPromises(t *testing.T) {
	page := read(t, "docs/SAFETY.md")
	if n := len(strings.Fields(page)); n > 5000 {
		t.Errorf("docs/SAFETY.md: got %d words; want 5,000 at most", n)
	}
	var got []string
	for _, m := range regexp.MustCompile(`(?m)^## (.*)$`).FindAllStringSubmatch(page, -1) {
		got = append(got, m[1])
	}
	want := []string{"Promises", "Assumptions", "Limits", "Faults, side by side"}
	if len(got) < len(want) || !slices.Equal(got[:len(want)], want) {
		t.Errorf("docs/SAFETY.md: got the headings %q; want them to begin with %q", got, want)
	}
}

// Each promise has an argument, which links to the tests behind it, or names them.
func TestEveryPromiseHasAnArgumentAndTests(t *testing.T) {
	page := read(t, "docs/SAFETY.md")
	_, promises, _ := strings.Cut(page, "## Promises")
	promises, _, _ = strings.Cut(promises, "## Assumptions")
	rows := regexp.MustCompile(`(?m)^\| \[[^\]]+\]\(#([\w-]+)\)`).FindAllStringSubmatch(promises, -1)
	if len(rows) < 7 {
		t.Errorf("got %d promises; the search for them is broken", len(rows))
	}
	sections := map[string]string{}
	for _, s := range strings.Split(page, "\n### ")[1:] {
		heading, text, _ := strings.Cut(s, "\n")
		sections[anchors("### " + heading)[0]] = text
	}
	for _, row := range rows {
		if !regexp.MustCompile(`\]\(evidence/TESTS\.md#|` + "`Test").MatchString(sections[row[1]]) {
			t.Errorf("docs/SAFETY.md: the section of %q names no tests", row[1])
		}
	}
}

// So does an item of what a primitive promises. What it does not promise has none.
func TestEveryPromiseOfAPrimitiveNamesItsTest(t *testing.T) {
	_, part, _ := strings.Cut(read(t, "docs/SAFETY.md"), "\n## Primitives\n")
	part, _, _ = strings.Cut(part, "\n## ")
	items := 0
	for _, section := range strings.Split(part, "\n### ")[1:] {
		promises, not, found := strings.Cut(section, "\n**Not promised:**")
		heading, _, _ := strings.Cut(section, "\n")
		if !found || strings.TrimSpace(not) == "" {
			t.Errorf("docs/SAFETY.md: the section %q does not say what is not promised", heading)
		}
		for _, line := range strings.Split(promises, "\n") {
			if !strings.HasPrefix(line, "- ") {
				continue
			}
			items++
			if !strings.Contains(line, "`Test") {
				t.Errorf("docs/SAFETY.md, %s: got the item %q; want it to name a test", heading, line)
			}
		}
	}
	if items < 25 {
		t.Errorf("got %d items; the search for them is broken", items)
	}
}

// The same holds for the page that says which test shows what. Its long parts are counted each
// by itself: a part whose rows are not seen has none that could fail.
func TestEveryClaimOfThePageOfTestsNamesOne(t *testing.T) {
	least := map[string]int{
		"Guarantees":                             20,
		"Faults":                                 30,
		"Waiting in order: the rules inside":     15,
		"The other primitives: the rules inside": 6,
	}
	for _, part := range strings.Split(read(t, "docs/evidence/TESTS.md"), "\n## ")[1:] {
		heading, text, _ := strings.Cut(part, "\n")
		shown, rows := false, 0
		for _, line := range strings.Split(text, "\n") {
			switch {
			case !strings.HasPrefix(line, "|"):
				shown = false
			case strings.HasSuffix(line, "| shown by |"):
				shown = true
			case shown && !strings.HasPrefix(line, "|-"):
				rows++
				cells := strings.Split(strings.Trim(line, "| "), " | ")
				if last := cells[len(cells)-1]; !strings.Contains(last, "`Test") && !strings.Contains(last, "the control *") {
					t.Errorf("docs/evidence/TESTS.md, %s: got the row %q; want its last cell to name a test", heading, line)
				}
			}
		}
		if rows < least[heading] {
			t.Errorf("docs/evidence/TESTS.md, %s: got %d rows; the search for them is broken", heading, rows)
		}
		delete(least, heading)
	}
	for heading := range least {
		t.Errorf("docs/evidence/TESTS.md has no part %q", heading)
	}
}
