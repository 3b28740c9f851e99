package contenders

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorumkit/redlock/internal/testkit"
)

const (
	comparison = "../../docs/BESIDE.md"
	recorded   = "testdata/run.md" // a table of redlock-compare, as it came out
)

// The record is of all that is played today: a contender or scenario that came later
// needs another run.
func TestTheRecordHasEveryContenderAndScenario(t *testing.T) {
	text := readText(t, recorded)
	is, showed := recordedRun(t)
	for _, s := range field {
		if is[s.name] == nil || showed[s.name] == nil {
			t.Errorf("got no two rows of %s in %s; want what it is and what it showed", s.name, recorded)
		}
		for _, sc := range scenarios {
			if showed[s.name] != nil && showed[s.name][sc.name] == "" {
				t.Errorf("got nothing of %s in %s; want what it showed", s.name, sc.name)
			}
		}
	}
	if len(is) != len(field) || len(showed) != len(field) {
		t.Errorf("got %d and %d contenders in %s; want %d", len(is), len(showed), recorded, len(field))
	}
	for _, s := range scenarios {
		if line := fmt.Sprintf("- **%s**: %s. Next counts from: %s.\n", s.name, s.what, s.next); !strings.Contains(text, line) {
			t.Errorf("got no words of %s in %s; want %s", s.name, recorded, line)
		}
	}
}

// The page's table is the record, shortened.
func TestTheComparisonIsTheRecord(t *testing.T) {
	text := readText(t, comparison)
	is, showed := recordedRun(t)
	for _, s := range field {
		if want := shortened(is[s.name], showed[s.name]); !strings.Contains(text, want+"\n") {
			t.Errorf("%s lacks the row of %s, as %s has it:\n%s", comparison, s.name, recorded, want)
		}
	}
	if got := len(rowsOf(text, "| contender |")); got != len(field) {
		t.Errorf("got %d rows in %s; want %d", got, comparison, len(field))
	}
	for _, s := range scenarios {
		if !strings.Contains(text, "**"+s.name+"**: ") {
			t.Errorf("got no words of %s in %s", s.name, comparison)
		}
	}
}

// shortened is a contender's row of the page, from its two rows of the record.
func shortened(is, showed map[string]string) string {
	var two, kept []string
	atWork, wait, longest := 0, time.Duration(-1), ""
	for _, s := range scenarios {
		cell, _, _ := strings.Cut(showed[s.name], "; as it comes: ")
		if m := twoHeld.FindStringSubmatch(cell); m != nil {
			two = append(two, s.name+" "+m[1]+m[2])
		}
		if strings.HasPrefix(cell, "two at work; ") {
			atWork++
		}
		if strings.HasPrefix(cell, "kept, ") {
			kept = append(kept, s.name)
		}
		if d, words := waited(cell); d > wait {
			wait, longest = d, words+", "+s.name
		}
	}
	switch {
	case atWork > 0:
		two = append(two, fmt.Sprintf("at work in %d", atWork))
	case two == nil:
		two = []string{"never"}
	}
	if kept == nil {
		kept = []string{"none"}
	}
	_, killed := waited(showed["holder-killed"])
	servers, _, _ := strings.Cut(is["servers"], ",")
	teller := regexp.MustCompile(`^\w+`).FindString(is["who tells of a loss"])
	cells := []string{is["contender"], servers, strings.Join(two, ", "), strings.Join(kept, ", "), killed, longest, teller, is["number that can fence"]}
	return "| " + strings.Join(cells, " | ") + " |"
}

var (
	twoHeld    = regexp.MustCompile(`^\*\*two holders(?: for ([\d.]+ m?s))?\*\*(?: (at one look))?;`)
	nextAfter  = regexp.MustCompile(`(?:^|; )(?:next|next one's write|free|held|at work|nobody waits: at work again) after (?:under )?([\d.]+ m?s)`)
	heldWithin = regexp.MustCompile(`^nobody held within ([\d.]+ m?s)`)
)

// waited is how long the next one waited in a cell of the record; negative if the cell
// does not say.
func waited(cell string) (time.Duration, string) {
	m, over := nextAfter.FindStringSubmatch(cell), ""
	if m == nil {
		m, over = heldWithin.FindStringSubmatch(cell), "over "
	}
	if m == nil {
		return -1, ""
	}
	d, err := time.ParseDuration(strings.ReplaceAll(m[1], " ", ""))
	if err != nil {
		return -1, ""
	}
	return d, over + m[1]
}

// recordedRun is the record's two tables: what each contender is, and what it showed, by
// heading.
func recordedRun(t *testing.T) (is, showed map[string]map[string]string) {
	t.Helper()
	text := readText(t, recorded)
	read := func(heading string) map[string]map[string]string {
		_, heads, _ := strings.Cut(text, heading)
		heads, _, _ = strings.Cut(heads, "\n")
		names := cellsOf(heading + heads)
		found := map[string]map[string]string{}
		for _, line := range rowsOf(text, heading) {
			cells := cellsOf(line)
			if len(cells) != len(names) {
				t.Fatalf("%s: got the row %q; want %d cells", recorded, line, len(names))
			}
			found[cells[0]] = map[string]string{}
			for i, c := range cells {
				found[cells[0]][names[i]] = c
			}
		}
		return found
	}
	is, showed = read("| contender | servers |"), read("| contender | hand-over |")
	if len(is) == 0 || len(showed) == 0 {
		t.Fatalf("got no rows in %s; the search for them is broken", recorded)
	}
	return is, showed
}

// rowsOf is the rows of the table whose heading begins so.
func rowsOf(text, heading string) []string {
	_, table, found := strings.Cut(text, heading)
	if !found {
		return nil
	}
	table, _, _ = strings.Cut(table, "\n\n")
	return slices.DeleteFunc(strings.Split(strings.TrimSpace(table), "\n")[1:], func(line string) bool {
		return strings.HasPrefix(line, "|-")
	})
}

func cellsOf(line string) []string {
	return strings.Split(strings.Trim(line, "| "), " | ")
}

// A sentence that is longer is read twice.
func TestNoSentenceOfTheComparisonHasMoreThanFortyWords(t *testing.T) {
	seen := 0
	for line := range strings.Lines(readText(t, comparison)) {
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

func readText(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	testkit.Must(t, err)
	return string(text)
}
