// Package cli is what the commands of this module share: how a command is found and
// explained, how its flags are read, what it prints, and the status it ends with.
//
// It stands on package flag, and adds what that lacks: commands, flags behind arguments,
// durations whose errors say how to write one, and help pages of 80 columns. A command has
// one text (About), which help prints and tests compare with the pages in docs.
package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Program is a command line that has several commands.
type Program struct {
	Console  *Console            // where help is printed
	Intro    string              // one line about the program, for the overview
	Outro    string              // the text behind the list of commands
	Statuses string              // the exit statuses, at the end of every page
	Commands []Command           // in the order of the overview
	Common   func(*flag.FlagSet) // adds the flags of every command; their present values are the defaults
	Moved    map[string]string   // the messages for commands that are not here any more
}

// Command is one command of a program.
type Command struct {
	Name     string            // one word, or two
	Alias    string            // another name; empty if none
	Synopsis string            // the arguments, as help shows them
	Summary  string            // one line, for the list
	About    string            // the help page
	Verbatim bool              // flags end at the first argument: the rest is another program's
	Begin    func()            // called before the flags are parsed; nil if nothing is to be done
	Instead  map[string]string // for flags of other programs that this command lacks: the flag to use
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
		if done, err := p.document(args); done {
			return err
		}
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
// of the program. A flag before the command's name becomes the default behind it, so the
// later one wins.
func (p *Program) common() *flag.FlagSet {
	fs := flags(p.Console.Name)
	p.Common(fs)
	return fs
}

// unknown is the error of a name that no command has. A command that was here once is told
// where it went: its old command line is in somebody's script.
func (p *Program) unknown(first, name string) error {
	if where := p.Moved[first]; where != "" {
		return Usagef("%s", where)
	}
	return Usagef("there is no command %q; see: %s help", name, p.Console.Name)
}

// ownFlag finds the name of a flag in an error of package flag, which has no type for it.
var ownFlag = regexp.MustCompile(`(for flag |for |defined: |argument: )-([a-z][a-z-]+)`)

// flagFault is an error of package flag in the command's spelling: --name, as help has it.
func flagFault(err error) string {
	text := ownFlag.ReplaceAllString(err.Error(), "$1--$2")
	if cause, number := strings.CutSuffix(text, "parse error"); number {
		return cause + "give a whole number"
	}
	return text
}

// instead names the flag to use in the place of one that is not defined.
func (c *Command) instead(err error) string {
	_, name, _ := strings.Cut(err.Error(), "not defined: -")
	if use := c.Instead[name]; use != "" {
		return " (" + use + ")"
	}
	return ""
}

// find takes the longest name that the arguments begin with: "nodes join" is a command, and
// so is "nodes", whose argument could otherwise be "join".
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
	fs.SetOutput(io.Discard) // Run tells the error
	return fs
}

// parse returns the arguments that are no flags. Flags may follow arguments, up to "--",
// as GNU programs have it and package flag has not. A verbatim command ends them at its
// first argument: the rest, with its flags, belongs to the command that it runs.
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

// duration is the value of a flag. Its errors say how one is written: sleep(1) and flock -w
// take seconds without a unit, so that is what people type first.
type duration time.Duration

// DurationFlag adds a flag that p gets.
func DurationFlag(fs *flag.FlagSet, p *time.Duration, name string, value time.Duration, about string) {
	*p = value
	fs.Var((*duration)(p), name, about)
}

// NewDuration adds a flag, and returns its value.
func NewDuration(fs *flag.FlagSet, name string, value time.Duration, about string) *time.Duration {
	p := new(time.Duration)
	DurationFlag(fs, p, name, value, about)
	return p
}

// String is the flag's value.
func (d *duration) String() string { return time.Duration(*d).String() }

// Set parses a value.
func (d *duration) Set(text string) error {
	v, err := ParseDuration(text)
	*d = duration(v)
	return err
}

// ParseDuration returns an error that tells how to write a duration.
func ParseDuration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err == nil {
		return d, nil
	}
	if _, err := strconv.ParseFloat(text, 64); err == nil {
		return 0, fmt.Errorf("give its unit, as %ss", text)
	}
	return 0, errors.New("give a duration, as 10s or 1m30s")
}

// Positive refuses a duration that is 0 or less. Zero often means "no bound" in a library. A
// reader of a command line would not take it so.
func Positive(flag string, d time.Duration) error {
	if d <= 0 {
		return Usagef("%s %v: give a positive duration", flag, d)
	}
	return nil
}

// Short is a duration for people. Below 0 it is a key without an end, as PTTL says by -1.
func Short(d time.Duration) string {
	switch {
	case d == 0:
		return "-"
	case d < 0:
		return "for ever"
	case d >= 10*time.Second:
		return d.Round(time.Second).String()
	}
	return d.Round(time.Millisecond).String()
}

// PageWidth is the most that a line of output has, unless a single word or a name is longer.
const PageWidth = 80

// fill breaks the paragraphs of a text into lines of at most width. A line that begins
// with a blank stays as it is: it is an example, or a table.
func fill(text string, width int) string {
	var out, paragraph []string
	end := func() {
		if len(paragraph) > 0 {
			out = append(out, Wrap(strings.Join(paragraph, " "), width)...)
			paragraph = nil
		}
	}
	for line := range strings.SplitSeq(text, "\n") {
		if line == "" || line[0] == ' ' {
			end()
			out = append(out, line)
			continue
		}
		paragraph = append(paragraph, line)
	}
	end()
	return strings.Join(out, "\n")
}

// Wrap breaks one paragraph into lines of at most width.
func Wrap(text string, width int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		switch {
		case line == "":
			line = word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width:
			lines, line = append(lines, line), word
		default:
			line += " " + word
		}
	}
	return append(lines, line)
}

// Note is a paragraph of a page whose lines behind the first are indented.
func Note(text string) string {
	const indent = "  "
	first := Wrap(text, PageWidth)
	if len(first) == 1 {
		return first[0] + "\n"
	}
	rest := strings.TrimSpace(strings.TrimPrefix(strings.Join(strings.Fields(text), " "), first[0]))
	return first[0] + "\n" + indent + strings.Join(Wrap(rest, PageWidth-len(indent)), "\n"+indent) + "\n"
}

// help prints the list of the commands, or one page.
func (p *Program) help(args []string, common *flag.FlagSet) error {
	if len(args) < 2 {
		_, err := io.WriteString(p.Console.Out, p.Overview())
		return err
	}
	c, _ := p.find(args[1:])
	if text := documents[args[1]]; c == nil && text != "" && len(args) == 2 {
		_, err := fmt.Fprintf(p.Console.Out, text, p.Console.Name)
		return err
	}
	if c == nil {
		return p.unknown(args[1], strings.Join(args[1:], " "))
	}
	return p.explain(*c, common)
}

// explain prints the page of one command.
func (p *Program) explain(c Command, common *flag.FlagSet) error {
	_, err := io.WriteString(p.Console.Out, p.page(c, common))
	return err
}

// Pages are the overview, under the empty name, and the page of each command: for tests, which
// hold them against the width and the words of the other pages.
func (p *Program) Pages() map[string]string {
	pages := map[string]string{"": p.Overview()}
	for _, c := range p.Commands {
		pages[c.Name] = p.page(c, p.common())
	}
	return pages
}

// page is the help page of a command.
func (p *Program) page(c Command, common *flag.FlagSet) string {
	own := flags(c.Name)
	c.Define(own)
	return fmt.Sprintf("usage: %s %s %s\n\n%s\n%s\nFlags of every command:\n%s\n%s",
		p.Console.Name, c.Name, c.Synopsis, fill(strings.TrimSpace(c.About), PageWidth), flagList("\nFlags:\n", own), flagList("", common), p.Statuses)
}

// Overview is the list of the commands.
func (p *Program) Overview() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\nusage: %s COMMAND [flags] [arguments]\n\n", p.Intro, p.Console.Name)
	for _, c := range p.Commands {
		fmt.Fprintf(&b, "  %-14s %s\n", c.Name, c.Summary)
	}
	for _, row := range [][2]string{
		{"help COMMAND", "explain a command and its flags"},
		{"completion SH", "print what has bash, zsh or fish complete them"},
		{"man", "print the page for man(1)"},
	} {
		fmt.Fprintf(&b, "  %-14s %s\n", row[0], row[1])
	}
	b.WriteString("\n" + p.Outro + p.Statuses)
	return b.String()
}

// dashed is a flag's name as it is written.
func dashed(f *flag.Flag) string {
	if len(f.Name) == 1 {
		return "-" + f.Name
	}
	return "--" + f.Name
}

// explained is a flag with the name of its value, and what is said of it.
func explained(f *flag.Flag) (name, about string) {
	value, about := flag.UnquoteUsage(f)
	if f.DefValue != "" && f.DefValue != "false" && f.DefValue != "0" && f.DefValue != "0s" {
		about += " (default " + f.DefValue + ")"
	}
	return strings.TrimRight(dashed(f)+" "+value, " "), about
}

// flagColumn is where the explanation of a flag begins.
const flagColumn = 27

// flagList is the flags of a set, in the order of their names.
func flagList(heading string, fs *flag.FlagSet) string {
	var b strings.Builder
	fs.VisitAll(func(f *flag.Flag) {
		name, about := explained(f)
		lines := strings.Join(Wrap(about, PageWidth-flagColumn), "\n"+strings.Repeat(" ", flagColumn))
		fmt.Fprintf(&b, "  %-*s %s\n", flagColumn-3, name, lines)
	})
	if b.Len() == 0 {
		return ""
	}
	return heading + b.String()
}
