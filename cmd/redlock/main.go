// Command redlock holds locks over independent Redis masters from the command
// line, and shows and mends the masters' side of them.
//
//	export REDLOCK_NODES=10.0.0.1:6379,10.0.0.2:6379,10.0.0.3:6379
//	redlock exec nightly-report -- ./report.sh
//	redlock status nightly-report
//	redlock doctor
//
// `redlock help` lists the commands, `redlock help COMMAND` explains one.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/redis/go-redis/v9/logging"
)

func main() {
	logging.Disable() // go-redis logs each failed dial; the errors say it once
	a := &app{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, getenv: os.Getenv}
	os.Exit(a.main(context.Background(), takeArguments(os.Args)[1:]))
}

// app is the process as the commands see it.
type app struct {
	stdin, stdout, stderr *os.File
	getenv                func(string) string
	connection            connection
	started               func() // called as soon as exec's command runs; nil but in tests
}

// command is one entry of the dispatcher.
type command struct {
	name     string // one word, or two
	synopsis string // what follows the name
	summary  string // one line, for the list
	about    string // the help page
	verbatim bool   // flags end at the first argument: what follows is another's
	define   func(*flag.FlagSet) action
}

// action is a command with its flags parsed.
type action func(ctx context.Context, a *app, args []string) error

// commands are all there are, in the order of the help.
func commands() []command {
	return []command{
		execCommand(), holdCommand(), statusCommand(),
		nodesCommand(), joinCommand(), admitCommand(), retireCommand(), lowerCommand(),
		doctorCommand(), releaseCommand(), benchCommand(),
		labCommand(), renderCommand(), exploreCommand(),
	}
}

// main runs one command and returns the exit status.
func (a *app) main(ctx context.Context, args []string) int {
	err := a.dispatch(ctx, args)
	if err == nil {
		return exitOK
	}
	if message := redact(err.Error()); message != "" {
		a.complain(message)
	}
	return exitCode(err)
}

// complain says something on stderr, in the form that was asked for. A reader that has
// stopped reading is not waited for longer than an eventWriter does.
func (a *app) complain(message string) {
	h := a.newEventWriter()
	h.write(a.line(message))
	h.close()
}

// line is a message as it is written to stderr. The library's errors in it begin with
// its name, which is the command's too; that is said once.
func (a *app) line(message string) string {
	message = names.Replace(strings.TrimPrefix(message, "redlock: "))
	if a.connection.json {
		return jsonLine(struct {
			Message string `json:"message"`
		}{message})
	}
	return "redlock: " + message + "\n"
}

var names = strings.NewReplacer(": redlock: ", ": ", "\nredlock: ", "\n")

// dispatch finds the command and runs it. Flags that all commands have may stand
// before its name as well.
func (a *app) dispatch(ctx context.Context, args []string) error {
	top := flags("redlock")
	a.connection.define(top)
	err := top.Parse(args)
	if args = top.Args(); errors.Is(err, flag.ErrHelp) || len(args) > 0 && args[0] == "help" {
		return a.help(args)
	}
	if err != nil {
		return usage("%w; see: redlock help", err)
	}
	if len(args) == 0 {
		return usage("which command? see: redlock help")
	}
	c, rest := find(args)
	if c == nil {
		return usage("there is no command %q; see: redlock help", args[0])
	}
	fs := flags(c.name)
	run := c.define(fs)
	a.connection.define(fs)
	positional, err := parse(fs, rest, c.verbatim)
	if errors.Is(err, flag.ErrHelp) {
		return a.explain(*c)
	}
	if err != nil {
		return usage("%s: %w; see: redlock help %s", c.name, err, c.name)
	}
	return run(ctx, a, positional)
}

// find takes the longest name that the arguments begin with.
func find(args []string) (*command, []string) {
	for words := min(2, len(args)); words > 0; words-- {
		name := strings.Join(args[:words], " ")
		for _, c := range commands() {
			if c.name == name || name == "nodes list" && c.name == "nodes" {
				return &c, args[words:]
			}
		}
	}
	return nil, nil
}

func flags(name string) *flag.FlagSet {
	fs := flag.NewFlagSet(name, flag.ContinueOnError)
	fs.SetOutput(io.Discard) // dispatch says what is wrong
	return fs
}

// parse returns what is no flag. Flags may follow arguments, up to "--", unless
// what follows the first argument is verbatim another's.
func parse(fs *flag.FlagSet, args []string, verbatim bool) ([]string, error) {
	var positional []string
	for {
		if err := fs.Parse(args); err != nil {
			return nil, err
		}
		rest := fs.Args()
		ended := len(rest) < len(args) && args[len(args)-len(rest)-1] == "--"
		if verbatim || ended || len(rest) == 0 {
			return append(positional, rest...), nil
		}
		positional, args = append(positional, rest[0]), rest[1:]
	}
}

// exactly checks the number of arguments.
func exactly(n int, args []string, what string) error {
	if len(args) != n {
		return usage("give %s: got %d arguments", what, len(args))
	}
	return nil
}

// help prints the list of the commands, or one page.
func (a *app) help(args []string) error {
	if len(args) < 2 {
		_, err := io.WriteString(a.stdout, overview())
		return err
	}
	c, _ := find(args[1:])
	if c == nil {
		return usage("there is no command %q; see: redlock help", strings.Join(args[1:], " "))
	}
	return a.explain(*c)
}

// explain prints the page of one command.
func (a *app) explain(c command) error {
	own, common := flags(c.name), flags(c.name)
	c.define(own)
	new(connection).define(common)
	_, err := fmt.Fprintf(a.stdout, "usage: redlock %s %s\n\n%s\n%s\nFlags of every command:\n%s\n%s",
		c.name, c.synopsis, strings.TrimSpace(c.about), flagList("\nFlags:\n", own), flagList("", common), exitTable)
	return err
}
