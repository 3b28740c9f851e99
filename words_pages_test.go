package redlock_test

import (
	"regexp"
	"strings"
	"testing"
)

// Words that the pages, and the command's own, do without: there is a plainer one for each.
// So do the comments of the files that are listed here.
func TestThePagesDoWithoutSomeWords(t *testing.T) {
	word := regexp.MustCompile(`(?i)\b(whoever|whatever|in earnest)\b`)
	seen := 0
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/adr/*.md", "cmd/redlock/*.go", "example*_test.go", "examples/*/*.go"} {
		for _, name := range glob(t, pattern) {
			if name == "CHANGELOG.md" { // history stays as it was written
				continue
			}
			seen++
			for i, line := range strings.Split(read(t, name), "\n") {
				if found := word.FindString(line); found != "" {
					t.Errorf("%s:%d has the word %q: %s", name, i+1, found, line)
				}
			}
		}
	}
	if seen < 100 {
		t.Errorf("got %d files; the search for them is broken", seen)
	}
}
