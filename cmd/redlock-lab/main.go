// Command redlock-lab breaks clusters of Redis masters on purpose, and shows which locks
// survive: the scenarios and the exploration of package chaos.
//
//	redlock-lab list
//	redlock-lab play gc-pause --html gc-pause.html
//	redlock-lab explore --for 10m
//
// `redlock-lab help` lists the commands, `redlock-lab help COMMAND` explains one.
//
// It is a command of its own so that redlock, which runs in production, links neither chaos
// nor a Lua interpreter. It never speaks to a user's masters: every node is its own.
//
// The exit status answers one question, whether all was as claimed (0) or not (1), so that CI
// can run a scenario or a search as a test. Usage is 64, and the rest is below.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/redis/go-redis/v9/logging"

	"github.com/quorumkit/redlock/internal/cli"
)

// The exit statuses beside those of every command, of sysexits.h. exitUnavailable keeps a
// test on a machine without a server apart from one that failed.
const (
	exitBadData     = 65 // EX_DATAERR
	exitNoInput     = 66 // EX_NOINPUT
	exitUnavailable = 69 // EX_UNAVAILABLE
)

const exitTable = `Exit status:
    0  done, and as claimed            69  the backend is not available here
    1  not so, or any other failure   126  redlock-compare can't be run
   64  usage                          127  redlock-compare was not found
   65  TRACE is no trace            128+n  ended by signal n
   66  TRACE is not there
`

func main() {
	logging.Disable() // go-redis logs each failed dial, and the lab breaks many connections
	args := os.Args[1:]
	// redlock without a command ends with 64: a script forgot something. The lab is for
	// people, and shows them its commands.
	if len(args) == 0 {
		args = []string{"help"}
	}
	a := &app{cli.NewConsole("redlock-lab")}
	err := program(a).Run(context.Background(), args)
	if err != nil && err.Error() != "" {
		a.complain(err.Error())
	}
	os.Exit(exitCode(err))
}

// app is the process as the commands see it.
type app struct{ *cli.Console }

// program is all commands there are, in the order of the help.
func program(a *app) *cli.Program {
	return &cli.Program{
		Console: a.Console, Intro: "redlock-lab breaks Redis masters on purpose, and shows which locks survive.",
		Statuses: exitTable,
		Common:   func(fs *flag.FlagSet) { fs.BoolVar(&a.JSON, "json", a.JSON, "print JSON, one value a line") },
		Commands: []cli.Command{listCommand(a), playCommand(a), renderCommand(a), exploreCommand(a), compareCommand(a)},
	}
}

// exitCode is the status that an error is told with.
func exitCode(err error) int {
	var known *cli.StatusError
	switch {
	case err == nil:
		return cli.ExitOK
	case errors.As(err, &known):
		return known.Code
	}
	return cli.ExitFailure
}

// complain says something on stderr, in the form that was asked for. stdout has the answer
// only, which may be a page or a trace.
func (a *app) complain(message string) { _, _ = io.WriteString(a.Err, a.Line(message)) }

// progress shows on a terminal what is being done, on one line that changes; an empty
// format takes the line away. In a log each step would be a line, so there it shows nothing.
func (a *app) progress(format string, args ...any) {
	if !cli.IsTerminal(a.Err) || a.JSON || a.Getenv("TERM") == "dumb" {
		return
	}
	_, _ = fmt.Fprintf(a.Err, "\r\x1b[K"+format, args...)
}
