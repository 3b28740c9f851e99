package cli

import "fmt"

// The exit statuses that all commands use: those of sysexits.h and of the shells.
const (
	ExitOK        = 0
	ExitFailure   = 1
	ExitUsage     = 64
	ExitCannotRun = 126
	ExitNotFound  = 127
	ExitSignal    = 128 // plus the signal's number
)

// StatusError is an error that knows its exit status. Without a cause nothing is
// said.
type StatusError struct {
	Code  int
	Cause error
}

// Error is the cause in words.
func (e *StatusError) Error() string {
	if e.Cause == nil {
		return ""
	}
	return e.Cause.Error()
}

// Unwrap returns the cause.
func (e *StatusError) Unwrap() error { return e.Cause }

// Quietly ends the command with a status, without a word.
func Quietly(code int) error {
	if code == ExitOK {
		return nil
	}
	return &StatusError{Code: code}
}

// Usagef is the error of arguments that are wrong.
func Usagef(format string, args ...any) error {
	return &StatusError{ExitUsage, fmt.Errorf(format, args...)}
}
