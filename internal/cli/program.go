// Package cli is what the commands of this module share: how a command is found and
// explained, how its flags are read, what it prints, and the status it ends with.
package cli

import (
	"context"
	"errors"
	"flag"
	"io"
	"regexp"
	"strings"
)

// Program is a command line that has several commands.
type Program struct {
	Console  *Console            // where help is printed
	Intro    string              // one line of what it is, for the overview
	Outro    string              // what stands behind the list of commands
	Statuses string              // the exit statuses, at the end of every page
	Commands []Command           // in the order of the overview
	Common   func(*flag.FlagSet) // adds the flags of every command; what they have is their default
	Moved    map[string]string   // what is said of commands that are not here any more
}

// Command is one command of a program.
type Command struct {
	Name     string            // one word, or two
	Alias    string            // another name; empty if none
	Synopsis string            // what follows the name
	Summary  string            // one line, for the list
	About    string            // the help page
	Verbatim bool              // flags end at the first argument: what follows is another's
	Begin    func()            // called before the flags are parsed; nil if nothing is to be done
	Instead  map[string]string // flags that other programs have and this command has not, and what to use
	Define   func(*flag.FlagSet) Action
}

// Action is a command with its flags parsed.
type Action func(ctx context.Context, args []string) error

// Run finds the command that the arguments name, and runs it until it returns. Flags that
// all commands have may stand before its name as well. It returns what the command
// returns, and a [StatusError] with [ExitUsage] where the arguments are wrong.
func (p *Program) Run(ctx context.Context, args []string) error {
	top := p.common()
	err := top.Parse(args)
	if args = top.Args(); errors.Is(err, flag.ErrHelp) || len(args) > 0 && args[0] == "help" {
		return p.help(args, top)
	}
	if err != nil {
		return Usagef("%s; see: %s help", flagFault(err), p.Console.Name)
	}
	if len(args) == 0 {
		return Usagef("which command? see: %s help", p.Console.Name)
	}
	c, rest := p.find(args)
	if c == nil {
		return p.unknown(args[0], args[0])
	}
	if c.Begin != nil {
		c.Begin()
	}
	fs := flags(c.Name)
	run := c.Define(fs)
	p.Common(fs)
	positional, err := parse(fs, rest, c.Verbatim)
	if errors.Is(err, flag.ErrHelp) {
		return p.explain(*c, top)
	}
	if err != nil {
		return Usagef("%s: %s%s; see: %s help %s", c.Name, flagFault(err), c.instead(err), p.Console.Name, c.Name)
	}
	return run(ctx, positional)
}

// common are the flags of every command. As long as none is parsed, their defaults are those
// of the program.
func (p *Program) common() *flag.FlagSet {
	fs := flags(p.Console.Name)
	p.Common(fs)
	return fs
}

// unknown is the error of a name that no command has.
func (p *Program) unknown(first, name string) error {
	if where := p.Moved[first]; where != "" {
		return Usagef("%s", where)
	}
	return Usagef("there is no command %q; see: %s help", name, p.Console.Name)
}

// ownFlag finds the name of a flag in what package flag says.
var ownFlag = regexp.MustCompile(`(for flag |for |defined: |argument: )-([a-z][a-z-]+)`)

// flagFault is an error of package flag in the command's spelling.
func flagFault(err error) string {
	text := ownFlag.ReplaceAllString(err.Error(), "$1--$2")
	if cause, number := strings.CutSuffix(text, "parse error"); number {
		return cause + "give a whole number"
	}
	return text
}

// instead is what to use in the place of a flag that is not defined.
func (c *Command) instead(err error) string {
	_, name, _ := strings.Cut(err.Error(), "not defined: -")
	if use := c.Instead[name]; use != "" {
		return " (" + use + ")"
	}
	return ""
}

// find takes the longest name that the arguments begin with.
func (p *Program) find(args []string) (*Command, []string) {
	for words := min(2, len(args)); words > 0; words-- {
		name := strings.Join(args[:words], " ")
		for _, c := range p.Commands {
			if name == c.Name || name == c.Alias {
				return &c, args[words:]
			}
		}
	}
	return nil, nil
}

func flags(name string) *flag.FlagSet {
	fs := flag.NewFlagSet(name, flag.ContinueOnError)
	fs.SetOutput(io.Discard) // Run says what is wrong
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

// Exactly checks the number of arguments; what says which they are.
func Exactly(n int, args []string, what string) error {
	if len(args) != n {
		return Usagef("give %s: got %d arguments", what, len(args))
	}
	return nil
}
