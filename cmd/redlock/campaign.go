//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package main

// The life of a candidate: campaign, reign, and campaign again. Two goroutines share it, since
// each has to be where it is. Campaign of the library calls a function for as long as the lead
// lasts, so it needs a goroutine that can wait there. Commands must be started by a goroutine
// that keeps its thread (supervisor.run), so they run in main's.

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

// errAgain is what a campaign's function returns when its command is dead. It does not
// decide whether there is another campaign: stand tries, and finds its context ended if not.
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

// reign is one lead, from the election to the command's death. over holds the library's
// release back: resigning earlier would let the next leader meet this one's command.
type reign struct {
	lock  *holding
	since stopwatch
	over  chan struct{} // closed when the command is dead
}

// campaign runs the command while this process leads, until the command ends by itself,
// a signal ends both, or no lock can be got. No command runs when it returns.
//
// A lead that is lost is no failure, and lead stays: it is a service, and the next election
// is its remedy. A command that ends by itself ends lead, with its status: a crash loop, its
// pauses and its limits are the service manager's, as with any program.
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
			// USR1 and the like were sent for a command that has ended: they end nothing here.
			if slices.Contains(cli.Endings, sig) {
				cancel()
				<-ended
				return &cli.StatusError{Code: cli.SignalStatus(sig), Cause: fmt.Errorf("%v while waiting to lead %s", sig, e.keys[0])}
			}
			if sig == syscall.SIGTSTP { // as if nobody caught it: with STOP, which can't be caught
				_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
			}
		case <-ended:
			// lead has no -n, so a busy lock means that --wait is over.
			if exitCode(failure) == exitBusy {
				failure = &cli.StatusError{Code: e.busyCode, Cause: failure}
			}
			return skipped(failure)
		}
	}
}

// stand campaigns until ctx ends, or it can't go on. If a command was ended before its lock
// was, Campaign sees no loss: it takes the end for a resignation, and returns. Hence the loop.
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
// the campaign. It does not return at that moment: the supervisor sees the loss itself, ends
// the command, and only then over is closed.
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
// not started for it, and nobody has asked for the end. A user who types ^C while the command
// is being ended for the lock has asked as well (interrupted): it must not come back.
func (c *candidate) reign(r *reign) (again bool, err error) {
	c.execution.held = r.since
	s := newSupervisor(c.app, c.execution, r.lock, c.events)
	err = s.run()
	lost := s.early || s.child == nil && exitCode(err) == exitLost
	again = lost && !s.dismissed && !s.interrupted()
	c.app.ending.after(s.ended)
	if again { // the last end is told by tellEnd, which knows lead's status
		code := exitCode(err)
		s.ended.Status = &code
		c.events.tell(s.ended)
		c.app.ending.after(event{Event: "ended", Key: c.execution.keys[0]})
	}
	return again, err
}

// tellWaiting is quiet at the first campaign: a job's log begins when it does something.
func (c *candidate) tellWaiting(message string) {
	c.events.tell(event{Event: "waiting", Key: c.execution.keys[0], Message: message})
}
