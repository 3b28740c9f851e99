package main

import (
	"context"
	"errors"
	"flag"
	"io"
	"regexp"
	"strings"
)

// command is one entry of the dispatcher.
type command struct {
	name     string // one word, or two
	synopsis string // what follows the name
	summary  string // one line, for the list
	about    string // the help page
	verbatim bool   // flags end at the first argument: what follows is another's
	locks    bool   // it takes a lock, and tells its end as an event
	define   func(*flag.FlagSet) action
}

// action is a command with its flags parsed.
type action func(ctx context.Context, a *app, args []string) error

// commands are all there are, in the order of the help.
func commands() []command {
	return []command{
		execCommand(), leadCommand(), holdCommand(), statusCommand(), observeCommand(),
		nodesCommand(), joinCommand(), admitCommand(), retireCommand(), lowerCommand(),
		doctorCommand(), revokeCommand(), releaseCommand(), benchCommand(),
		labCommand(), renderCommand(), exploreCommand(), compareCommand(), versionCommand(),
	}
}

// runCommand runs one command and returns the exit status.
func runCommand(ctx context.Context, a *app, args []string) int {
	err := dispatch(ctx, a, args)
	code, message := exitCode(err), ""
	if err != nil {
		message = worded(err.Error())
	}
	a.tellEnd(code, message)
	return code
}

// dispatch finds the command and runs it. Flags that all commands have may stand
// before its name as well.
func dispatch(ctx context.Context, a *app, args []string) error {
	top := flags("redlock")
	a.connection.define(top)
	err := top.Parse(args)
	if args = top.Args(); errors.Is(err, flag.ErrHelp) || len(args) > 0 && args[0] == "help" {
		return help(a, args)
	}
	if err != nil {
		return usage("%s; see: redlock help", flagFault(err))
	}
	if len(args) == 0 {
		return usage("which command? see: redlock help")
	}
	c, rest := find(args)
	if c == nil {
		return usage("there is no command %q; see: redlock help", args[0])
	}
	if c.locks {
		a.ending = newEnding()
	}
	fs := flags(c.name)
	run := c.define(fs)
	a.connection.define(fs)
	positional, err := parse(fs, rest, c.verbatim)
	if errors.Is(err, flag.ErrHelp) {
		return explain(a, *c)
	}
	if err != nil {
		return usage("%s: %s%s; see: redlock help %s", c.name, flagFault(err), c.meant(err), c.name)
	}
	return run(ctx, a, positional)
}

// waits finds the flags by which other commands bound a wait: flock's and consul's.
var waits = regexp.MustCompile(`not defined: --?(w|timeout)$`)

// meant is the flag that stands in for one which a command that takes a lock does not have.
func (c *command) meant(err error) string {
	if c.locks && waits.MatchString(err.Error()) {
		return " (to wait no longer than that: --wait)"
	}
	return ""
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
