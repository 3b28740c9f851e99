package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/cli"
)

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

// The exit statuses beside those of every command: of sysexits.h and of timeout(1).
const (
	exitNoQuorum = 69
	exitBusy     = 75
	exitConfig   = 78
	// exitMaxHold is of --max-hold. It is not timeout's 124, which is for lost locks, nor
	// its 125, and no shell's.
	exitMaxHold = 123
	exitLost    = 124
)

func configuration(format string, args ...any) error {
	return &cli.StatusError{Code: exitConfig, Cause: fmt.Errorf(format, args...)}
}

// exitCode is the status that an error is told with.
func exitCode(err error) int {
	var known *cli.StatusError
	var round *redlock.QuorumError
	switch {
	case err == nil:
		return cli.ExitOK
	case errors.As(err, &known):
		return known.Code
	case errors.As(err, &round) && hopeless(round), errors.Is(err, redlock.ErrInvalidNode):
		return exitConfig
	case errors.Is(err, redlock.ErrInvalidOption), errors.Is(err, redlock.ErrInvalidTTL), errors.Is(err, redlock.ErrInvalidResource):
		return cli.ExitUsage
	case errors.Is(err, redlock.ErrLost):
		return exitLost
	case errors.Is(err, redlock.ErrMaxHold):
		return exitMaxHold
	case round == nil && errors.Is(err, redlock.ErrMisconfigured): // of join and admit, which tell both
		return exitConfig
	case errors.Is(err, redlock.ErrNoQuorum):
		return exitNoQuorum
	case errors.Is(err, redlock.ErrNotAcquired):
		return exitBusy
	case errors.Is(err, redlock.ErrMisconfigured):
		return exitConfig
	case errors.Is(err, context.DeadlineExceeded):
		return exitNoQuorum // the wait was over before anybody had answered
	}
	return cli.ExitFailure
}

// hopeless tells whether too many nodes refuse for good to leave a quorum.
func hopeless(e *redlock.QuorumError) bool {
	usable := 0
	for _, n := range e.Nodes {
		if !errors.Is(n.Err, redlock.ErrMisconfigured) {
			usable++
		}
	}
	return usable < e.Quorum
}
