package cli

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
)

// Endings are the signals that ask a program to end.
var Endings = []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM}

// WatchFor has signals sent to the channel, except those that were ignored when
// the program started: nohup means it.
func WatchFor(c chan<- os.Signal, signals ...os.Signal) {
	for _, s := range signals {
		if !signal.Ignored(s) {
			signal.Notify(c, s)
		}
	}
}

// SignalStatus is the exit status of what a signal ended.
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
