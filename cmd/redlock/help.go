package main

import (
	"flag"
	"fmt"
	"io"
	"strings"
)

const exitTable = `Exit status:
    0  done                            78  configuration: nodes, credentials
   64  usage                          123  held for --max-hold
   69  no quorum of nodes answered    124  the lock was lost
   75  somebody else holds the lock   126  the command can't be run
    1  any other failure              127  the command was not found
                                    128+n  ended by signal n
`

// help prints the list of the commands, or one page.
func help(a *app, args []string) error {
	if len(args) < 2 {
		_, err := io.WriteString(a.stdout, overview())
		return err
	}
	c, _ := find(args[1:])
	if c == nil {
		return usage("there is no command %q; see: redlock help", strings.Join(args[1:], " "))
	}
	return explain(a, *c)
}

// explain prints the page of one command.
func explain(a *app, c command) error {
	_, err := io.WriteString(a.stdout, helpOf(c))
	return err
}

// helpOf is that page.
func helpOf(c command) string {
	own, common := flags(c.name), flags(c.name)
	c.define(own)
	new(connection).define(common)
	return fmt.Sprintf("usage: redlock %s %s\n\n%s\n%s\nFlags of every command:\n%s\n%s",
		c.name, c.synopsis, fill(strings.TrimSpace(c.about), pageWidth), flagList("\nFlags:\n", own), flagList("", common), exitTable)
}

// overview is what `redlock help` says.
func overview() string {
	var b strings.Builder
	b.WriteString(`redlock holds one lock across independent Redis masters.

usage: redlock COMMAND [flags] [arguments]

`)
	for _, c := range commands() {
		fmt.Fprintf(&b, "  %-14s %s\n", c.name, c.summary)
	}
	b.WriteString(`  help COMMAND   explain a command and its flags

The masters are given by --nodes, --nodes-file or the variable REDLOCK_NODES, as
host:port or redis://[user:password@]host:port, separated by commas. rediss://
is TLS (with --cacert, --cert and --key as redis-cli has them). Passwords belong
into the file or the variable, not on the command line.

`)
	b.WriteString(exitTable)
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
		lines := strings.Join(wrap(about, pageWidth-flagColumn), "\n"+strings.Repeat(" ", flagColumn))
		fmt.Fprintf(&b, "  %-*s %s\n", flagColumn-3, name, lines)
	})
	if b.Len() == 0 {
		return ""
	}
	return heading + b.String()
}
