// Package fault is what every layer says of errors: the causes that all know, and
// how a message is worded. The package whose name messages begin with is redlock.
package fault

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Hopeless tells whether so many of the nodes refuse for good, by what each gave as its
// cause, that waiting can't bring this quorum.
func Hopeless(nodes, quorum int, cause func(node int) error) bool {
	usable := 0
	for i := range nodes {
		if !errors.Is(cause(i), ErrMisconfigured) {
			usable++
		}
	}
	return usable < quorum
}

// IsText tells whether s is printable text: no control characters, nothing that
// turns the direction of what follows, no broken UTF-8.
func IsText(s string) bool {
	for _, r := range s {
		if !unicode.IsPrint(r) || r == utf8.RuneError {
			return false
		}
	}
	return true
}

// OfContext is why ctx is done: its error, and its cause where that is another.
func OfContext(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if cause == nil || errors.Is(cause, err) {
		return cause
	}
	return fmt.Errorf("%w: %w", err, cause)
}

// Errorf is fmt.Errorf for what leaves the package. The causes that it wraps have
// the package's name at their beginning, for where they stand alone; here the
// format begins with it, and they go without.
func Errorf(format string, args ...any) error {
	for i, arg := range args {
		if err, ok := arg.(error); ok {
			args[i] = within{err}
		}
	}
	return fmt.Errorf(format, args...)
}

// Within is err as a part of a message that has the name already.
func Within(err error) error { return within{err} }

// within is an error as a part of a message that has the package's name already.
type within struct{ err error }

// Error leaves the package's name out.
func (w within) Error() string { return Unnamed(w.err.Error()) }

// Unwrap returns the error as it is where it stands alone.
func (w within) Unwrap() error { return w.err }

// Reason is err in words, where what stands before it says already that a node is
// misconfigured.
func Reason(err error) string {
	return strings.TrimPrefix(Unnamed(err.Error()), Unnamed(ErrMisconfigured.Error())+": ")
}

// Unnamed takes the package's name out of a message, wherever a part begins.
func Unnamed(message string) string { return parts.Replace(strings.TrimPrefix(message, ownName)) }

// Once is err as a part of a message that has said this already.
func Once(err error, said string) error { return once{err, said} }

type once struct {
	err  error
	said string
}

// Error leaves out what was said.
func (o once) Error() string { return strings.ReplaceAll(o.err.Error(), o.said, "") }

// Unwrap returns the error as it is.
func (o once) Unwrap() error { return o.err }

// Uncancelled is err without its context.Canceled, for errors.Is, and nil for that alone: work
// was cancelled for what its caller says, and the caller's own context goes on.
func Uncancelled(err error) error {
	if err == nil || err == context.Canceled { //nolint:errorlint // what wraps it says more
		return nil
	}
	return uncancelled{err}
}

type uncancelled struct{ err error } // without Unwrap, which would show the cancellation

func (u uncancelled) Error() string      { return u.err.Error() }
func (u uncancelled) As(target any) bool { return errors.As(u.err, target) }
func (u uncancelled) Is(target error) bool {
	return target != context.Canceled && errors.Is(u.err, target)
}

// WaitedError is the cause of a context that a bound on a wait ended: no caller set a deadline
// that its message could speak of.
type WaitedError time.Duration

// Error says for how long.
func (w WaitedError) Error() string { return "not within " + time.Duration(w).String() }

// Is tells that it is a deadline all the same.
func (w WaitedError) Is(target error) bool { return target == context.DeadlineExceeded }

const ownName = "redlock: "

var parts = strings.NewReplacer(": "+ownName, ": ", "\n"+ownName, "\n")

// Printable shortens a resource for a message and quotes what is not plain text.
func Printable(resource string) string {
	const limit = 128
	cut := ""
	if len(resource) > limit {
		resource, cut = resource[:limit], fmt.Sprintf("... (%d bytes)", len(resource))
	}
	if !IsText(resource) {
		return fmt.Sprintf("%q%s", resource, cut)
	}
	return resource + cut
}
