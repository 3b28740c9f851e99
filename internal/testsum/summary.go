package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

// A summary is what one `go test -json` run came to. Top-level tests, subtests,
// examples and fuzz seeds count one each, as go test itself counts them.
type summary struct {
	Run     string
	Passed  int
	Failed  []failure
	Skipped []skip
	Dials   int // lines in which go-redis says that it failed to dial
}

// failedToDial is what go-redis writes to stderr where a server can't be reached. Tests that
// break servers on purpose silence it (internal/testkit/quietredis): 2,000 such lines hide all else.
const failedToDial = "failed to dial"

// mostDials is how many of these lines a run may have.
const mostDials = 20

// failLoud makes a failure of too many lines that say nothing of the tests.
func (s *summary) failLoud(out io.Writer) {
	if s.Dials <= mostDials {
		return
	}
	what := fmt.Sprintf("%d lines say %q; want at most %d: see internal/testkit/quietredis", s.Dials, failedToDial, mostDials)
	fmt.Fprintln(out, "FAIL", what)
	s.Failed = append(s.Failed, failure{Name: what})
}

type skip struct{ Test, Reason string }

// A failure is a test by package and name, or a package that failed by itself, and how
// what it wrote begins.
type failure struct{ Name, Words string }

// An event is one line of `go test -json` (go doc test2json); the build-...
// actions are described by `go help buildjson` and carry no package.
type event struct {
	Action  string
	Package string
	Test    string
	Output  string
	Elapsed float64
}

// A collector folds events into a summary. Output is held back until the test
// that wrote it ends: only then is it known whether anyone wants to read it.
type collector struct {
	out      io.Writer
	verbose  bool
	sum      summary
	packages map[string]*pkg
}

// A pkg is a package whose verdict is still out.
type pkg struct {
	output  strings.Builder             // what no test wrote
	running map[string]*strings.Builder // by test
	tests   int
	failed  int
	skipped int
}

// summarise reads events up to the end of r and prints to out what a reader of
// the log needs, when it is known. A line that is no event is passed on as it is.
func summarise(r io.Reader, out io.Writer, verbose bool) (summary, error) {
	c := &collector{out: out, verbose: verbose, packages: map[string]*pkg{}}
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			c.line(line)
		}
		if errors.Is(err, io.EOF) {
			c.unfinished()
			return c.sum, nil
		}
		if err != nil {
			return summary{}, err
		}
	}
}

func (c *collector) line(line []byte) {
	c.sum.Dials += bytes.Count(line, []byte(failedToDial))
	var e event
	if err := json.Unmarshal(line, &e); err != nil || e.Action == "" {
		fmt.Fprint(c.out, string(line))
		return
	}
	switch {
	case e.Action == "build-output":
		fmt.Fprint(c.out, e.Output)
	case e.Package == "":
		// build-fail: the package's own fail follows, and is the one to count.
	case e.Test != "":
		c.testEvent(c.pkg(e.Package), e)
	default:
		c.packageEvent(c.pkg(e.Package), e)
	}
}

func (c *collector) pkg(name string) *pkg {
	p := c.packages[name]
	if p == nil {
		p = &pkg{running: map[string]*strings.Builder{}}
		c.packages[name] = p
	}
	return p
}

func (c *collector) testEvent(p *pkg, e event) {
	output := p.running[e.Test]
	if output == nil {
		output = &strings.Builder{}
		p.running[e.Test] = output
	}
	switch e.Action {
	case "output":
		output.WriteString(e.Output)
	case "pass":
		p.tests++
		c.sum.Passed++
		if c.verbose {
			fmt.Fprint(c.out, withoutFrames(output.String()))
		}
		delete(p.running, e.Test)
	case "skip":
		p.tests++
		p.skipped++
		s := skip{Test: e.Package + "." + e.Test, Reason: reason(output.String())}
		c.sum.Skipped = append(c.sum.Skipped, s)
		fmt.Fprintf(c.out, "skip %s: %s\n", s.Test, s.Reason)
		delete(p.running, e.Test)
	case "fail":
		c.failTest(p, e.Package, e.Test)
	}
}

func (c *collector) failTest(p *pkg, pkgName, test string) {
	p.tests++
	p.failed++
	name := pkgName + "." + test
	output := p.running[test].String()
	c.sum.Failed = append(c.sum.Failed, failure{name, opening(withoutFrames(output))})
	fmt.Fprintf(c.out, "FAIL %s\n%s", name, indent(output))
	delete(p.running, test)
}

func (c *collector) packageEvent(p *pkg, e event) {
	switch e.Action {
	case "output":
		p.output.WriteString(e.Output)
		return
	case "pass":
		fmt.Fprintf(c.out, "ok   %s (%d tests, %d skipped, %.1fs)\n", e.Package, p.tests, p.skipped, e.Elapsed)
	case "skip":
		fmt.Fprintf(c.out, "     %s has no test files\n", e.Package)
	case "fail":
		c.endFailed(p, e.Package)
	default: // start, and what a later Go may add
		return
	}
	delete(c.packages, e.Package)
}

// endFailed closes a package that failed. After a panic or a timeout its running
// tests never get a verdict of their own: they count as failed. A package that
// failed with no test to blame (it does not build, TestMain gave up) counts as
// one failure itself. In both cases the package's own output has the cause.
func (c *collector) endFailed(p *pkg, name string) {
	blamed := p.failed > 0 && len(p.running) == 0
	for _, test := range sortedKeys(p.running) {
		p.running[test].WriteString("no verdict: the process ended while this test ran\n")
		c.failTest(p, name, test)
	}
	if p.failed == 0 {
		c.sum.Failed = append(c.sum.Failed, failure{name, opening(p.output.String())})
	}
	fmt.Fprintf(c.out, "FAIL %s (%d tests, %d failed)\n", name, p.tests, p.failed)
	if !blamed {
		fmt.Fprint(c.out, indent(p.output.String()))
	}
}

// unfinished fails the packages whose verdict never came: the stream was cut off.
func (c *collector) unfinished() {
	for _, name := range sortedKeys(c.packages) {
		p := c.packages[name]
		p.output.WriteString("the output ended before this package's verdict\n")
		c.endFailed(p, name)
	}
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

var position = regexp.MustCompile(`^\S+\.go:\d+: `)

// reason extracts from a skipped test's output what it passed to t.Skip.
func reason(output string) string {
	var words []string
	for line := range strings.Lines(withoutFrames(output)) {
		words = append(words, position.ReplaceAllString(strings.TrimSpace(line), ""))
	}
	if len(words) == 0 {
		return "no reason given"
	}
	return strings.Join(words, " ")
}

// withoutFrames drops the lines go test puts around a test's own output.
func withoutFrames(output string) string {
	var b strings.Builder
	for line := range strings.Lines(output) {
		text := strings.TrimSpace(line)
		if strings.HasPrefix(text, "=== ") || strings.HasPrefix(text, "--- ") {
			continue
		}
		b.WriteString(line)
	}
	return b.String()
}

func indent(output string) string {
	var b strings.Builder
	for line := range strings.Lines(output) {
		b.WriteString("     " + strings.TrimSuffix(line, "\n") + "\n")
	}
	return b.String()
}

// How much of a failure's words the closing report repeats.
const (
	mostWords     = 1000 // bytes
	mostLineWords = 300  // bytes of one line
)

// opening is how the words of a failure begin, for a reader who has the end of the log only.
func opening(output string) string {
	var b strings.Builder
	for line := range strings.Lines(output) {
		text := strings.TrimSuffix(line, "\n")
		if len(text) > mostLineWords {
			text = strings.ToValidUTF8(text[:mostLineWords], "") + " […]"
		}
		if b.Len()+len(text) > mostWords {
			b.WriteString("[…]\n")
			break
		}
		b.WriteString(text + "\n")
	}
	return b.String()
}
