package redlock_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/quorumkit/redlock/internal/testkit"
)

// Words that the pages, the command and the code do without: there is a plainer one for each.
func TestThePagesAndTheCodeDoWithoutSomeWords(t *testing.T) {
	testkit.NotRaced(t)
	word := regexp.MustCompile(`(?i)\b(whoever|whatever|in earnest)\b`)
	seen := 0
	files := pages(t)
	for dirs := ""; len(dirs) < len("*/*/*/*/"); dirs += "*/" {
		files = append(files, glob(t, dirs+"*.go")...)
	}
	for _, name := range files {
		if name == "CHANGELOG.md" || name == "words_pages_test.go" { // history stays as it was written; this has them
			continue
		}
		seen++
		for i, line := range strings.Split(read(t, name), "\n") {
			if found := word.FindString(line); found != "" {
				t.Errorf("%s:%d has the word %q: %s", name, i+1, found, line)
			}
		}
	}
	if seen < 500 {
		t.Errorf("got %d files; the search for them is broken", seen)
	}
}
