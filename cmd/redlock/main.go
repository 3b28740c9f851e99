// Command redlock holds locks over independent Redis masters from the command
// line, and shows and mends the masters' side of them.
//
//	export REDLOCK_NODES=10.0.0.1:6379,10.0.0.2:6379,10.0.0.3:6379
//	redlock exec nightly-report -- ./report.sh
//	redlock status nightly-report
//	redlock doctor
//
// `redlock help` lists the commands, `redlock help COMMAND` explains one.
//
// Each command's file says at its beginning what the command promises and how it ends. The
// exit statuses are those that scripts know already: sysexits.h for what a script may act on,
// timeout(1) and the shells for a command that was run (app.go).
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/redis/go-redis/v9/logging"

	"github.com/quorumkit/redlock/internal/cli"
)

func main() {
	// The watchdog is this same program under another name: first, since none of its
	// arguments are a command's.
	if isWatchdog() {
		return
	}
	logging.Disable() // go-redis logs each failed dial; the errors say it once
	a := newApp()
	// Not os.Args[0]: the file may have been replaced since, by an upgrade. The link leads
	// to the running program even then.
	a.self = "/proc/self/exe"
	os.Exit(runCommand(context.Background(), a, takeArguments(os.Args)[1:]))
}

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
			nodesCommand(a), aclCommand(a), joinCommand(a), admitCommand(a), changeCommand(a),
			doctorCommand(a), revokeCommand(a), releaseCommand(a), benchCommand(a), versionCommand(a),
		},
		// The lab was a command of redlock until it became redlock-lab.
		Moved: map[string]string{"lab": "the lab is a command of its own: go install github.com/quorumkit/redlock/cmd/redlock-lab@latest, then: redlock-lab help"},
	}
}

// define adds the flags of every command.
func (a *app) define(fs *flag.FlagSet) {
	a.connection.define(fs)
	fs.BoolVar(&a.JSON, "json", a.JSON, "print JSON, one value a line")
}

// locking is a command that takes a lock. It tells its end as an event. It also knows the
// flags by which flock (-w) and consul lock (-timeout) bound a wait, and names --wait for
// them: to accept them as well would make two flags for one thing.
func locking(a *app, c cli.Command) cli.Command {
	const wait = "to wait no longer than that: --wait"
	c.Begin = func() { a.ending = newEnding() }
	c.Instead = map[string]string{"w": wait, "timeout": wait}
	return c
}

// runCommand runs one command and returns the exit status. It alone tells how a command
// ended: on stderr, once, after all that the command printed itself.
func runCommand(ctx context.Context, a *app, args []string) int {
	err := program(a).Run(ctx, args)
	code, message := exitCode(err), ""
	if err != nil {
		message = worded(err.Error())
	}
	a.tellEnd(code, message)
	return code
}

func versionCommand(a *app) cli.Command {
	return cli.Command{
		Name: "version", Synopsis: "[flags]", Summary: "show which redlock this is",
		About: `Shows what the build recorded: the version of the module, the Go that compiled it, and
where it was built in a clone the commit, its time, and whether files differed from it. What
was not recorded is left out; "(devel)" is a build without a version.`,
		Define: func(*flag.FlagSet) cli.Action {
			return func(_ context.Context, args []string) error {
				if err := cli.Exactly(0, args, "no arguments"); err != nil {
					return err
				}
				return a.version(built(debug.ReadBuildInfo()))
			}
		},
	}
}

// build is the record of this program, as --json shows it. Nothing is set by -ldflags:
// go install and a build in a clone have the same record, which the go command writes.
type build struct {
	Version  string `json:"version"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
	Revision string `json:"revision,omitempty"`
	Time     string `json:"time,omitempty"`     // of the commit, RFC 3339
	Modified bool   `json:"modified,omitempty"` // files differed from the commit
}

// built reads the compiler's record, if there is one.
func built(info *debug.BuildInfo, ok bool) build {
	b := build{Version: "(devel)", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if !ok {
		return b
	}
	if v := info.Main.Version; v != "" {
		b.Version = v
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.time":
			b.Time = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

func (a *app) version(b build) error {
	if a.JSON {
		return a.Answer(b)
	}
	p := a.NewPage()
	p.WriteString(b.text())
	return a.Flush(p)
}

// text is the record for people.
func (b build) text() string {
	text := fmt.Sprintf("redlock %s\n%s %s\n", b.Version, b.Go, b.Platform)
	if b.Revision == "" {
		return text
	}
	text += strings.TrimSpace("commit " + b.Revision + " " + b.Time)
	if b.Modified {
		text += " modified"
	}
	return text + "\n"
}
