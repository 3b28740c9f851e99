//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package main

// The supervisor runs one command under one lock, for exec and for each lead. All times are
// counted backwards from the end of the lock's validity:
//
//	2/3 TTL       a renewal is due; as long as a quorum confirms, nothing below happens
//	--kill-after  --signal to the command's group, and to orphans outside of it
//	margin        SIGKILL to all, repeated until nothing is left
//	margin/2      the watchdog kills, if this program is stopped (Linux)
//	0             another holder may have the key
//
// The validity is the Lock's own figure: it has the drift of clocks and the round's time taken
// off, and its clock counts a suspend of the machine.

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"syscall"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/cli"
)

const (
	// glance is how often the supervisor looks at the clock at least: timers do
	// not count a suspend of the machine. After one, it notices a lapsed lock within
	// a glance, where a timer set before would still have to run out.
	glance = 200 * time.Millisecond
	// insistence is how often a kill is repeated, for processes that were being
	// started while the list of them was read.
	insistence = 2 * time.Millisecond
)

// passedOn are the signals that the command gets: all that a person or another program sends
// to tell a program something. A caller need not know that redlock stands between. The
// command runs in its own group, so a ^C reaches one of both groups only: the one in the
// terminal's foreground. From here it goes on to the command. KILL and STOP can't be passed
// on, since no program catches them: they are the watchdog's business.
var passedOn = append([]os.Signal{
	syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM, syscall.SIGWINCH, syscall.SIGTSTP, syscall.SIGCONT,
}, cli.Endings...)

// uncaught are those that end a program which does not catch them. They end exec before its
// command runs, as they would end flock; the runtime would swallow them. lead, which waits
// again and again, waits on: they were for a command that has ended.
var uncaught = []os.Signal{syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM}

// phase is how far the end of a command has come.
type phase uint8

const (
	running phase = iota
	asked         // it got the first signal
	killed        // it got the last
)

// supervisor runs a command under a lock. It is one goroutine, which alone
// decides: it looks at signals, ends of processes and the lock one after
// another, so that none of them finds another half done. It never waits for a node or for a
// reader: the library renews in goroutines of its own, and events go through a queue.
type supervisor struct {
	execution *execution
	lock      *holding
	child     *child
	tty       *terminal
	self      string // the program that a watchdog runs
	watchdog  *watchdog
	events    *eventWriter
	signals   chan os.Signal
	children  chan os.Signal
	phase     phase
	since     stopwatch // of the phase
	early     bool      // the command was ended for the lock's sake: its status is not the command's
	spent     bool      // early, and by --max-hold: 123 and not 124
	ended     event     // the last event; the session adds the status
	dismissed bool      // somebody asked for the end by a signal: lead campaigns no more
	revoked   bool      // the lock was asked for, and the command knows
	suspended bool      // with the command, by ^Z
	started   func()    // called as soon as the command runs; nil but in tests
}

// supervise takes the lock and runs the command under it. The lock is released, unless linger
// leaves it, after the command's end and before the last event: a reader of "ended" finds the
// key free, if a quorum confirmed. No error of the release is told here. The session's Close
// tries again, and tells it.
func supervise(ctx context.Context, a *app, over *session, e *execution) error {
	lock, err := e.acquire(ctx, over)
	if err != nil {
		return skipped(err)
	}
	s := newSupervisor(a, e, lock, newEventWriter(a.Console))
	err = s.run()
	if s.child != nil && !s.early {
		err = s.linger(ctx, err)
		s.ended.Left = lock.Remaining().Milliseconds()
	}
	if !over.leaves {
		_ = lock.Release(ctx) // unconfirmed, or ended before: it lapses
	}
	s.events.close()
	a.ending.after(s.ended)
	return err
}

// newSupervisor takes the event writer as an argument, since lead has one for all its commands.
func newSupervisor(a *app, e *execution, lock *holding, events *eventWriter) *supervisor {
	return &supervisor{
		execution: e, lock: lock, events: events, ended: lock.tells("ended"), self: a.self,
		signals: e.signals, children: make(chan os.Signal, 1), started: a.started,
	}
}

// run starts the command and sees it to its end. The order before the start matters:
// SIGCHLD is caught before there is a child, orphans are adopted before there can be one, and
// signals are looked at last, so that the command does not start after one.
func (s *supervisor) run() error {
	e := s.execution
	if s.left() <= e.grace {
		return endedBy(s.lock.label(), s.lock.Err())
	}
	// The kernel ends the command with the thread that started it (Pdeathsig, ownGroup).
	// It is never unlocked: the goroutine is main's, which ends with the program.
	runtime.LockOSThread()
	signal.Notify(s.children, syscall.SIGCHLD)
	defer signal.Stop(s.children)
	adopt()
	s.tty = openTerminal()
	defer s.tty.restore()
	if sig := s.pending(); sig != nil { // since the lock was granted
		return &cli.StatusError{Code: cli.SignalStatus(sig), Cause: fmt.Errorf("%v: %s is not started", sig, e.argv[0])}
	}
	cli.WatchFor(s.signals, passedOn...) // the command may be sent one as soon as it runs
	if err := s.start(); err != nil {
		return cannotRun(e.argv[0], err)
	}
	if s.started != nil {
		s.started()
	}
	// The group exists by now: StartProcess returns after the child's setpgid and exec.
	s.tty.give(s.child.pid)
	s.tell("held", "")
	for {
		s.child.reap()
		s.heedWatchdog()
		if s.child.over() {
			s.watchdog.dismiss()
			return s.verdict()
		}
		s.rewatch()
		s.followStop()
		s.decide()
		if !s.suspended { // this program may run on for a moment after its own stop
			s.guard()
		}
		s.sleep()
	}
}

// guard tells the watchdog until when the family may live: half of the margin longer than
// this program lets it. So the watchdog acts only where this program did not, and has the
// other half to kill before the validity ends.
func (s *supervisor) guard() { s.watchdog.extend(s.lock.Remaining() - s.execution.margin/marginShare) }

// heedWatchdog follows the watchdog, which kills if this program did not tell it in time
// that the lock is valid for longer. Some of the family may be dead by then, so there is no way
// back, even if the lock turns out to be held: half a command must not go on.
func (s *supervisor) heedWatchdog() {
	if s.phase != killed && s.watchdog.acted() {
		s.early = true
		s.enter(killed, "the watchdog killed "+s.execution.argv[0]+": this program was stopped")
	}
}

// pending is a signal to end that has come, and nil if none has. Others are dropped: there
// is no command yet that they could be for.
func (s *supervisor) pending() os.Signal {
	for {
		select {
		case sig := <-s.signals:
			if slices.Contains(cli.Endings, sig) || s.execution.command == "exec" && slices.Contains(uncaught, sig) {
				return sig
			}
		default:
			return nil
		}
	}
}

// start starts the watchdog first: its mark must be in the command's environment, and a command
// must not run for a moment without it. A command that does not start dismisses it again.
func (s *supervisor) start() (err error) {
	e, env, mark := s.execution, environment(s.lock), familyMark()
	// A mark that no watchdog looks for would only grow the environment, level by level.
	if s.watchdog = startWatchdog(s.self, mark); s.watchdog != nil {
		env = marking(env, mark)
	}
	heedTerminal(func() { s.child, err = startChild(e.path, e.argv, env) })
	if err != nil {
		s.watchdog.dismiss() // not deferred: a panic is for it to mend
		return err
	}
	s.watchdog.watch(s.child)
	return nil
}

// left is what remains until the command must be dead. --max-hold is counted here, and not
// by WithMaxHold: the library ends a lock without notice, and a command needs its grace.
func (s *supervisor) left() time.Duration {
	left := s.lock.Remaining()
	// The stopwatch began when the lock was granted, before lengthen.
	if most := s.execution.maxHold; most > 0 {
		left = min(left, most-s.execution.held.elapsed())
	}
	return left
}

// decide ends the command when its time has come. There is no way back from a
// phase: a lock that is confirmed after the first signal changes nothing, because a program
// that was told to end can't be told to go on. The kill is asked first: where both are due,
// as after a suspend, nobody has time for the first signal.
func (s *supervisor) decide() {
	e, left := s.execution, s.left()
	switch {
	case s.phase != killed && left <= e.margin:
		s.endEarly()
		s.enter(killed, "killed "+e.argv[0]+": "+s.reason())
	case s.phase == running && left <= e.grace:
		s.endEarly()
		s.enter(asked, "ending "+e.argv[0]+": "+s.reason())
		s.child.ask(e.signal)
	case s.phase == running && s.child.ended:
		s.enter(asked, "ending what "+e.argv[0]+" left running")
		s.child.ask(e.signal)
	case s.phase == asked && s.since.elapsed() >= e.grace-e.margin:
		s.enter(killed, "killed "+e.argv[0]+", which did not end when asked")
	}
	if s.phase == killed {
		s.child.kill()
	}
}

// endEarly notes that the lock is why the command ends, and whether --max-hold is the
// reason. Later events do not change it, unless the lock is lost: see verdict.
func (s *supervisor) endEarly() {
	if !s.early {
		s.early, s.spent = true, s.lock.Err() == nil && s.atMaximum()
	}
}

// atMaximum tells whether --max-hold ends before the lock's validity does.
func (s *supervisor) atMaximum() bool {
	most := s.execution.maxHold
	return most > 0 && most-s.execution.held.elapsed() <= s.lock.Remaining()
}

func (s *supervisor) enter(p phase, message string) {
	s.phase, s.since = p, startWatch()
	if p == killed {
		s.child.kill() // first
		s.tell("killed", message)
		return
	}
	s.tell("ending", message)
}

// reason is why the lock ends, for the event: an operator sees whether nodes were away, the
// lock was taken, or all went as --max-hold said.
func (s *supervisor) reason() string {
	cause := s.lock.Err()
	switch {
	case cause != nil:
		return oneLine(endedBy(s.lock.label(), cause))
	case s.atMaximum():
		return fmt.Sprintf("%s was held for %s, and CMD must be dead after --max-hold %v", s.lock.label(), cli.Short(s.execution.held.elapsed()), s.execution.maxHold)
	}
	return fmt.Sprintf("no quorum confirms %s any more", s.lock.label()) + s.execution.session.unconfirmed(s.lock.label())
}

// sleep waits until something happens, or the next decision is due. A channel that stays
// ready would make the loop spin: Done is not waited for once the command is killed, nor
// Revoked once it was told.
func (s *supervisor) sleep() {
	e, pause := s.execution, glance
	switch s.phase {
	case running:
		pause = min(pause, s.left()-e.grace)
	case asked:
		pause = min(pause, s.left()-e.margin, e.grace-e.margin-s.since.elapsed())
	case killed:
		pause = insistence
	}
	t := newTimer(max(pause, time.Millisecond))
	defer t.Stop()
	done, asked := s.lock.Done(), s.lock.Revoked()
	if s.phase == killed {
		done = nil
	}
	if s.revoked {
		asked = nil
	}
	select {
	case sig := <-s.signals:
		s.passOn(sig)
	case <-asked:
		s.letGo()
	case <-s.children:
	case <-done:
	case <-t.C:
	}
}

// passOn gives a signal to the command. It is alive, or its leader is a zombie
// that nobody has waited for: its number can't be another's.
func (s *supervisor) passOn(sig os.Signal) {
	// HUP may be the command's word for reading its settings again, as many daemons have
	// it. Only a command that is being ended has surely not been asked for that.
	if slices.Contains(cli.Endings, sig) && (sig != syscall.SIGHUP || s.phase != running) {
		s.dismissed = true
	}
	if sig == syscall.SIGCONT && s.suspended {
		// The lock first: a command whose lock lapsed meanwhile is killed, not continued.
		s.suspended = false
		if s.decide(); s.phase == running {
			s.tty.give(s.child.pid)
			s.guard()
			s.child.resume()
		}
		return
	}
	s.child.signal(sig)
}

// interrupted tells whether the terminal's ^C or ^\ ended the command, which alone gets
// them: a command that was being ended for the lock's sake may die of one all the same.
func (s *supervisor) interrupted() bool {
	if s.tty == nil || s.child == nil || !s.child.status.Signaled() {
		return false
	}
	by := s.child.status.Signal()
	return (by == syscall.SIGINT || by == syscall.SIGQUIT) && by != s.execution.signal
}

// letGo tells the command, once, that the lock was asked for. The command decides: the lock
// is kept until it has ended. A request can be made by any client that may publish on the
// nodes, so it must not kill.
func (s *supervisor) letGo() {
	s.revoked = true
	if s.phase != running {
		return // it was told to end
	}
	s.child.signal(s.execution.revoked)
	s.tell("revoked", fmt.Sprintf("%s was asked for: %s was sent %q", s.lock.label(), s.execution.argv[0], s.execution.revoked))
}

// followStop follows a command that was stopped at the terminal. It gives the command
// the terminal if it stopped for want of it, or stops as well, so that the shell
// sees the job stopped. Nobody renews the lock then, so everything that the command
// has started is stopped first. The terminal stops only the command's group, and in it
// only the processes that do not ignore TSTP. After CONT the lock is looked at first (passOn).
func (s *supervisor) followStop() {
	stop := s.child.stop
	s.child.stop = 0
	if stop == 0 || s.tty == nil || s.phase != running {
		return
	}
	wanted := stop == syscall.SIGTTIN || stop == syscall.SIGTTOU
	if wanted && s.tty.lend(s.child.pid) {
		s.child.signal(syscall.SIGCONT)
		return
	}
	if !wanted && stop != syscall.SIGTSTP {
		return // somebody's kill -STOP
	}
	s.suspended = true
	s.watchdog.disarm() // the family is stopped, and goes on only after a look at the lock
	s.child.halt()
	s.tty.take()
	_ = syscall.Kill(0, syscall.SIGSTOP) // our group: the job that the shell knows
}

// verdict is how it ended, once nothing of the command is left. A loss outranks
// --max-hold: the holder may have overlapped with another. It outranks the command's own
// status too: a job that ended with 0 under a lost lock is not known to have been alone.
func (s *supervisor) verdict() error {
	left, cause := s.lock.Remaining(), s.lock.Err()
	// The status goes into the message of a loss: the last event has 124 in its place.
	status := s.child.exitStatus()
	var err error
	switch {
	case s.early && s.spent && cause == nil:
		err = cli.Quietly(exitMaxHold) // the event said why
	case s.early:
		err = cli.Quietly(exitLost) // the same
	case errors.Is(cause, redlock.ErrLost):
		err = endedBy(s.lock.label(), fmt.Errorf("%w; the command had ended by itself, with status %d", cause, status))
	default:
		err = cli.Quietly(status)
	}
	s.ended = s.lock.tells("ended")
	s.ended.Left = left.Milliseconds()
	return err
}

// linger keeps the lock for --hold-at-least after a command that ended with
// status. A signal ends it: no command is left to protect, so nobody has to wait. The lock is
// then left to lapse, after the time that is left if one lease may be that long: another
// machine's job must not run because this one is shut down. It runs in steps of a glance, for
// the same suspend.
func (s *supervisor) linger(ctx context.Context, status error) error {
	for {
		left := s.execution.holdAtLeast - s.execution.held.elapsed()
		if left <= 0 {
			return status
		}
		t := newTimer(min(left, glance))
		select {
		case sig := <-s.signals:
			t.Stop()
			if slices.Contains(cli.Endings, sig) {
				s.execution.session.leaves = true
				s.keep(ctx, left)
				return status
			}
		case <-s.lock.Done():
			t.Stop()
			return endedBy(s.lock.label(), s.lock.Err())
		case <-t.C:
		}
	}
}

// tell queues an event of the lock. The message is for people, the fields are for programs.
func (s *supervisor) tell(name, message string) {
	e := s.lock.tells(name)
	e.Message = message
	s.events.tell(e)
}

// keep lengthens the lease to that, or to what the cluster allows. Where it fails, or the
// lease is the longer one, that stands.
func (s *supervisor) keep(ctx context.Context, left time.Duration) {
	left = min(left, s.execution.app.connection.maxTTL)
	if err := s.lock.Extend(ctx, left); !errors.Is(err, redlock.ErrMisconfigured) {
		return
	}
	if status, err := s.execution.session.locker.Cluster().Status(ctx); err == nil && status.MaxTTL > 0 {
		_ = s.lock.Extend(ctx, min(left, status.MaxTTL))
	}
}
