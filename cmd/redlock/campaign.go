//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/cli"
)

// errAgain is what the function of a campaign returns when its command is dead. Whether
// there is another campaign is not its to say: it tries, and finds its context ended.
var errAgain = errors.New("campaign again")

// candidate stands for an election, and runs a command while it leads. Campaigns have a
// goroutine of their own; commands are run by the one that campaign was called by, since
// the kernel ends a command with the thread that started it.
type candidate struct {
	app       *app
	execution *execution
	events    *eventWriter
	elected   chan *reign
}

// reign is one time that the candidate leads.
type reign struct {
	lock  *holding
	since stopwatch
	over  chan struct{} // closed when the command is dead
}

// campaign runs the command while this process leads, until the command ends by itself,
// a signal ends both, or no lock is to be had. No command runs when it returns.
func campaign(ctx context.Context, a *app, over *session, e *execution) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cli.WatchFor(e.signals, passedOn...) // between two commands as well
	c := &candidate{app: a, execution: e, events: newEventWriter(a.Console), elected: make(chan *reign)}
	defer c.events.close()
	var failure error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		failure = c.stand(ctx, over.locker)
	}()
	c.tellWaiting("")
	for {
		select {
		case r := <-c.elected:
			again, err := c.reign(r)
			if !again {
				cancel()
			}
			close(r.over)
			if !again {
				<-ended // it has resigned
				return err
			}
			c.tellWaiting("waiting to lead " + e.keys[0] + " again")
		case sig := <-e.signals:
			if slices.Contains(cli.Endings, sig) {
				cancel()
				<-ended
				return &cli.StatusError{Code: cli.SignalStatus(sig), Cause: fmt.Errorf("%v while waiting to lead %s", sig, e.keys[0])}
			}
			if sig == syscall.SIGTSTP { // as if nobody caught it
				_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
			}
		case <-ended:
			if exitCode(failure) == exitBusy {
				failure = &cli.StatusError{Code: e.busyCode, Cause: failure}
			}
			return skipped(failure)
		}
	}
}

// stand campaigns until ctx ends, or it can't go on. A command that was ended before its
// lock was has no loss to show, so Campaign takes it for one that resigned.
func (c *candidate) stand(ctx context.Context, locker *redlock.Locker) error {
	opts := append(c.execution.acquireOptions(), redlock.WithWait(c.execution.wait))
	for {
		err := locker.Campaign(ctx, c.execution.keys[0], c.lead, opts...)
		if !errors.Is(err, errAgain) {
			return err
		}
	}
}

// lead lets the command run, and returns when it is dead. ctx ends with the lock, and with
// the campaign; the command's runner then ends it.
func (c *candidate) lead(ctx context.Context, lock *redlock.Lock) error {
	r := &reign{lock: holdingOf(lock), since: startWatch(), over: make(chan struct{})}
	if err := lengthen(ctx, r.lock, c.execution.ttl); err != nil {
		return err
	}
	select {
	case c.elected <- r:
		<-r.over
		return errAgain
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// reign runs the command. It is to be run again if it was ended for the lock's sake, or
// not started for it, and nobody has asked for the end.
func (c *candidate) reign(r *reign) (again bool, err error) {
	c.execution.held = r.since
	s := newSupervisor(c.app, c.execution, r.lock, c.events)
	err = s.run()
	lost := s.early || s.child == nil && exitCode(err) == exitLost
	again = lost && !s.dismissed && !s.interrupted()
	c.app.ending.after(s.ended)
	if again { // one that ends lead is told by who knows its status
		code := exitCode(err)
		s.ended.Status = &code
		c.events.tell(s.ended)
		c.app.ending.after(event{Event: "ended", Key: c.execution.keys[0]})
	}
	return again, err
}

func (c *candidate) tellWaiting(message string) {
	c.events.tell(event{Event: "waiting", Key: c.execution.keys[0], Message: message})
}
