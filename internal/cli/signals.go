package cli

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// Endings are the signals that ask a program to end: from a terminal that closes (HUP), its
// ^C and ^\ (INT, QUIT), and from kill(1) and service managers (TERM).
var Endings = []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM}

// WatchFor sends signals to the channel, except those that were ignored when the program
// started: nohup means it. signal.Notify would bring them back.
func WatchFor(c chan<- os.Signal, signals ...os.Signal) {
	for _, s := range signals {
		if !signal.Ignored(s) {
			signal.Notify(c, s)
		}
	}
}

// SignalStatus is the exit status of a program that a signal ended, as a shell gives it. The
// program has caught the signal and cleaned up; its caller should see no difference.
func SignalStatus(s os.Signal) int {
	if n, ok := s.(syscall.Signal); ok {
		return ExitSignal + int(n)
	}
	return ExitFailure
}

// UntilSignal is a context that a signal to end cancels, with its status as the
// cause.
func UntilSignal(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	// One is enough: the first signal decides, and later ones change nothing.
	signals := make(chan os.Signal, 1)
	WatchFor(signals, Endings...)
	go func() {
		select {
		case s := <-signals:
			cancel(&StatusError{Code: SignalStatus(s), Cause: errors.New(s.String())})
		case <-ctx.Done():
		}
	}()
	return ctx, func() { signal.Stop(signals); cancel(nil) }
}

// UntilSignalOr is [UntilSignal] with a timeout as well; 0 means no bound. The cause tells
// which of the two came first.
func UntilSignalOr(ctx context.Context, timeout time.Duration) (context.Context, func()) {
	ctx, stop := UntilSignal(ctx)
	if timeout <= 0 {
		return ctx, stop
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	return ctx, func() { cancel(); stop() }
}
