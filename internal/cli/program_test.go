package cli_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/quorumkit/redlock/internal/cli"
	"github.com/quorumkit/redlock/internal/testkit"
)

// play is a program whose commands say what they were called with.
func play(t *testing.T, args string) (ran string, begun int, err error) {
	t.Helper()
	console := cli.NewConsole("play")
	console.Getenv = func(string) string { return strings.TrimPrefix(args, "__complete ") } // COMP_LINE
	command := func(name string, verbatim bool) cli.Command {
		return cli.Command{
			Name: name, Alias: name + " list", Summary: "be " + name, About: "It is " + name + ".", Verbatim: verbatim,
			Begin: func() { begun++ }, Instead: map[string]string{"w": "for that: --wait"},
			Define: func(fs *flag.FlagSet) cli.Action {
				wait := cli.NewDuration(fs, "wait", 0, "wait for this `DURATION`")
				return func(_ context.Context, args []string) error {
					ran = fmt.Sprint(name, args, *wait, console.JSON)
					return nil
				}
			},
		}
	}
	p := &cli.Program{
		Console: console, Intro: "play plays.", Statuses: "Exit status:\n", Moved: map[string]string{"gone": "it is elsewhere"},
		Common:   func(fs *flag.FlagSet) { fs.BoolVar(&console.JSON, "json", console.JSON, "print JSON") },
		Commands: []cli.Command{command("a", false), command("a b", false), command("run", true)},
	}
	console.Out, err = os.Create(t.TempDir() + "/out")
	testkit.Must(t, err)
	defer console.Out.Close()
	if err = p.Run(t.Context(), strings.Fields(args)); err == nil && ran == "" {
		text, _ := os.ReadFile(console.Out.Name())
		ran = string(text)
	}
	return ran, begun, err
}

func TestAProgramRunsTheCommandThatItsArgumentsName(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"a":                          "a[] 0s false",
		"a list x":                   "a[x] 0s false",
		"a b x":                      "a b[x] 0s false",
		"--json a x --wait 2s y":     "a[x y] 2s true",
		"a x -- --wait 2s":           "a[x --wait 2s] 0s false",
		"run --wait 1s x --wait 2s":  "run[x --wait 2s] 1s false",
		"run -- --json":              "run[--json] 0s false",
		"help a b":                   "usage: play a b ",
		"a b -h":                     "  --wait DURATION ",
		"--json help":                "\n  a b            be a b\n",
		"-h":                         "usage: play COMMAND",
		"--json=false run -json a b": "run[a b] 0s true",
		"completion bash":            "complete -o default -C 'play __complete' play\n",
		"__complete play ":           "a\nrun\n",
		"__complete play --json a ":  "b\n",
		"__complete play help r":     "run\n",
		"__complete play a b --":     "--json\n--wait\n",
		"man":                        "\n.SS play a b \nIt is a b.\n.TP\n.B \\-\\-wait DURATION\nwait for this DURATION\n.SS play run",
	} {
		if ran, _, err := play(t, args); err != nil || !strings.Contains(ran, want) {
			t.Errorf("%q: got %q, %v; want %q", args, ran, err, want)
		}
	}
}

func TestAProgramSaysWhatIsWrongWithItsArguments(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"":                 "which command? see: play help",
		"b":                `there is no command "b"; see: play help`,
		"help b c":         `there is no command "b c"; see: play help`,
		"completion csh":   "completion: name the shell: bash, zsh or fish",
		"gone x --json":    "it is elsewhere",
		"help gone":        "it is elsewhere",
		"--wait 1s a":      "flag provided but not defined: --wait; see: play help",
		"a -w 1":           "a: flag provided but not defined: -w (for that: --wait); see: play help a",
		"a --wait 3":       `a: invalid value "3" for flag --wait: give its unit, as 3s; see: play help a`,
		"a b --wait later": `a b: invalid value "later" for flag --wait: give a duration, as 10s or 1m30s; see: play help a b`,
	} {
		ran, begun, err := play(t, args)
		var status *cli.StatusError
		if !errors.As(err, &status) || status.Code != cli.ExitUsage || err.Error() != want || ran != "" {
			t.Errorf("%q: got %q, %v; want exit status 64 and %q", args, ran, err, want)
		}
		if begins := args[:min(1, len(args))] == "a"; begins != (begun == 1) {
			t.Errorf("%q: got %d begun; want it before its flags are read", args, begun)
		}
	}
}

// What is too wide for a table is broken or stands elsewhere, with all of its words; only a
// word that is wider than a page is left whole.
func TestATableFitsThePage(t *testing.T) {
	t.Parallel()
	name, text := "redis-master-1."+strings.Repeat("x", 50), strings.Repeat("some words of a reason ", 9)
	for _, rows := range [][][]cli.Cell{
		{cli.Row("NODE", "STATE"), cli.Row("a", "b")},
		{cli.Row("NODE", "REASON"), cli.Row("a", text)},
		{cli.Row("NODE", "REASON"), cli.Row(name, text)},
		{cli.Row("NODE", "STATE", "LEFT"), cli.Row(name, "member", time.Second.String()), cli.Row(name+name[:10], "joining", "-")},
	} {
		var p cli.Page
		p.Table(rows)
		for line := range strings.Lines(p.String()) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > cli.PageWidth {
				t.Errorf("got a line of %d columns: %q", n, line)
			}
		}
		for _, row := range rows {
			for _, cell := range row {
				for _, word := range strings.Fields(cell.Text) {
					if !strings.Contains(p.String(), word) {
						t.Errorf("got\n%s\nwant %q in it", p.String(), word)
					}
				}
			}
		}
	}
}
