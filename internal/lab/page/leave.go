package page

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/quorumkit/redlock/internal/lab/trace"
)

// PagesVariable names the environment variable with the directory where failed
// tests leave their page. Without it they leave it among the artifacts of go
// test -artifacts.
const PagesVariable = "REDLOCK_CHAOS_PAGES"

// notInNames is what file names should not have.
var notInNames = regexp.MustCompile(`[^\w.-]+`)

// Leave writes the page of a run that failed a test, and the trace, where the
// test's author can find them, and says where: in the directory that
// [PagesVariable] names, or among the artifacts of go test -artifacts. Without
// either it writes nothing, and says how to have it.
func Leave(t *testing.T, run trace.Run) string {
	t.Helper()
	dir := os.Getenv(PagesVariable)
	if f := flag.Lookup("test.artifacts"); dir == "" && f != nil && f.Value.String() == "true" {
		dir = t.ArtifactDir()
	}
	if dir == "" {
		return fmt.Sprintf("for a page to look at: %s=DIR, or go test -artifacts", PagesVariable)
	}
	base := filepath.Join(dir, notInNames.ReplaceAllString(t.Name(), "-"))
	var errs []error
	for _, out := range []struct {
		name  string
		write func(io.Writer, ...trace.Run) error
	}{{base + ".html", Write}, {base + ".jsonl", trace.WriteRuns}} {
		f, err := os.Create(out.name)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		errs = append(errs, out.write(f, run), f.Close())
	}
	return cmp.Or(words(errors.Join(errs...)), "look at it: "+base+".html")
}

// words is an error in words; nil: none.
func words(err error) string {
	if err == nil {
		return ""
	}
	return "the page could not be written: " + err.Error()
}
