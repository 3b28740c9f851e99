package redlock_test

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// block is a fenced block of a page.
type block struct{ page, language, text string }

// fencedBlocks are those of all pages.
func fencedBlocks(t *testing.T) []block {
	t.Helper()
	var found []block
	for _, page := range pages(t) {
		text := read(t, page)
		for _, b := range regexp.MustCompile("(?ms)^[ \t]*```([^\n]*)\n(.*?)^[ \t]*```$").FindAllStringSubmatch(text, -1) {
			found = append(found, block{page, b[1], b[2]})
		}
		here := 0
		for _, b := range found {
			if b.page == page {
				here++
			}
		}
		if n := strings.Count(text, "```"); n != 2*here {
			t.Errorf("%s: got %d blocks of %d fences; the search for them is broken", page, here, n)
		}
	}
	return found
}

// codeOfPages says in whose tests a page's code in Go is. Of the other pages it is in the
// root's examples. Those files compile, and what they have is run: the linter finds a
// function that no test calls.
var codeOfPages = map[string][]string{
	"docs/CHAOS.md":           {"examples/yourcode/*_test.go"},
	"docs/FENCING.md":         {"fencing/*_test.go", "fencing/guardtest/*_test.go"},
	"docs/GETTING-STARTED.md": {"example*_test.go", "adapters/adaptertest/*_test.go"},
	"docs/MIGRATION.md":       {"bench/migration/*_test.go", "adapters/adaptertest/*_test.go"},
	"docs/OBSERVING.md":       {"redlockotel/*_test.go"},
}

// drawn are the beginnings of the blocks that nobody could run, and what they are.
var drawn = map[string]string{
	"docs/ARCHITECTURE.md redlock, the root":      "a picture of the packages",
	"docs/evidence/ARCHITECTURE.md MultiLock.mu ": "the order of the mutexes",
	"docs/FENCING.md holder 41 ":                  "a picture of two holders",
	"docs/HOW.md locker.Acquire(ctx, ":            "a picture of an acquisition",
	"docs/OPERATIONS.md ACL SETUSER redlock on":   "rights: TestTheRightsThatThePageListsAreEnough gives them to a server",
}

// Each fenced block of each page is run by a test. Go is text of a test's file. Commands
// are run by TestEveryCommandOfThePagesRuns of cmd/redlock, which has a list of its own
// and fails for a block that is not in it. What is neither is drawn.
func TestEveryBlockOfThePagesIsRun(t *testing.T) {
	code := map[string]string{}
	elsewhere, pictures, seen := maps.Clone(runOverServers), maps.Clone(drawn), map[string]int{}
	for _, b := range fencedBlocks(t) {
		seen[b.language]++
		switch b.language {
		case "go":
			if begin := elsewhere[b.page]; begin != "" && strings.HasPrefix(b.text, begin) {
				delete(elsewhere, b.page)
				continue
			}
			if code[b.page] == "" {
				code[b.page] = sourceOf(t, b.page)
			}
			if !isOf(code[b.page], b.text) {
				t.Errorf("%s has code that is not of its tests:\n%s", b.page, b.text)
			}
		case "sh", "ini", "crontab":
		case "":
			if !takeDrawn(pictures, b) {
				t.Errorf("%s has a block without a language, which no test runs; say why none does:\n%s", b.page, b.text)
			}
		default:
			t.Errorf("%s has a block of %q, which no test runs:\n%s", b.page, b.language, b.text)
		}
	}
	if len(elsewhere) > 0 || len(pictures) > 0 {
		t.Errorf("no page has %q or %q any more", elsewhere, slices.Sorted(maps.Keys(pictures)))
	}
	if seen["go"] < 25 || seen["sh"] < 15 {
		t.Errorf("got blocks %v; the search for them is broken", seen)
	}
}

// takeDrawn takes a block's entry away, if there is one.
func takeDrawn(pictures map[string]string, b block) bool {
	for begin := range pictures {
		if strings.HasPrefix(b.page+" "+strings.TrimSpace(b.text), begin) {
			delete(pictures, begin)
			return true
		}
	}
	return false
}

// sourceOf is the code that a page's may be of: the examples, as the programs that they
// are, or the files of tests.
func sourceOf(t *testing.T, page string) string {
	t.Helper()
	var all strings.Builder
	patterns, elsewhere := codeOfPages[page]
	if !elsewhere {
		patterns = []string{"example*_test.go"}
	}
	for _, pattern := range patterns {
		for _, name := range glob(t, pattern) {
			text := strings.Replace(read(t, name), "package redlock_test", "package main", 1)
			text = regexp.MustCompile(`func Example\w*\(\)`).ReplaceAllString(text, "func main()")
			all.WriteString("\x00" + regexp.MustCompile(`(?m)^\t// Output:.*\n(\t//.*\n)*`).ReplaceAllString(text, "") + "\x00")
		}
	}
	return all.String()
}

// isOf tells whether code has the block: as a whole file if it is a program, else as its
// lines, but for how they are indented. A page may leave out what is done about an error.
func isOf(code, block string) bool {
	if strings.HasPrefix(block, "package main") {
		return strings.Contains(code, "\x00"+block+"\x00")
	}
	looks := regexp.MustCompile(`(?m)^if err != nil \{\n(return .*|log\.Fatal\(err\))\n\}\n`)
	short := func(text string) string { return looks.ReplaceAllString(unindented(text), "") }
	return strings.Contains(unindented(code), unindented(block)) || strings.Contains(short(code), short(block))
}
