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
	ending     *ending          // the last event of a command that takes a lock; nil for others
	self       string           // the program that a watchdog runs; empty for no watchdog
	started    func()           // called as soon as exec's command runs; nil but in tests
	options    []redlock.Option // behind those of the flags; none but in tests
}

func newApp() *app { return &app{Console: cli.NewConsole("redlock")} }

// complain says something on stderr, in the form that was asked for: stdout has answers
// only, so that a pipe gets no warning as data. It waits for a reader that has stopped
// reading no longer than an eventWriter does.
func (a *app) complain(message string) {
	w := newEventWriter(a.Console)
	w.write(w.line(message))
	w.close()
}

// tell tells an event, as complain does.
func (a *app) tell(e event) {
	w := newEventWriter(a.Console)
	w.tell(e)
	w.close()
}

// The exit statuses beside those of every command (internal/cli). A script decides by them
// whether to try again: after 69 and 75 it may, after 78 somebody must change something.
const (
	exitNoQuorum = 69 // EX_UNAVAILABLE of sysexits.h
	exitBusy     = 75 // EX_TEMPFAIL; flock(1) has 1, which any failing command has too
	exitConfig   = 78 // EX_CONFIG
	// exitMaxHold is of --max-hold. It is not timeout's 124, which is for lost locks, nor
	// its 125, and no shell's.
	exitMaxHold = 123
	// exitLost is timeout(1)'s status of a command whose time was over: so was the lock's.
	exitLost = 124
)

// configuration is the error of something that is wrong outside of the command line: files,
// the environment, the system. What is wrong on the command line is usage (cli.Usagef).
func configuration(format string, args ...any) error {
	return &cli.StatusError{Code: exitConfig, Cause: fmt.Errorf(format, args...)}
}

// exitCode is the status that an error is told with. An error may wrap several of the
// library's, as one of a round wraps those of its nodes, so the order decides:
//
//   - a status that was set on purpose goes first, -E among them;
//   - then what waiting can't mend: too few nodes left for a quorum, a wrong argument;
//   - then how a held lock ended;
//   - then a missing quorum, before "busy": nobody knows who holds what no quorum shows.
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
	case errors.Is(err, redlock.ErrNotAcquired), errors.Is(err, redlock.ErrContested), errors.Is(err, redlock.ErrStragglers):
		return exitBusy
	case errors.Is(err, redlock.ErrMisconfigured):
		return exitConfig
	case errors.Is(err, context.DeadlineExceeded):
		return exitNoQuorum // the wait was over before anybody had answered
	}
	return cli.ExitFailure
}

// hopeless tells whether too many nodes refuse for good to leave a quorum. One node with a
// wrong password is a warning for an operator, and no reason for a script to give up.
func hopeless(e *redlock.QuorumError) bool {
	usable := 0
	for _, n := range e.Nodes {
		if !errors.Is(n.Err, redlock.ErrMisconfigured) {
			usable++
		}
	}
	return usable < e.Quorum
}

// tellEnd says how a command ended: as an event where those are wanted, in words
// otherwise, if there are any. A status without words (cli.Quietly) was explained before:
// by the command that ran, or by an event.
func (a *app) tellEnd(code int, message string) {
	switch {
	case a.JSON && a.ending != nil:
		e := a.ending.event
		e.Status, e.Message = &code, unnamed(message)
		a.tell(e)
	case message != "":
		a.complain(message)
	}
}
