package main_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	main "github.com/quorumkit/redlock/cmd/redlock-lab"
	"github.com/quorumkit/redlock/internal/cli"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/internal/testkit/jsonpage"
)

// patience bounds everything that must happen in the end.
const patience = 30 * time.Second

// command is the path of the program, built from these files.
var command string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		if testkit.Quick() {
			return m.Run() // no test of that tier runs it
		}
		dir, err := os.MkdirTemp("", "redlock-lab-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		command = filepath.Join(dir, "redlock-lab")
		if out, err := exec.CommandContext(context.Background(), "go", "build", "-o", command, ".").CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "go build: %v\n%s", err, out)
			return 1
		}
		return m.Run()
	}())
}

// result is how one run ended.
type result struct {
	out, errs string
	code      int
}

// prepare makes a command that is not started.
func prepare(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	testkit.Full(t)
	cmd := exec.CommandContext(t.Context(), command, args...)
	cmd.WaitDelay = patience
	cmd.Env = os.Environ()
	return cmd
}

// run runs the program to its end.
func run(t *testing.T, args ...string) result {
	t.Helper()
	return finish(t, prepare(t, args...))
}

func finish(t *testing.T, cmd *exec.Cmd) result {
	t.Helper()
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if cmd.ProcessState == nil {
		t.Fatalf("starting %q: %v", cmd.Args, err)
	}
	return result{out.String(), errs.String(), cmd.ProcessState.ExitCode()}
}

// want checks the status, and that stdout and stderr together have the words.
func (r result) want(t *testing.T, code int, words ...string) {
	t.Helper()
	if r.code != code {
		t.Errorf("got exit status %d; want %d\nstdout: %s\nstderr: %s", r.code, code, r.out, r.errs)
	}
	for _, w := range words {
		if !strings.Contains(r.out+r.errs, w) {
			t.Errorf("got\n%s%s\nwant %q in it", r.out, r.errs, w)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	testkit.Must(t, err)
}

// decode reads one line of JSON.
func decode(t *testing.T, line string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(line), into); err != nil {
		t.Fatalf("got %q; want JSON: %v", line, err)
	}
}

// fits checks that no line is wider than a page.
func fits(t *testing.T, what, text string) {
	t.Helper()
	for line := range strings.Lines(text) {
		if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > cli.PageWidth {
			t.Errorf("%s: a line of %d columns; want %d at most: %q", what, n, cli.PageWidth, line)
		}
	}
}

func TestTheHelpOfTheLabFitsEightyColumns(t *testing.T) {
	t.Parallel()
	for name, page := range main.Pages() {
		fits(t, "help "+name, page)
		if !strings.Contains(page, "Exit status:") {
			t.Errorf("help %s: it does not say the exit statuses", name)
		}
	}
}

func TestTheLabExplainsEveryCommand(t *testing.T) {
	t.Parallel()
	if all, help := run(t), run(t, "help"); all != help {
		t.Errorf("without arguments: got %+v; want the help: %+v", all, help)
	}
	for _, name := range []string{"list", "play", "render", "explore", "compare"} {
		run(t, "help").want(t, 0, "usage: redlock-lab COMMAND", "\n  "+name+" ")
		run(t, "help", name).want(t, 0, "usage: redlock-lab "+name, "--json")
		run(t, name, "-h").want(t, 0, "usage: redlock-lab "+name)
	}
}

func TestTheLabsPagesFitEightyColumns(t *testing.T) {
	t.Parallel()
	for _, args := range []string{"list", "play amnesia-majority --protections off", "play gc-pause"} {
		r := run(t, strings.Fields(args)...)
		if strings.Count(r.out, "\n") == 0 {
			t.Errorf("%v: got no page; stderr: %s", args, r.errs)
		}
		fits(t, args, r.out)
	}
}

func TestTheJSONOfTheLabIsAsThePageSays(t *testing.T) {
	t.Parallel()
	page := jsonpage.Read(t, "../../docs/COMMAND.md", func(heading string) bool { return strings.HasPrefix(heading, "redlock-lab") })
	page.WantTypes(t, main.Shapes())
	for args, shape := range map[string]string{
		"list":                              "redlock-lab list",
		"play gc-pause --contender redlock": "redlock-lab play, render and explore",
		"explore --for 3s":                  "redlock-lab play, render and explore",
	} {
		page.WantLines(t, shape, run(t, append(strings.Fields(args), "--json")...).out)
	}
}
