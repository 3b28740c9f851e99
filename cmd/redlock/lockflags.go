package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/quorumkit/redlock"
)

// lockFlags are the flags of the commands that take a lock.
type lockFlags struct {
	ttl      time.Duration
	maxHold  time.Duration
	wait     time.Duration
	now      bool
	busyCode int
	holder   string
	waitSet  func() bool
	signals  chan os.Signal // that ask for the end, from before anything is sent
}

func (q *lockFlags) define(fs *flag.FlagSet) {
	fs.DurationVar(&q.ttl, "ttl", redlock.DefaultTTL, "the lease that is renewed meanwhile, a `DURATION`: how long a dead holder blocks others")
	fs.DurationVar(&q.maxHold, "max-hold", 0, "end after this `DURATION`, renewed or not: exit status 124")
	fs.DurationVar(&q.wait, "wait", 0, "give up after this `DURATION` (default: wait until the lock is free, and nodes answer)")
	fs.BoolVar(&q.now, "n", false, "do not wait: give up if somebody else holds it")
	fs.IntVar(&q.busyCode, "E", exitBusy, "the exit `STATUS` if somebody else holds it")
	fs.StringVar(&q.holder, "holder", "", "the `LABEL` that status shows (default: host:pid)")
	q.waitSet = func() bool {
		set := false
		fs.Visit(func(f *flag.Flag) { set = set || f.Name == "wait" })
		return set
	}
}

// validate checks what the library can't know.
func (q *lockFlags) validate() error {
	switch {
	case q.wait < 0:
		return usage("--wait %v: give a positive duration, or 0 for one attempt", q.wait)
	case q.maxHold < 0:
		return usage("--max-hold %v: give a positive duration", q.maxHold)
	case q.now && q.wait > 0:
		return usage("give -n or --wait, not both")
	case q.busyCode < 0 || q.busyCode > 255:
		return usage("-E %d: give a status from 0 to 255", q.busyCode)
	}
	q.now = q.now || q.waitSet() && q.wait == 0
	return nil
}

// listen has signals kept for acquire, and for what follows it.
func (q *lockFlags) listen() {
	q.signals = make(chan os.Signal, 64) // nobody types faster than it is read
	watchFor(q.signals, endings...)
	keepPipes()
}

func (q *lockFlags) options() []redlock.Option {
	label := q.holder
	if label == "" {
		host, _ := os.Hostname()
		label = fmt.Sprintf("%s:%d", host, os.Getpid())
	}
	return []redlock.Option{redlock.WithTTL(q.ttl), redlock.WithHolder(label + "/")}
}

// acquire takes the lock. A signal that comes before it returns ends the wait; a
// lock that was granted at the same moment is released, so that nothing is
// started after the signal.
func (q *lockFlags) acquire(ctx context.Context, f *session, key string) (*redlock.Lock, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if q.wait > 0 {
		ctx, cancel = context.WithTimeout(ctx, q.wait)
		defer cancel()
	}
	var lock *redlock.Lock
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		if q.now {
			lock, err = f.locker.TryAcquire(ctx, key)
		} else {
			lock, err = f.locker.Acquire(ctx, key)
		}
	}()
	var by os.Signal
	select {
	case by = <-q.signals:
		cancel()
		<-done
	case <-done:
		select {
		case by = <-q.signals:
		default:
		}
	}
	switch {
	case by != nil:
		if lock != nil {
			_ = lock.Release(ctx) // unconfirmed: it lapses
		}
		return nil, &statusError{signalStatus(by), fmt.Errorf("%v while waiting for %s", by, key)}
	case err != nil && exitCode(err) == exitBusy:
		return nil, &statusError{q.busyCode, err}
	}
	return lock, err
}

// skipped says nothing about a busy lock whose status was asked to be 0.
func skipped(err error) error {
	var known *statusError
	if errors.As(err, &known) && known.code == exitOK {
		return nil
	}
	return err
}

// remind says which nodes are left out for now. Whoever ends before their wait is
// over does not take them in; if all clients are that short, nobody does.
func (a *app) remind(ctx context.Context, f *session, err error) {
	if !f.abstaining() && !abstained(err) {
		return
	}
	s, err := f.locker.Cluster().Status(ctx)
	if err != nil {
		return
	}
	var out []string
	for _, n := range s.Nodes {
		switch n.State {
		case redlock.NodeJoining:
			out = append(out, fmt.Sprintf("%s (votes in %s)", n.Name, short(n.Left)))
		case redlock.NodeBlank:
			out = append(out, fmt.Sprintf("%s (%s)", n.Name, n.Cause))
		case redlock.NodeUnreachable, redlock.NodeMember, redlock.NodeRetired, redlock.NodeForeign, redlock.NodeMisconfigured:
		}
	}
	if len(out) > 0 {
		a.complain(redact(strings.Join(out, ", ")) + ": new or returned, and not voting; this command ended before it could be taken in. Run: redlock nodes join --wait")
	}
}

// abstained tells whether an error names a node that answered and did not vote:
// the observer may be told of it later than the caller.
func abstained(err error) bool {
	var round *redlock.QuorumError
	if !errors.As(err, &round) {
		return false
	}
	return slices.ContainsFunc(round.Nodes, func(n redlock.NodeResult) bool { return n.Outcome == redlock.Abstained })
}

// endedBy is the error of a lock that ended under its holder.
func endedBy(key string, cause error) error {
	if cause == nil {
		cause = errors.New("its validity was about to end")
	}
	return &statusError{exitLost, fmt.Errorf("%s: %w", key, cause)}
}
