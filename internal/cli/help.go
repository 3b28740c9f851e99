package cli

import (
	"flag"
	"fmt"
	"io"
	"strings"
)

// help prints the list of the commands, or one page.
func (p *Program) help(args []string, common *flag.FlagSet) error {
	if len(args) < 2 {
		_, err := io.WriteString(p.Console.Out, p.Overview())
		return err
	}
	c, _ := p.find(args[1:])
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

// Pages are the overview, under the empty name, and the page of each command.
func (p *Program) Pages() map[string]string {
	pages := map[string]string{"": p.Overview()}
	for _, c := range p.Commands {
		pages[c.Name] = p.page(c, p.common())
	}
	return pages
}

// page is what help says of a command.
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
	fmt.Fprintf(&b, "  %-14s explain a command and its flags\n\n%s%s", "help COMMAND", p.Outro, p.Statuses)
	return b.String()
}

// flagColumn is where what is said of a flag begins.
const flagColumn = 27

// flagList is the flags of a set, in the order of their names.
func flagList(heading string, fs *flag.FlagSet) string {
	var b strings.Builder
	fs.VisitAll(func(f *flag.Flag) {
		value, about := flag.UnquoteUsage(f)
		dashes := "--"
		if len(f.Name) == 1 {
			dashes = "-"
		}
		name := strings.TrimRight(dashes+f.Name+" "+value, " ")
		if f.DefValue != "" && f.DefValue != "false" && f.DefValue != "0" && f.DefValue != "0s" {
			about += " (default " + f.DefValue + ")"
		}
		lines := strings.Join(Wrap(about, PageWidth-flagColumn), "\n"+strings.Repeat(" ", flagColumn))
		fmt.Fprintf(&b, "  %-*s %s\n", flagColumn-3, name, lines)
	})
	if b.Len() == 0 {
		return ""
	}
	return heading + b.String()
}
