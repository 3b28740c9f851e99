package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/quorumkit/redlock"
)

// The exit statuses: those of sysexits.h, of timeout(1) and of the shells.
const (
	exitOK       = 0
	exitFailure  = 1
	exitUsage    = 64
	exitBadData  = 65
	exitNoInput  = 66
	exitNoQuorum = 69
	exitBusy     = 75
	exitConfig   = 78
	// exitMaxHold is of --max-hold. It is not timeout's 124, which is for lost locks, nor
	// its 125, and no shell's.
	exitMaxHold   = 123
	exitLost      = 124
	exitCannotRun = 126
	exitNotFound  = 127
	exitSignal    = 128 // plus the signal's number
)

// statusError is an error that knows its exit status. Without a cause nothing is
// said.
type statusError struct {
	code  int
	cause error
}

// Error is the cause in words.
func (e *statusError) Error() string {
	if e.cause == nil {
		return ""
	}
	return e.cause.Error()
}

// Unwrap returns the cause.
func (e *statusError) Unwrap() error { return e.cause }

// quietly ends the command with a status, without a word.
func quietly(code int) error {
	if code == exitOK {
		return nil
	}
	return &statusError{code: code}
}

func usage(format string, args ...any) error {
	return &statusError{exitUsage, fmt.Errorf(format, args...)}
}

func configuration(format string, args ...any) error {
	return &statusError{exitConfig, fmt.Errorf(format, args...)}
}

// exitCode is the status that an error is told with.
func exitCode(err error) int {
	var known *statusError
	var round *redlock.QuorumError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &known):
		return known.code
	case errors.As(err, &round) && hopeless(round), errors.Is(err, redlock.ErrInvalidNode):
		return exitConfig
	case errors.Is(err, redlock.ErrInvalidOption), errors.Is(err, redlock.ErrInvalidTTL), errors.Is(err, redlock.ErrInvalidResource):
		return exitUsage
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
	return exitFailure
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
