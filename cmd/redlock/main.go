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
	"os"

	"github.com/redis/go-redis/v9/logging"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/cli"
)

func main() {
	if isWatchdog() {
		return
	}
	logging.Disable() // go-redis logs each failed dial; the errors say it once
	a := newApp()
	a.self = "/proc/self/exe"
	os.Exit(runCommand(context.Background(), a, takeArguments(os.Args)[1:]))
}

// app is the process as the commands see it.
type app struct {
	*cli.Console

	connection connection
	ending     *ending          // what the end of a command that takes a lock tells; nil for others
	self       string           // the program, as a watchdog is started; empty: there is none
	started    func()           // called as soon as exec's command runs; nil but in tests
	options    []redlock.Option // behind those of the flags; none but in tests
}

func newApp() *app { return &app{Console: cli.NewConsole("redlock")} }

// complain says something on stderr, in the form that was asked for. A reader that has
// stopped reading is not waited for longer than an eventWriter does.
func (a *app) complain(message string) {
	w := newEventWriter(a.Console)
	w.write(w.line(message))
	w.close()
}
