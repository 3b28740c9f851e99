package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
)

// endings are the signals that ask a program to end.
var endings = []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM}

// watchFor has signals sent to the channel, except those that were ignored when
// the program started: nohup means it.
func watchFor(c chan<- os.Signal, signals ...os.Signal) {
	for _, s := range signals {
		if !signal.Ignored(s) {
			signal.Notify(c, s)
		}
	}
}

// keepPipes keeps a closed stdout or stderr from ending the program, which would
// leave a lock, or a child, behind. Unlike signal.Ignore it is not inherited.
func keepPipes() {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
}

// signalStatus is the exit status of what a signal ended.
func signalStatus(s os.Signal) int {
	if n, ok := s.(syscall.Signal); ok {
		return exitSignal + int(n)
	}
	return exitFailure
}

// untilSignal is a context that a signal to end cancels, with its status as the
// cause.
func untilSignal(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	signals := make(chan os.Signal, 1)
	watchFor(signals, endings...)
	go func() {
		select {
		case s := <-signals:
			cancel(&statusError{signalStatus(s), errors.New(s.String())})
		case <-ctx.Done():
		}
	}()
	return ctx, func() { signal.Stop(signals); cancel(nil) }
}
