package main

// exec is flock(1) over a quorum of masters: it holds a key while a command runs. It promises:
//
//   - The command, and everything it started, is dead before the lock's validity ends, as far
//     as the system lets exec find processes. Another holder then never meets them.
//   - The key is released only when all of them are dead.
//   - The command does not start after a signal, nor under a lock that is about to end.
//
// How they are found is in child.go and reaper_linux.go, when they are ended in supervisor.go,
// and who ends them when exec itself can't in watchdog_linux.go.
//
// Exit status: the command's own; 128+n if signal n killed it, as a shell says it. Otherwise
//
//   75   somebody else holds the key (EX_TEMPFAIL; flock's default is 1); -E names another,
//        and --skip-if-busy means 0
//   69   no quorum answered within --wait, or none confirmed the release
//   123  the command was ended for --max-hold
//   124  the lock was lost: the command was ended for it, had ended before, or never started
//   126  the command can't be run, 127 it was not found: as sh, env and timeout have it
//   128+n  a signal ended the wait, and the command was not started

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quorumkit/redlock/internal/cli"
)

const (
	// graceShare of the TTL is the time between the first signal and the last, by
	// default. Renewals begin at a third of the TTL, so they have failed for
	// more than a third of it before the first is sent: one lost round ends no command.
	graceShare = 4
	// The last signal is sent some time before the validity ends, so that the
	// processes are gone by then: half of the grace, at most maxMargin. Killing
	// takes milliseconds. The rest is for a machine that is busy: of 102 ends on two
	// busy cores the closest left 280 ms (docs/COMMAND.md).
	marginShare = 2
	maxMargin   = time.Second
)

// execution is a command to be run under a lock.
type execution struct {
	lockFlags

	command     string   // exec or lead, for messages and for the meaning of signals (pending)
	also        []string // keys beside the first
	argv        []string
	path        string
	skip        bool
	signalName  string
	signal      os.Signal
	revokedName string // --revoked-signal
	revoked     os.Signal
	grace       time.Duration // --kill-after
	margin      time.Duration
	holdAtLeast time.Duration
}

// leastHold is the least --max-hold, for the help: see times.
const leastHold = "At least half of the TTL,\nor more than --kill-after, if that is given"

// execAbout is the help page of exec.
const execAbout = `Takes KEY, runs CMD, and releases KEY when CMD has ended. The lock is renewed meanwhile.
Flags stand before KEY. There is no shell: for one, run sh -c '...'. While others hold KEY,
exec waits, and after two seconds says for whom; redlock status KEY shows more.

CMD and everything it started are dead before the lock's validity ends: when --kill-after
is left of it, because no quorum confirms it any more, they get --signal; shortly before
the end they are killed. A lock that was taken away kills them at once. What CMD leaves
running in the background when it ends is ended the same way, before KEY is released.
CMD has a process group of its own; on Linux processes that left it are found as well, by
/proc (without it exec is refused), except those that another service runs for it, or
another user (sudo). On other systems what leaves the group (setsid) escapes.

A program that is killed with SIGKILL, or stopped with SIGSTOP, can do nothing more. On
Linux a second process, "lockwatch", then kills CMD and what it started: at once after a
SIGKILL, and under a SIGSTOP before the validity ends. If it is killed or stopped itself,
another is started at once; if none lives, CMD runs on without. A line says so in both
cases. What lockwatch can't: find a process that has left the group, changed its
environment and outlived its parents, when redlock itself is dead; do anything when both
are killed or stopped at once, as by a SIGKILL to all processes of the machine or user
(the kernel then kills CMD, and not what CMD started).
On other systems nobody ends CMD in either case: stop the whole job, and end redlock with
TERM.

HUP, INT, QUIT, TERM, USR1, USR2, ALRM, WINCH, TSTP and CONT are passed on to the group
of CMD; while waiting for KEY the first seven end the wait, and CMD is not started. CMD has
the terminal if there is one. ^Z stops all that CMD started (elsewhere than on Linux its
group only), and then redlock: KEY lapses. What is continued after that is killed.

With --shared, KEY is held beside others that do so too, and nobody holds it without
--shared meanwhile: readers share, a writer is alone. With --also, further keys are held
as well: all of them or none, without a deadlock in any order that others give theirs.
CMD is dead before the first of their validities ends.

With --limit N, at most N hold KEY at once, each a slot of it: a counting semaphore. All
give the same N; while they differ, the largest holds. Who gives none is not excluded by
those who do.

With --revocable, others may ask for KEY (redlock revoke). The group of CMD gets
--revoked-signal then, once; KEY is held until CMD has ended, for as long as that takes.

CMD's environment has REDLOCK_KEY, REDLOCK_TOKEN (the fencing token: have the resource
refuse a smaller one than the largest it has seen), REDLOCK_VALIDITY_MS (what was left
at the start) and, on Linux, REDLOCK_FAMILY (by which its processes are found). With --shared it has REDLOCK_SHARED=1 (a token is then refused if it is
smaller than the largest seen without). With --limit it has REDLOCK_SLOT, from 0 to N-1: a
token is compared with those of its slot only. With --also it has REDLOCK_KEYS, their number, and
REDLOCK_KEY_2, REDLOCK_TOKEN_2 and so on, in the order in which they were given.

With --json, what happens is told on stderr, one value a line.`

func execCommand(a *app) cli.Command {
	return cli.Command{
		Name: "exec", Synopsis: "[flags] KEY [--] CMD [ARG...]", Summary: "run a command while holding a key",
		// What follows KEY belongs to the command, with its flags.
		Verbatim: true,
		About:    execAbout,
		Define: func(fs *flag.FlagSet) cli.Action {
			e := &execution{command: "exec"}
			e.define(fs, "CMD is dead after this `DURATION`, its first signal comes\n--kill-after earlier: exit status 123. "+leastHold)
			e.defineEnd(fs)
			fs.BoolVar(&e.skip, "skip-if-busy", false, "exit with 0 if somebody else holds it: -n, unless --wait is given")
			// For cron on several machines: the clocks differ by some seconds, so a job that takes
			// one second would run once on each machine.
			cli.DurationFlag(fs, &e.holdAtLeast, "hold-at-least", 0, "keep KEY for this `DURATION`, though CMD ends earlier, or fails:\nfor short cron jobs on machines whose clocks differ. A signal after CMD's end\nends redlock with CMD's status, and KEY stays for the rest, at most for\n--max-ttl and the cluster's; where no quorum confirms that, for what is left of its lease")
			fs.Func("also", "hold this `KEY` as well; may be given again, up to 64 keys in all", func(key string) error {
				e.also = append(e.also, key)
				return nil
			})
			return func(ctx context.Context, args []string) error {
				err := e.take(args)
				a.ending.of(e.keys)
				if err != nil {
					return err
				}
				// Before the first packet is sent: from here on a signal ends the wait, and a lock
				// that was granted meanwhile is given back.
				e.listen()
				cli.WatchFor(e.signals, uncaught...)
				return a.withLocks(ctx, &e.lockFlags, func(ctx context.Context, s *session) error { return supervise(ctx, a, s, e) }, e.options()...)
			}
		},
	}
}

// defineEnd adds the flags that say how a command is ended.
func (e *execution) defineEnd(fs *flag.FlagSet) {
	fs.StringVar(&e.signalName, "signal", "TERM", "the first signal to end CMD: a `NAME` or number")
	fs.StringVar(&e.revokedName, "revoked-signal", "", "what CMD gets when KEY is asked for, with --revocable: a `NAME`\nor number (default TERM)")
	cli.DurationFlag(fs, &e.grace, "kill-after", 0, "between that and the kill, a `DURATION` (default a quarter of the TTL)")
}

// take checks the arguments, and finds the command before a lock is taken for it: a typing
// error must not make others wait for a lease.
func (e *execution) take(args []string) error {
	// One "--" may stand after KEY, as in: env -- CMD. A second one is the command's.
	if len(args) > 1 && args[1] == "--" {
		args = slices.Delete(slices.Clone(args), 1, 2)
	}
	switch {
	case len(args) == 0:
		return cli.Usagef("%s: give KEY and a command", e.command)
	case len(args) == 1:
		return cli.Usagef("%s: give a command after the key %q", e.command, args[0])
	// flock takes options after the file. Here all that follows KEY is the command's, so this
	// is a flag in the wrong place. It may hold a password: --nodes=redis://:secret@host.
	case strings.HasPrefix(args[1], "-"):
		return cli.Usagef("%s: %s after the key: flags stand before it", e.command, redact(args[1]))
	}
	e.keys, e.argv = append([]string{args[0]}, e.also...), args[1:]
	if e.skip {
		e.busyCode = cli.ExitOK
		// A cron job that skips its turn does not want to wait for it, unless it says so.
		e.now = e.now || !e.given("wait")
	}
	if err := e.validate(); err != nil {
		return err
	}
	if err := e.times(); err != nil {
		return err
	}
	if err := e.takeSignals(); err != nil {
		return err
	}
	err := findsAll(e.command)
	if err != nil {
		return err
	}
	e.path, err = exec.LookPath(e.argv[0])
	if err = cannotRun(e.argv[0], err); err != nil && len(e.argv) == 1 && strings.Contains(e.argv[0], " ") {
		return fmt.Errorf("%w (there is no shell: give each word by itself, or sh -c '...')", err)
	}
	return err
}

// takeSignals finds the signals that CMD may get. TERM is the default of both, as of
// timeout(1) and kill(1): a program that handles any signal handles that one.
func (e *execution) takeSignals() (err error) {
	if e.signal, err = parseSignal("--signal", e.signalName); err != nil {
		return err
	}
	if e.revokedName != "" && !e.lets {
		// The user believes that the command hears of a request, and none can come.
		return cli.Usagef("--revoked-signal %s: nobody can ask for the key: give --revocable as well", e.revokedName)
	}
	e.revoked, err = parseSignal("--revoked-signal", cmp.Or(e.revokedName, "TERM"))
	return err
}

// times relates the durations to each other. A relation that can't be kept is refused, not
// repaired: a smaller grace than the user wrote would cut the command's cleaning up short.
func (e *execution) times() error {
	unsaid := !e.given("kill-after")
	if unsaid {
		e.grace = e.ttl / graceShare
	}
	e.margin = min(e.grace/marginShare, maxMargin)
	switch {
	// Two thirds of the TTL are left when a renewal is due. A grace of half of it leaves
	// a sixth for renewals that fail.
	case e.grace <= 0 || e.grace > e.ttl/2:
		return cli.Usagef("--kill-after %v: give a positive duration, at most half of the TTL of %v", e.grace, e.ttl)
	// Most of the time would be for a grace that nobody asked for.
	case unsaid && e.maxHold > 0 && e.maxHold < 2*e.grace:
		return cli.Usagef("--max-hold %v: CMD gets its first signal --kill-after, by default %v, before that: give at least %v, half of the TTL, or a shorter --kill-after", e.maxHold, e.grace, 2*e.grace)
	// The first signal would be due at the command's start. One that asked for its grace may
	// have little time beside it.
	case e.maxHold > 0 && e.maxHold <= e.grace:
		return cli.Usagef("--max-hold %v: CMD gets its first signal --kill-after, %v, before that: give more than that, or a shorter --kill-after", e.maxHold, e.grace)
	case e.given("hold-at-least") && e.holdAtLeast <= 0 || e.maxHold > 0 && e.holdAtLeast > e.maxHold:
		return cli.Usagef("--hold-at-least %v: give a positive duration, at most --max-hold", e.holdAtLeast)
	}
	return nil
}

// cannotRun is the error of a command that does not start, with the status that
// shells give it: POSIX has 127 for a command that was not found, and 126 for one that was
// found and is no program. ErrDot is Go's word for a match in the current directory, which
// a shell does not search.
func cannotRun(name string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, exec.ErrNotFound) || errors.Is(err, exec.ErrDot):
		return &cli.StatusError{Code: cli.ExitNotFound, Cause: err}
	}
	return &cli.StatusError{Code: cli.ExitCannotRun, Cause: errors.Join(errors.New(name+" can't be run"), err)}
}

// ownVariable finds what another exec, outside of this one, may have set. Its token and
// slot must not reach this command: a guard would compare them with those of another key.
// REDLOCK_NODES stays, so that the command can call redlock. REDLOCK_FAMILY stays too: the
// outer exec's watchdog finds the processes by it.
var ownVariable = regexp.MustCompile(`^REDLOCK_(KEYS|SHARED|SLOT|VALIDITY_MS|(KEY|TOKEN)(_[0-9]+)?)=`)

// environment is what the command sees. The owner value is not in it: a process that has
// the value can release the lock.
func environment(held *holding) []string {
	env := slices.DeleteFunc(os.Environ(), ownVariable.MatchString)
	for i, k := range held.keys {
		nth := ""
		if i > 0 {
			nth = "_" + strconv.Itoa(i+1)
		}
		env = append(env, "REDLOCK_KEY"+nth+"="+k.Key, "REDLOCK_TOKEN"+nth+"="+strconv.FormatUint(k.Token, 10))
	}
	if len(held.keys) > 1 {
		env = append(env, "REDLOCK_KEYS="+strconv.Itoa(len(held.keys)))
	}
	if held.shared {
		env = append(env, "REDLOCK_SHARED=1")
	}
	if held.slot >= 0 {
		env = append(env, "REDLOCK_SLOT="+strconv.Itoa(held.slot))
	}
	// Milliseconds from now, not a moment: the command's clock may be another's (a container,
	// a remote shell), and a wall clock may step.
	return append(env, "REDLOCK_VALIDITY_MS="+strconv.FormatInt(held.Remaining().Milliseconds(), 10))
}
