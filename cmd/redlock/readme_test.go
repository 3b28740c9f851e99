//go:build unix

package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/quorumkit/redlock/internal/lab/redisserver"
)

// leftOut are the command lines of docs/GETTING-STARTED.md that are not this command's, and why
// nothing runs them here.
var leftOut = map[string]string{
	"docker compose up --detach --wait":           "it needs docker",
	"REDLOCK_NODES= go run ./examples/quickstart": "it is for the masters that docker started",
}

// shownLine is a command line of the page: its status, and words of what it says.
type shownLine struct {
	line  string
	code  int
	words []string
}

// shownLines are those of this command, in the page's order.
var shownLines = []shownLine{
	{"export REDLOCK_NODES=", 0, nil},
	{"nodes admit --yes", 0, []string{"believes", "3 votes"}},
	{"exec report -- sh -c 'echo holding, with the token $REDLOCK_TOKEN'", 0, []string{"holding, with the token "}},
	{"status report", 0, []string{`"report": free`}},
	{"nodes", 0, []string{"member"}},
	{"doctor", 0, []string{"3 of 3 nodes answered"}},
	{"bench --duration 2s", 0, []string{"P99"}},
	{"hold report", 124, []string{"held", "taken away"}},
	{"release report --force --yes", 0, []string{"removed"}},
	{"-lab list", 0, []string{"amnesia-majority\n"}},
	{"-lab play amnesia-majority --html lab.html", 0, []string{"Take away: "}},
	{"-lab play amnesia-majority --contender textbook,redlock --svg docs/lab.svg", 0, []string{"textbook"}},
}

// pagesCommands are the lines of the page's blocks, without what is said of
// them, and with the addresses left out.
func pagesCommands(t *testing.T) []string {
	t.Helper()
	page, err := os.ReadFile("../../docs/GETTING-STARTED.md")
	must(t, err)
	var lines []string
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
		for line := range strings.Lines(block[1]) {
			line, _, _ = strings.Cut(line, " #")
			line = regexp.MustCompile(`[\d.]+:\d+(,[\d.]+:\d+)*`).ReplaceAllString(line, "")
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

// The command's lines in docs/GETTING-STARTED.md do what it says of them, as they stand there
// and one after another, on three new masters as those of the README.
func TestThePagesCommandsDoWhatItSays(t *testing.T) {
	t.Parallel()
	_, nodes := blanks(t, 3, redisserver.Config{AOF: redisserver.FsyncEverysec, Args: []string{"--maxmemory", "256mb", "--maxmemory-policy", "noeviction"}})
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, "docs"), 0o700))
	held := func() {}
	rest := shownLines
	for _, text := range pagesCommands(t) {
		if leftOut[text] != "" {
			continue
		}
		own, isOwn := strings.CutPrefix(strings.TrimPrefix(text, "go run ./cmd/"), "redlock")
		if len(rest) == 0 || strings.TrimSpace(own) != rest[0].line {
			t.Fatalf("docs/GETTING-STARTED.md says %q: teach this test what that does, or leave it out with the reason; next would be %+v", text, rest)
		}
		next := rest[0]
		rest = rest[1:]
		if !isOwn {
			continue // the export: all have it in their environment
		}
		p := start(t, shellLine(t, dir, nodes, own))
		if strings.HasPrefix(next.line, "hold") {
			eventually(t, "it is held", func() bool { return strings.Contains(p.stdout(), "held") })
			held = func() { p.wait(t).want(t, next.code, next.words...) } // the next line takes it away
			continue
		}
		r := p.wait(t)
		if next.line == "doctor" {
			r = contentDoctor(t, r, func() *exec.Cmd { return shellLine(t, dir, nodes, own) })
		}
		r.want(t, next.code, next.words...)
		held()
		held = func() {}
	}
	if len(rest) > 0 {
		t.Errorf("docs/GETTING-STARTED.md no longer says %+v", rest)
	}
	for _, page := range []string{"lab.html", "docs/lab.svg"} {
		if info, err := os.Stat(filepath.Join(dir, page)); err != nil || info.Size() == 0 {
			t.Errorf("%s: got %v; want it written", page, err)
		}
	}
	if got, want := pictured(t, filepath.Join(dir, "docs/lab.svg")), pictured(t, "../../docs/lab.svg"); got != want {
		t.Errorf("docs/lab.svg is of another time: make it anew. Now the picture has\n%s\nthe page's has\n%s", got, want)
	}
}

// pictured is a picture's size, what it says of the runs and the words of its marks, without
// durations: they are of the machine.
func pictured(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	must(t, err)
	var found []string
	for _, part := range []string{`width="\d+" height="\d+" viewBox`, `<desc[^>]*>.*</desc>`, `<text class="halo"[^>]*>([^<]*)</text>`} {
		for _, m := range regexp.MustCompile(part).FindAllStringSubmatch(string(text), -1) {
			found = append(found, regexp.MustCompile(`\d+(\.\d+)?(s|ms|µs)\b`).ReplaceAllString(m[len(m)-1], "…"))
		}
	}
	if len(found) < 4 {
		t.Fatalf("%s: got %q; the search for its words is broken", file, found)
	}
	return strings.Join(found, "\n")
}
