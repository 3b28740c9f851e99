package main

import (
	"flag"
	"fmt"
	"io"
	"strings"
)

const exitTable = `Exit status:
    0  done                            78  configuration: the nodes given, credentials
   64  usage                          124  the lock was lost, or held for its maximum
   69  no quorum of nodes answered    126  the command can't be run
   75  somebody else holds the lock   127  the command was not found
    1  any other failure            128+n  ended by signal n
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
	own, common := flags(c.name), flags(c.name)
	c.define(own)
	new(connection).define(common)
	_, err := fmt.Fprintf(a.stdout, "usage: redlock %s %s\n\n%s\n%s\nFlags of every command:\n%s\n%s",
		c.name, c.synopsis, strings.TrimSpace(c.about), flagList("\nFlags:\n", own), flagList("", common), exitTable)
	return err
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
host:port or redis://[user:password@]host:port, separated by commas; rediss:// is
TLS (with --cacert, --cert and --key as redis-cli has them). Passwords belong into the
file or the variable, not on the command line.

`)
	b.WriteString(exitTable)
	return b.String()
}

// flagList is the flags of a set, one a line, in the order of their names.
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
		fmt.Fprintf(&b, "  %-24s %s\n", name, strings.ReplaceAll(about, "\n", "\n"+strings.Repeat(" ", 27)))
	})
	if b.Len() == 0 {
		return ""
	}
	return heading + b.String()
}
