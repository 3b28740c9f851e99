package main_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/quorumkit/redlock/internal/testkit"
	testsum "github.com/quorumkit/redlock/internal/testsum"
)

// module writes a Go module of the given files and returns its directory.
func module(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	files["go.mod"] = "module sample\n\ngo 1.26\n"
	for name, content := range files {
		name = filepath.Join(dir, name)
		testkit.Must(t, os.MkdirAll(filepath.Dir(name), 0o755))
		testkit.Must(t, os.WriteFile(name, []byte(content), 0o644))
	}
	return dir
}

// testsumOf runs testsum over go test in dir, with its tally closed at once, and
// returns what was printed by the run and by the close.
func testsumOf(t *testing.T, dir string, flags ...string) (log, closing string, err error) {
	t.Helper()
	tally := filepath.Join(t.TempDir(), "tally")
	args := append(flags, "-tally", tally, "-run", "sample", "--", "go", "-C", dir, "test", "-json", "-vet=off", "./...")
	var out, stderr strings.Builder
	err = testsum.Run(t.Context(), args, &out, &stderr)
	var end strings.Builder
	closeErr := testsum.Run(t.Context(), []string{"-close", tally}, &end, &stderr)
	if (err == nil) != (closeErr == nil) {
		t.Errorf("the run's error is %v, its tally's %v; want both or neither", err, closeErr)
	}
	return out.String(), end.String(), err
}

const mixed = `package sample

import "testing"

func TestPasses(t *testing.T) { t.Log("quiet unless asked") }

func TestSkips(t *testing.T) { t.Skip("no redis-server in PATH") }

func TestParent(t *testing.T) {
	t.Run("good", func(t *testing.T) {})
	t.Run("needs more", func(t *testing.T) { t.Skip("no redis-server in PATH") })
}
`

func TestCountsTestsAndSubtestsAndGivesTheReasonOfEachSkip(t *testing.T) {
	testkit.Full(t)
	t.Parallel()
	log, closing, err := testsumOf(t, module(t, map[string]string{"a_test.go": mixed}))
	if err != nil {
		t.Fatalf("got %v; want no error\n%s", err, log)
	}
	want := `tests of sample: passed 3, failed 0, skipped 2
skipped: no redis-server in PATH (2, the first is sample.TestParent/needs_more)
3 passed, 0 failed, 2 skipped
`
	if closing != want {
		t.Errorf("got\n%s; want\n%s", closing, want)
	}
	if line := "skip sample.TestSkips: no redis-server in PATH\n"; !strings.Contains(log, line) {
		t.Errorf("got log\n%s; want the line %q in it", log, line)
	}
	if strings.Contains(log, "quiet unless asked") {
		t.Errorf("got the output of a passing test; want it only with -v:\n%s", log)
	}
}

func TestVerbosePrintsTheOutputOfPassingTests(t *testing.T) {
	t.Parallel()
	const stream = `{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"=== RUN   TestA\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"    a_test.go:5: quiet unless asked\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"--- PASS: TestA (0.00s)\n"}
{"Action":"pass","Package":"p","Test":"TestA","Elapsed":0}
{"Action":"pass","Package":"p","Elapsed":0.1}
`
	for _, flags := range [][]string{nil, {"-v"}} {
		var out strings.Builder
		testkit.Must(t, testsum.Run(t.Context(), append(flags, "--", "printf", "%s", stream), &out, &out))
		if got, want := strings.Contains(out.String(), "quiet unless asked"), flags != nil; got != want || strings.Contains(out.String(), "=== RUN") {
			t.Errorf("%q: got\n%s; want the passing test's log line: %v, without go test's frames", flags, out.String(), want)
		}
	}
}

// What must not pass for green, each in a package of one module, so that go test
// runs once: how a package can fail, which failures that is, and what the log must
// show of it.
func TestFailuresAreCountedAndShown(t *testing.T) {
	testkit.Full(t)
	t.Parallel()
	const head = "package sample\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\nvar _ = os.Exit\n\n"
	const passed = 1 // TestB of the first
	tests := map[string]struct {
		source, shown string
		failed        []string
	}{
		"subtest": {
			source: head + `func TestA(t *testing.T) { t.Run("x", func(t *testing.T) { t.Error("got 1; want 2") }) }` + "\n" +
				"func TestB(t *testing.T) {}\n",
			shown:  "got 1; want 2",
			failed: []string{"sample/subtest.TestA", "sample/subtest.TestA/x"},
		},
		// It takes another with it, which has begun: one that has to run beside it
		// would hang where one processor runs one test at a time.
		"panic": {
			source: head + "func TestA(t *testing.T) { t.Parallel() }\n" +
				`func TestB(t *testing.T) { panic("boom") }` + "\n",
			shown:  "panic: boom",
			failed: []string{"sample/panic.TestA", "sample/panic.TestB"},
		},
		"exit": {
			source: head + "func TestA(t *testing.T) { os.Exit(3) }\n",
			shown:  "no verdict: the process ended while this test ran",
			failed: []string{"sample/exit.TestA"},
		},
		"main": { // TestMain gives up
			source: head + `func TestMain(m *testing.M) { println("no port left"); os.Exit(4) }` + "\n",
			shown:  "no port left",
			failed: []string{"sample/main"},
		},
		"build": { // it does not
			source: head + "func TestA(t *testing.T) { undefined() }\n",
			shown:  "undefined: undefined",
			failed: []string{"sample/build"},
		},
	}
	files, want := map[string]string{}, []string{}
	for name, test := range tests {
		files[name+"/a_test.go"] = test.source
		want = append(want, test.failed...)
	}
	log, closing, err := testsumOf(t, module(t, files))
	if err == nil {
		t.Errorf("got no error; want one\n%s", log)
	}
	for name, test := range tests {
		if !strings.Contains(log, test.shown) {
			t.Errorf("%s: got log\n%s; want %q in it", name, log, test.shown)
		}
		if name != "build" && !strings.Contains(closing, test.shown) { // a build's words belong to no package
			t.Errorf("%s: got the end\n%s; want %q repeated there", name, closing, test.shown)
		}
	}
	var failed []string
	for _, m := range regexp.MustCompile(`(?m)^failed: (.*)$`).FindAllStringSubmatch(closing, -1) {
		failed = append(failed, m[1])
	}
	slices.Sort(failed)
	slices.Sort(want)
	if !slices.Equal(failed, want) {
		t.Errorf("got failures %q; want %q", failed, want)
	}
	if line := fmt.Sprintf("\n%d passed, %d failed, ", passed, len(want)); !strings.Contains(closing, line) {
		t.Errorf("got\n%s; want %q in it", closing, line)
	}
}

// The end of the log repeats how long words begin, not all of them.
func TestTheEndRepeatsTheBeginningOfAFailuresWords(t *testing.T) {
	testkit.Full(t)
	t.Parallel()
	const source = `package sample

import (
	"strings"
	"testing"
)

func TestA(t *testing.T) {
	t.Error("got it" + strings.Repeat(", and more", 100))
	for range 100 {
		t.Log("another line")
	}
	t.Error("the last word")
}
`
	log, closing, err := testsumOf(t, module(t, map[string]string{"a_test.go": source}))
	if err == nil || !strings.Contains(log, "the last word") {
		t.Errorf("got %v and log\n%s; want a failure, shown in full", err, log)
	}
	if !strings.Contains(closing, "got it, and more") || !strings.Contains(closing, " […]\n") || strings.Contains(closing, "the last word") || len(closing) > 2000 {
		t.Errorf("got the end\n%s; want how it begins", closing)
	}
	if !strings.HasSuffix(closing, "\n0 passed, 1 failed, 0 skipped\n") {
		t.Errorf("got the end\n%s; want its closing line", closing)
	}
}

func TestACommandThatFailsWithoutATestIsOneFailure(t *testing.T) {
	t.Parallel()
	log, closing, err := testsumOf(t, module(t, map[string]string{"go.work": "not a workspace\n"}))
	if err == nil {
		t.Fatalf("got no error; want one\n%s", log)
	}
	if !strings.HasSuffix(closing, "\n0 passed, 1 failed, 0 skipped\n") {
		t.Errorf("got\n%s; want one failure", closing)
	}
}

// A run that is killed half way leaves a stream without verdicts: its package is
// a failure even if the command that was cut off claims success.
func TestACutStreamIsAFailure(t *testing.T) {
	t.Parallel()
	stream := `{"Action":"start","Package":"p"}` + "\n" + `{"Action":"run","Package":"p","Test":"TestA"}` + "\n"
	var out strings.Builder
	err := testsum.Run(t.Context(), []string{"--", "printf", "%s", stream}, &out, &out)
	if err == nil || !strings.Contains(out.String(), "FAIL p.TestA\n") {
		t.Errorf("got %v and\n%s; want an error and FAIL p.TestA", err, out.String())
	}
}

func TestTheClosingLineAddsUpAllRuns(t *testing.T) {
	t.Parallel()
	tally := filepath.Join(t.TempDir(), "tally")
	pass := `{"Action":"pass","Package":"p","Test":"TestA"}` + "\n" + `{"Action":"pass","Package":"p","Elapsed":0.1}` + "\n"
	var out strings.Builder
	for _, name := range []string{"root", "bench"} {
		args := []string{"-tally", tally, "-run", name, "--", "printf", "%s", pass}
		testkit.Must(t, testsum.Run(t.Context(), args, &out, &out))
	}
	out.Reset()
	testkit.Must(t, testsum.Run(t.Context(), []string{"-close", tally}, &out, &out))
	closing := regexp.MustCompile(`(?m)^\d+ passed, \d+ failed, \d+ skipped$`)
	if got := closing.FindAllString(out.String(), -1); !slices.Equal(got, []string{"2 passed, 0 failed, 0 skipped"}) {
		t.Errorf("got closing lines %q in\n%s; want one, with 2 passed", got, out.String())
	}
}

// Lines of go-redis that say nothing of the tests fail a run that has many.
func TestARunThatIsLoudFails(t *testing.T) {
	testkit.Full(t)
	t.Parallel()
	loud := `package sample

import (
	"fmt"
	"os"
	"testing"
)

func TestBreaksServers(t *testing.T) {
	for range %d {
		fmt.Fprintln(os.Stderr, "redis: connection pool: failed to dial after 5 attempts: refused")
	}
}
`
	_, closing, err := testsumOf(t, module(t, map[string]string{"a_test.go": fmt.Sprintf(loud, 20)}))
	if want := "tests of sample: 20 lines say \"failed to dial\"\n1 passed, 0 failed, 0 skipped\n"; err != nil || !strings.HasSuffix(closing, want) {
		t.Errorf("20 lines: got %v and\n%s; want no error and\n%s", err, closing, want)
	}
	log, closing, err := testsumOf(t, module(t, map[string]string{"a_test.go": fmt.Sprintf(loud, 21)}))
	if err == nil || !strings.Contains(log, "FAIL 21 lines say \"failed to dial\"") || !strings.HasSuffix(closing, "1 passed, 1 failed, 0 skipped\n") {
		t.Errorf("21 lines: got %v,\n%s\nand\n%s; want a failure", err, log, closing)
	}
}
