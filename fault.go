package redlock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// isText tells whether s is printable text: no control characters, nothing that
// turns the direction of what follows, no broken UTF-8.
func isText(s string) bool {
	for _, r := range s {
		if !unicode.IsPrint(r) || r == utf8.RuneError {
			return false
		}
	}
	return true
}

// contextError is why ctx is done: its error, and its cause where that is another.
func contextError(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if cause == nil || errors.Is(cause, err) {
		return cause
	}
	return fmt.Errorf("%w: %w", err, cause)
}

// errorf is fmt.Errorf for what leaves the package. The causes that it wraps have
// the package's name at their beginning, for where they stand alone; here the
// format begins with it, and they go without.
func errorf(format string, args ...any) error {
	for i, arg := range args {
		if err, ok := arg.(error); ok {
			args[i] = within{err}
		}
	}
	return fmt.Errorf(format, args...)
}

// within is an error as a part of a message that has the package's name already.
type within struct{ err error }

// Error leaves the package's name out.
func (w within) Error() string { return unnamed(w.err.Error()) }

// Unwrap returns the error as it is where it stands alone.
func (w within) Unwrap() error { return w.err }

// unnamed takes the package's name out of a message, wherever a part begins.
func unnamed(message string) string { return parts.Replace(strings.TrimPrefix(message, ownName)) }

const ownName = "redlock: "

var parts = strings.NewReplacer(": "+ownName, ": ", "\n"+ownName, "\n")

// printable shortens a resource for a message and quotes what is not plain text.
func printable(resource string) string {
	const limit = 128
	cut := ""
	if len(resource) > limit {
		resource, cut = resource[:limit], fmt.Sprintf("... (%d bytes)", len(resource))
	}
	if !isText(resource) {
		return fmt.Sprintf("%q%s", resource, cut)
	}
	return resource + cut
}
