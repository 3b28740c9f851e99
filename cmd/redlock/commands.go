package main

import (
	"context"
	"flag"

	"github.com/quorumkit/redlock/internal/cli"
)

const intro = "redlock holds one lock across independent Redis masters."

const outro = `The masters are given by --nodes, --nodes-file or the variable REDLOCK_NODES, as
host:port or redis://[user:password@]host:port, separated by commas. rediss://
is TLS (with --cacert, --cert and --key as redis-cli has them). Passwords belong
into the file or the variable, not on the command line.

`

const exitTable = `Exit status:
    0  done                            78  configuration: nodes, credentials
   64  usage                          123  held for --max-hold
   69  no quorum of nodes answered    124  the lock was lost
   75  somebody else holds the lock   126  the command can't be run
    1  any other failure              127  the command was not found
                                    128+n  ended by signal n
`

// program is all commands there are, in the order of the help.
func program(a *app) *cli.Program {
	return &cli.Program{
		Console: a.Console, Intro: intro, Outro: outro, Statuses: exitTable, Common: a.define,
		Commands: []cli.Command{
			locking(a, execCommand(a)), locking(a, leadCommand(a)), locking(a, holdCommand(a)), statusCommand(a), observeCommand(a),
			nodesCommand(a), joinCommand(a), admitCommand(a), retireCommand(a), lowerCommand(a),
			doctorCommand(a), revokeCommand(a), releaseCommand(a), benchCommand(a), versionCommand(a),
		},
		Moved: map[string]string{"lab": "the lab is a command of its own: go install github.com/quorumkit/redlock/cmd/redlock-lab@latest, then: redlock-lab help"},
	}
}

// define adds the flags of every command.
func (a *app) define(fs *flag.FlagSet) {
	a.connection.define(fs)
	fs.BoolVar(&a.JSON, "json", a.JSON, "print JSON, one value a line")
}

// locking is a command that takes a lock: it tells its end as an event, and knows the
// flags by which flock and consul bound a wait.
func locking(a *app, c cli.Command) cli.Command {
	const wait = "to wait no longer than that: --wait"
	c.Begin = func() { a.ending = newEnding() }
	c.Instead = map[string]string{"w": wait, "timeout": wait}
	return c
}

// runCommand runs one command and returns the exit status.
func runCommand(ctx context.Context, a *app, args []string) int {
	err := program(a).Run(ctx, args)
	code, message := exitCode(err), ""
	if err != nil {
		message = worded(err.Error())
	}
	a.tellEnd(code, message)
	return code
}
